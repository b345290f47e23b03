"""A LAN on a VLAN of mgmt, whose bridge is the installer's, over an underlay that stands on the same bridge."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.harness.others import LINKS, VLANS, read, steady
from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES
from tests.lab.objects import vm_network
from tests.lab.test_lan import lan, pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

KNOWN = ("lo", "eth0", "mgmt-bo", "mgmt-br", "mgmt-br.2021")
VLAN, IPV6 = 2017, "fd00:21::{}/64"


def installers(lab: Lab) -> dict[str, Mapping[str, Any]]:
    """What the installer made on each node, with all that the kernel tells of it."""
    return {node: read(lab.on(node, LINKS), lab.on(node, VLANS), KNOWN) for node in NODES}


def kept(found: dict[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The same without what a port next to them and a VLAN on the uplink change while they are there."""
    return {
        node: {
            name: {key: value for key, value in link.items() if key != "vlans"}
            for name, link in steady(links).items()
        }
        for node, links in found.items()
    }


def joined(lab: Lab) -> str:
    """The node that joins the LAN to the VLAN, by its kernel; empty for none."""
    shown = {node: lab.on(node, "ip -json link show master mgmt-br") for node in NODES}
    ports = [
        node for node in NODES for port in json.loads(shown[node] or "[]") if port["ifname"][:4] == "lan-"
    ]
    assert len(ports) <= 1, f"a loop over {ports}"
    return ports[0] if ports else ""


def report(lab: Lab) -> tuple[object, ...]:
    """The node that the LAN's status names, and the MTU."""
    status = json.loads(lab.kubectl("get", "lans.lan.k8slan.io", "site", "-o", "json")).get("status", {})
    return *(each["name"] for each in status.get("nodes", ()) if each.get("uplink")), status.get("mtu")


def test_the_installers_links_stay(clean: Lab) -> None:
    """All links of mgmt keep every attribute through the life of a LAN on one of its VLANs, and through its agent's."""
    for number, node in enumerate(NODES, 11):
        clean.on(node, f"ip address add {IPV6.format(number)} dev mgmt-br.2021 nodad")
    clean.kubectl("wait", "--for=condition=ready", "clusternetwork/mgmt", "--timeout=300s")
    before = installers(clean)
    network = vm_network("vlan2017", "mgmt", VLAN)
    network["metadata"]["annotations"] = {}  # machines only: no addresses of nodes
    clean.apply(network)
    body = lan("site", 4740, "s")
    body["spec"]["uplink"] = {"clusterNetwork": "mgmt", "vlan": VLAN}
    # An uplink on mgmt is refused until an agent has reported which VLAN is the management network's.
    eventually(lambda: "created" in clean.apply(body, fails=None), timeout=60)
    try:
        clean.apply(pod("s", "node1"))
        clean.kubectl("wait", "--for=condition=Ready", "pod/s", "--timeout=300s")
        first = eventually(lambda: joined(clean), timeout=300)
        eventually(lambda: report(clean) == (first, 1450))
        assert kept(installers(clean)) == kept(before)
        with without_agent(clean, first):
            eventually(lambda: joined(clean) != first)
            assert kept(installers(clean)) == kept(before)
            second = eventually(lambda: joined(clean), timeout=300)
            assert kept(installers(clean)) == kept(before)
            clean.kubectl("delete", "pod", "s", "--timeout=300s")
            clean.kubectl("delete", "lans.lan.k8slan.io", "site", "--wait=false")
        eventually(lambda: not joined(clean), timeout=300)
        assert second != first
        clean.kubectl("delete", "net-attach-def", "vlan2017")
        eventually(partial(is_as, clean, before), timeout=60)
    finally:
        clean.kubectl("delete", "pod", "s", "--ignore-not-found", "--timeout=300s")
        clean.kubectl("delete", "lans.lan.k8slan.io", "site", "--ignore-not-found", "--timeout=300s")
        for number, node in enumerate(NODES, 11):
            clean.on(node, f"ip address del {IPV6.format(number)} dev mgmt-br.2021", status=None)


def is_as(lab: Lab, before: dict[str, Mapping[str, Any]]) -> bool:
    """Whether all links are as they were, by every attribute."""
    return installers(lab) == before

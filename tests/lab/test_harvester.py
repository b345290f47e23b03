"""Alongside Harvester's network controller, alone, and the ways between both, against real kernels and NetworkManager.

Harvester is the lab's stand-in, or its real binaries where they are named (`tests/lab/harvester.py`).
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom.api import names
from lanloom.api.harvester import GROUP
from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.names import profile_file
from tests.lab.driver import Lab, eventually
from tests.lab.harvester import Side, side, sides
from tests.lab.looks import look, report
from tests.lab.objects import Object, cluster_network, vlan_config, vm_network
from tests.lab.test_lan import lan

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LINK, ADDRESS = interface_name("hci", 2012), "192.168.1.10/24"
HOST_LINK, HOST_ADDRESS = interface_name("hci", 2013), "192.168.2.10/24"
HOST_ADDRESSES = {f"node{number}": f"192.168.2.{9 + number}/24" for number in (1, 2, 3)}

PAGE = Path(__file__).parents[2] / "docs/harvester.md"

BY_HAND = """
ip link add link hci-br name hci-br.36 type vlan id 36
ip address add 10.36.0.1/24 dev hci-br.36
ip link set hci-br.36 up
bridge vlan add vid 36 dev hci-br self
bridge vlan add vid 36 dev hci-bo
"""
ADOPT = "ip link set hci-br alias lanloom && ip link set hci-bo alias lanloom"


@pytest.fixture(params=sides())
def harvester(clean: Lab, request: pytest.FixtureRequest) -> Iterator[Side]:
    """Harvester in the lab, with the cluster network hci on node1."""
    found = side(request.param, clean)
    try:
        found.on()
        clean.apply(cluster_network("hci"), vlan_config("hci", "hci", node="node1"))
        eventually(lambda: mode(clean) == "beside" and uplink_ready(clean))
        yield found
    finally:
        found.off()
        clean.lanloom("harvester", "adopt", "--wait", "150")
        for plural in ("hostnetworkconfigs", "linkmonitors"):
            clean.kubectl("delete", "crd", f"{plural}.{GROUP}", "--ignore-not-found")


def mode(lab: Lab) -> str:
    """In which mode node1 carries hci."""
    return str(report(lab, "hci", "node1").get("mode", ""))


def uplink_ready(lab: Lab) -> bool:
    """Whether node1 reports that the uplink works."""
    conditions = report(lab, "hci", "node1").get("conditions", ())
    return any((item["type"], item["status"]) == ("ready", "True") for item in conditions)


def ready(lab: Lab) -> bool:
    """Whether node1 reports that uplink and addresses work."""
    conditions = report(lab, "hci", "node1").get("conditions", ())
    return len(conditions) == 2 and all(item["status"] == "True" for item in conditions)


def host_network(name: str, mode: str, **spec: object) -> Object:
    """A HostNetworkConfig on VLAN 2013 of hci."""
    body = {"clusterNetwork": "hci", "vlanID": 2013, "mode": mode, **spec}
    metadata = {"name": name}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": "HostNetworkConfig", "metadata": metadata, "spec": body}


def lan_state(lab: Lab) -> str:
    """Whether the LAN blue is ready, and why."""
    condition = "{range .status.conditions[?(@.type=='Ready')]}{.status} {.reason}{end}"
    return lab.kubectl("get", "lans.lan.k8slan.io", "blue", "-o", f"jsonpath={condition}")


def exclude_lans(lab: Lab) -> None:
    """Do what the page says so that Harvester's webhooks are not asked about the NADs of LANs."""
    block = PAGE.read_text().split("Exclude the NADs of LANs")[1].split("\n\n")[1]
    command = re.sub(r"^    [$>] ", "", block, flags=re.MULTILINE)
    environment = os.environ | {
        "KUBECONFIG": str(lab.state / "kubeconfig"),
        "PATH": os.pathsep.join((str(lab.kubectl_program.parent), os.environ["PATH"])),
    }
    subprocess.run(["bash", "-e", "-c", command], env=environment, check=True)


def test_beside_harvester_and_then_alone(clean: Lab, harvester: Side) -> None:
    """Addresses come and go on Harvester's bridge, which stays; so it does alone until an operator marks it, and then.

    What others have on the bridge outlives all of it, with its VLAN id on bridge and uplink: a link made by hand, and
    the lease of a HostNetworkConfig, which becomes a NAD's in the end. A LAN's NADs are refused by Harvester's webhook
    until it is no longer asked about them.
    """
    clean.apply(lan("blue", 4711, "a"))
    eventually(lambda: lan_state(clean) == "False NADRefused")
    exclude_lans(clean)
    clean.on("node1", BY_HAND)
    clean.apply(host_network("leased", "dhcp"))
    eventually(lambda: look(clean, "node1").address(HOST_LINK).startswith("192.168.2."))
    before = look(clean, "node1")
    eventually(lambda: ready(clean))
    network = vm_network("vlan2012", "hci", 2012, "static", {"node1": ADDRESS})
    clean.apply(network)
    eventually(lambda: ready(clean) and look(clean, "node1").address(LINK) == ADDRESS)
    eventually(lambda: clean.reaches("node1", "192.168.1.1"))
    seen = look(clean, "node1")
    assert 2012 in seen.ids["hci-br"]
    for name in ("hci-br", "hci-bo", "eth1"):
        kept = {key: seen.links[name].get(key) for key in ("ifindex", "master", "mtu", "ifalias")}
        assert kept == {key: before.links[name].get(key) for key in kept}
    clean.kubectl("delete", "network-attachment-definitions", "vlan2012")
    eventually(lambda: LINK not in look(clean, "node1").links)
    eventually(lambda: not {2012} & (look(clean, "node1").ids["hci-br"] | look(clean, "node1").ids["hci-bo"]))
    assert profile_file("hci", 2012) not in look(clean, "node1").profiles
    clean.apply(network)
    eventually(lambda: look(clean, "node1").address(LINK) == ADDRESS)
    eventually(lambda: lan_state(clean).startswith("True"), timeout=300)
    harvester.off()
    eventually(lambda: mode(clean) == "alone" and not ready(clean), timeout=300)
    assert look(clean, "node1").address(LINK) == ADDRESS
    clean.on("node1", ADOPT)
    eventually(lambda: ready(clean))
    seen = look(clean, "node1")
    assert (seen.address(LINK), seen.links["hci-br"]["ifindex"]) == (
        ADDRESS,
        before.links["hci-br"]["ifindex"],
    )
    clean.on("node1", "ip link set hci-bo nomaster")
    eventually(lambda: look(clean, "node1").links["hci-bo"].get("master") == "hci-br")
    eventually(lambda: clean.reaches("node1", "192.168.1.1"))
    seen = look(clean, "node1")
    for name, address in (("hci-br.36", "10.36.0.1/24"), (HOST_LINK, before.address(HOST_LINK))):
        assert seen.links[name]["ifindex"] == before.links[name]["ifindex"]
        assert seen.address(name) == address
    assert {36, 2013} <= seen.ids["hci-br"]
    assert "Nothing is left to do." in clean.lanloom("harvester", "adopt", "--wait", "180")
    eventually(lambda: look(clean, "node1").address(HOST_LINK).startswith("192.168.2."))
    seen = look(clean, "node1")
    assert seen.links[HOST_LINK]["ifindex"] == before.links[HOST_LINK]["ifindex"]
    assert profile_file("hci", 2013) in seen.profiles
    clean.on("node1", "ip link delete hci-br.36")


PING = """
rm -f /run/pings.{link}
setsid sh -c 'echo $$ >/run/pid.{link}; exec ping -q -i 0.2 -I {link} {gateway} >/run/pings.{link}' >/dev/null 2>&1 &
"""
PINGS = """
kill -INT $(cat /run/pid.{link})
while ! grep transmitted /run/pings.{link}; do sleep 0.1; done
"""


def lost_pings(lab: Lab, link: str) -> int:
    """How many echoes were not answered, but for the one that may be under way; at least some were sent."""
    sent, received = map(
        int, re.findall(r"(\d+) (?:packets transmitted|received)", lab.on("node1", PINGS.format(link=link)))
    )
    assert received > 10
    return max(sent - received - 1, 0)


def test_adopt_and_hand_over(clean: Lab, harvester: Side) -> None:
    """A cluster goes from Harvester's controller to Lanloom and back: no echo is lost, no link made again."""
    clean.apply(
        host_network("storage", "static", ips=HOST_ADDRESSES),
        vm_network("vlan2012", "hci", 2012, "static", {"node1": ADDRESS}),
    )
    eventually(lambda: ready(clean) and look(clean, "node1").address(LINK) == ADDRESS)
    eventually(lambda: look(clean, "node1").address(HOST_LINK) == HOST_ADDRESS)
    eventually(lambda: all(clean.reaches("node1", f"192.168.{net}.1") for net in (1, 2)))
    held = (("vlanconfig", "hci"), ("hostnetworkconfig", "storage"), ("node", "node1"))
    eventually(lambda: all(finalized(clean, *item) for item in held))
    links = ("hci-br", "hci-bo", LINK, HOST_LINK)
    before = {name: look(clean, "node1").links[name]["ifindex"] for name in links}
    for link, gateway in ((LINK, "192.168.1.1"), (HOST_LINK, "192.168.2.1")):
        clean.on("node1", PING.format(link=link, gateway=gateway))
    assert "harvester-network-controller.enabled: false" in clean.lanloom("harvester", "adopt")
    assert finalized(clean, "vlanconfig", "hci")
    harvester.off()
    printed = clean.lanloom("harvester", "adopt", "--wait", "180")
    assert "Nothing is left to do." in printed
    seen = look(clean, "node1")
    assert {name: seen.links[name]["ifindex"] for name in links} == before
    assert {seen.links[name].get("ifalias") for name in ("hci-br", "hci-bo")} == {"lanloom"}
    assert profile_file("hci", 2013) in seen.profiles
    eventually(lambda: ready(clean))
    for item in (("vlanconfig", "hci"), ("node", "node1"), ("net-attach-def", "storage")):
        assert not finalized(clean, *item)
    harvester.on()
    assert "Nothing is left to do." in clean.lanloom("harvester", "hand-over", "--wait", "180")
    seen = look(clean, "node1")
    assert {name: seen.links[name]["ifindex"] for name in links} == before
    assert not any(seen.links[name].get("ifalias") for name in ("hci-br", "hci-bo"))
    assert (seen.address(LINK), seen.address(HOST_LINK)) == (ADDRESS, HOST_ADDRESS)
    assert lost_pings(clean, LINK) == 0
    assert lost_pings(clean, HOST_LINK) <= 1  # NetworkManager takes the address away and gives it at once


def finalized(lab: Lab, resource: str, name: str) -> bool:
    """Whether an object has a finalizer of Harvester's controller."""
    return names.HARVESTER_FINALIZERS in lab.kubectl("get", resource, name, "-o", "yaml")

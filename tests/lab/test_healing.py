"""Hosts that heal: what a user breaks on a node is repaired within seconds, and an Event on the Node tells of it."""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.report.status import RESYNC_SECONDS
from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, all_have, look, report
from tests.lab.objects import STATIC, example, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LINK = interface_name("cluster-1", 2012)
PROFILE = "/etc/NetworkManager/system-connections/cluster-1-vlan2012.nmconnection"
SOON = RESYNC_SECONDS - 3
"""Seconds within which a repair is expected on any machine: sooner than an agent's resync without events."""

EDIT = "sed -i 's,address1=[^/]*,address1=192.168.1.77,' "
DAMAGE = {
    "address": (
        f"ip address flush dev {LINK}",
        f"ip address del $(ip -4 -o address show {LINK} | awk '{{print $4}}') dev {LINK}; ip link set {LINK} down",
        f"ip link set {LINK} down",
    ),
    "VLAN ids": (
        "bridge vlan del vid 2012 dev cluster-1-br self",
        "bridge vlan del vid 2012 dev cluster-1-bo",
        "bridge vlan del vid 2012 dev cluster-1-bo; bridge vlan del vid 2012 dev cluster-1-br self",
    ),
    "profile": (f"rm {PROFILE}", f"{EDIT} {PROFILE}", f"rm {PROFILE} && nmcli connection reload"),
    "links set down": (
        "ip link set cluster-1-br down",
        "ip link set cluster-1-bo down",
        "ip link set eth1 down",
    ),
    "links taken out": (
        "ip link set eth1 nomaster",
        "ip link set cluster-1-bo nomaster",
        "ip link set eth1 nomaster; ip link set cluster-1-bo nomaster",
    ),
    "links deleted": (
        "ip link delete cluster-1-br",
        "ip link delete cluster-1-bo",
        "ip link delete cluster-1-br; ip link delete cluster-1-bo",
    ),
}
"""What a user does to node1, node2 and node3 at once."""

ANEW = ("links taken out", "links deleted")
"""Damage that may take several repairs, of which agents delay those of a network that needed many lately."""


@pytest.fixture(scope="module")
def networked(lab: Lab) -> Iterator[Lab]:
    """The lab with VLAN 2012 of cluster-1 and static addresses on all nodes, for all tests: they leave it whole."""
    try:
        make(lab)
        yield lab
    finally:
        remove_networks(lab)


@pytest.fixture
def carrying(networked: Lab) -> Lab:
    """The lab with the network, which all agents have seen whole."""
    until_seen(networked)
    return networked


def make(lab: Lab) -> None:
    """Makes the network."""
    lab.kubectl("apply", "-f", example("cluster-1.yaml"))
    lab.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))


def until_seen(lab: Lab) -> None:
    """Waits until the network is whole on all nodes, and all agents have seen it so."""
    eventually(lambda: all_have(lab, "cluster-1", 2012) == STATIC)
    for condition in ("ready", "L3Ready"):
        lab.kubectl("wait", f"--for=condition={condition}", "clusternetwork/cluster-1", "--timeout=300s")
    # L3Ready may be of the moment before the VLAN.
    eventually(lambda: all(calls_ready(lab, node) for node in NODES))


def calls_ready(lab: Lab, node: str) -> bool:
    """Whether a node reports the sub-interface as ready."""
    interfaces = report(lab, "cluster-1", node).get("interfaces", ())
    return any((item["name"], item.get("state")) == (LINK, "Ready") for item in interfaces)


def whole(lab: Lab, node: str) -> bool:
    """Whether a node has all of VLAN 2012, with every link up and in its place."""
    seen = look(lab, node)
    names = ("eth1", "cluster-1-bo", "cluster-1-br", LINK)
    return (
        seen.has_vlan("cluster-1", 2012)
        and seen.address(LINK) == STATIC[node]
        and all("UP" in seen.links[name]["flags"] for name in names)
        and [seen.links[name].get("master") for name in names[:2]] == ["cluster-1-bo", "cluster-1-br"]
        and STATIC[node] in lab.on(node, f"cat {PROFILE}")
    )


def events(lab: Lab, node: str) -> int:
    """How many repairs the Events on a Node tell of."""
    items = json.loads(lab.kubectl("get", "events", "-A", "-o", "json"))["items"]
    found = [
        item
        for item in items
        if (item["involvedObject"].get("name"), item["reason"]) == (node, "DriftRepaired")
    ]
    return sum(item.get("count") or item.get("series", {}).get("count", 1) for item in found)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_repaired(carrying: Lab, damage: str) -> None:
    """What is done to address, VLAN ids, profile or links is repaired within seconds, and an Event tells of it."""
    if damage in ANEW:
        remove_networks(carrying)
        make(carrying)
        until_seen(carrying)
    before = {node: events(carrying, node) for node in NODES}
    for node, command in zip(NODES, DAMAGE[damage], strict=True):
        carrying.on(node, command)
    for node in NODES:
        eventually(partial(whole, carrying, node), timeout=SOON)
    for other in ("192.168.1.11", "192.168.1.12"):
        eventually(partial(carrying.reaches, "node1", other))
    eventually(lambda: all(events(carrying, node) > count for node, count in before.items()))


def test_a_deleted_sub_interface_comes_back(carrying: Lab) -> None:
    """A sub-interface that is deleted by hand is made again, with its address, and an Event tells of it."""
    before = events(carrying, "node3")
    carrying.on("node3", f"ip link delete {LINK}")
    eventually(partial(whole, carrying, "node3"), timeout=SOON)
    eventually(lambda: events(carrying, "node3") > before)

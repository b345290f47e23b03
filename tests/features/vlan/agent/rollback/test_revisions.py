"""Which form of a network a node carries."""

from typing import Any

from msgspec.structs import replace

from lanloom.features.vlan.agent.rollback.revisions import (
    NetworkRevision,
    difference,
    explanation,
    select,
)
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)


def _network(name: str = "cluster-1", address: str = "192.168.1.10/24", **spec: Any) -> NodeNetwork:
    documents = [
        node("node1"),
        cluster_network(name),
        vlan_config(name, name, **spec),
        nad("net", name, 2012, mode="static", addresses={"node1": address}),
    ]
    return cluster_of(documents).managed().on_node("node1")[0]


OLD = NetworkRevision(_network(), "r1")
NEW = NetworkRevision(_network(address="192.168.1.20/24"), "r2")
NAME = OLD.name


def test_a_released_network_is_carried_in_its_present_form() -> None:
    """What the node may take up it takes up, whatever it has."""
    for carried in ({}, {NAME: OLD}):
        (selection,) = select([NEW], carried, released={NAME}, rejected={})
        assert (selection.carried, selection.reason) == (NEW, "")


def test_a_network_that_is_not_released_keeps_its_last_form() -> None:
    """Until then the last form holds; without one the node carries nothing."""
    (selection,) = select([NEW], {NAME: OLD}, released=(), rejected={})
    assert (selection.carried, selection.reason) == (OLD, "Held")
    assert explanation(selection) == (
        "the rollout of cluster-1 has not reached this node yet; the node keeps its last configuration until then"
    )
    (selection,) = select([NEW], {}, released=(), rejected={})
    assert (selection.carried, selection.reason) == (None, "Held")
    assert "keeps no configuration of it" in explanation(selection)


def test_a_form_that_is_the_same_is_not_withheld() -> None:
    """A change that is none on this node needs no turn in the roll-out: the node carries the revision at once."""
    same = NetworkRevision(OLD.network, "r2")
    (selection,) = select([same], {NAME: OLD}, released=(), rejected={})
    assert (selection.carried, selection.reason) == (same, "")


def test_a_rejected_form_is_not_tried_again() -> None:
    """What was rolled back is not carried although it is released; another form is."""
    (selection,) = select([NEW], {NAME: OLD}, released={NAME}, rejected={NAME: NEW.digest})
    assert (selection.carried, selection.reason) == (OLD, "RolledBack")
    assert "VLAN 2012: 192.168.1.10/24 to 192.168.1.20/24" in explanation(selection)
    (selection,) = select([NEW], {}, released={NAME}, rejected={NAME: NEW.digest})
    assert (selection.carried, selection.reason) == (None, "RolledBack")
    (selection,) = select([OLD], {NAME: OLD}, released={NAME}, rejected={NAME: NEW.digest})
    assert (selection.carried, selection.reason) == (OLD, "")


def test_a_network_that_is_gone_is_never_held() -> None:
    """Nothing is chosen of what is not there now."""
    assert select([], {NAME: OLD}, released=(), rejected={NAME: NEW.digest}) == ()


def test_a_network_that_nobody_remembers_takes_the_present_form() -> None:
    """A node that has a network in an unknown form is not left without it."""
    (selection,) = select([NEW], {}, released=(), rejected={}, unknown={NAME})
    assert (selection.carried, selection.reason) == (NEW, "")


def test_differences_are_told_in_the_users_words() -> None:
    """Addresses, VLANs, NICs, mode and MTU of a change are named."""
    old = OLD.network
    assert difference(None, old) == "the cluster network cluster-1 over eth1"
    assert difference(old, old) == "its description"
    assert difference(old, replace(old, nics=("eth2",), mtu=9000)) == "NICs eth1 to eth2; MTU 1500 to 9000"
    assert difference(old, replace(old, mode="802.3ad")) == "bond mode active-backup to 802.3ad"
    less = replace(old, interfaces=(), bridge_ids=(), uplink_ids=())
    assert difference(old, less) == "VLAN 2012 removed; VLAN ids of the uplink 2012 to none"
    assert difference(less, old).startswith("VLAN 2012: 192.168.1.10/24; ")
    other = old.interfaces[0]
    leased = replace(old, interfaces=(replace(other, mode="dhcp", address="", content=b"x"),))
    assert difference(old, leased) == "VLAN 2012: 192.168.1.10/24 to an address by DHCP"

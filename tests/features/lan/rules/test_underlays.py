"""What nodes report of underlays, and what that means for a LAN to which nothing is attached."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.lan import UNDERLAY_READY, LANNode, LANNodeStatus, UnderlayFamily, UnderlayLink
from lanloom.api.meta import ObjectMeta
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.status import Verdict, lan_status
from lanloom.features.lan.rules.underlays import reported, underlays_of
from lanloom.kube.conditions import find
from tests.features.lan.samples import entry, lan

GOOD = UnderlayLink(name="eth0", mtu=1500, addresses=("IPv4", "IPv6-link-local"))
SIX = replace(GOOD, addresses=("IPv6", "IPv6-link-local"))
BOTH = replace(GOOD, addresses=("IPv4", "IPv6", "IPv6-link-local"))
LINK_LOCAL = replace(GOOD, addresses=("IPv6-link-local",))
NONE = UnderlayLink(name="eth0")
MULTICAST = {"replication": "multicast"}


def node(name: str, *links: UnderlayLink) -> LANNode:
    """The report of a node that carries nothing."""
    return LANNode(metadata=ObjectMeta(name=name), status=LANNodeStatus(underlays=links))


@pytest.mark.parametrize(
    ("addresses", "kinds"),
    [
        (("10.0.0.1", "10.0.0.2"), ("IPv4",)),
        (("fd00::1", "fe80::1"), ("IPv6", "IPv6-link-local")),
        (("10.0.0.1", "169.254.7.7", "fe80::1"), ("IPv4", "IPv4-link-local", "IPv6-link-local")),
        ((), ()),
    ],
)
def test_what_is_reported(addresses: tuple[str, ...], kinds: tuple[str, ...]) -> None:
    """Kinds of addresses are reported and not the addresses, which may change often; a missing link has MTU 0."""
    found = Underlay(name="eth0", index=2, mtu=1500, addresses=addresses)
    assert reported("eth0", found) == UnderlayLink(name="eth0", mtu=1500, addresses=kinds)  # type: ignore[arg-type]
    assert reported("eth0", replace(found, running=False)).down
    assert reported("eth0", None) == NONE


@pytest.mark.parametrize(
    ("link", "spec", "fault"),
    [
        (GOOD, {}, ""),
        (GOOD, MULTICAST, ""),
        (replace(GOOD, addresses=("IPv6-link-local",)), {}, ""),
        (replace(GOOD, addresses=("IPv4",)), MULTICAST, "has no IPv6 address"),
        (replace(GOOD, addresses=("IPv4",)), MULTICAST | {"vxlan_grp": "239.1.1.1"}, ""),
        (replace(GOOD, addresses=("IPv4",)), {"underlay_family": "IPv6"}, "has no IPv6 address"),
        (replace(GOOD, addresses=("IPv6-link-local",)), {"underlay_family": "IPv6"}, ""),
        (SIX, {"underlay_family": "IPv4"}, "has no IPv4 address; give it one; if it became a port"),
        (replace(GOOD, addresses=("IPv4-link-local",)), {}, "has no IP address, not even a link-local one"),
        (replace(GOOD, addresses=()), {}, "a port of a bond or bridge, name that one as the underlay"),
        (replace(GOOD, down=True), {}, "the underlay link eth0 has no carrier"),
        (replace(GOOD, mtu=100), {}, "has MTU 100, which is too small for VXLAN"),
        (NONE, {}, "eth0 is not there; correct spec.defaultVxlanDev"),
    ],
)
def test_a_link_of_a_node(link: UnderlayLink, spec: dict[str, Any], fault: str) -> None:
    """A link is judged as the node judges it that carries the LAN."""
    found = underlays_of(lan(**spec), [node("node1", link)])
    assert fault in found.message and bool(found.faults) == bool(fault) and found.usable == (not fault)


READY: list[tuple[str, tuple[LANNode, ...], dict[str, Any], str, str]] = [
    ("no node reports", (), {}, "False NotReported", "Unknown NotReported"),
    (
        "another link",
        (node("n1", replace(GOOD, name="eth9")),),
        {},
        "False NotReported",
        "Unknown NotReported",
    ),
    ("all have it", (node("n1", GOOD), node("n2", GOOD)), {}, "True Ready", "True Ready"),
    ("none has it", (node("n1", NONE), node("n2", NONE)), {}, "False NoUnderlay", "False NoUnderlay"),
    ("one has it", (node("n1", NONE), node("n2", GOOD)), {}, "True Ready", "False NoUnderlay"),
    (
        "one that the LAN names itself lacks its own",
        (node("n1", NONE), node("n2", replace(GOOD, name="eth1"))),
        {"default_vxlan_dev": "eth1", "vxlan_dev_map": {"n1": "eth0"}},
        "False NoUnderlay",
        "False NoUnderlay",
    ),
    (
        "no link is named for it",
        (node("n1", GOOD), node("n2", NONE)),
        {"default_vxlan_dev": "", "vxlan_dev_map": {"n1": "eth0"}},
        "True Ready",
        "True Ready",
    ),
]


@pytest.mark.parametrize(
    ("reports", "spec", "ready", "underlay"), [case[1:] for case in READY], ids=[c[0] for c in READY]
)
def test_conditions(reports: tuple[LANNode, ...], spec: dict[str, Any], ready: str, underlay: str) -> None:
    """A LAN that no node can carry, or not one that it names, is not ready; any node that can't is named."""
    blue = lan(**spec)
    status = lan_status(blue, (), Verdict(), underlays_of(blue, reports), now=0.0)
    for kind, expected in (("Ready", ready), ("UnderlayReady", underlay)):
        found = find(status.conditions, kind)
        assert found is not None and f"{found.status} {found.reason}" == expected
        if expected == "False NoUnderlay":
            assert "n1" in found.message and "is not there" in found.message


APART: list[tuple[str, dict[str, UnderlayLink], dict[str, Any], str]] = [
    ("one version", {"n1": GOOD, "n2": BOTH}, {}, ""),
    (
        "half migrated",
        {"n1": BOTH, "n2": SIX},
        {},
        "(IPv4: n1; IPv6: n2); set spec.underlayFamily to IPv6, which all",
    ),
    ("half migrated, and told", {"n1": BOTH, "n2": SIX}, {"underlay_family": "IPv6"}, ""),
    (
        "nothing in common",
        {"n1": GOOD, "n2": SIX, "n3": BOTH},
        {},
        "(IPv4: n1, n3; IPv6: n2); give the links of all",
    ),
    ("links alone in common", {"n1": GOOD, "n2": LINK_LOCAL}, {}, "; set spec.underlayFamily to IPv6"),
    ("two scopes", {"n1": SIX, "n2": LINK_LOCAL}, {}, "(IPv6: n1; IPv6-link-local: n2); give the links"),
    (
        "the wrong one",
        {"n1": BOTH, "n2": replace(BOTH, addresses=("IPv4", "IPv6-link-local"))},
        {"underlay_family": "IPv6"},
        "; set spec.underlayFamily to IPv4",
    ),
    ("a group", {"n1": SIX, "n2": LINK_LOCAL}, MULTICAST, ""),
]


@pytest.mark.parametrize(("links", "spec", "words"), [case[1:] for case in APART], ids=[c[0] for c in APART])
def test_nodes_that_would_not_reach_each_other(
    links: dict[str, UnderlayLink], spec: dict[str, Any], words: str
) -> None:
    """Nodes with endpoints of different kinds are named before anything is attached, with the field that helps."""
    blue = lan(**spec)
    found = underlays_of(blue, [node(name, link) for name, link in links.items()]).finding("eth0")
    assert (found.status, found.reason) == (("False", "AddressesDiffer") if words else ("True", "Ready"))
    assert words in found.message
    status = lan_status(
        blue, (), Verdict(), underlays_of(blue, [node(*item) for item in links.items()]), now=0.0
    )
    ready = find(status.conditions, "Ready")
    assert ready is not None and ready.status == "True"


@given(
    st.lists(st.sampled_from([GOOD, SIX, BOTH, LINK_LOCAL, NONE]), min_size=1),
    st.sampled_from(["", "IPv4", "IPv6"]),
)
def test_the_field_that_helps(links: list[UnderlayLink], asked: UnderlayFamily) -> None:
    """With the IP version of the message, all nodes that could carry the LAN reach each other; else none has that."""
    reports = [node(f"n{number}", link) for number, link in enumerate(links)]
    blue = lan(underlay_family=asked)
    before = underlays_of(blue, reports)
    versions: tuple[UnderlayFamily, ...] = (before.remedy,) if before.remedy else ("IPv4", "IPv6")
    for version in versions if before.apart else ():
        after = underlays_of(replace(blue, spec=replace(blue.spec, underlay_family=version)), reports)
        assert (after.usable >= before.usable and not after.apart) == bool(before.remedy)


def test_a_lan_that_goes() -> None:
    """A LAN in deletion says nothing of its underlay any more, and no condition of it speaks of an older spec."""
    blue = lan()
    known = lan_status(blue, (), Verdict(), underlays_of(blue, ()), now=0.0)
    meta = replace(blue.metadata, generation=2, deletion_timestamp="2026-01-01T00:00:00Z")
    going = replace(blue, metadata=meta, status=known)
    status = lan_status(
        going, (), Verdict(reason="Deleting", message="it goes"), underlays_of(going, ()), now=1.0
    )
    assert find(known.conditions, UNDERLAY_READY) and not find(status.conditions, UNDERLAY_READY)
    assert {item.observed_generation for item in status.conditions} == {2}


def test_a_node_that_carries_it() -> None:
    """A LAN that nodes carry is as ready as they say, whatever other nodes lack."""
    blue = lan()
    carrying = replace(node("n1", GOOD), status=LANNodeStatus(lans=(entry(blue),), underlays=(GOOD,)))
    found = underlays_of(blue, [carrying, node("n2", NONE)])
    assert (found.usable, [name for name, _ in found.faults]) == (1, ["n2"])


def test_many_nodes() -> None:
    """Nodes with one fault are named together, and not all of two hundred."""
    found = underlays_of(lan(), [node(f"n{number:03}", NONE) for number in range(200)])
    assert found.message.startswith("n000, n001") and "and 190 more: the underlay link eth0" in found.message
    assert len(found.message) < 400

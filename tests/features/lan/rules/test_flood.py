"""Peers of a LAN: who gets frames for many receivers, and the MTU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.core import Node, NodeStatus
from lanloom.api.lan import LANEntry, LANNode, LANNodeStatus, Replication, SpokeOptions, UnderlayFamily
from lanloom.api.meta import Condition, ObjectMeta, rfc3339
from lanloom.features.lan.rules.desired import endpoint, hardware_address
from lanloom.features.lan.rules.flood import (
    LIVE,
    SILENCE_SECONDS,
    Peers,
    confined,
    is_live,
    is_silent,
    judged,
    peers,
)
from lanloom.features.lan.rules.observed import HostVxlan, Underlay
from lanloom.features.lan.rules.options import Options
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord, choose_index, conflict

NOW = 1_767_225_600.0
RECORD = LanRecord(
    uid="u", namespace="d", name="blue", ns="blue", bridge="br0", vxlan="vx0", vni=7, device="u0"
)


def report(node: str, address: str, *, vni: int = 7, mtu: int = 1450, uid: str = "u") -> LANNode:
    """A node that carries the LAN."""
    entry = LANEntry(namespace="d", name="blue", uid=uid, vni=vni, address=address, mtu=mtu)
    return LANNode(metadata=ObjectMeta(name=node), status=LANNodeStatus(lans=(entry,)))


def around(*nodes: LANNode, address: str = "10.0.0.1") -> Peers:
    """The peers of node n1."""
    return peers("u", 7, 4789, "n1", address, nodes)


def test_others() -> None:
    """The others' endpoints are the receivers, the least MTU counts, and the node itself and other LANs do not."""
    found = around(
        report("n1", "10.0.0.1"),
        report("n2", "10.0.0.2", mtu=1400),
        report("n3", "10.0.0.3"),
        report("n4", "10.0.0.4", uid="other"),
    )
    assert found == Peers(frozenset({"10.0.0.2", "10.0.0.3"}), 1400, narrowest="n2")


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (report("n2", "fd00::2"), "n2 (fd00::2)"),
        (report("n2", "10.0.0.2", vni=8), "n2 (VNI 8, port 4789)"),
        (report("n2", "10.0.0.1"), "n2 (the same address 10.0.0.1)"),
    ],
)
def test_strangers(stranger: LANNode, words: str) -> None:
    """A node that can't be reached is no receiver, and is named with the reason."""
    assert around(stranger) == Peers(strangers=(words,))


SILENT = Node(
    status=NodeStatus(
        conditions=(Condition(type="Ready", status="Unknown", last_transition_time="2020-01-01T00:00:00Z"),)
    )
)


def test_live() -> None:
    """A node that is silent stays a peer for a while, because its kernel forwards without its kubelet."""
    ready = Condition(type="Ready", status="True")
    silent = Condition(type="Ready", status="Unknown", last_transition_time="2026-01-01T00:00:00Z")
    assert is_live(Node(status=NodeStatus(conditions=(ready,))), NOW)
    node = Node(status=NodeStatus(conditions=(silent,)))
    assert is_live(node, NOW + SILENCE_SECONDS - 1) and not is_live(node, NOW + SILENCE_SECONDS)


OTHER = Condition(type="NamespaceIsolation", status="True")


@given(
    st.sampled_from(["True", "False", "Unknown"]),
    st.floats(0, 1000),
    st.booleans(),
    st.booleans(),
)
def test_a_node_is_silent_while_it_is_silent(ready: str, seconds: float, before: bool, other: bool) -> None:
    """A report has the condition Live exactly while its node is not live, whatever it said before."""
    condition = Condition(type="Ready", status=ready, last_transition_time=rfc3339(NOW))
    node = Node(status=NodeStatus(conditions=(condition,)))
    kept = (OTHER,) if other else ()
    old = judged(kept, SILENT, 1, NOW) if before else kept
    found = judged(old, node, 1, NOW + seconds)
    assert is_silent(LANNode(status=LANNodeStatus(conditions=found))) == (not is_live(node, NOW + seconds))
    assert tuple(item for item in found if item.type != LIVE) == kept
    assert judged(found, node, 1, NOW + seconds) == found
    assert judged(old, None, 1, NOW) is old


@pytest.mark.parametrize(
    ("addresses", "replication", "group", "address", "mtu"),
    [
        (("10.0.0.1", "fd00::1"), "head-end", "", "10.0.0.1", 1450),
        (("fd00::1", "fe80::1"), "head-end", "", "fd00::1", 1430),
        (("10.0.0.1", "fe80::1"), "multicast", "ff15::1", "fe80::1", 1430),
        (("10.0.0.1",), "multicast", "239.1.1.1", "10.0.0.1", 1450),
        (("fe80::1",), "head-end", "", "fe80::1", 1430),
        (("169.254.7.7", "fe80::1"), "head-end", "", "fe80::1", 1430),
    ],
)
def test_endpoint(addresses: tuple[str, ...], replication: str, group: str, address: str, mtu: int) -> None:
    """Head-end takes IPv4 before IPv6, multicast the group's version of IP; the MTU leaves room for the headers."""
    record = replace(RECORD, replication=replication, group=group)
    found = endpoint(record, Underlay(name="u0", index=2, mtu=1500, addresses=addresses))
    assert (found.address, found.mtu, found.problem) == (address, mtu, "")


@given(
    st.permutations(["10.0.0.1", "169.254.7.7", "fd00::1", "fe80::1"]).flatmap(
        lambda every: st.integers(0, 4).map(lambda count: tuple(every[:count]))
    ),
    st.sampled_from(["", "IPv4", "IPv6"]),
)
def test_the_version_that_the_lan_names(addresses: tuple[str, ...], asked: UnderlayFamily) -> None:
    """The endpoint follows from the node's own addresses alone, and is of the IP version that the LAN names."""
    found = endpoint(
        replace(RECORD, family=asked), Underlay(name="u0", index=2, mtu=1500, addresses=addresses)
    )
    allowed = [
        each
        for each in addresses
        if each != "169.254.7.7" and asked in ("", "IPv6" if ":" in each else "IPv4")
    ]
    assert found.address == (allowed[0] if allowed else "")
    assert (f"has no {asked or 'IP'} address" in found.problem) == (not allowed)


CALICO = HostVxlan("vxlan.calico", 4789, frozenset({4}))
CILIUM = HostVxlan("cilium_vxlan", 4789, frozenset({4, 6}), exclusive=True)
SHARED: list[tuple[str, tuple[HostVxlan, ...], bool, str, str]] = [
    ("no other link", (), True, "10.0.0.1", ""),
    ("one that sends no marks", (CALICO,), False, "10.0.0.1", ""),
    ("one that sends no marks, and isolated spokes", (CALICO,), True, "10.0.0.1", "vxlan.calico"),
    ("another port", (CALICO._replace(port=8472), CILIUM._replace(port=8472)), True, "10.0.0.1", ""),
    ("another IP version", (CALICO,), True, "fd00::1", ""),
    ("one that takes all VNIs", (CILIUM,), False, "10.0.0.1", "cilium_vxlan"),
    ("one that takes all VNIs of IPv6, too", (CILIUM,), False, "fd00::1", "cilium_vxlan"),
    ("two of them", (CALICO, CILIUM), False, "10.0.0.1", "cilium_vxlan"),
]


@pytest.mark.parametrize(
    ("vxlans", "isolates", "address", "name"), [case[1:] for case in SHARED], ids=[case[0] for case in SHARED]
)
def test_a_port_that_the_host_has(
    vxlans: tuple[HostVxlan, ...], isolates: bool, address: str, name: str
) -> None:
    """A VXLAN link of the host comes first: a LAN shares its port, or has no endpoint and names link and remedy."""
    options = Options(spokes={"a": SpokeOptions(isolated=True)} if isolates else {})
    underlay = Underlay(name="u0", index=2, mtu=1500, addresses=(address,), vxlans=vxlans)
    found = endpoint(replace(RECORD, options=options), underlay)
    assert (found.vtep is None, bool(found.problem)) == (bool(name), bool(name))
    if name:
        assert f"the VXLAN link {name} of this node has UDP port 4789" in found.problem
        assert "recreate the LAN with another spec.vxlanPort, or delete that link" in found.problem
    assert found.plain == (CALICO in vxlans and not isolates and not name)


def test_an_endpoint_without_a_carrier() -> None:
    """A link through which no frame passes keeps its VXLAN, so that pods of the node reach each other, and is named."""
    alive = Underlay(name="u0", index=2, mtu=1500, addresses=("10.0.0.1",))
    found = endpoint(RECORD, replace(alive, running=False))
    assert replace(found, dead="") == endpoint(RECORD, alive)
    assert "the underlay link u0 has no carrier" in found.dead


@pytest.mark.parametrize(
    ("addresses", "replication", "group", "problem"),
    [
        ((), "head-end", "", "no IP address, not even a link-local one; give it one, or set it up with IPv6"),
        (("169.254.7.7",), "head-end", "", "no IP address, not even a link-local one"),
        (("10.0.0.1",), "multicast", "ff15::1", "no IPv6 address; give it one, or set it up with IPv6"),
        (("fe80::1",), "multicast", "239.1.1.1", "no IPv4 address; give it one"),
    ],
)
def test_no_endpoint(addresses: tuple[str, ...], replication: str, group: str, problem: str) -> None:
    """An underlay without a usable address is a problem that names link and remedy."""
    record = replace(RECORD, replication=replication, group=group)
    found = endpoint(record, Underlay(name="u0", index=2, mtu=1500, addresses=addresses))
    assert f"the underlay link u0 has {problem}" in found.problem and found.vtep is None


def test_link_local_endpoint() -> None:
    """A VXLAN link is bound to a link-local address of its own, but not where frames go to a group."""
    underlay = Underlay(name="u0", index=2, mtu=1500, addresses=("fe80::1",))
    for replication, local in (("head-end", "fe80::1"), ("multicast", "")):
        vtep = endpoint(replace(RECORD, replication=replication, group="ff15::1"), underlay).vtep
        assert vtep is not None and vtep.local == local


@pytest.mark.parametrize(
    ("own", "peer", "head_end", "multicast"),
    [
        ("10.0.0.1", "10.0.0.2", True, True),
        ("fd00::1", "fd00::2", True, True),
        ("fe80::1", "fe80::2", True, True),
        ("10.0.0.1", "fd00::2", False, False),
        ("10.0.0.1", "fe80::2", False, False),
        ("fd00::1", "fe80::2", False, True),
        ("fe80::1", "fd00::2", False, True),
    ],
)
def test_who_reaches_whom(own: str, peer: str, head_end: bool, multicast: bool) -> None:
    """Nodes with addresses of one version and scope are peers; a group joins those of both scopes."""
    for expected, by_group in ((head_end, False), (multicast, True)):
        found = peers("u", 7, 4789, "n1", own, [report("n2", peer)], multicast=by_group)
        assert found.flood == (frozenset([peer]) if expected else frozenset())
        assert bool(found.strangers) is not expected


@pytest.mark.parametrize(
    ("replication", "group", "is_confined"),
    [
        ("multicast", "ff01::1", True),
        ("multicast", "ff11::1", True),
        ("multicast", "ff15::1", False),
        ("multicast", "ff02::14", False),
        ("multicast", "239.1.1.1", False),
        ("head-end", "ff01::1", False),
    ],
)
def test_groups_that_stay_on_a_node(replication: Replication, group: str, is_confined: bool) -> None:
    """A group that no frame leaves a node for is a problem where frames for many receivers go to it."""
    assert bool(confined(replication, group)) is is_confined


def test_small_underlay() -> None:
    """An underlay without room for VXLAN is a problem that names link, MTU and remedy."""
    found = endpoint(RECORD, Underlay(name="u0", index=2, mtu=100, addresses=("10.0.0.1",)))
    assert found.vtep is None and found.problem == (
        "the underlay link u0 has MTU 100, which is too small for VXLAN; set it to that of the link that it stands on: "
        "ip link set u0 mtu MTU"
    )


def test_conflicts() -> None:
    """Two LANs never share a namespace, or a VNI on one port, on a node."""
    other = replace(RECORD, uid="v", name="red")
    assert "spec.ns blue is the network namespace of LAN d/red" in conflict(RECORD, [other])
    assert "spec.vni 7 on port 4789 is that of LAN d/red" in conflict(RECORD, [replace(other, ns="red")])
    assert conflict(RECORD, [RECORD, replace(other, ns="red", vni=8)]) == ""


def test_indices() -> None:
    """Indices are high, differ, follow from the device, and avoid those that are taken."""
    first = choose_index("aM0", ())
    assert first == choose_index("aM0", [5]) and first >= 1 << 28
    second = choose_index("aM0", [first])
    assert second not in (first, choose_index("bM0", ()))


def test_addresses() -> None:
    """A spoke's hardware address stays, and differs between nodes and devices."""
    found = {hardware_address("u", device, node) for device in ("aV0", "aM0") for node in ("n1", "n2")}
    assert len(found) == 4 and hardware_address("u", "aV0", "n1") in found
    assert all(int(each[:2], 16) & 3 == 2 for each in found)


def test_places() -> None:
    """An allocation counts for ten minutes, an attachment for as long as it is there."""
    place = SpokeRecord(spoke="a", mode="veth", allocated=NOW)
    assert place.is_used(NOW + 599) and not place.is_used(NOW + 600)
    attached = replace(place, container="c")
    assert attached.is_used(NOW + 6000) and not attached.free().is_used(NOW + 600)

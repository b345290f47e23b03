"""Node addresses from pools: what the manager derives from what nodes were given, and what agents make of it."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.dualstack import NodeAddresses
from lanloom.api.l3 import AnnotationError, PoolSource, parse_ip_pool
from lanloom.api.l3annotations import decode, l3_of
from lanloom.api.meta import Key
from lanloom.features.vlan.manager.pools import (
    NoPools,
    claim_of,
    complaint,
    usable,
)
from lanloom.features.vlan.rules.desired.profile import address6_of
from lanloom.features.vlan.rules.desired.reserved import LINK_LOCAL, Held, Reserved
from lanloom.features.vlan.rules.report.cluster import annotation_patch, derive_annotations
from lanloom.features.vlan.views.plan import annotated
from lanloom.runtime.ports import NodeLeases
from tests.features.vlan.cluster import (
    Cluster,
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)

NAD = Key("default", "net")
GIVEN = {"node1": "192.0.2.10/24", "node2": "192.0.2.11/24"}


def pooled(**more: str) -> Cluster:
    """A cluster with two nodes and a network with mode pool; further annotations without their prefix."""
    named = {names.PREFIX + key.replace("_", "-"): value for key, value in more.items()}
    return cluster_of(
        [
            node("node1"),
            node("node2"),
            cluster_network("cluster-1"),
            vlan_config("one", "cluster-1"),
            nad("net", "cluster-1", 2012, mode="pool", more={names.IP_POOL: "net1/nodes", **named}),
        ]
    ).managed()


def with_leases(
    cluster: Cluster, leases: Mapping[str, str], six: Mapping[str, str] = {}
) -> tuple[Cluster, list[str]]:
    """The cluster after a manager wrote what nodes were given, and what it had to complain of."""
    network = cluster.networks[0]
    given = {NAD: NodeAddresses(dict(leases), dict(six))}
    derived = derive_annotations(network, cluster.nads, cluster.configs, leases=given)
    written = annotated(network, annotation_patch(network, derived.annotations))
    complaints = [str(error) for _, error in derived.rejected]
    return replace(cluster, networks=(written,)), complaints


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("net1", PoolSource("net1")),
        ("Net_1.a/nodes", PoolSource("Net_1.a", "nodes")),
        ("net1/nodes, net1/six", PoolSource("net1", "nodes", "six")),
        ("net1,net1/pool6", PoolSource("net1", "", "pool6")),
        ("net1/pool6,net1", PoolSource("net1", "pool6", "pool4")),
    ],
)
def test_sources(text: str, source: PoolSource) -> None:
    """A source is a network, or a network and the name of pools, or one for each IP version."""
    assert parse_ip_pool("f", text) == source


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "/",
        ",",
        "net1,",
        ",net1",
        "net1,net1/a,net1/b",
        "net1/",
        "/nodes",
        "a/b/c",
        "net 1",
        "net1\n",
        "nét",
    ],
)
def test_what_is_no_source(text: str | None) -> None:
    """Anything else is refused with the field and the form."""
    with pytest.raises(AnnotationError, match=r"^f .*network of address management, such as net1"):
        parse_ip_pool("f", text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("net1,net2", "pools of two networks; name pools of one network"),
        ("net1,net1", "one pool twice; name one of each IP version, such as net1/pool4,net1/pool6"),
        ("net1/pool4,net1", "one pool twice"),
    ],
)
def test_what_are_no_two_sources(text: str, problem: str) -> None:
    """Two sources are two pools of one network: a node has one NIC there."""
    with pytest.raises(AnnotationError, match=problem):
        parse_ip_pool("f", text)


def test_one_of_each_ip_version() -> None:
    """A node with both carries both; one that waits for that of IPv6 keeps what it has, and says so."""
    both = pooled(**{"ip-pool": "net1/nodes,net1/six", "gateway": "192.0.2.1/24,fd00:1::1/64"})
    cluster, complaints = with_leases(both, GIVEN, {"node1": "fd00:1::10/64", "node2": ""})
    assert not complaints
    (first,) = cluster.on_node("node1")
    (second,) = cluster.on_node("node2")
    assert [address6_of(item.content) for item in first.interfaces] == ["fd00:1::10/64"]
    assert b"route1=::/0,fd00:1::1" in first.interfaces[0].content
    (problem,) = second.problems
    assert (problem.reason, problem.keep) == ("AwaitingAddress", True)
    assert "no IPv6 address is allocated for node node2 yet, which keeps what it has" in problem.message
    assert not second.interfaces
    assert cluster.managed().networks == cluster.networks


def test_before_anything_of_ipv6_was_given() -> None:
    """A gateway of IPv6 has its prefix length, which nothing else tells; then nodes wait, and nothing is wrong."""
    both = {"ip-pool": "net1/nodes,net1/six", "gateway": "fd00:1::1/64"}
    for four, six in (({}, {}), (GIVEN, dict.fromkeys(GIVEN, ""))):
        cluster, complaints = with_leases(pooled(**both), four, six)
        assert not complaints
        assert [item.reason for item in cluster.on_node("node1")[0].problems] == ["AwaitingAddress"]
    _, complaints = with_leases(pooled(**both), GIVEN, dict.fromkeys(GIVEN, "fd00:2::7/64"))
    assert "which is not in the subnet fd00:2::/64 of the nodes' addresses" in complaints[0]


def test_a_node_carries_what_it_was_given() -> None:
    """A node that was given an address has it as a static one; one that was not says so and keeps waiting."""
    cluster, _ = with_leases(pooled(), {"node1": "192.0.2.10/24"})
    (first,) = cluster.on_node("node1")
    (second,) = cluster.on_node("node2")
    assert [(item.mode, item.address) for item in first.interfaces] == [("static", "192.0.2.10/24")]
    assert b"address1=192.0.2.10/24" in first.interfaces[0].content
    assert first.interfaces[0].pooled
    plain = replace(first, interfaces=(replace(first.interfaces[0], pooled=False),))
    assert plain.digest == first.digest
    (problem,) = second.problems
    assert (problem.reason, problem.keep) == ("AwaitingAddress", False)
    assert "mode is pool and no address is allocated for node node2 yet" in problem.message


def test_before_anything_was_given() -> None:
    """A network whose nodes have no addresses yet says so on each of them, and is no broken one."""
    cluster, complaints = with_leases(pooled(), {})
    assert not complaints
    assert [item.reason for item in cluster.on_node("node1")[0].problems] == ["AwaitingAddress"]
    entry = decode(cluster.networks[0].metadata.annotations)["default-net"]
    assert entry.value is not None
    assert (entry.value.mode, entry.value.addresses) == ("pool", {})


def test_what_is_written_stays_without_leases() -> None:
    """Who only looks ahead, as a plan does, takes the addresses that nodes have as they are."""
    cluster, _ = with_leases(pooled(), GIVEN)
    assert cluster.managed().networks == cluster.networks


def test_a_gateway_must_fit_what_was_given() -> None:
    """A gateway outside of the pool's subnet is complained of, and what the nodes have stays."""
    before = pooled(gateway="198.51.100.1/24")
    cluster, complaints = with_leases(before, GIVEN)
    assert "which is not in the subnet 192.0.2.0/24 of the nodes' addresses" in complaints[0]
    assert cluster.networks == before.networks
    fitting, complaints = with_leases(pooled(gateway="192.0.2.1/24"), GIVEN)
    assert not complaints
    assert fitting.on_node("node1")[0].interfaces[0].table


def test_a_claim_covers_who_still_has_an_address() -> None:
    """A node that left the network is claimed for until it reports the sub-interface no more, or is deleted."""
    cluster = pooled()
    told = VlanInterface(vlan_id=2012, name="x", network="default/net", address="192.0.2.12/24")
    reports = [
        ClusterNetworkNode(status=ClusterNetworkNodeStatus(node=name, interfaces=(told,)))
        for name in ("node3", "node4")
    ]
    source = PoolSource("net1", "nodes")
    claim = claim_of(cluster.nads[0], source, ["node1"], frozenset({"node1", "node3"}), reports)
    assert claim.nodes == {"node1", "node3"}
    assert (claim.source, claim.owner.name) == (source, "net")


def test_what_no_node_may_have() -> None:
    """An address of the management network's subnet, or one that no host can have, is a problem and not written."""
    held = Held(int(IPv4Address("192.0.2.0")), int(IPv4Address("192.0.2.255")), "the management network")
    leases = NodeLeases(
        {"node1": "192.0.2.10/24", "node2": "198.51.100.10/24", "node3": "198.51.100.255/24"},
        {"node4": "full"},
    )
    present = NodeAddresses({"node1": "192.0.2.10/24"}, {})
    found = usable(leases, Reserved(addresses=(held,)), present)
    assert found.addresses == {"node2": "198.51.100.10/24"}
    assert found.problems.keys() == {"node1", "node3", "node4"}
    assert found.problems["node1"] == (
        "its subnet 192.0.2.0/24 overlaps the management network; name a pool of another subnet"
    )
    assert "the broadcast address of its subnet" in found.problems["node3"]


def test_what_nodes_need_is_not_given() -> None:
    """An address of the link-local range is given to no node; the node that has one already keeps it."""
    leases = NodeLeases({"node1": "169.254.7.1/24", "node2": "169.254.7.2/24"}, {})
    present = NodeAddresses({"node1": "169.254.7.1/24", "node2": "192.0.2.2/24"}, {})
    found = usable(leases, Reserved(), present)
    assert found.addresses == {"node1": "169.254.7.1/24"}
    assert found.problems == {
        "node2": "its subnet 169.254.7.0/24 overlaps the link-local addresses 169.254.0.0/16; name a pool of another "
        "subnet"
    }


def test_what_no_node_may_have_of_ipv6() -> None:
    """A node keeps its IPv4 address while it can't have that of IPv6, and gets that of IPv6 with it only."""
    held = Held(int(IPv6Address("fd00:1::")), int(IPv6Address("fd00:1::ff")), "the range of pods")
    four = {"node1": "192.0.2.10/24", "node2": "192.0.2.11/24", "node3": "169.254.7.3/24"}
    leases = NodeLeases(four, {}, dict.fromkeys(four, "fd00:1::10/64"))
    present = NodeAddresses({}, {"node2": "fd00:1::10/64"})
    found = usable(leases, Reserved(others=(LINK_LOCAL, held)), present)
    assert found.addresses == {"node1": "192.0.2.10/24", "node2": "192.0.2.11/24"}
    assert found.addresses6 == {"node1": "", "node2": "fd00:1::10/64"}
    assert found.problems["node1"] == (
        "its subnet fd00:1::/64 overlaps the range of pods; name a pool of another subnet"
    )
    assert found.problems.keys() == {"node1", "node3"}


def test_a_manager_without_address_management() -> None:
    """Where nothing gives addresses, the Event on the NAD says so and names a node."""
    cluster = pooled()
    value = l3_of(cluster.nads[0])
    assert value is not None
    assert value.source is not None
    pools = NoPools()
    pools.claim(NAD, claim_of(cluster.nads[0], value.source, ["node1", "node2"], frozenset(), ()))
    assert complaint(cluster.nads[0], pools.leases(NAD)) == (
        "No address from net1/nodes for node node1 and 1 more: this manager does not run address management."
    )
    pools.claim(NAD, None)
    assert complaint(cluster.nads[0], pools.leases(NAD)) == ""

"""Node addresses from pools: what the manager derives from what nodes were given, and what agents make of it."""

from collections.abc import Mapping
from ipaddress import IPv4Address

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.l3 import AnnotationError, PoolSource, parse_ip_pool
from lanloom.api.l3keys import decode
from lanloom.api.l3nads import l3_of
from lanloom.api.meta import Key
from lanloom.features.vlan.manager.pools import (
    NoPools,
    claim_of,
    complaint,
    usable,
)
from lanloom.features.vlan.rules.desired.reserved import Held, Reserved
from lanloom.features.vlan.rules.report.cluster import annotation_patch, derive_annotations
from lanloom.features.vlan.views.plan import annotated
from lanloom.runtime.context import NodeLeases
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


def with_leases(cluster: Cluster, leases: Mapping[str, str]) -> tuple[Cluster, list[str]]:
    """The cluster after a manager wrote what nodes were given, and what it had to complain of."""
    network = cluster.networks[0]
    derived = derive_annotations(network, cluster.nads, cluster.configs, leases={NAD: leases})
    written = annotated(network, annotation_patch(network, derived.annotations))
    complaints = [str(error) for _, error in derived.rejected]
    return replace(cluster, networks=(written,)), complaints


@pytest.mark.parametrize(
    ("text", "source"), [("net1", PoolSource("net1")), ("Net_1.a/nodes", PoolSource("Net_1.a", "nodes"))]
)
def test_sources(text: str, source: PoolSource) -> None:
    """A source is a network, or a network and the name of pools."""
    assert parse_ip_pool("f", text) == source


@pytest.mark.parametrize("text", [None, "", "/", "net1/", "/nodes", "a/b/c", "net 1", "net1\n", "nét"])
def test_what_is_no_source(text: str | None) -> None:
    """Anything else is refused with the field and the form."""
    with pytest.raises(AnnotationError, match=r"^f .*network of address management, such as net1"):
        parse_ip_pool("f", text)


def test_a_node_carries_what_it_was_given() -> None:
    """A node that was given an address has it as a static one; one that was not says so and keeps waiting."""
    cluster, _ = with_leases(pooled(), {"node1": "192.0.2.10/24"})
    (first,) = cluster.on_node("node1")
    (second,) = cluster.on_node("node2")
    assert [(item.mode, item.address) for item in first.interfaces] == [("static", "192.0.2.10/24")]
    assert b"address1=192.0.2.10/24" in first.interfaces[0].content
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
    found = usable(leases, Reserved(addresses=(held,)), {"node1": "192.0.2.10/24"})
    assert found.addresses == {"node2": "198.51.100.10/24"}
    assert found.problems.keys() == {"node1", "node3", "node4"}
    assert found.problems["node1"] == (
        "its subnet 192.0.2.0/24 overlaps the management network; name a pool of another subnet"
    )
    assert "the broadcast address of its subnet" in found.problems["node3"]


def test_what_nodes_need_is_not_given() -> None:
    """An address of the link-local range is given to no node; the node that has one already keeps it."""
    leases = NodeLeases({"node1": "169.254.7.1/24", "node2": "169.254.7.2/24"}, {})
    found = usable(leases, Reserved(), {"node1": "169.254.7.1/24", "node2": "192.0.2.2/24"})
    assert found.addresses == {"node1": "169.254.7.1/24"}
    assert found.problems == {
        "node2": "its subnet 169.254.7.0/24 overlaps the link-local addresses 169.254.0.0/16; name a pool of another "
        "subnet"
    }


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

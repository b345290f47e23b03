"""Node addresses from a pool of address management, on real kernels."""

from collections.abc import Iterator

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    all_lack,
    reasons,
)
from tests.lab.objects import Object, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

GIVEN = {"node1": "192.168.1.30/24", "node2": "192.168.1.31/24", "node3": "192.168.1.32/24"}


@pytest.fixture
def pooled(cluster: Lab) -> Iterator[Lab]:
    """The lab with VLAN 2012 of cluster-1, whose nodes get their addresses from a pool; afterwards without node4."""
    cluster.apply(
        network("192.168.1.30-192.168.1.32"),
        vm_network("vlan2012", "cluster-1", 2012, "pool", None, **SOURCE),
    )
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == GIVEN)
    try:
        yield cluster
    finally:
        if any(node["name"] == "node4" for node in cluster.status()["nodes"]):
            cluster.run("node", "remove", "node4")
        cluster.kubectl("delete", "net-attach-def", "vlan2012", "--ignore-not-found")
        eventually(lambda: not cluster.kubectl("get", "nics", "-o", "name"))
        cluster.kubectl("delete", "networks.ipam.lanloom.io", "nodes")


SOURCE = {"ip-pool": "nodes/storage"}


SIX = "fd00:1::10-fd00:1::1{}"


def network(pool: str, six: str = "") -> Object:
    """The network `nodes` with one pool, or one of each IP version."""
    subnets = [{"cidr": "192.168.1.0/24", "pools": [{"range": pool, "name": "storage"}]}]
    subnets += [{"cidr": "fd00:1::/64", "pools": [{"range": six}]}] if six else []
    return {
        "apiVersion": "ipam.lanloom.io/v1alpha1",
        "kind": "Network",
        "metadata": {"name": "nodes"},
        "spec": {"subnets": subnets},
    }


def test_nodes_have_addresses_of_the_pool(pooled: Lab) -> None:
    """Nodes reach each other at the addresses that the pool gave them, and give them back with the network."""
    eventually(lambda: pooled.reaches("node1", "192.168.1.32"))
    told = pooled.kubectl("get", "nics", "-o", "wide")
    assert all(address.removesuffix("/24") in told for address in GIVEN.values())
    pooled.kubectl("delete", "net-attach-def", "vlan2012")
    eventually(lambda: all_lack(pooled, "cluster-1", 2012))
    eventually(lambda: not pooled.kubectl("get", "nics", "-o", "name"))


def test_one_of_each_ip_version(pooled: Lab) -> None:
    """Nodes get IPv6 addresses next to those they keep, reach each other at both, and one waits for its own."""
    pooled.apply(network("192.168.1.30-192.168.1.32", SIX.format("1")))
    both = {"ip-pool": "nodes/storage,nodes/pool6", "gateway": "192.168.1.1/24,fd00:1::1/64"}
    pooled.apply(vm_network("vlan2012", "cluster-1", 2012, "pool", None, **both))
    eventually(lambda: any("AwaitingAddress" in reasons(pooled, "cluster-1", node) for node in NODES))
    eventually(
        lambda: "is full" in pooled.kubectl("get", "events", "--field-selector", "reason=NoPoolAddress")
    )
    assert all_have(pooled, "cluster-1", 2012) == GIVEN
    pooled.apply(network("192.168.1.30-192.168.1.32", SIX.format("f")))
    others = ("fd00:1::10", "fd00:1::11", "fd00:1::12")
    eventually(lambda: all(pooled.reaches(node, address) for node in NODES for address in others))
    eventually(lambda: "from fd00:1::/64" in pooled.on("node1", "ip -6 rule"))
    assert pooled.kubectl("get", "nics", "-o", "wide").count("fd00:1::1") == len(NODES)
    assert all_have(pooled, "cluster-1", 2012) == GIVEN


def test_a_node_joins_a_full_pool(pooled: Lab) -> None:
    """A node for which nothing is left gets an Event, the NAD the reason, and it gets an address of a larger pool."""
    pooled.run("node", "add", "node4")
    eventually(lambda: "AwaitingAddress" in reasons(pooled, "cluster-1", "node4"))
    eventually(
        lambda: "is full" in pooled.kubectl("get", "events", "--field-selector", "reason=NoPoolAddress")
    )
    pooled.apply(network("192.168.1.30-192.168.1.39"))
    more = GIVEN | {"node4": "192.168.1.33/24"}
    eventually(lambda: all_have(pooled, "cluster-1", 2012, (*NODES, "node4")) == more)
    eventually(lambda: not reasons(pooled, "cluster-1", "node4"))

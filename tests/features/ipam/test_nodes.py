"""Addresses that nodes get from pools: who has one, who keeps it, and what is reported where there is none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.l3 import PoolSource
from lanloom.api.meta import Key, OwnerReference
from lanloom.features.ipam.nodes import NodePools
from lanloom.features.ipam.reader import ipam_informers
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.runtime.ports import NO_LEASES, NodeClaim, NodeLeases
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE, STANDARD, IpamCluster, in_a_cluster

NAD = Key(PLACE, "vlan2012")
OTHER = {"cidr": "198.51.100.0/24", "pools": [{"range": "198.51.100.10-198.51.100.19", "name": "other"}]}
SIX = {"cidr": "fd00:1::/64", "pools": [{"range": "fd00:1::10-fd00:1::11", "name": "six"}]}
SMALL = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.11"}]}


def claim(*nodes: str, network: str = "net", pool: str = "", second: str = "") -> NodeClaim:
    """The claim of a NAD for some nodes."""
    owner = OwnerReference(
        api_version="k8s.cni.cncf.io/v1", kind="NetworkAttachmentDefinition", name=NAD.name, uid="u"
    )
    return NodeClaim(PoolSource(network, pool, second), frozenset(nodes), owner)


@asynccontextmanager
async def leading(cluster: IpamCluster) -> AsyncIterator[NodePools]:
    """The NICs of nodes, in one term of a leader."""
    client, rng = LocalClient(cluster.engine), Random("pools")
    informers = ipam_informers(Informers(client, rng))
    pools = NodePools(client, informers.nics, informers.networks, rng=rng)
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    await all_synced(informers.all())
    tasks.append(asyncio.create_task(pools.run()))
    try:
        yield pools
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def with_pools(test: Callable[[IpamCluster, NodePools], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets the server with its manager, and what gives nodes their addresses."""

    async def main(cluster: IpamCluster) -> None:
        async with leading(cluster) as pools:
            await test(cluster, pools)

    main.__name__, main.__doc__ = test.__name__, test.__doc__
    return in_a_cluster(main)


@with_pools
async def test_a_node_that_joins_gets_an_address(cluster: IpamCluster, pools: NodePools) -> None:
    """Each node gets an address with its subnet's prefix; one that joins gets the next, the others keep theirs."""
    await cluster.network()
    heard: list[Key] = []
    pools.on_change(heard.append)
    pools.claim(NAD, claim("node1", "node2"))
    assert not pools.are_complete(NAD)
    await cluster.rest()
    assert pools.leases(NAD) == NodeLeases({"node1": "192.0.2.10/24", "node2": "192.0.2.11/24"}, {})
    assert pools.are_complete(NAD)
    pools.claim(NAD, claim("node0", "node1", "node2"))
    assert not pools.are_complete(NAD)
    await cluster.rest()
    assert pools.are_complete(NAD)
    assert pools.leases(NAD).addresses == {
        "node0": "192.0.2.12/24",
        "node1": "192.0.2.10/24",
        "node2": "192.0.2.11/24",
    }
    assert set(heard) == {NAD}


@with_pools
async def test_a_claim_at_the_beginning_counts(cluster: IpamCluster, pools: NodePools) -> None:
    """A claim that is made before the controller has begun is not lost, whatever is started first."""
    pools.claim(NAD, claim("node1"))
    await cluster.network()
    await cluster.rest()
    assert pools.leases(NAD).addresses == {"node1": "192.0.2.10/24"}


@with_pools
async def test_a_node_that_leaves_gives_its_address_back(cluster: IpamCluster, pools: NodePools) -> None:
    """A node without a claim any more has no NIC, and its address goes to the next one."""
    await cluster.network()
    pools.claim(NAD, claim("node1", "node2"))
    await cluster.rest()
    pools.claim(NAD, claim("node2"))
    await cluster.rest()
    pools.claim(NAD, claim("node2", "node3"))
    await cluster.rest()
    assert pools.leases(NAD).addresses == {"node2": "192.0.2.11/24", "node3": "192.0.2.10/24"}
    pools.claim(NAD, None)
    await cluster.rest()
    assert not (await cluster.client.list(NICS)).items


@with_pools
async def test_nodes_stay_on_a_network_that_is_renamed(cluster: IpamCluster, pools: NodePools) -> None:
    """A NAD that names a network by its object goes on to find it when another network gets that name."""
    await cluster.network()
    pools.claim(NAD, claim("node1"))
    await cluster.rest()
    await cluster.client.patch(NETWORKS, "net", {"spec": {"name": "renamed"}})
    await cluster.network("other", OTHER)
    await cluster.client.patch(NETWORKS, "other", {"spec": {"name": "net"}})
    pools.claim(NAD, claim("node1", "node2"))
    await cluster.rest()
    assert pools.leases(NAD) == NodeLeases({"node1": "192.0.2.10/24", "node2": "192.0.2.11/24"}, {})


@with_pools
async def test_a_named_pool(cluster: IpamCluster, pools: NodePools) -> None:
    """A claim that names a pool is given its addresses; another source moves all nodes there."""
    await cluster.network("net", SMALL, OTHER)
    pools.claim(NAD, claim("node1", "node2"))
    await cluster.rest()
    pools.claim(NAD, claim("node1", "node2", pool="other"))
    await cluster.rest()
    assert pools.leases(NAD).addresses == {"node1": "198.51.100.10/24", "node2": "198.51.100.11/24"}


@with_pools
async def test_another_network_that_gives_nothing(cluster: IpamCluster, pools: NodePools) -> None:
    """Nodes keep their addresses, and the reason is reported, while the network that they are to move to is full."""
    await cluster.network("net", SMALL)
    await cluster.network("full", {"cidr": "198.51.100.0/24"})
    pools.claim(NAD, claim("node1", "node2"))
    await cluster.rest()
    before = pools.leases(NAD).addresses
    pools.claim(NAD, claim("node1", "node2", network="full"))
    await cluster.rest()
    leases = pools.leases(NAD)
    assert leases.addresses == before
    assert leases.problems.keys() == {"node1", "node2"}
    assert "network full" in leases.problems["node1"]


@with_pools
async def test_neighbours_have_one_subnet(cluster: IpamCluster, pools: NodePools) -> None:
    """A node whose address is of another subnet than the others' gets none on the VLAN, and the reason is reported."""
    await cluster.network("net", SMALL, OTHER)
    pools.claim(NAD, claim("node1", "node2", "node3"))
    await cluster.rest()
    leases = pools.leases(NAD)
    assert leases.addresses == {"node1": "192.0.2.10/24", "node2": "192.0.2.11/24"}
    assert leases.problems == {
        "node3": "198.51.100.10 is not in the subnet 192.0.2.0/24 of the other nodes; name a pool of one subnet"
    }


@with_pools
async def test_one_of_each_ip_version(cluster: IpamCluster, pools: NodePools) -> None:
    """Nodes get one of each; a node for which one is lacking gets none, and the addresses go back together."""
    await cluster.network("net", SMALL, SIX)
    pools.claim(NAD, claim("node1", "node2", "node3", second="pool6"))
    await cluster.rest()
    leases = pools.leases(NAD)
    assert leases.addresses == {"node1": "192.0.2.10/24", "node2": "192.0.2.11/24"}
    assert leases.addresses6 == {"node1": "fd00:1::10/64", "node2": "fd00:1::11/64"}
    assert "network net is full" in leases.problems["node3"]
    pools.claim(NAD, claim("node3", second="six"))
    await cluster.rest()
    assert pools.leases(NAD) == NodeLeases({"node3": "192.0.2.10/24"}, {}, {"node3": "fd00:1::10/64"})
    pools.claim(NAD, None)
    await cluster.rest()
    assert not (await cluster.client.list(NICS)).items


@with_pools
async def test_another_ip_version_comes_and_goes(cluster: IpamCluster, pools: NodePools) -> None:
    """Nodes keep their IPv4 addresses when they get others as well, and while the pool of these is full."""
    await cluster.network("net", {**SMALL, "pools": [{"range": "192.0.2.10-192.0.2.19"}]}, SIX)
    pools.claim(NAD, claim("node1", "node2", "node3"))
    await cluster.rest()
    before = pools.leases(NAD)
    assert (len(before.addresses), before.addresses6) == (3, {})
    pools.claim(NAD, claim("node1", "node2", "node3", second="six"))
    await cluster.rest()
    both = pools.leases(NAD)
    assert both.addresses == before.addresses
    assert sorted(both.addresses6.values()) == ["", "fd00:1::10/64", "fd00:1::11/64"]
    (waiting,) = (node for node, cidr in both.addresses6.items() if not cidr)
    assert "pool six of network net is full" in both.problems[waiting]
    pools.claim(NAD, claim("node1", "node2", "node3"))
    await cluster.rest()
    assert pools.leases(NAD) == before
    assert {len(nic.status.ips) for nic in (await cluster.client.list(NICS)).items} == {1}


@with_pools
async def test_pools_of_one_ip_version(cluster: IpamCluster, pools: NodePools) -> None:
    """Two pools of one IP version are a mistake that is reported, and so is one of IPv6 alone."""
    await cluster.network("net", SMALL, SIX)
    pools.claim(NAD, claim("node1", pool="pool4", second="pool"))
    await cluster.rest()
    leases = pools.leases(NAD)
    assert (leases.addresses, leases.addresses6) == ({"node1": "192.0.2.10/24"}, {"node1": ""})
    assert leases.problems == {
        "node1": "192.0.2.11 is the second IPv4 address; name a pool of each IP version"
    }
    pools.claim(NAD, claim("node1", pool="pool6", second="six"))
    await cluster.rest()
    assert pools.leases(NAD).problems == {
        "node1": "fd00:1::11 is the second IPv6 address; name a pool of each IP version"
    }
    assert not pools.leases(NAD).addresses
    pools.claim(NAD, claim("node1", pool="six"))
    await cluster.rest()
    assert pools.leases(NAD).problems == {"node1": "fd00:1::11 is in no IPv4 subnet of network net"}


@with_pools
async def test_why_there_is_no_address(cluster: IpamCluster, pools: NodePools) -> None:
    """A network that is missing or full is named for each node without an address; room for it brings the address."""
    pools.claim(NAD, claim("node1", "node2", "node3"))
    await cluster.rest()
    assert pools.leases(NAD).problems["node1"] == (
        "network net does not exist; create it, or correct the annotation"
    )
    await cluster.network("net", SMALL)
    await cluster.rest()
    leases = pools.leases(NAD)
    assert leases.addresses.keys() == {"node1", "node2"}
    assert "network net is full" in leases.problems["node3"]
    await cluster.configure({**SMALL, "pools": [{"range": "192.0.2.10-192.0.2.19"}]})
    await cluster.rest()
    assert pools.leases(NAD).addresses["node3"] == "192.0.2.12/24"


@in_a_cluster
async def test_nothing_is_done_on_the_word_of_an_earlier_term(cluster: IpamCluster) -> None:
    """A new leader neither makes nor deletes NICs of a NAD before it learnt of the claim; then it goes on."""
    await cluster.network()
    async with leading(cluster) as pools:
        pools.claim(NAD, claim("node1", "node2"))
        await cluster.rest()
    async with leading(cluster) as pools:
        await cluster.rest()
        assert len((await cluster.client.list(NICS)).items) == 2
        assert pools.leases(NAD) == NO_LEASES
        pools.claim(NAD, claim("node2"))
        await cluster.rest()
        assert pools.leases(NAD).addresses == {"node2": "192.0.2.11/24"}
        assert len((await cluster.client.list(NICS)).items) == 1


@with_pools
async def test_an_address_that_another_host_has(cluster: IpamCluster, pools: NodePools) -> None:
    """A node whose NIC is deleted gets another address if its former one was reserved in the network."""
    await cluster.network()
    pools.claim(NAD, claim("node1"))
    await cluster.rest()
    (nic,) = (await cluster.client.list(NICS)).items
    await cluster.configure(STANDARD | {"external": ["192.0.2.10"]})
    await cluster.client.delete(NICS, nic.metadata.name, PLACE)
    await cluster.rest()
    assert pools.leases(NAD).addresses == {"node1": "192.0.2.11/24"}


@with_pools
async def test_what_somebody_deletes_comes_back(cluster: IpamCluster, pools: NodePools) -> None:
    """A NIC of a node that a user deletes is created again."""
    await cluster.network()
    pools.claim(NAD, claim("node1"))
    await cluster.rest()
    (nic,) = (await cluster.client.list(NICS)).items
    await cluster.client.delete(NICS, nic.metadata.name, PLACE)
    await cluster.rest()
    assert pools.leases(NAD).addresses == {"node1": "192.0.2.10/24"}

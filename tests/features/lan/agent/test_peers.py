"""Several nodes of a LAN in memory: receivers, the MTU, and what each node reports."""

import asyncio

from lanloom.api.core import NODES
from lanloom.api.lan import LAN_NODES, LANS
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, advertised, floods, reported, spoke_of, veth
from tests.harness.cluster import play


def test_peers() -> None:
    """Nodes of a LAN flood to each other; one that leaves is taken out, and other LANs are not touched."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        await cluster.lan("red", vni=8)
        nodes = [await cluster.node(f"n{number}", number) for number in (1, 2, 3)]
        for node in nodes:
            await advertised(cluster, node, 16)
            await node.spokes.attach(veth(spoke_of(node), node.pod("p1")))
        await nodes[0].spokes.attach(veth("red-a", nodes[0].pod("p2"), container="c2"))
        await cluster.until(lambda: floods(nodes[0]) == {"10.0.0.2", "10.0.0.3"})
        await cluster.until(lambda: floods(nodes[1]) == {"10.0.0.1", "10.0.0.3"})
        assert floods(nodes[0], "red") == set()
        await nodes[2].spokes.detach("c1", "net1")
        await cluster.until(lambda: floods(nodes[0]) == {"10.0.0.2"})
        await cluster.until(lambda: floods(nodes[1]) == {"10.0.0.1"})

    play(story, LanCluster)


def test_a_node_that_is_silent() -> None:
    """Frames are not sent to a node that the manager has given up, its spokes are free, and both end with that."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        nodes = [await cluster.node(f"n{number}", number) for number in (1, 2)]
        for node in nodes:
            await advertised(cluster, node)
            await node.spokes.attach(veth(spoke_of(node), node.pod("p1")))
        await cluster.until(lambda: floods(nodes[0]) == {"10.0.0.2"})
        given_up = {"type": "Live", "status": "False", "reason": "NodeNotReady", "message": ""}
        await cluster.client.patch(
            LAN_NODES, "n2", {"status": {"conditions": [given_up]}}, subresource="status"
        )
        await cluster.until(lambda: floods(nodes[0]) == set())
        assert floods(nodes[1]) == {"10.0.0.1"}
        await cluster.client.patch(LAN_NODES, "n2", {"status": {"conditions": []}}, subresource="status")
        await cluster.until(lambda: floods(nodes[0]) == {"10.0.0.2"})

    play(story, LanCluster)


def test_a_node_without_lans() -> None:
    """An agent follows its own LANNode, and those of all nodes only from its first spoke on, or if it has a record."""

    async def story(cluster: LanCluster) -> None:
        kind, own = LAN_NODES.kind, "metadata.name=n1"
        node = await cluster.node("n1", 1)
        await cluster.lan()
        await advertised(cluster, node)
        await asyncio.sleep(60)
        assert {selector for each, selector in node.listed if each == kind} == {own}
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        assert (kind, "") in node.listed
        await reported(cluster, "n1", 1)
        await node.kill()
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        node.listed.clear()
        node.start()
        await cluster.until(lambda: (kind, "") in node.listed)

    play(story, LanCluster)


def test_nobody_follows_all_nodes() -> None:
    """An agent watches no Nodes: each of thousands would get the heartbeats of all of them."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        assert NODES.kind not in node.watched

    play(story, LanCluster)


def test_least_mtu() -> None:
    """The MTU is the least of the LAN's nodes: a later pod gets it, and an earlier one is limited to it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        first, second = await cluster.node("n1", 1, mtu=9000), await cluster.node("n2", 2, mtu=1500)
        for node in (first, second):
            await advertised(cluster, node)
        assert (await first.spokes.attach(veth("blue-a", first.pod("p1")))).mtu == 8950
        assert (await second.spokes.attach(veth("blue-b", second.pod("p1")))).mtu == 1450
        await cluster.until(lambda: first.world.ends[0].link.mtu == 1450)
        await cluster.until_later(lambda: _all_ready(cluster))
        assert [entry.mtu for entry in await cluster.entries("n1")] == [8950]

    play(story, LanCluster)


async def _all_ready(cluster: LanCluster) -> bool:
    return all([all(entry.ready for entry in await cluster.entries(name)) for name in ("n1", "n2")])


def test_report_belongs_to_node() -> None:
    """The report is the node's: it has its name, and goes with it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await reported(cluster, "n1", 1)
        report = await cluster.client.get(LAN_NODES, "n1")
        assert [owner.kind for owner in report.metadata.owner_references] == ["Node"]
        (entry,) = report.status.lans
        assert (entry.address, entry.device, entry.mtu) == ("10.0.0.1", "u0", 1450)
        assert [(spoke.name, spoke.mode) for spoke in entry.spokes] == [("blue-a", "veth")]

    play(story, LanCluster)

"""LANs that are joined to a bridge of the hosts: on each node that has the bridge, for as long as it has it."""

from lanloom.api.lan import LANS
from lanloom.features.lan.rules.hostbridge import far_name
from tests.fakes.bridges import ForeignBridge
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, veth
from tests.harness.cluster import play

OWNER = "5e1f4a0c-0000-4000-8000-0000000000aa"
BRIDGE = {"name": "iso-br", "alias": f"lanloom-dummy {OWNER}"}


async def joined(cluster: LanCluster) -> str:
    """A LAN without spokes on the bridge; its uid."""
    return await cluster.lan(spokes=[], hostBridge=BRIDGE)


def bridge(node: Node, index: int = 40, alias: str = BRIDGE["alias"]) -> None:
    """The node's host has the bridge."""
    node.world.bridges["iso-br"] = (index, alias)
    node.world.changed("")


def at_the_bridge(node: Node) -> list[str]:
    """The LANs' ports at the bridge."""
    return [each.link.name for each in node.world.ends if each.place == "bridge:iso-br"]


def test_nodes_with_the_bridge() -> None:
    """Each node that has the bridge carries the LAN by itself, and no other node does."""

    async def story(cluster: LanCluster) -> None:
        uid = await joined(cluster)
        nodes = [await cluster.node(f"n{number}", number) for number in (1, 2, 3)]
        for node in nodes[:2]:
            bridge(node)
        for node in nodes[:2]:
            await cluster.until(lambda node=node: at_the_bridge(node) == [far_name(uid)])  # type: ignore[misc]
        await cluster.until(lambda: nodes[0].world.names["blue"].flood == {"10.0.0.2"})
        await cluster.until(lambda: nodes[1].world.names["blue"].flood == {"10.0.0.1"})
        assert set(nodes[0].world.names["blue"].links) == {"br0", "vx0", "hostB0"}
        assert nodes[2].world.names == {}

    play(story, LanCluster)


def test_bridge_goes_and_comes() -> None:
    """A node whose bridge goes gives the LAN up, and carries it again with the next bridge of that name and alias."""

    async def story(cluster: LanCluster) -> None:
        await joined(cluster)
        node = await cluster.node("n1", 1)
        bridge(node, alias="lanloom-dummy 5e1f4a0c-0000-4000-8000-0000000000bb")
        bridge(node)
        await cluster.until(lambda: at_the_bridge(node) != [])
        del node.world.bridges["iso-br"]
        node.world.changed("")
        await cluster.until(lambda: node.world.names == {} and node.world.ends == [])
        bridge(node, alias="")
        await cluster.until_later(lambda: _is_reported(cluster, 0))
        assert node.world.names == {}
        bridge(node, 41)
        await cluster.until(lambda: at_the_bridge(node) != [])

    play(story, LanCluster)


async def _is_reported(cluster: LanCluster, count: int) -> bool:
    return len(await cluster.entries("n1")) == count


def test_repair() -> None:
    """A port that an operator deletes or takes off either bridge comes back, also by a new agent."""

    async def story(cluster: LanCluster) -> None:
        uid = await joined(cluster)
        node = await cluster.node("n1", 1)
        bridge(node)
        await cluster.until(lambda: at_the_bridge(node) != [])
        node.world.delete_link("blue", "hostB0")
        await cluster.until(lambda: at_the_bridge(node) == [far_name(uid)])
        (end,) = node.world.ends
        node.world.ends[:] = [type(end)(end.space, end.lower, "", end.link)]
        node.world.changed("")
        await cluster.until(lambda: at_the_bridge(node) == [far_name(uid)])
        await node.kill()
        node.world.delete_link("blue", "br0")
        node.start()
        links = node.world.names["blue"].links
        await cluster.until(lambda: "br0" in links and links["hostB0"].master == links["br0"].index)

    play(story, LanCluster)


def test_deletion() -> None:
    """A LAN that is being deleted leaves the bridge on every node, and so does one that is gone; others stay."""

    async def story(cluster: LanCluster) -> None:
        await joined(cluster)
        await cluster.lan("red", vni=8)
        node = await cluster.node("n1", 1)
        bridge(node)
        await cluster.until(lambda: at_the_bridge(node) != [] and len(node.spokes.devices()) == 8)
        await node.spokes.attach(veth("red-a", node.pod("p1")))
        finalizers = {"metadata": {"finalizers": ["lan.lanloom.io/lan"]}}
        await cluster.client.patch(LANS, "blue", finalizers, NAMESPACE)
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await cluster.until(lambda: at_the_bridge(node) == [])
        await cluster.until_later(lambda: _is_reported(cluster, 1))
        await cluster.client.patch(LANS, "blue", {"metadata": {"finalizers": []}}, NAMESPACE)
        assert set(node.world.names) == {"red"}

    play(story, LanCluster)


def test_options() -> None:
    """The MTU of the LAN stays within it, and its bridge learns as many addresses as it may."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokes=[], hostBridge=BRIDGE, mtu=1400, maxLearnedMacs=100)
        node = await cluster.node("n1", 1)
        bridge(node)
        await cluster.until(lambda: at_the_bridge(node) != [])
        (end,) = node.world.ends
        links = node.world.names["blue"].links
        assert (end.link.mtu, links["hostB0"].mtu, links["br0"].learned_limit) == (1500, 1400, 100)

    play(story, LanCluster)


def test_large_frames() -> None:
    """A bridge without other ports lets the largest frames of its LAN through before a pod comes."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokes=[], hostBridge=BRIDGE, mtu=8950)
        node = await cluster.node("n1", 1, mtu=9000)
        node.world.around["iso-br"] = ForeignBridge(ports={}, uppers={}, mac_set=True)
        bridge(node)
        await cluster.until(lambda: [end.link.mtu for end in node.world.ends] == [8950])
        assert node.world.around["iso-br"].mtu == 8950

    play(story, LanCluster)

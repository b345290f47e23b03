"""LANs with a physical VLAN: one node joins the two, never two, whatever befalls nodes, agents and the API server."""

from collections.abc import Awaitable, Callable
from functools import partial

from lanloom.api.core import NAMESPACES
from lanloom.api.lan import LANS
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.rules.hostbridge import far_name
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, veth
from tests.harness.cluster import play

VLAN = 2012
UPLINK = {"clusterNetwork": "cluster-1", "vlan": VLAN}
PLACE = "bridge:cluster-1-br"


class Watched(LanCluster):
    """A cluster in which no two nodes may join the LAN to its VLAN at once."""

    nodes: tuple[Node, ...] = ()

    def joined(self) -> list[str]:
        """The nodes that do. Raises AssertionError for two."""
        found = [node.name for node in self.nodes for end in node.world.ends if end.place == PLACE]
        assert len(found) <= 1, f"a loop over {found}"
        return found

    async def joins(self, *names: str) -> None:
        """Waits until one of these nodes does."""
        await self.until(lambda: bool(self.joined()) and self.joined()[0] in names)


def trunk(node: Node, *ids: int) -> None:
    """The node's bridge of the cluster network carries these VLANs."""
    node.world.bridges["cluster-1-br"] = (40, "lanloom")
    node.world.trunks["cluster-1-br"] = set(ids)
    node.world.changed("")


def told(count: int) -> Callable[[Callable[[Watched, str], Awaitable[None]]], Callable[[], None]]:
    """Gives a story a LAN with an uplink (its uid), and so many nodes that have its VLAN."""

    def decorate(story: Callable[[Watched, str], Awaitable[None]]) -> Callable[[], None]:
        async def whole(cluster: Watched) -> None:
            await cluster.keep(NAMESPACES, {"metadata": {"name": BRIDGES_NAMESPACE}})
            uid = await cluster.lan(uplink=UPLINK)
            cluster.nodes = tuple(
                [await cluster.node(f"n{number}", number) for number in range(1, count + 1)]
            )
            for node in cluster.nodes:
                trunk(node, VLAN)
            await story(cluster, uid)

        def test() -> None:
            play(whole, Watched)

        test.__doc__, test.__name__ = story.__doc__, story.__name__
        return test

    return decorate


@told(3)
async def test_one_of_them(cluster: Watched, uid: str) -> None:
    """Of the nodes that have the VLAN one joins the LAN to it, without any pod there, and reports that it does."""
    await cluster.joins("n1", "n2", "n3")
    (name,) = cluster.joined()
    node = next(each for each in cluster.nodes if each.name == name)
    (end,) = node.world.ends
    assert end.link.name == far_name(uid)
    await cluster.until_later(lambda: _reports(cluster, name))
    other = next(each for each in cluster.nodes if each is not node)
    await cluster.until(lambda: len(other.spokes.devices()) == 8)
    await other.spokes.attach(veth("blue-a", other.pod("p1")))
    await cluster.until(lambda: node.world.names["blue"].flood == {other.address})
    for _ in range(100):
        await cluster.until(lambda: cluster.joined() == [name])


async def _reports(cluster: Watched, name: str) -> bool:
    return [entry.uplink for entry in await cluster.entries(name)] == [True]


@told(2)
async def test_agent_dies(cluster: Watched, uid: str) -> None:
    """With the agent's process the joint ends; the other node takes over once the Lease has run out."""
    await cluster.joins("n1", "n2")
    (name,) = cluster.joined()
    node, other = sorted(cluster.nodes, key=lambda each: each.name != name)
    await node.kill()
    assert cluster.joined() == []
    died = cluster.now()
    await cluster.joins(other.name)
    assert cluster.now() - died > 2.0
    node.start()
    await cluster.until(lambda: not node.spokes.unready())
    await cluster.until(lambda: cluster.joined() == [other.name])


@told(2)
async def test_agent_is_cut_off(cluster: Watched, uid: str) -> None:
    """A node that can't renew its Lease lets go before another node joins the LAN to the VLAN."""
    await cluster.joins("n1", "n2")
    (name,) = cluster.joined()
    node, other = sorted(cluster.nodes, key=lambda each: each.name != name)
    node.cut_off()
    began = cluster.now()
    await cluster.until(lambda: cluster.joined() == [])
    assert cluster.now() - began < 13.0
    await cluster.joins(other.name)
    node.cut_off(False)
    await cluster.until(partial(_holds, cluster, other.name, cluster.now() + 60), 120)


def _holds(cluster: Watched, name: str, until: float) -> bool:
    assert cluster.joined() == [name]
    return cluster.now() > until


@told(2)
async def test_vlan_goes_from_the_node(cluster: Watched, uid: str) -> None:
    """A node whose bridge no longer carries the VLAN lets go, and the next one joins; without any none does."""
    await cluster.joins("n1", "n2")
    (name,) = cluster.joined()
    node, other = sorted(cluster.nodes, key=lambda each: each.name != name)
    trunk(node, 2013)
    await cluster.joins(other.name)
    await cluster.until(lambda: node.world.names == {})
    trunk(other)
    await cluster.until(lambda: cluster.joined() == [] and other.world.names == {})
    trunk(node, VLAN)
    await cluster.joins(name)


@told(2)
async def test_uplink_changes(cluster: Watched, uid: str) -> None:
    """A LAN's uplink may change and be taken away, and goes with the LAN; pods of the LAN stay."""
    await cluster.joins("n1", "n2")
    (name,) = cluster.joined()
    node = next(each for each in cluster.nodes if each.name == name)
    await cluster.until(lambda: len(node.spokes.devices()) == 8)
    await node.spokes.attach(veth("blue-a", node.pod("p1")))
    await cluster.client.patch(LANS, "blue", {"spec": {"uplink": None}}, NAMESPACE)
    await cluster.until(lambda: cluster.joined() == [])
    assert set(node.world.names["blue"].links) == {"br0", "vx0", "blue-aV0"}
    await cluster.client.patch(LANS, "blue", {"spec": {"uplink": UPLINK}}, NAMESPACE)
    await cluster.joins("n1", "n2")
    await cluster.client.patch(LANS, "blue", {"metadata": {"finalizers": ["lan.lanloom.io/lan"]}}, NAMESPACE)
    await cluster.client.delete(LANS, "blue", NAMESPACE)
    await cluster.until(lambda: cluster.joined() == [])
    assert "blue-aV0" in node.world.names["blue"].links


@told(3)
async def test_stations_are_looked_for_again(cluster: Watched, uid: str) -> None:
    """When another node joins the LAN to the VLAN, each node forgets where it learned stations, and only then."""
    await cluster.joins("n1", "n2", "n3")
    (name,) = cluster.joined()
    node, *others = sorted(cluster.nodes, key=lambda each: each.name != name)
    trunk(others[1])
    await cluster.until(lambda: len(others[1].spokes.devices()) == 8)
    await others[1].spokes.attach(veth("blue-a", others[1].pod("p")))
    await cluster.until_later(lambda: _reports(cluster, name))
    await cluster.until(lambda: others[1].world.names["blue"].flood == {node.address})
    end = cluster.now() + 60
    await cluster.until(lambda: cluster.now() > end, 120)
    assert not others[1].world.forgot
    await node.kill()
    await cluster.joins(others[0].name)
    await cluster.until(lambda: others[1].world.forgot["blue"] == 1)
    assert others[0].world.forgot["blue"] <= 1

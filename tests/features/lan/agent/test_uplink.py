"""LANs with a physical VLAN: one node joins the two, never two, whatever befalls nodes, agents and the API server."""

from collections.abc import Awaitable, Callable
from functools import partial

from lanloom.api.core import LEASES, NAMESPACES, Lease
from lanloom.api.lan import FORCE_DELETE, LANS, UID_LABEL, VNI_LABEL
from lanloom.api.meta import Key
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.rules.hostbridge import far_name
from lanloom.kube.lookup import get_or_none
from tests.fakes.bridges import NIC
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

    def vlans(self) -> list[int]:
        """The VLANs of those ends."""
        return [end.vlan for node in self.nodes for end in node.world.ends if end.place == PLACE]

    async def lease(self, vlan: int = VLAN) -> Lease | None:
        """The Lease of a VLAN."""
        return await get_or_none(self.client, LEASES, Key(BRIDGES_NAMESPACE, f"lan-uplink-{vlan}-cluster-1"))

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


@told(1)
async def test_bridge_changes_its_mtu(cluster: Watched, uid: str) -> None:
    """A bridge whose MTU was not set follows its uplink, next to a LAN of another MTU as without one."""
    await cluster.joins("n1")
    (node,) = cluster.nodes
    bridge = node.world.around["cluster-1-br"]
    for mtu in (9000, 1400, 1500):
        bridge.resize("bo", mtu)
        node.world.changed("")
        await cluster.until(lambda mtu=mtu: bridge.mtu == mtu)  # type: ignore[misc]
        await cluster.until(lambda mtu=mtu: [end.link.mtu for end in node.world.ends] == [mtu])  # type: ignore[misc]
    assert bridge.mac == NIC and len(bridge.uppers["br.2021"].addresses) == 2


@told(2)
async def test_agent_dies(cluster: Watched, uid: str) -> None:
    """With the agent's process the uplink link ends; the other node takes over once the Lease has run out."""
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


@told(2)
async def test_the_lease_says_for_whom_it_is_held(cluster: Watched, uid: str) -> None:
    """A Lease is named by the VLAN; its holder is the node with the LAN, and its labels are the LAN's."""
    await cluster.joins("n1", "n2")
    lease = await cluster.lease()
    assert lease is not None
    assert lease.spec.holder_identity == f"{cluster.joined()[0]}_{uid}"
    assert lease.metadata.labels == {UID_LABEL: uid, VNI_LABEL: "7-4789"}


@told(2)
async def test_two_lans_want_one_vlan(cluster: Watched, uid: str) -> None:
    """Of two LANs that were let in at once with one VLAN the older is joined, and the younger when that is gone."""
    young = await cluster.lan("red", 8, uplink=UPLINK)
    await cluster.joins("n1", "n2")
    await cluster.until(partial(_has, cluster, uid, cluster.now() + 60), 120)
    await cluster.client.delete(LANS, "blue", NAMESPACE)
    await cluster.until(partial(_has, cluster, young, cluster.now() + 60), 120)


def _has(cluster: Watched, uid: str, until: float) -> bool:
    """Whether that time has come; before, no other LAN may be joined."""
    cluster.joined()
    names = {end.link.name for node in cluster.nodes for end in node.world.ends}
    if cluster.now() > until:
        assert names == {far_name(uid)}
    return cluster.now() > until


@told(2)
async def test_a_lan_is_made_in_the_place_of_one_that_is_gone(cluster: Watched, uid: str) -> None:
    """A node that has not heard that its LAN was removed by force gives the VLAN to the next LAN, and is no loop."""
    await cluster.joins("n1", "n2")
    (name,) = cluster.joined()
    node, other = sorted(cluster.nodes, key=lambda each: each.name != name)
    node.deafen(of=LANS)
    await cluster.client.patch(LANS, "blue", {"metadata": {"annotations": {FORCE_DELETE: "true"}}}, NAMESPACE)
    await cluster.client.delete(LANS, "blue", NAMESPACE)
    new = await cluster.lan(uplink=UPLINK)
    await cluster.joins(other.name)
    assert [end.link.name for end in other.world.ends] == [far_name(new)]
    await cluster.until(partial(_holds, cluster, other.name, cluster.now() + 60), 120)
    node.deafen(False)
    await cluster.until(partial(_holds, cluster, other.name, cluster.now() + 60), 120)


@told(2)
async def test_the_vlan_changes_and_a_node_is_told_late(cluster: Watched, uid: str) -> None:
    """A LAN that moves to another VLAN is not joined there before it has left the first one."""
    await cluster.joins("n1", "n2")
    (name,) = cluster.joined()
    node, other = sorted(cluster.nodes, key=lambda each: each.name != name)
    for each in cluster.nodes:
        trunk(each, VLAN, VLAN + 1)
    node.deafen(of=LANS)
    moved = {"spec": {"uplink": UPLINK | {"vlan": VLAN + 1}}}
    await cluster.client.patch(LANS, "blue", moved, NAMESPACE)
    await cluster.joins(other.name)
    assert cluster.vlans() == [VLAN + 1]
    node.deafen(False)
    await cluster.until(partial(_holds, cluster, other.name, cluster.now() + 60), 120)


@told(1)
async def test_the_vlan_changes_on_a_slow_node(cluster: Watched, uid: str) -> None:
    """What a node began for the former VLAN joins the LAN to that no more, once it holds the other Lease."""
    (node,) = cluster.nodes
    trunk(node, VLAN, VLAN + 1)
    node.world.pace = 4.0
    await cluster.until(lambda: node.kernel.calls["observe"] > 0)
    assert uid in node.kernel.uplinks and cluster.vlans() == []
    await cluster.client.patch(LANS, "blue", {"spec": {"uplink": UPLINK | {"vlan": VLAN + 1}}}, NAMESPACE)
    await cluster.until_later(lambda: _is_held(cluster, VLAN + 1))
    await cluster.until(partial(_is_at, cluster, VLAN + 1, cluster.now() + 60), 120)
    assert cluster.vlans() == [VLAN + 1]


def _is_at(cluster: Watched, vlan: int, until: float) -> bool:
    assert set(cluster.vlans()) <= {vlan}
    return cluster.now() > until


async def _is_held(cluster: Watched, vlan: int) -> bool:
    lease = await cluster.lease(vlan)
    return lease is not None and bool(lease.spec.holder_identity)

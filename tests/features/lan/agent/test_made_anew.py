"""LANs that go and come back while nodes carry them, and two that claim the same: what the simulation found."""

import pytest

from lanloom.api.core import PODS
from lanloom.api.lan import LANS
from lanloom.features.lan.agent.ports import Device, SpokeError
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, macvtap, veth
from tests.harness.cluster import play


async def _ready(cluster: LanCluster) -> Node:
    node = await cluster.node("n1", 1)
    await cluster.until(lambda: bool(node.spokes.devices()))
    return node


def test_lan_made_anew() -> None:
    """Pods of a LAN that is created again become the new one's: their interfaces stay, and the node reports its uid."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        ends = list(node.world.ends)
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        uid = await cluster.lan()
        await cluster.until(lambda: [entry.uid for entry in node.report()] == [uid])
        await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))
        assert ends[0] in node.world.ends
        await node.spokes.detach("c1", "net1")
        await node.spokes.detach("c2", "net1")
        assert node.world.names == {}

    play(story, LanCluster)


def test_lan_made_anew_while_the_agent_is_away() -> None:
    """The same holds where the agent was not there when it happened."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        ends = list(node.world.ends)
        await node.kill()
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        uid = await cluster.lan()
        node.start()
        await cluster.until(lambda: [entry.uid for entry in node.report()] == [uid])
        assert node.world.ends == ends

    play(story, LanCluster)


def test_path_of_a_device_stays() -> None:
    """A machine whose LAN is created again between Allocate and ADD gets the device that kubelet knows."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        path = await node.spokes.allocate(Device("blue-a", "macvtap"))
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        uid = await cluster.lan()
        await cluster.until(lambda: not node.world.names, 300)
        await node.spokes.attach(macvtap("blue-a", node.pod("p1")))
        assert [entry.uid for entry in node.report()] == [uid]
        assert [f"/dev/tap{end.link.index}" for end in node.world.ends] == [path]

    play(story, LanCluster)


def test_made_anew_without_the_spoke() -> None:
    """A spoke that only a LAN had which is gone is given to no pod once another LAN has its name."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.allocate(Device("blue-a", "veth"))
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        uid = await cluster.lan(spokes=["blue-b"])
        await cluster.until(lambda: len(node.spokes.devices()) == 2)
        with pytest.raises(SpokeError, match="no LAN has the spoke blue-a"):
            await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await cluster.until(lambda: not node.world.names, 300)
        await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))
        assert [entry.uid for entry in node.report()] == [uid]

    play(story, LanCluster)


def test_spoke_is_another_lans() -> None:
    """A node that has not heard that its LAN is gone attaches no further pod to it, unless no server answers."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        node.deafen(of=LANS)
        node.cut_off()
        await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))
        node.cut_off(False)
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await cluster.lan("red", 8, spokes=["blue-c"])
        with pytest.raises(SpokeError, match="LAN default/blue is gone, which this node does not know yet"):
            await node.spokes.attach(veth("blue-c", node.pod("p3"), container="c3"))
        node.deafen(False)
        await cluster.until(lambda: len(node.spokes.devices()) == 2)
        await node.spokes.attach(veth("blue-c", node.pod("p3"), container="c3"))
        assert set(node.world.names) == {"blue", "red"}

    play(story, LanCluster)


def test_namespace_of_another_lan() -> None:
    """A LAN that could not be built next to one with its namespace's name takes nothing of that one away."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        begun = cluster.now()
        await cluster.until(lambda: cluster.now() >= begun + 1)  # the older one has the name
        await cluster.lan("teal", 8, ns="blue")
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        with pytest.raises(
            SpokeError, match=r'spec\.ns: "blue" is the network namespace of LAN default/blue'
        ):
            await node.spokes.allocate(Device("teal-a", "veth"))
        await cluster.client.delete(LANS, "teal", NAMESPACE)
        await cluster.until(lambda: [entry.name for entry in node.report()] == ["blue"], 900)
        assert "blue-aV0" in node.world.names["blue"].links

    play(story, LanCluster)


def test_lan_deleted_while_the_agent_is_away() -> None:
    """The record of a LAN goes, also where the LAN was deleted while no agent was there."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await node.spokes.detach("c1", "net1")
        await node.kill()
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        node.start()
        await cluster.until(lambda: not node.fake.state.contents)

    play(story, LanCluster)


def test_device_without_a_pod() -> None:
    """A device that no pod came for does not keep a LAN that is deleted for longer than a minute."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.allocate(Device("blue-a", "veth"))
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await cluster.until(lambda: not node.world.names and not node.fake.state.contents, 60)

    play(story, LanCluster)


def test_other_links_of_the_host() -> None:
    """A link of the host that no LAN stands on wakes no LAN, and one that is changed wakes those that stand on it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        underlay = node.world.underlays.pop("u0")
        node.world.changed("")
        await cluster.until(lambda: not node.report()[0].ready, 5)
        node.world.underlays["u0"] = underlay
        node.world.changed("")
        await cluster.until(lambda: node.report()[0].ready, 5)

    play(story, LanCluster)


def test_a_node_that_has_not_heard_of_it() -> None:
    """A node that does not know yet that a LAN was created again attaches no pod; then its user elsewhere counts."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        first, second = await _ready(cluster), await cluster.node("n2", 2)
        await cluster.until(lambda: bool(second.spokes.devices()))
        await pod(cluster, "p1")
        await second.spokes.attach(veth("blue-b", second.pod("p0"), container="c0"))
        await first.spokes.attach(veth("blue-a", first.pod("p1"), pod=f"{NAMESPACE}/p1"))
        second.deafen()
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        uid = await cluster.lan()
        await cluster.until_later(lambda: reports(cluster, uid))
        assert [entry.uid for entry in second.report()] != [uid]
        second.deafen(False)
        where = veth("blue-a", second.pod("p2"), container="c2")
        with pytest.raises(SpokeError, match="LAN default/blue is gone") as early:
            await second.spokes.attach(where)
        assert early.value.again

        async def names_the_user() -> bool:
            with pytest.raises(SpokeError) as refused:
                await second.spokes.attach(where)
            return f"is used by {NAMESPACE}/p1 on node n1" in str(refused.value)

        await cluster.until_later(names_the_user)

    async def reports(cluster: LanCluster, uid: str) -> bool:
        return [entry.uid for entry in await cluster.entries("n1")] == [uid]

    play(story, LanCluster)


def test_a_lan_that_is_gone_leaves_its_pods() -> None:
    """Where a node knows that a LAN is gone, its other spokes have no LAN, and waiting alone is no remedy."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))
        await node.spokes.detach("c2", "net1")
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await cluster.until(lambda: not node.spokes.devices())
        with pytest.raises(
            SpokeError, match=r"no LAN has the spoke blue-b(,.* is gone)?.*; add it to spec.spokes"
        ):
            await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))

    play(story, LanCluster)


def test_a_lan_that_is_gone() -> None:
    """A node that has not heard that a LAN is gone attaches no first pod to it: the spoke may be another LAN's."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _ready(cluster)
        node.deafen()
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        uid = await cluster.lan("teal", ns="blue", spokes=["blue-a"])
        with pytest.raises(
            SpokeError, match="LAN default/blue is gone, which this node does not know yet"
        ) as late:
            await node.spokes.attach(veth("blue-a", node.pod("p1")))
        assert late.value.again and not node.world.ends
        node.deafen(False)
        await cluster.until(lambda: len(node.spokes.devices()) == 2)
        await node.spokes.attach(veth("blue-a", "/run/netns/p1"))
        assert [entry.uid for entry in node.report()] == [uid]

    play(story, LanCluster)


async def pod(cluster: LanCluster, name: str) -> None:
    """A pod that the API server has."""
    containers = [{"name": "main", "image": "any"}]
    await cluster.keep(
        PODS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"containers": containers}}
    )

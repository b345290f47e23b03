"""Spokes on nodes in memory outlast deaths, reboots and others' deletions."""

import pytest
from msgspec.structs import replace

from lanloom.api.lan import LANS
from lanloom.features.lan.agent.ports import Device, SpokeError
from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.features.lan.rules.observed import PodLink
from lanloom.features.lan.rules.record import choose_index
from tests.fakes.lanworld import FarEnd
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, advertised, floods, macvtap, spoke_of, veth
from tests.harness.cluster import play


def test_a_namespace_that_lost_its_mark() -> None:
    """An agent takes away what an earlier one built, although the bridge that names its owner was deleted."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(macvtap("blue-a", node.pod("p1")))
        await node.kill()
        node.world.delete_pod("/run/netns/p1")
        node.world.delete_link("blue", "br0")
        node.start()
        await cluster.until(lambda: not node.world.names and not node.world.ends)
        await node.spokes.attach(macvtap("blue-a", node.pod("p2"), container="c2"))

    play(story, LanCluster)


def test_reboot() -> None:
    """After a reboot nothing is there until ADD comes, which builds all again with the same device path."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        path = await node.spokes.allocate(Device("blue-a", "macvtap"))
        await node.spokes.attach(macvtap("blue-a", node.pod("p1")))
        await node.reboot()
        node.start()
        await cluster.until(lambda: not node.spokes.unready())
        await node.spokes.attach(macvtap("blue-a", node.pod("p1b"), container="c1b"))
        assert [f"/dev/tap{index}" for index in node.world.devices] == [path]

    play(story, LanCluster)


def test_a_path_that_was_answered() -> None:
    """A device keeps the path that kubelet got, also where the agent would choose another one after a reboot."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        first = choose_index("blue-aM0")
        link = PodLink(name="mv0", index=first, kind="macvtap", mac="", mtu=1500, up=True, lower=0)
        node.world.ends.append(FarEnd(0, 0, "/run/netns/other", link))
        path = await node.spokes.allocate(Device("blue-a", "macvtap"))
        assert path != f"/dev/tap{first}"
        await node.reboot()
        node.start()
        await cluster.until(lambda: not node.spokes.unready())
        await node.spokes.attach(macvtap("blue-a", node.pod("p1")))
        assert [f"/dev/tap{index}" for index in node.world.devices] == [path]

    play(story, LanCluster)


def test_heals_with_addresses() -> None:
    """An interface that is made again has its addresses and routes again, also by another agent; DEL forgets them."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        attachment = replace(
            veth("blue-a", node.pod("p1")),
            addresses=("192.0.2.7/24",),
            routes=(PodRoute(dst="0.0.0.0/0", gw="192.0.2.1"),),
        )
        await node.spokes.attach(attachment)

        def whole() -> bool:
            return [(each.link.addresses, each.link.destinations) for each in node.world.ends] == [
                (frozenset({"192.0.2.7/24"}), frozenset({"0.0.0.0/0"}))
            ]

        assert whole()
        node.world.delete_link("blue", "blue-aV0")
        await cluster.until(whole)
        await node.kill()
        node.world.delete_link("blue", "blue-aV0")
        node.start()
        await cluster.until(whole)
        await node.spokes.check(attachment)
        with pytest.raises(SpokeError, match=r"192\.0\.2\.8/24"):
            await node.spokes.check(replace(attachment, addresses=("192.0.2.8/24",)))
        await node.spokes.detach("c1", "net1")
        await node.spokes.attach(veth("blue-a", node.pod("p2"), container="c2"))
        assert [each.link.addresses for each in node.world.ends] == [frozenset()]

    play(story, LanCluster)


def test_heals() -> None:
    """A link, a name, a receiver that is taken away comes back; the pod's interface keeps its address."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        first, second = await cluster.node("n1", 1), await cluster.node("n2", 2)
        for node in (first, second):
            await advertised(cluster, node)
            await node.spokes.attach(veth(spoke_of(node), node.pod("p1")))
        await first.spokes.attach(macvtap("blue-d", first.pod("p2"), container="c2"))
        await cluster.until(lambda: floods(first) == {"10.0.0.2"})
        macs = sorted(end.link.mac for end in first.world.ends)

        def whole() -> bool:
            space = first.world.names.get("blue")
            if space is None or len(first.world.ends) != 2:
                return False
            if set(space.links) != {"br0", "vx0", "blue-aV0", "blue-dM0", "blue-dM1"}:
                return False
            ports = [space.links[name] for name in ("vx0", "blue-aV0", "blue-dM0")]
            joined = all(port.master == space.links["br0"].index for port in ports)
            return joined and space.flood == {"10.0.0.2"}

        assert whole()
        for link in ("br0", "vx0", "blue-aV0", "blue-dM0", "blue-dM1"):
            first.world.delete_link("blue", link)
            await cluster.until(whole)
        first.world.delete_name("blue")
        await cluster.until(whole)
        floods(first).clear()
        await cluster.until(whole)
        assert sorted(end.link.mac for end in first.world.ends) == macs

    play(story, LanCluster)


def test_removed_lan() -> None:
    """A LAN that is gone from the cluster stays on the node until its pod has gone, and no record is left."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await cluster.until(lambda: not node.spokes.devices())
        assert "blue-aV0" in node.world.names["blue"].links
        await node.spokes.detach("c1", "net1")
        assert node.world.names == {} and await node.fake.state.names() == ()

    play(story, LanCluster)


def test_pod_gone_unseen() -> None:
    """A pod whose DEL never came is noticed by its namespace, and its spoke is free."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await node.kill()
        node.world.delete_pod("/run/netns/p1")
        node.start()
        await cluster.until(lambda: node.world.names == {})

    play(story, LanCluster)


def test_without_server() -> None:
    """While the API server is away a node keeps its peers, heals, and attaches pods to spokes that it has had."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node, other = await cluster.node("n1", 1), await cluster.node("n2", 2)
        for each in (node, other):
            await advertised(cluster, each)
        await other.spokes.attach(veth("blue-b", other.pod("p1")))
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await cluster.until(lambda: floods(node) == {"10.0.0.2"})
        await node.kill()
        node.start(away=True)
        await cluster.until(lambda: not node.spokes.unready())
        node.world.delete_link("blue", "blue-aV0")
        await cluster.until(lambda: "blue-aV0" in node.world.names["blue"].links)
        assert floods(node) == {"10.0.0.2"}
        node.world.delete_pod("/run/netns/p1")
        await node.spokes.attach(veth("blue-a", node.pod("p2"), container="c2"))
        with pytest.raises(SpokeError, match="no LAN has the spoke blue-c"):
            await node.spokes.attach(veth("blue-c", node.pod("p3"), container="c3"))

    play(story, LanCluster)


def test_full_disk() -> None:
    """Without a record nothing is built: the request fails, and says which directory is full."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        node.fake.state.full = True
        with pytest.raises(SpokeError, match="No space left on device"):
            await node.spokes.attach(veth("blue-a", node.pod("p1")))
        assert node.world.writes == 0
        node.fake.state.full = False
        await node.spokes.attach(veth("blue-a", "/run/netns/p1"))

    play(story, LanCluster)

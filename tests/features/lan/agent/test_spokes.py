"""Spokes on nodes in memory: what kubelet and CNI programs get, and what they are refused."""

import asyncio
from collections.abc import Callable
from typing import Literal

import pytest
from msgspec.structs import replace

from lanloom.features.lan.agent.ports import Attached, Attachment, Device, SpokeError
from tests.features.lan.agent.nodes import (
    LanCluster,
    advertised,
    macvtap,
    reported,
    veth,
)
from tests.harness.cluster import play


def test_attach_veth() -> None:
    """A pod gets an interface with an address that is its spoke's, and the LAN's namespace holds the port."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await cluster.until(lambda: len(node.spokes.devices()) == 8)
        attached = await node.spokes.attach(veth("blue-a", node.pod("p1")))
        (end,) = node.world.ends
        assert attached == Attached(end.link.mac, 1450)
        assert (end.place, end.link.name, end.link.up) == ("/run/netns/p1", "net1", True)
        assert set(node.world.names["blue"].links) == {"br0", "vx0", "blue-aV0"}
        assert await node.spokes.attach(veth("blue-a", "/run/netns/p1")) == attached
        await node.spokes.check(veth("blue-a", "/run/netns/p1"))

    play(story, LanCluster)


def test_detach_last() -> None:
    """With its last pod a LAN goes from the node, and from the node's report; detaching again is no error."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))
        await reported(cluster, "n1", 1)
        await node.spokes.detach("c1", "net1")
        assert set(node.world.names["blue"].links) == {"br0", "vx0", "blue-bV0"}
        await node.spokes.detach("c2", "net1")
        await node.spokes.detach("c2", "net1")
        assert node.world.names == {} and node.world.ends == []
        await reported(cluster, "n1", 0)

    play(story, LanCluster)


def test_calls_of_an_add() -> None:
    """ADD looks at the LAN once, and changes it once; what is there then and the device need no call of their own."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        for name, attachment in (("p1", macvtap("blue-a", "")), ("p2", veth("blue-b", "", container="c2"))):
            await node.spokes.allocate(attachment.device)
            await asyncio.sleep(60)
            node.kernel.calls.clear()
            await node.spokes.attach(replace(attachment, netns=node.pod(name)))
            calls = node.kernel.calls
            assert (calls["observe"], calls["apply"], calls["tap"]) == (1, 1, 0)

    play(story, LanCluster)


def test_allocated_again_after_a_lost_end() -> None:
    """A device is allocated to a new pod where the pod that had it is gone and its DEL never came."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(macvtap("blue-a", node.pod("p1")))
        node.world.delete_pod("/run/netns/p1")
        path = await node.spokes.allocate(Device("blue-a", "macvtap"))
        assert node.world.ends == [] and set(node.world.names["blue"].links) == {"br0", "vx0"}
        await node.spokes.attach(macvtap("blue-a", node.pod("p2"), container="c2"))
        assert [(end.place, f"/dev/tap{end.link.index}") for end in node.world.ends] == [
            ("/run/netns/p2", path)
        ]

    play(story, LanCluster)


@pytest.mark.parametrize("lingers", [False, True], ids=["old one ended", "old one lingers"])
@pytest.mark.parametrize("attach", [veth, macvtap])
def test_replaced_namespace(attach: Callable[..., Attachment], lingers: bool) -> None:
    """Nothing is made in a namespace that has the path of a pod's now; the spoke is free for the next pod there."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        path = node.pod("p1")
        await node.spokes.attach(attach("blue-a", path))
        await node.spokes.attach(attach("blue-b", node.pod("p2"), container="c2"))
        await asyncio.sleep(1)
        node.world.replace_pod(path, lingers=lingers)
        node.world.changed("blue")
        await cluster.until(lambda: [end.place for end in node.world.ends] == ["/run/netns/p2"])
        await cluster.until(lambda: [spoke.name for spoke in node.report()[0].spokes] == ["blue-b"])
        await node.spokes.attach(attach("blue-a", path, container="c3"))
        assert {end.place for end in node.world.ends} == {path, "/run/netns/p2"}

    play(story, LanCluster)


@pytest.mark.parametrize("mode", ["veth", "macvtap"])
def test_replaced_namespace_of_the_next_pod(mode: Literal["veth", "macvtap"]) -> None:
    """A pod whose namespace has the path of the one that had the spoke gets it, before a look; so does an agent
    that starts meanwhile.
    """

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        attach, path = {"veth": veth, "macvtap": macvtap}[mode], node.pod("p1")
        await node.spokes.attach(attach("blue-a", path))
        await asyncio.sleep(1)
        await node.kill()
        node.world.replace_pod(path)
        node.start()
        await cluster.until(lambda: not node.spokes.unready())
        await advertised(cluster, node)
        await node.spokes.allocate(Device("blue-a", mode))
        await node.spokes.attach(attach("blue-a", path, container="c2"))
        (spoke,) = [(end.place, end.link.kind) for end in node.world.ends]
        assert spoke == (path, mode)
        await node.spokes.detach("c1", "net1")
        assert len(node.world.ends) == 1

    play(story, LanCluster)


def test_deleted_interface() -> None:
    """An interface that is deleted in the pod's own namespace is made again there."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        path = node.pod("p1")
        await node.spokes.attach(veth("blue-a", path))
        await asyncio.sleep(1)
        node.world.delete_link("blue", "blue-aV0")
        await cluster.until(lambda: [end.place for end in node.world.ends] == [path])

    play(story, LanCluster)


def test_allocate_and_attach_macvtap() -> None:
    """A machine's device has the same path in the answer to kubelet, after ADD, after DEL and a new ADD."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        device = Device("blue-a", "macvtap")
        path = await node.spokes.allocate(device)
        assert node.world.ends == [] and set(node.world.names["blue"].links) == {"br0", "vx0"}
        await node.spokes.attach(macvtap("blue-a", node.pod("p1")))
        (end,) = node.world.ends
        assert (end.place, end.link.name, end.link.up) == ("/run/netns/p1", "net1", True)
        await node.spokes.detach("c1", "net1")
        assert node.world.ends == []
        await node.spokes.attach(macvtap("blue-a", node.pod("p2"), container="c2"))
        assert [f"/dev/tap{index}" for index in node.world.devices] == [path]

    play(story, LanCluster)


def test_allocation_lapses() -> None:
    """A device that no pod comes for keeps the LAN for ten minutes, and not longer."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        assert await node.spokes.allocate(Device("blue-b", "veth")) == ""
        began = cluster.now()
        await cluster.until(lambda: "blue" not in node.world.names, 1000)
        assert 600 <= cluster.now() - began < 630

    play(story, LanCluster)


def test_used_by_another() -> None:
    """A spoke whose pod is alive is refused to another, and given to it once the pod's namespace is gone."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1"), pod="default/first"))
        with pytest.raises(SpokeError, match="blue-a is used by default/first on this node"):
            await node.spokes.attach(veth("blue-a", node.pod("p2"), container="c2"))
        node.world.delete_pod("/run/netns/p1")
        await node.spokes.attach(veth("blue-a", "/run/netns/p2", container="c2"))

    play(story, LanCluster)


def test_used_the_other_way() -> None:
    """A spoke that a pod has is refused to a machine on the same node, and the other way round."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1"), pod="default/first"))
        await node.spokes.attach(macvtap("blue-b", node.pod("p2"), container="c2", pod="default/second"))
        with pytest.raises(SpokeError, match="blue-a is used by default/first on this node") as refused:
            await node.spokes.attach(macvtap("blue-a", node.pod("p3"), container="c3"))
        with pytest.raises(SpokeError, match="blue-b is used by default/second on this node"):
            await node.spokes.attach(veth("blue-b", "/run/netns/p3", container="c3"))
        assert refused.value.again
        await node.spokes.detach("c1", "net1")
        await node.spokes.attach(macvtap("blue-a", "/run/netns/p3", container="c3"))

    play(story, LanCluster)


def test_foreign_namespace() -> None:
    """A namespace of the LAN's name that is another program's is left alone, and the request says what to do."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        node.world.foreign.add("blue")
        with pytest.raises(SpokeError, match="a network namespace blue is there already"):
            await node.spokes.attach(veth("blue-a", node.pod("p1")))
        assert node.world.writes == 0

    play(story, LanCluster)


def test_no_underlay() -> None:
    """Without the underlay link a pod is refused, with the field to correct."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(defaultVxlanDev="nic9")
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        with pytest.raises(SpokeError, match=r"the underlay link nic9 is not there; correct spec\.default"):
            await node.spokes.attach(veth("blue-a", node.pod("p1")))

    play(story, LanCluster)


def test_collect() -> None:
    """The runtime's garbage collection ends attachments of its network that it does not know, and no others."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        for letter, network in (("a", "one"), ("b", "one"), ("c", "two")):
            pod = node.pod(letter)
            await node.spokes.attach(veth(f"blue-{letter}", pod, container=letter, network=network))
        await node.spokes.collect([("a", "net1")], "one")
        assert sorted(end.place for end in node.world.ends) == ["/run/netns/a", "/run/netns/c"]

    play(story, LanCluster)


@pytest.mark.parametrize(
    ("netns", "interface", "mac", "words"),
    [
        ("run/netns/p1", "net1", "", "the path of its network namespace"),
        ("/run/netns/p1", "a/b", "", "can't be the name of a link"),
        ("/run/netns/p1", "x" * 16, "", "can't be the name of a link"),
        ("/run/netns/p1", "net1", "01:00:00:00:00:01", "is not the MAC address of a link"),
        ("/run/netns/p1", "net1", "02:00", "is not the MAC address of a link"),
        ("/run/netns/none", "net1", "", "there is no network namespace /run/netns/none"),
    ],
)
def test_bad_attachments(netns: str, interface: str, mac: str, words: str) -> None:
    """An attachment that can't be is refused with the reason, and nothing is built or recorded."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        node.pod("p1")
        with pytest.raises(SpokeError, match=words):
            await node.spokes.attach(veth("blue-a", netns, interface=interface, mac=mac))
        assert node.world.writes == 0 and await node.fake.state.names() == ()

    play(story, LanCluster)


def test_cancelled() -> None:
    """A request that is cancelled is finished all the same, and the DEL that follows waits for it and undoes it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        for count in range(20):
            attaching = asyncio.create_task(node.spokes.attach(veth("blue-a", node.pod("p1"))))
            for _ in range(count + 1):
                await asyncio.sleep(0)
            attaching.cancel()
            await node.spokes.detach("c1", "net1")
            assert node.world.names == {} and node.world.ends == []
            await asyncio.sleep(60)
            assert node.world.names == {} and node.world.ends == []

    play(story, LanCluster)

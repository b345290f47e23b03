"""Spokes on nodes in memory: what kubelet and CNI programs get, through deaths, reboots and others' deletions."""

import asyncio

import pytest
from msgspec.structs import replace

from lanloom.api.lan import LAN_NODES, LANS
from lanloom.features.lan.agent.ports import Attached, Device, SpokeError
from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.features.lan.rules.carried import choose_index
from lanloom.features.lan.rules.observed import PodLink
from tests.fakes.lankernel import FarEnd
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, macvtap, veth
from tests.harness.cluster import play


async def advertised(cluster: LanCluster, node: Node, count: int = 8) -> None:
    """Waits until the node has so many devices to offer."""
    await cluster.until(lambda: len(node.spokes.devices()) == count)


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
        await cluster.until_later(lambda: _reports(cluster, "n1", 1))
        await node.spokes.detach("c1", "net1")
        assert set(node.world.names["blue"].links) == {"br0", "vx0", "blue-bV0"}
        await node.spokes.detach("c2", "net1")
        await node.spokes.detach("c2", "net1")
        assert node.world.names == {} and node.world.ends == []
        await cluster.until_later(lambda: _reports(cluster, "n1", 0))

    play(story, LanCluster)


async def _reports(cluster: LanCluster, node: str, count: int) -> bool:
    return len(await cluster.entries(node)) == count


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


def test_a_namespace_that_lost_its_mark() -> None:
    """An agent takes away what an earlier one built, although somebody deleted the bridge that says whose it is."""

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


def test_reboot() -> None:
    """After a reboot nothing is there until ADD comes, which builds all anew with the same device path."""

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
    """A device keeps the path that kubelet was told, also where the agent would choose another one after a reboot."""

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


def test_peers() -> None:
    """Nodes of a LAN flood to each other; one that leaves is taken out, and other LANs are not touched."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        await cluster.lan("red", vni=8)
        nodes = [await cluster.node(f"n{number}", number) for number in (1, 2, 3)]
        for node in nodes:
            await advertised(cluster, node, 16)
            await node.spokes.attach(veth(f"blue-{node.name[1:].translate(_LETTERS)}", node.pod("p1")))
        await nodes[0].spokes.attach(veth("red-a", nodes[0].pod("p2"), container="c2"))
        await cluster.until(lambda: _floods(nodes[0], "blue") == {"10.0.0.2", "10.0.0.3"})
        await cluster.until(lambda: _floods(nodes[1], "blue") == {"10.0.0.1", "10.0.0.3"})
        assert _floods(nodes[0], "red") == set()
        await nodes[2].spokes.detach("c1", "net1")
        await cluster.until(lambda: _floods(nodes[0], "blue") == {"10.0.0.2"})
        await cluster.until(lambda: _floods(nodes[1], "blue") == {"10.0.0.1"})

    play(story, LanCluster)


_LETTERS = str.maketrans("123", "abc")


def _floods(node: Node, ns: str) -> set[str]:
    return node.world.names[ns].flood


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


def test_heals_with_addresses() -> None:
    """An interface that is made anew has its addresses and routes again, also by another agent; DEL forgets them."""

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
    """A link, a name, a receiver that somebody takes away comes back; the pod's interface keeps its address."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        first, second = await cluster.node("n1", 1), await cluster.node("n2", 2)
        for node in (first, second):
            await advertised(cluster, node)
            await node.spokes.attach(veth(f"blue-{node.name[1:].translate(_LETTERS)}", node.pod("p1")))
        await first.spokes.attach(macvtap("blue-d", first.pod("p2"), container="c2"))
        await cluster.until(lambda: _floods(first, "blue") == {"10.0.0.2"})
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
        _floods(first, "blue").clear()
        await cluster.until(whole)
        assert sorted(end.link.mac for end in first.world.ends) == macs

    play(story, LanCluster)


def test_foreign_namespace() -> None:
    """A namespace of the LAN's name that is somebody else's is left alone, and the request says what to do."""

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


def test_report_belongs_to_node() -> None:
    """The report is the node's: it has its name, and goes with it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await advertised(cluster, node)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await cluster.until_later(lambda: _reports(cluster, "n1", 1))
        report = await cluster.client.get(LAN_NODES, "n1")
        assert [owner.kind for owner in report.metadata.owner_references] == ["Node"]
        (entry,) = report.status.lans
        assert (entry.address, entry.device, entry.mtu) == ("10.0.0.1", "u0", 1450)
        assert [(spoke.name, spoke.mode) for spoke in entry.spokes] == [("blue-a", "veth")]

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
        await cluster.until(lambda: _floods(node, "blue") == {"10.0.0.2"})
        await node.kill()
        node.start(away=True)
        await cluster.until(lambda: not node.spokes.unready())
        node.world.delete_link("blue", "blue-aV0")
        await cluster.until(lambda: "blue-aV0" in node.world.names["blue"].links)
        assert _floods(node, "blue") == {"10.0.0.2"}
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


@pytest.mark.parametrize(
    ("netns", "interface", "mac", "words"),
    [
        ("run/netns/p1", "net1", "", "the path of its network namespace"),
        ("/run/netns/p1", "a/b", "", "can't be the name of a link"),
        ("/run/netns/p1", "x" * 16, "", "can't be the name of a link"),
        ("/run/netns/p1", "net1", "01:00:00:00:00:01", "is not the MAC address of an interface"),
        ("/run/netns/p1", "net1", "02:00", "is not the MAC address of an interface"),
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

"""Options of LANs on nodes in memory: what follows a change, what other nodes learn, and what a node can't do."""

from typing import Any

import pytest

from lanloom.api.lan import LANS
from lanloom.features.lan.agent.ports import MtuRefused, SpokeError
from lanloom.features.lan.rules.observed import StaticEntry
from lanloom.features.lan.rules.options import PortFilter
from lanloom.features.lan.rules.optionsteps import SetPacketFilter
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, macvtap, veth
from tests.harness.cluster import play


async def nodes(cluster: LanCluster, *, mtus: tuple[int, ...] = (1500, 1500)) -> list[Node]:
    """Two nodes that offer spokes."""
    found = [await cluster.node(f"n{number}", number, mtu=mtu) for number, mtu in enumerate(mtus, 1)]
    for node in found:
        await cluster.until(lambda node=node: len(node.spokes.devices()) == 8)  # type: ignore[misc]
    return found


async def patch(cluster: LanCluster, **spec: Any) -> None:
    """A change of the LAN."""
    await cluster.client.patch(LANS, "blue", {"spec": spec}, NAMESPACE)


def entries_of(node: Node) -> dict[str, StaticEntry]:
    """What is pinned on a node."""
    return node.world.names["blue"].static_entries


def test_peers_pin_addresses() -> None:
    """The address of a secured spoke is pinned on other nodes while some spoke may send from any, and goes with it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
        near, far = await nodes(cluster)
        await far.spokes.attach(veth("blue-b", far.pod("q")))
        attached = await near.spokes.attach(veth("blue-a", near.pod("p")))
        assert entries_of(near) == {attached.mac: StaticEntry("blue-aV0")}
        await cluster.until(lambda: entries_of(far) == {attached.mac: StaticEntry("vx0", near.address)})
        await patch(cluster, portSecurity=True, spokeOptions=None)
        await cluster.until(lambda: list(entries_of(far).values()) == [StaticEntry("blue-bV0")])
        await patch(cluster, portSecurity=None)
        await cluster.until(lambda: entries_of(far) == entries_of(near) == {})

    play(story, LanCluster)


def test_addresses_are_pinned_beside_a_vlan() -> None:
    """No station of a VLAN takes over an address of the LAN that is joined to it, although all spokes are secured."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(portSecurity=True, uplink={"clusterNetwork": "cluster-1", "vlan": 2012})
        near, far = await nodes(cluster)
        await far.spokes.attach(veth("blue-b", far.pod("q")))
        attached = await near.spokes.attach(veth("blue-a", near.pod("p")))
        await cluster.until(lambda: entries_of(far).get(attached.mac) == StaticEntry("vx0", near.address))

    play(story, LanCluster)


def test_an_address_that_moves() -> None:
    """A machine that goes on elsewhere with its address is pinned there on every node, soon."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
        first, second = await nodes(cluster)
        third = await cluster.node("n3", 3)
        await third.spokes.attach(veth("blue-c", third.pod("r")))
        await second.spokes.attach(veth("blue-b", second.pod("q")))
        own = "02:00:00:00:00:77"
        await first.spokes.attach(veth("blue-a", first.pod("p"), mac=own))
        await cluster.until(lambda: entries_of(third) == {own: StaticEntry("vx0", first.address)})
        await first.spokes.detach("c1", "net1")
        await second.spokes.attach(veth("blue-a", second.pod("p"), container="c2", mac=own))
        began = cluster.now()
        await cluster.until(lambda: entries_of(second) == {own: StaticEntry("blue-aV0")})
        await cluster.until(lambda: entries_of(third) == {own: StaticEntry("vx0", second.address)})
        assert cluster.now() - began < 2

    play(story, LanCluster)


def test_options_outlive_the_server() -> None:
    """An agent that starts without the API server keeps what the options say."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokeOptions={"blue-a": {"isolated": True, "portSecurity": True}})
        (node,) = await nodes(cluster, mtus=(1500,))
        await node.spokes.attach(veth("blue-a", node.pod("p")))
        await node.reboot()
        node.world.pods.add("/run/netns/p")
        node.start(away=True)
        await cluster.until(lambda: "blue" in node.world.names and bool(entries_of(node)))
        port = node.world.names["blue"].links["blue-aV0"]
        assert port.locked and port.isolated and node.world.names["blue"].packet_filter

    play(story, LanCluster)


def test_a_kernel_without_a_limit() -> None:
    """A node whose kernel limits no learned addresses says so, and is not ready; pods attach all the same."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(maxLearnedMacs=5)
        (node,) = await nodes(cluster, mtus=(1500,))
        node.world.limits_learned = False
        await node.spokes.attach(veth("blue-a", node.pod("p")))
        (entry,) = node.report()
        assert not entry.ready
        assert entry.message == (
            "not enforced here: spec.maxLearnedMacs is 5, and the bridges of this kernel have no such limit; use Linux "
            "6.7 or newer, or limit each spoke in spec.spokeOptions"
        )
        await patch(cluster, maxLearnedMacs=None)
        await cluster.until(lambda: node.report()[0].ready)

    play(story, LanCluster)


def test_a_kernel_without_filters() -> None:
    """A node whose kernel filters no frames attaches nothing to a LAN with isolated spokes, and says why."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokeOptions={"blue-d": {"isolated": True}})
        (node,) = await nodes(cluster, mtus=(1500,))
        node.world.refused[SetPacketFilter] = "Operation not supported"
        with pytest.raises(
            SpokeError, match="can't set the packet filter of the network namespace blue"
        ) as caught:
            await node.spokes.attach(veth("blue-a", node.pod("p")))
        assert caught.value.again and not node.world.ends
        node.world.refused.clear()
        await node.spokes.attach(veth("blue-a", "/run/netns/p"))

    play(story, LanCluster)


def test_port_security_without_filters() -> None:
    """Port security is the bridge's own: a kernel that filters no frames has it too, and counts no refused frames.

    Where nothing but a filter checks a source, as of a machine that migrates, such a node says that it can't.
    """

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(portSecurity=True)
        near, far = await nodes(cluster)
        near.world.filters = far.world.filters = False
        own = "02:00:00:00:00:77"
        await near.spokes.attach(veth("blue-a", near.pod("p"), mac=own, bridged=True))
        space = near.world.names["blue"]
        assert space.links["blue-aV0"].locked and not space.port_filter and near.report()[0].ready
        far.deafen()  # it attaches the target before it hears of the source
        await far.spokes.attach(veth("blue-a", far.pod("q"), container="c2", mac=own, bridged=True))
        far.deafen(False)
        for node in (near, far):
            await cluster.until(
                lambda node=node: "this kernel filters no frames" in node.report()[0].message  # type: ignore[misc]
            )
        await near.spokes.detach("c1", "net1")
        await cluster.until(lambda: far.report()[0].ready)

    play(story, LanCluster)


def test_an_mtu_that_does_not_fit() -> None:
    """What asks for more than fits is refused with the node that limits it, and its place is free afterwards."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokeOptions={"blue-c": {"mtu": 1450}})
        near, far = await nodes(cluster, mtus=(9000, 1450))
        assert (await near.spokes.attach(veth("blue-a", near.pod("p"), mtu=8000))).mtu == 8000
        await far.spokes.attach(veth("blue-b", far.pod("q")))
        await cluster.until(lambda: "blue-a asks for MTU 8000" in near.report()[0].message)
        words = "asks for 1450, and the LAN has MTU 1400, as node n2 allows no more; ask for at most 1400, or raise"
        for attachment in (
            veth("blue-c", near.pod("r"), container="c2"),
            macvtap("blue-d", near.pod("s"), container="c3", mtu=1450),
        ):
            for _ in range(2):
                with pytest.raises(MtuRefused, match=words) as caught:
                    await near.spokes.attach(attachment)
                assert not caught.value.again
        assert len(near.world.ends) == 1
        await near.spokes.attach(veth("blue-d", "/run/netns/s", container="c3", mtu=1400))
        await near.spokes.detach("c1", "net1")
        await cluster.until(lambda: near.report()[0].ready)

    play(story, LanCluster)


def test_an_mtu_within_the_lans() -> None:
    """The MTU of the LAN is a ceiling for what a pod asks for, also where more would fit."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(mtu=1300)
        (node,) = await nodes(cluster, mtus=(9000,))
        with pytest.raises(MtuRefused, match=r"the LAN has MTU 1300 by its spec\.mtu; ask for at most 1300"):
            await node.spokes.attach(veth("blue-a", node.pod("p"), mtu=1400))
        assert (await node.spokes.attach(veth("blue-a", "/run/netns/p", mtu=1200))).mtu == 1200
        assert (await node.spokes.attach(veth("blue-b", node.pod("q"), container="c2"))).mtu == 1300

    play(story, LanCluster)


def test_a_machine_that_migrates() -> None:
    """While a secured machine is at two nodes its address is pinned nowhere, and each node still checks sources: the
    machine sends from no other address, and nothing else on any node from that one.
    """

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
        first, second = await nodes(cluster)
        third = await cluster.node("n3", 3)
        await third.spokes.attach(veth("blue-c", third.pod("r")))
        own = "02:00:00:00:00:77"
        await first.spokes.attach(veth("blue-a", first.pod("p"), mac=own, bridged=True))
        await cluster.until(lambda: entries_of(third) == {own: StaticEntry("vx0", first.address)})
        await second.spokes.attach(veth("blue-a", second.pod("q"), container="c2", mac=own, bridged=True))
        await cluster.until(lambda: entries_of(first) == entries_of(second) == entries_of(third) == {})
        for node in (first, second):
            space = node.world.names["blue"]
            assert not space.links["blue-aV0"].locked
            wanted = PortFilter(sources={"blue-aV0": own}, guarded={own: "blue-aV0"}, vxlan="vx0")
            assert space.port_filter == wanted.digest
        wanted = PortFilter(guarded={own: ""}, vxlan="vx0")
        assert third.world.names["blue"].port_filter == wanted.digest
        await first.spokes.detach("c1", "net1")
        await cluster.until(lambda: entries_of(third) == {own: StaticEntry("vx0", second.address)})
        await cluster.until(lambda: entries_of(second) == {own: StaticEntry("blue-aV0")})
        space = second.world.names["blue"]
        assert space.links["blue-aV0"].locked and not space.packet_filter
        assert space.port_filter == PortFilter(sources={"blue-aV0": own}).digest
        assert not third.world.names["blue"].port_filter

    play(story, LanCluster)

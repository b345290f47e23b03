"""Where a frame stops by the kernel of a node: agents built the LAN, and an operator damaged it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import NAMESPACES
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.trace.facts import Facts
from lanloom.features.lan.trace.hops import stopped_at, trace
from lanloom.features.lan.trace.reading import Asked, read_facts, with_kernel
from lanloom.refusals import Denied
from tests.fakes import FakeHost, FakeSwitch
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld
from tests.features.lan.agent.nodes import LanCluster, Node, macvtap, veth
from tests.features.lan.agent.test_uplink import PLACE, UPLINK, VLAN, trunk
from tests.harness.cluster import play

STATE = Path("/state")
ASKED = Asked(lan="blue", sender="blue-a", receiver="blue-b")


async def attached(cluster: LanCluster, *, mode: str = "veth", **spec: Any) -> tuple[Node, Node]:
    """Two nodes with a pod each, whose agents have ended: nothing heals. `spec` is what the LAN has besides."""
    await cluster.lan(**spec)
    nodes = await cluster.node("n1", 1), await cluster.node("n2", 2)
    attach = veth if mode == "veth" else macvtap
    for node, spoke in zip(nodes, ("blue-a", "blue-b"), strict=True):
        await cluster.until(lambda node=node: len(node.spokes.devices()) == 8)  # type: ignore[misc]
        await node.spokes.attach(attach(spoke, node.pod(spoke)))
    await cluster.until(lambda: all(len(node.world.names["blue"].flood) == 1 for node in nodes))

    async def reported() -> bool:
        return all([len(await cluster.entries(node.name)) == 1 for node in nodes])

    await cluster.until_later(reported)
    for node in nodes:
        await node.kill()
    return nodes


async def live(cluster: LanCluster, node: Node, asked: Asked = ASKED) -> Facts:
    """The facts with the kernel of a node."""
    facts = await read_facts(cluster.client, asked, now=cluster.now())
    return await with_kernel(facts, node.name, FakeLanKernel(node.world), node.fake.host.state, STATE)


def changed(world: LanWorld, name: str, **changes: object) -> None:
    """An operator changes a link of the LAN."""
    links = world.names["blue"].links
    links[name] = replace(links[name], **changes)


def interface_down(world: LanWorld) -> None:
    """An operator sets a pod's interface down."""
    (end,) = world.ends
    world.ends = [replace(end, link=replace(end.link, up=False))]


def lose_flood(world: LanWorld) -> None:
    """An operator deletes the forwarding entries."""
    world.names["blue"].flood.clear()


def lose_underlay(world: LanWorld) -> None:
    """The underlay link goes."""
    world.underlays.clear()


def readdress(world: LanWorld) -> None:
    """The underlay link gets another address."""
    world.underlays["u0"] = replace(world.underlays["u0"], addresses=("10.9.9.9",))


FAULTS: dict[str, tuple[Callable[[LanWorld], None], str, str]] = {
    "no namespace": (
        lambda world: world.delete_name("blue"),
        "bridge",
        "there is no network namespace blue",
    ),
    "no bridge": (lambda world: world.delete_link("blue", "br0"), "port", "not a port of the bridge br0"),
    "bridge down": (lambda world: changed(world, "br0", up=False), "bridge", "the bridge br0 is down"),
    "no port": (lambda world: world.delete_link("blue", "blue-aV0"), "interface", "is not in the pod"),
    "port down": (lambda world: changed(world, "blue-aV0", up=False), "port", "blue-aV0 is down"),
    "port alone": (lambda world: changed(world, "blue-aV0", master=0), "port", "not a port of the bridge"),
    "pod gone": (
        lambda world: world.delete_pod("/run/netns/blue-a"),
        "interface",
        "network namespace of the pod is gone",
    ),
    "interface down": (interface_down, "interface", "ip link set net1 up"),
    "no VXLAN": (lambda world: world.delete_link("blue", "vx0"), "vxlan", "there is no link vx0"),
    "VXLAN down": (lambda world: changed(world, "vx0", up=False), "vxlan", "vx0 is down"),
    "port changed": (
        lambda world: changed(world, "blue-aV0", drift=frozenset(["flood", "state"])),
        "port",
        "another program changed flood, state of blue-aV0",
    ),
    "bridge changed": (
        lambda world: changed(world, "br0", drift=frozenset(["vlan_filtering"])),
        "bridge",
        "another program changed vlan_filtering of br0",
    ),
    "VXLAN changed": (
        lambda world: changed(world, "vx0", drift=frozenset(["neigh_suppress"])),
        "vxlan",
        "another program changed neigh_suppress of vx0",
    ),
    "another VNI": (lambda world: changed(world, "vx0", vtep=None), "vxlan", "vx0 has another VNI"),
    "no receivers": (lose_flood, "vxlan", "no forwarding entry for many receivers to 10.0.0.2"),
    "no underlay": (lose_underlay, "underlay", "there is no link u0; add it"),
    "another address": (readdress, "vxlan", "underlay link or address than it should"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_damage(fault: tuple[Callable[[LanWorld], None], str, str]) -> None:
    """Damage of the sender's kernel is found at its hop, though its node reports that all is well."""
    damage, kind, words = fault

    async def story(cluster: LanCluster) -> None:
        here, _ = await attached(cluster)
        damage(here.world)
        facts = await live(cluster, here)
        assert stopped_at(trace(replace(facts, kernels={}))) is None
        hop = stopped_at(trace(facts))
        assert hop is not None
        assert (hop.node, hop.kind) == ("n1", kind)
        assert words in hop.reason

    play(story, LanCluster)


@pytest.mark.parametrize("mode", ["veth", "macvtap"])
def test_sound(mode: str) -> None:
    """On sound nodes every hop that a kernel shows is ok, with its MTU, on the sender's side and the receiver's."""

    async def story(cluster: LanCluster) -> None:
        for node in await attached(cluster, mode=mode):
            hops = trace(await live(cluster, node))
            assert stopped_at(hops) is None
            own = {hop.kind: hop for hop in hops if hop.node == node.name}
            assert {own[kind].state for kind in ("port", "bridge", "vxlan", "underlay")} == {"ok"}
            assert own["interface"].state == ("ok" if mode == "veth" else "unknown")
            assert "MTU 1450" in own["port"].reason and "MTU 1450" in own["interface"].reason
            assert "MTU 1500" in own["underlay"].reason

    play(story, LanCluster)


def test_small_interface() -> None:
    """An interface that its pod made smaller stops large packets, and only those."""

    async def story(cluster: LanCluster) -> None:
        here, _ = await attached(cluster)
        (end,) = here.world.ends
        here.world.ends = [replace(end, link=replace(end.link, mtu=1300))]
        facts = await live(cluster, here)
        hop = stopped_at(trace(replace(facts, size=1400)))
        assert hop is not None and hop.kind == "interface" and "net1 has MTU 1300" in hop.reason
        assert stopped_at(trace(facts)) is None

    play(story, LanCluster)


def test_small_receiver() -> None:
    """An interface that its pod made smaller does not take large packets either."""

    async def story(cluster: LanCluster) -> None:
        _, there = await attached(cluster)
        (end,) = there.world.ends
        there.world.ends = [replace(end, link=replace(end.link, mtu=1300))]
        hop = stopped_at(trace(replace(await live(cluster, there), size=1400)))
        assert hop is not None
        assert (hop.node, hop.kind) == ("n2", "interface")

    play(story, LanCluster)


def test_nothing_changes() -> None:
    """A trace writes nothing to the kernel and holds no namespace afterwards."""

    async def story(cluster: LanCluster) -> None:
        here, _ = await attached(cluster)
        writes = here.world.writes
        kernel = FakeLanKernel(here.world)
        facts = await read_facts(cluster.client, ASKED, now=cluster.now())
        await with_kernel(facts, "n1", kernel, here.fake.host.state, STATE)
        assert here.world.writes == writes
        assert kernel.held == {}

    play(story, LanCluster)


def test_another_node() -> None:
    """A node that the frame does not pass is refused, with those that it passes."""

    async def story(cluster: LanCluster) -> None:
        here, _ = await attached(cluster)
        facts = await read_facts(cluster.client, ASKED, now=cluster.now())
        with pytest.raises(Denied, match='--node is "n3", but the frame passes n1, n2'):
            await with_kernel(facts, "n3", FakeLanKernel(here.world), here.fake.host.state, STATE)

    play(story, LanCluster)


def test_without_its_record() -> None:
    """What should be there is in the agent's record: a directory without it is refused, and nothing said to be ok."""

    async def story(cluster: LanCluster) -> None:
        here, _ = await attached(cluster)
        changed(here.world, "vx0", up=False)
        empty = FakeHost("n9", switch=FakeSwitch(), now=cluster.now).host.state
        facts = await read_facts(cluster.client, ASKED, now=cluster.now())
        with pytest.raises(Denied, match=r"no record of LAN default/blue in /state, .* is --state right"):
            await with_kernel(facts, "n1", FakeLanKernel(here.world), empty, STATE)
        apart = replace(facts, reports={"n2": facts.reports["n2"]})
        with pytest.raises(Denied, match=r"n1 reports that it does not carry the LAN.*leave out --live"):
            await with_kernel(apart, "n1", FakeLanKernel(here.world), empty, STATE)
        hop = stopped_at(trace(await live(cluster, here)))
        assert hop is not None and "vx0 is down" in hop.reason

    play(story, LanCluster)


def test_names() -> None:
    """Ends that are no spoke and no pod are refused, with the spokes that there are."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        for asked, words in (
            (replace(ASKED, lan="green"), 'there is no LAN "green"; there are default/blue'),
            (
                replace(ASKED, sender="web"),
                "--from: there is no Pod default/web, and LAN default/blue has no",
            ),
            (replace(ASKED, receiver="x/web"), "--to: there is no Pod x/web"),
        ):
            with pytest.raises(Denied, match=words):
                await read_facts(cluster.client, asked, now=cluster.now())

    play(story, LanCluster)


@pytest.mark.parametrize("mode", ["veth", "macvtap"])
def test_port_security_by_the_kernel(mode: str) -> None:
    """A secured port stops frames of an interface that has another address now, and all without its entry."""

    async def story(cluster: LanCluster) -> None:
        near, _ = await attached(cluster, mode=mode, portSecurity=True)
        assert stopped_at(trace(await live(cluster, near))) is None
        (end,) = near.world.ends
        near.world.ends = [replace(end, link=replace(end.link, mac="02:00:00:00:00:99"))]
        found = stopped_at(trace(await live(cluster, near)))
        assert found is not None and found.kind == "port" and "from 02:00:00:00:00:99" in found.reason
        near.world.names["blue"].static_entries.clear()
        found = stopped_at(trace(await live(cluster, near)))
        assert found is not None and "has no forwarding entry for" in found.reason

    play(story, LanCluster)


def test_uplink_link_with_a_vlan() -> None:
    """The port that joins the LAN to its VLAN is read from the kernel, and each fault of it is reported."""

    async def story(cluster: LanCluster) -> None:
        await cluster.keep(NAMESPACES, {"metadata": {"name": BRIDGES_NAMESPACE}})
        await cluster.lan(uplink=UPLINK)
        node = await cluster.node("n1", 1)
        trunk(node, VLAN)
        await cluster.until(lambda: len(node.spokes.devices()) == 8)
        await node.spokes.attach(veth("blue-a", node.pod("p")))

        async def joined() -> bool:
            return [entry.uplink for entry in await cluster.entries("n1")] == [True]

        await cluster.until_later(joined)
        asked = Asked(lan="blue", sender="blue-a", receiver="uplink")
        hops = trace(await live(cluster, node, asked))
        assert [hop.state for hop in hops if hop.name == "hostB0"] == ["ok"] and stopped_at(hops) is None
        far = next(end for end in node.world.ends if end.place == PLACE)
        for fault, words in (
            (replace(far, link=replace(far.link, up=False)), "the port at cluster-1-br is down"),
            (replace(far, place=""), "the port is not in the bridge cluster-1-br"),
        ):
            node.world.ends = [fault if end.place == far.place else end for end in node.world.ends]
            hop = stopped_at(trace(await live(cluster, node, asked)))
            assert hop is not None and (hop.kind, hop.name) == ("port", "hostB0") and words in hop.reason
            node.world.ends = [far if end is fault else end for end in node.world.ends]
        await node.kill()
        hop = stopped_at(trace(await live(cluster, node, asked)))
        assert hop is not None and "no port joins the LAN to cluster-1-br" in hop.reason

    play(story, LanCluster)

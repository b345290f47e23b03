"""Places at LANs for ports that another feature brings: kept while these are under way, healed once they are there."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lanloom.features.lan.rules.observed import PodLink
from lanloom.node.errors import LinkError
from lanloom.node.links import KernelLink
from lanloom.runtime.ports import LanPlace, PodNic
from tests.fakes.lanworld import FarEnd
from tests.features.lan.agent.nodes import LanCluster, Node, macvtap, veth
from tests.harness.cluster import play

MAC = "02:00:00:00:00:07"


def nic(node: Node, name: str = "vm") -> PodNic:
    """A NIC of a machine whose launcher pod is on the node."""
    return PodNic(f"default/{name}", f"uid-{name}", node.pod(name), "pod1", MAC)


def bring(node: Node) -> Callable[[LanPlace | None], Awaitable[str]]:
    """Bring a port, whose other end is in the machine's pod, to a place."""

    async def move(place: LanPlace | None) -> str:
        assert place is not None
        space = node.world.names["blue"]
        far, near = node.world.index(), node.world.index()
        space.links[place.link] = KernelLink(
            name=place.link,
            index=near,
            kind="veth",
            mac="0e:00:00:00:00:01",
            mtu=1450,
            up=True,
            master=space.links["br0"].index,
            lower=far,
            nsid=0,
            group_forwarding=0xFFFD,
        )
        end = PodLink(name="1-nic", index=far, kind="veth", mac=MAC, mtu=1450, up=True, lower=near)
        node.world.ends.append(FarEnd(space=id(space), lower=near, place="/run/netns/vm", link=end))
        return place.link

    return move


def take(node: Node, port: str) -> Callable[[LanPlace | None], Awaitable[str]]:
    """Take a port away from its LAN."""

    async def move(place: LanPlace | None) -> str:
        link = node.world.names["blue"].links.pop(port)
        node.world.ends = [end for end in node.world.ends if end.link.index != link.lower]
        return "taken"

    return move


async def fails(place: LanPlace | None) -> str:
    """A move that the kernel refuses."""
    raise LinkError("busy")


def story(test: Callable[[LanCluster, Node], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets a node and the LAN blue."""

    async def told(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await cluster.until(lambda: len(node.spokes.devices()) == 8)
        await test(cluster, node)

    def run() -> None:
        play(told, LanCluster)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def places(node: Node) -> dict[str, bool]:
    """The spokes that are attached on the node, and whether their ports are under way."""
    assert node.plane is not None
    records = node.plane.places._records.by_uid.values()
    return {place.spoke: place.in_transit for record in records for place in record.places if place.attached}


@story
async def test_a_port_comes(cluster: LanCluster, node: Node) -> None:
    """A LAN is built for a port that comes, reports its machine, and leaves the port as it is."""
    assert node.plane is not None
    assert await node.plane.places.relocate(nic(node), "", "blue-a", bring(node)) == "blue-aV0"
    before = node.world.names["blue"].links["blue-aV0"]
    await asyncio.sleep(60)
    assert node.world.names["blue"].links["blue-aV0"] == before
    assert places(node) == {"blue-a": False}
    [entry] = node.report()
    assert [(spoke.name, spoke.pod) for spoke in entry.spokes] == [("blue-a", "default/vm")]
    at = node.plane.places.pod_at
    assert (at("blue-a", "veth"), at("blue-a", "macvtap"), at("blue-b", "veth")) == ("default/vm", "", "")


@story
async def test_a_port_that_is_under_way_is_not_made(cluster: LanCluster, node: Node) -> None:
    """While a port is under way the LAN makes no other in its place, and who dies in between goes on."""
    assert node.plane is not None
    with pytest.raises(LinkError, match="busy"):
        await node.plane.places.relocate(nic(node), "", "blue-a", fails)
    assert places(node) == {"blue-a": True}
    await node.kill()
    node.start()
    await cluster.until(lambda: not node.spokes.unready())
    await asyncio.sleep(60)
    assert set(node.world.names["blue"].links) == {"br0", "vx0"}
    assert node.plane is not None
    await node.plane.places.relocate(nic(node), "", "blue-a", bring(node))
    assert places(node) == {"blue-a": False}


@story
async def test_a_port_that_came_is_healed(cluster: LanCluster, node: Node) -> None:
    """A port that an operator deletes is made again, as any other of the LAN."""
    assert node.plane is not None
    await node.plane.places.relocate(nic(node), "", "blue-a", bring(node))
    await take(node, "blue-aV0")(None)
    await cluster.until(lambda: "blue-aV0" in node.world.names["blue"].links)


@story
async def test_a_port_leaves(cluster: LanCluster, node: Node) -> None:
    """A LAN forgets a port that leaves, and goes from the node with its last one."""
    assert node.plane is not None
    await node.plane.places.relocate(nic(node), "", "blue-a", bring(node))
    assert await node.plane.places.relocate(nic(node), "blue-a", "", take(node, "blue-aV0")) == "taken"
    await cluster.until(lambda: node.world.names == {})
    assert places(node) == {}


@story
async def test_between_spokes_of_one_lan(cluster: LanCluster, node: Node) -> None:
    """A port can go from one spoke of a LAN to another."""
    assert node.plane is not None
    await node.plane.places.relocate(nic(node), "", "blue-a", bring(node))

    async def move(place: LanPlace | None) -> str:
        await take(node, "blue-aV0")(None)
        return await bring(node)(place)

    await node.plane.places.relocate(nic(node), "blue-a", "blue-b", move)
    await asyncio.sleep(60)
    assert places(node) == {"blue-b": False}
    assert set(node.world.names["blue"].links) == {"br0", "vx0", "blue-bV0"}


@story
async def test_a_spoke_that_is_taken(cluster: LanCluster, node: Node) -> None:
    """A spoke of another pod or machine, and one that no LAN has, are refused before anything is moved."""
    assert node.plane is not None
    await node.spokes.attach(veth("blue-a", node.pod("p1")))
    await node.spokes.attach(macvtap("blue-b", node.pod("p2"), container="c2"))
    for spoke in ("blue-a", "blue-b"):
        with pytest.raises(LinkError, match=f"the spoke {spoke} is used by"):
            await node.plane.places.relocate(nic(node), "", spoke, bring(node))
    with pytest.raises(LinkError, match="no LAN has the spoke red-a"):
        await node.plane.places.relocate(nic(node), "", "red-a", bring(node))
    assert places(node) == {"blue-a": False, "blue-b": False}


@story
async def test_a_pod_that_ends_under_way(cluster: LanCluster, node: Node) -> None:
    """A place goes with the pod whose port was to come."""
    assert node.plane is not None
    with pytest.raises(LinkError):
        await node.plane.places.relocate(nic(node), "", "blue-a", fails)
    node.world.pods.clear()
    await cluster.until(lambda: places(node) == {} and node.world.names == {})

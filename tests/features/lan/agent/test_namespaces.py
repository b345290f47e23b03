"""A LAN belongs to its namespace: which pods a node attaches, by each way, and what becomes of those that are there."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lanloom.api.core import PODS
from lanloom.api.lan import LANS
from lanloom.features.lan.agent.ports import Attachment, SpokeError
from lanloom.node.errors import LinkError
from lanloom.runtime.ports import LanPlace, PodNic
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, advertised, macvtap, veth
from tests.harness.cluster import play

WAYS: dict[str, Callable[..., Attachment]] = {
    "veth": veth,
    "macvtap": macvtap,
    "bridged": lambda spoke, netns, **more: veth(spoke, netns, bridged=True, **more),
}
REFUSED = "the spoke blue-a is of a LAN of another namespace, which does not admit namespace thieves"


async def node_of(cluster: LanCluster) -> Node:
    """A node that offers the spokes of the LAN blue."""
    node = await cluster.node("n1", 1)
    await advertised(cluster, node)
    return node


async def open_to(cluster: LanCluster, *namespaces: str) -> None:
    """Change who may use the LAN blue."""
    await cluster.client.patch(LANS, "blue", {"spec": {"namespaces": list(namespaces)}}, NAMESPACE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("namespaces", "pod", "admitted"),
    [
        ([], "default/web", True),
        ([], "", True),
        ([], "thieves/web", False),
        (["others"], "thieves/web", False),
        (["others"], "default/web", True),
        (["others", "thieves"], "thieves/web", True),
        (["*"], "thieves/web", True),
    ],
)
def test_who_is_attached(way: str, namespaces: list[str], pod: str, admitted: bool) -> None:
    """A pod is attached if it is of the LAN's namespace, or of one that `spec.namespaces` admits, by whichever NAD."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(namespaces=namespaces)
        node = await node_of(cluster)
        attachment = WAYS[way]("blue-a", node.pod("p1"), pod=pod)
        await node.spokes.allocate(attachment.device)
        if admitted:
            await node.spokes.attach(attachment)
            return
        with pytest.raises(SpokeError, match=REFUSED) as error:
            await node.spokes.attach(attachment)
        assert not error.value.again and NAMESPACE not in str(error.value)
        assert node.world.ends == []
        await node.spokes.attach(WAYS[way]("blue-a", node.pod("p2"), container="c2", pod="default/web"))

    play(story, LanCluster)


def test_who_is_there_stays() -> None:
    """A pod that is attached stays so, and is healed, when its namespace is not admitted any more; no other comes."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(namespaces=["thieves"])
        node = await node_of(cluster)
        first = veth("blue-a", node.pod("p1"), pod="thieves/web")
        attached = await node.spokes.attach(first)
        await open_to(cluster)
        await asyncio.sleep(10)
        assert await node.spokes.attach(first) == attached
        node.world.delete_link("blue", "blue-aV0")
        await node.kill()
        node.start()
        await cluster.until(lambda: not node.spokes.unready())
        await asyncio.sleep(60)
        await node.spokes.check(first)
        with pytest.raises(SpokeError, match="does not admit namespace thieves"):
            await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2", pod="thieves/db"))
        await node.spokes.detach("c1", "net1")
        with pytest.raises(SpokeError, match=REFUSED):
            await node.spokes.attach(replace(first, container="c3", netns=node.pod("p3")))

    play(story, LanCluster)


@pytest.mark.parametrize("before", [(), ("thieves",)])
def test_a_watch_that_is_late(before: tuple[str, ...]) -> None:
    """The LAN as the API server has it decides, not as the watch last brought it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(namespaces=list(before))
        node = await node_of(cluster)
        node.deafen(of=LANS)
        await open_to(cluster, *({"thieves"} - set(before)))
        pod = veth("blue-a", node.pod("p1"), pod="thieves/web")
        if before:
            with pytest.raises(SpokeError, match=REFUSED):
                await node.spokes.attach(pod)
        else:
            await node.spokes.attach(pod)

    play(story, LanCluster)


def test_the_api_server_is_away() -> None:
    """Without the API server, an agent that starts again admits what its record does."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(namespaces=["friends"])
        node = await node_of(cluster)
        await node.spokes.attach(veth("blue-b", node.pod("p0"), container="c0", pod="default/web"))
        await asyncio.sleep(5)
        await node.kill()
        node.cut_off()
        node.start(away=True)
        await cluster.until(lambda: not node.spokes.unready())
        for spoke, pod in (("blue-b", "thieves/web"), ("blue-b", "friends/web")):
            with pytest.raises(SpokeError) as error:
                await node.spokes.attach(veth(spoke, node.pod("p1"), pod=pod))
            assert ("does not admit namespace" in str(error.value)) is pod.startswith("thieves")

    play(story, LanCluster)


def test_made_anew_in_another_namespace() -> None:
    """A spoke that a LAN of another namespace has by now is refused to pods of the old one."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await node_of(cluster)
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        spec = {"ns": "new", "bridge": "br0", "vxlan": "vx0", "vni": 9, "defaultVxlanDev": "u0"}
        body = {"metadata": {"name": "blue"}, "spec": {**spec, "vxlanGrp": "ff15::9", "spokes": ["blue-a"]}}
        await cluster.client.create(LANS, body, "kube-system")
        await advertised(cluster, node, 2)
        with pytest.raises(SpokeError, match="does not admit namespace default"):
            await node.spokes.attach(veth("blue-a", node.pod("p1"), pod="default/web"))
        await node.spokes.attach(veth("blue-a", node.pod("p2"), container="c2", pod="kube-system/dns"))

    play(story, LanCluster)


@pytest.mark.parametrize("pod", ["thieves/vm", "friends/vm", "default/vm"])
def test_a_port_that_moves(pod: str) -> None:
    """A NIC moves in place to a LAN that admits its machine's namespace only; back to where it was it may always."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(namespaces=["friends"])
        node = await node_of(cluster)
        assert node.plane is not None
        nic = PodNic(pod, "uid-vm", node.pod("vm"), "pod1", "02:00:00:00:00:07")

        async def moved(place: LanPlace | None) -> bool:
            return place is not None

        if pod.startswith("thieves"):
            with pytest.raises(LinkError, match=REFUSED):
                await node.plane.places.relocate(nic, "", "blue-a", moved)
            return
        assert await node.plane.places.relocate(nic, "", "blue-a", moved)
        await open_to(cluster)
        await asyncio.sleep(5)
        assert await node.plane.places.relocate(nic, "", "blue-a", moved)

    play(story, LanCluster)


def test_users_of_other_namespaces() -> None:
    """A pod whose spoke another namespace's pod has is refused, without its name, on this node and on others."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan(namespaces=["friends"])
        node, second = await node_of(cluster), await cluster.node("n2", 2)
        body = {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": {"containers": [{"name": "m"}]}}
        await cluster.keep(PODS, {**body, "spec": {"containers": [{"name": "main", "image": "any"}]}})
        await node.spokes.attach(veth("blue-a", node.pod("p1"), pod="default/web"))

        async def known() -> bool:
            return any(entry.spokes for entry in await cluster.entries("n1"))

        await cluster.until_later(known)
        await asyncio.sleep(5)
        for where in (node, second):
            with pytest.raises(SpokeError, match="is used by a Pod of another namespace"):
                await where.spokes.attach(veth("blue-a", where.pod("p2"), container="c2", pod="friends/a"))
            with pytest.raises(SpokeError, match="is used by default/web"):
                await where.spokes.attach(veth("blue-a", where.pod("p2"), container="c2", pod="default/a"))

    play(story, LanCluster)

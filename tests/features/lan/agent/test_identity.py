"""Agents keep what identifies a LAN that they have built, whatever is written while no webhook answers."""

from typing import Any

import pytest

from lanloom.api.lan import LANS
from lanloom.features.lan.agent.ports import SpokeError
from lanloom.features.lan.rules.claims import age_of
from lanloom.features.lan.rules.hostbridge import far_name
from lanloom.features.lan.rules.spec import default_group
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, advertised, veth
from tests.harness.cluster import play

ALIAS = "lanloom-dummy 5e1f4a0c-0000-4000-8000-0000000000aa"
EDITS: dict[str, dict[str, Any]] = {
    "ns": {"ns": "red"},
    "bridge": {"bridge": "br9"},
    "vxlan": {"vxlan": "vx9"},
    "vni": {"vni": 777},
    "vxlanPort": {"vxlanPort": 4790},
    "vxlanGrp": {"vxlanGrp": default_group(777)},
    "hostBridge.name": {"hostBridge": {"name": "iso-br", "alias": ALIAS}},
    "all of it": {"ns": "red", "bridge": "br9", "vxlan": "vx9", "vni": 777, "vxlanPort": 4790},
}
"""By a field that the node's report must name."""


async def write(cluster: LanCluster, **spec: Any) -> None:
    """Writes a LAN as an operator can while no webhook answers."""
    await cluster.client.patch(LANS, "blue", {"spec": spec}, NAMESPACE)


async def carrying(cluster: LanCluster, name: str = "n1", number: int = 1) -> Node:
    """A node with a pod on the LAN."""
    node = await cluster.node(name, number)
    node.world.bridges["iso-br"] = (40, ALIAS)
    await advertised(cluster, node, 8)
    await node.spokes.attach(veth(f"blue-{'abcd'[number - 1]}", node.pod("p1")))
    return node


def kernel(node: Node) -> object:
    """What a node's kernel has."""
    return {name: dict(space.links) for name, space in node.world.names.items()}, list(node.world.ends)


def message(node: Node) -> str:
    """What a node reports of the LAN; empty while it is ready."""
    return next((entry.message for entry in node.report() if not entry.ready), "")


@pytest.mark.parametrize("deleting", [False, True], ids=["living", "in deletion"])
@pytest.mark.parametrize(("field", "edit"), EDITS.items(), ids=EDITS)
def test_what_identifies_a_lan_stays(field: str, edit: dict[str, Any], deleting: bool) -> None:
    """The kernel has what it had, under an agent that starts again, too; the node says what differs, and what to do."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await carrying(cluster)
        before = kernel(node)
        if deleting:
            await cluster.client.patch(
                LANS, "blue", {"metadata": {"finalizers": ["example.com/x"]}}, NAMESPACE
            )
            await cluster.client.delete(LANS, "blue", NAMESPACE)
        await write(cluster, **edit)
        if field == "hostBridge.name" and deleting:
            looks = node.work["reconciles"]
            await cluster.until(lambda: node.work["reconciles"] > looks, 900)
            assert (
                kernel(node) == before and message(node) == ""
            )  # a LAN in deletion is joined to no bridge at all
            return
        named = f"spec.{field} is" if field != "all of it" else "spec.vxlanPort is"
        for _ in range(2):
            await cluster.until(lambda: named in message(node))
            assert "set it back" in message(node)
            assert kernel(node) == before
            await node.kill()
            node.start()
            await cluster.until(lambda: not node.spokes.unready())
        await cluster.until(lambda: named in message(node))
        assert kernel(node) == before

    play(story, LanCluster)


def test_the_next_pods_come_to_what_was_built() -> None:
    """A node goes on attaching pods to the LAN that it has; another one does not build what the spec says now."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await carrying(cluster)
        other = await cluster.node("n2", 2)
        await advertised(cluster, other)
        await write(cluster, vni=777)
        await cluster.until(lambda: "spec.vni is 777" in message(node))
        await node.spokes.attach(veth("blue-b", node.pod("p2"), container="c2"))
        (space,) = node.world.names.values()
        vtep = space.links["vx0"].vtep
        assert vtep is not None and vtep.vni == 7
        with pytest.raises(
            SpokeError, match=r"spec\.vni is 777 .* built otherwise on n1 \(VNI 7, port 4789\)"
        ):
            await other.spokes.attach(veth("blue-c", other.pod("p3"), container="c3"))
        assert not other.world.names
        await write(cluster, vni=7)
        await cluster.until(lambda: node.report()[0].ready)
        await other.spokes.attach(veth("blue-c", other.pod("p3"), container="c3"))
        await cluster.until(lambda: node.world.names["blue"].flood == {"10.0.0.2"})

    play(story, LanCluster)


def test_what_nobody_uses_is_built_as_it_says() -> None:
    """Once nothing on the node uses the LAN, the next pod gets it as its spec says."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await carrying(cluster)
        await write(cluster, vni=777, ns="red", bridge="br9")
        await cluster.until(lambda: "spec.vni is 777" in message(node))
        await node.spokes.detach("c1", "net1")
        await cluster.until(lambda: not node.world.names)
        await node.spokes.attach(veth("blue-a", node.pod("p2"), container="c2"))
        assert set(node.world.names) == {"red"} and "br9" in node.world.names["red"].links
        assert message(node) == ""

    play(story, LanCluster)


def test_what_may_change_changes() -> None:
    """Options, spokes and the underlay of a node follow the LAN as before, and no difference is reported."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await carrying(cluster)
        await write(cluster, mtu=1300, spokes=["blue-a", "blue-x"], maxLearnedMacs=9)
        links = node.world.names["blue"].links
        await cluster.until(lambda: links["br0"].learned_limit == 9 and links["vx0"].mtu == 1300)
        await write(cluster, vxlanDevMap={"n1": "u9"})
        await cluster.until(lambda: "the underlay link u9 is not there" in message(node))
        assert "built here" not in message(node)
        await write(cluster, vxlanDevMap=None, replication="multicast")
        await cluster.until(lambda: "has no IPv6 address" in message(node))
        assert "built here" not in message(node)
        await write(cluster, replication="head-end")
        await cluster.until(lambda: message(node) == "")

    play(story, LanCluster)


def test_a_bridge_of_the_host_stays() -> None:
    """A LAN of an isolated network stays at the bridge that it was joined to until it is deleted."""

    async def story(cluster: LanCluster) -> None:
        uid = await cluster.lan(spokes=[], hostBridge={"name": "iso-br", "alias": ALIAS})
        node = await cluster.node("n1", 1)
        node.world.bridges["iso-br"] = (40, ALIAS)
        other = ALIAS.replace("aa", "bb")
        node.world.bridges["other-br"] = (41, other)
        node.world.changed("")

        def places() -> list[tuple[str, str]]:
            return [(end.place, end.link.name) for end in node.world.ends]

        mine = [("bridge:iso-br", far_name(uid))]
        await cluster.until(lambda: places() == mine)
        for bridge in ({"name": "other-br", "alias": other}, None):
            await write(cluster, hostBridge=bridge, spokes=["blue-a"])
            await cluster.until(lambda: "spec.hostBridge.name is" in message(node))
            assert places() == mine
            await write(cluster, hostBridge={"name": "iso-br", "alias": ALIAS})
            await cluster.until(lambda: message(node) == "")
        await cluster.client.patch(LANS, "blue", {"metadata": {"finalizers": ["example.com/x"]}}, NAMESPACE)
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await cluster.until(lambda: not places() and not node.world.names)

    play(story, LanCluster)


@pytest.mark.parametrize("same", [{"vni": 7}, {"ns": "blue", "vni": 8}], ids=["VNI", "ns"])
def test_two_lans_that_would_be_one_network(same: dict[str, Any]) -> None:
    """Of two LANs that were let in at once, nodes carry the older one alone, and the younger when that is gone."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        await cluster.lan("red", **{"ns": "red", **same})
        listing = await cluster.client.list(LANS)
        older, younger = (lan.metadata.name for lan in sorted(listing.items, key=age_of))
        first, second = await cluster.node("n1", 1), await cluster.node("n2", 2)
        for node in (first, second):
            await advertised(cluster, node, 16)
        await first.spokes.attach(veth(f"{older}-a", first.pod("p1")))
        refused = rf"can't build LAN default/{younger}: spec\..* of LAN default/{older} already"
        with pytest.raises(SpokeError, match=refused):
            await second.spokes.attach(veth(f"{younger}-a", second.pod("p2")))
        assert f"of LAN default/{older} already" in message(second) and not second.world.names
        assert message(first) == ""
        await first.spokes.detach("c1", "net1")
        await cluster.client.delete(LANS, older, NAMESPACE)
        await cluster.until(lambda: message(second) == "" and bool(second.world.names))

    play(story, LanCluster)

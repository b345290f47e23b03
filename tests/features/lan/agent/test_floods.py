"""Limits of what nodes learn of a LAN: what each change of the LAN does to them, and reports of full tables."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.lan import LANS, NodeResult
from lanloom.features.lan.agent.metrics import LanAgentMetrics
from lanloom.features.lan.rules.options import StormFilter
from lanloom.features.lan.rules.record import LanRecord
from lanloom.features.lan.rules.storms import Table, full
from lanloom.features.lan.views import NODE_FIELDS
from lanloom.runtime.exposition import CollectorRegistry
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, veth
from tests.harness.cluster import play

DEFAULT = 65_535
SPOKES = ["blue-a", "blue-b", "blue-c", "blue-d"]


def limits(node: Node) -> tuple[int | None, int]:
    """Those of a node's bridge and VXLAN link."""
    links = node.world.names["blue"].links
    return links["br0"].learned_limit, links["vx0"].entry_limit


async def attached(cluster: LanCluster, **spec: Any) -> Node:
    """A node with a pod on the LAN."""
    await cluster.lan(**spec)
    node = await cluster.node("n1", 1)
    await cluster.until(lambda: len(node.spokes.devices()) == 2 * len(SPOKES))
    await node.spokes.attach(veth("blue-a", node.pod("p")))
    return node


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"maxLearnedMacs": 7}, (7, 12)),
        ({"maxLearnedMacs": 7}, {"maxLearnedMacs": None}, (DEFAULT, DEFAULT + 5)),
        ({"maxLearnedMacs": 7}, {"maxLearnedMacs": 9}, (9, 14)),
        ({"maxLearnedMacs": 7}, {"portSecurity": True}, (7, 12)),
        ({"maxLearnedMacs": 7}, {"spokes": [*SPOKES, "blue-e"]}, (7, 12)),
        ({"maxLearnedMacs": 1}, {"spokes": [*SPOKES, *(f"more-{n}" for n in range(9))]}, (1, 15)),
        ({"maxLearnedMacs": 7}, {"spokeOptions": {"blue-a": {"isolated": True}}}, (7, 12)),
    ],
)
def test_limits_follow(before: dict[str, Any], after: dict[str, Any], expected: tuple[int, int]) -> None:
    """Limits follow the LAN; the VXLAN link is made again only where its limit won't do any more."""

    async def story(cluster: LanCluster) -> None:
        node = await attached(cluster, **before)
        was = node.world.names["blue"].links["vx0"]
        await cluster.client.patch(LANS, "blue", {"spec": after}, NAMESPACE)
        await cluster.until(lambda: limits(node) == expected)
        await asyncio.sleep(60)
        assert limits(node) == expected
        same = was.entry_limit == expected[1]
        assert (node.world.names["blue"].links["vx0"].index == was.index) is same

    play(story, LanCluster)


@pytest.mark.parametrize("spec", [{}, {"maxLearnedMacs": 7}])
def test_adopted_from_an_earlier_version(spec: dict[str, Any]) -> None:
    """A VXLAN link that an earlier version made without a limit stays, until the limit is changed or it is gone."""

    async def story(cluster: LanCluster) -> None:
        node = await attached(cluster, **spec)
        await node.kill()
        for name, content in node.fake.state.contents.items():
            record = msgspec.json.decode(content, type=LanRecord)
            node.fake.state.contents[name] = msgspec.json.encode(replace(record, entry_limit=0))
        links = node.world.names["blue"].links
        links["br0"] = replace(links["br0"], learned_limit=spec.get("maxLearnedMacs", 0))
        links["vx0"] = was = replace(links["vx0"], entry_limit=0)
        node.start()
        await cluster.until(lambda: limits(node)[0] == spec.get("maxLearnedMacs", DEFAULT))
        await asyncio.sleep(60)
        assert node.world.names["blue"].links["vx0"] == was
        await cluster.client.patch(LANS, "blue", {"spec": {"maxLearnedMacs": 8}}, NAMESPACE)
        await cluster.until(lambda: limits(node) == (8, 13))
        await node.reboot()
        node.world.pods.add("/run/netns/p")
        node.start()
        await cluster.until(lambda: "blue" in node.world.names and "vx0" in node.world.names["blue"].links)
        assert limits(node) == (8, 13)

    play(story, LanCluster)


def test_an_old_kernel_with_the_default() -> None:
    """A LAN that asks for no limit is ready on a kernel whose bridges have none."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        node.world.limits_learned = False
        await cluster.until(lambda: len(node.spokes.devices()) == 2 * len(SPOKES))
        await node.spokes.attach(veth("blue-a", node.pod("p")))
        assert node.report()[0].ready and limits(node) == (None, DEFAULT + 5)

    play(story, LanCluster)


def test_full_tables_are_told() -> None:
    """A node whose table is full says so with the remedy, stays ready, and shows how many addresses it knows."""

    async def story(cluster: LanCluster) -> None:
        node = await attached(cluster, maxLearnedMacs=7)
        links = node.world.names["blue"].links
        links["br0"] = replace(links["br0"], learned=7)
        await cluster.until(lambda: bool(node.report()[0].warning))
        assert node.report()[0].ready and not node.report()[0].message
        registry = CollectorRegistry()
        assert node.plane is not None
        LanAgentMetrics(registry).follow(tuple, node.plane.learned)
        labels = {"namespace": "default", "lan": "blue", "table": "bridge"}
        for name in ("lanloom_agent_lan_learned_macs", "lanloom_agent_lan_learned_macs_limit"):
            assert registry.get_sample_value(name, labels) == 7
        links["br0"] = replace(links["br0"], learned=6)
        await cluster.until(lambda: not node.report()[0].warning)

    play(story, LanCluster)


def test_storms_are_told() -> None:
    """A node tells of spokes whose frames storm control drops, and stays ready; the LAN's rate is what it controls."""

    async def story(cluster: LanCluster) -> None:
        node = await attached(cluster, stormControl={"packetsPerSecond": 7})
        space = node.world.names["blue"]
        assert space.storm_filter == StormFilter(rate=7, vxlan="vx0").digest
        space.stormed["blue-aV0"] = 5
        await cluster.until(lambda: bool(node.report()[0].warning))
        (entry,) = node.report()
        assert entry.ready and entry.spokes[0].storming and "sends more than 7 in a second" in entry.warning
        await cluster.until(lambda: not node.report()[0].warning)
        assert not node.report()[0].spokes[0].storming
        await cluster.client.patch(
            LANS, "blue", {"spec": {"stormControl": {"packetsPerSecond": 0}}}, NAMESPACE
        )
        await cluster.until(lambda: not space.storm_filter)

    play(story, LanCluster)


def test_a_kernel_that_limits_no_frames() -> None:
    """A node whose kernel can't control storms attaches pods, is ready, and says what to load; it asks once."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        node.world.filters = False
        await cluster.until(lambda: len(node.spokes.devices()) == 2 * len(SPOKES))
        await node.spokes.attach(veth("blue-a", node.pod("p")))
        assert node.report()[0].ready and "there is no storm control" in node.report()[0].warning
        writes = node.world.writes
        await asyncio.sleep(100)
        assert node.world.writes == writes

    play(story, LanCluster)


def test_words_of_full_tables() -> None:
    """The words name the tables that are full, and what to do; `lan show` has them next to what is missing."""
    assert full((Table("bridge", 6, 7), Table("vxlan", 9, 0))) == ""
    words = full((Table("bridge", 7, 7), Table("vxlan", 7, 7)))
    assert words == (
        "the bridge and the VXLAN link learned as many MAC addresses as spec.maxLearnedMacs allows, and frames to "
        "others go to all; raise it, or set maxLearnedMacs of the spoke that sends from so many"
    )
    shown = NODE_FIELDS.named(["message"])[0].value(
        NodeResult(name="n1", message="eth0 is down", warning=words)
    )
    assert shown == f"eth0 is down; {words}"

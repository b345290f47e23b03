"""The report of a node: what the other nodes do because of it, and what becomes of it when others write it."""

import asyncio

from msgspec.structs import replace

from lanloom.api.lan import LAN_NODES, LANS, MultusReport, UnderlayLink
from lanloom.features.lan.rules.observed import Underlay
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, veth
from tests.harness.cluster import play

SETTLED = 10.0
"""Seconds after which all has come to rest, and before the next look that nothing causes."""


async def _carries(cluster: LanCluster, number: int) -> Node:
    node = await cluster.node(f"n{number}", number)
    spoke = f"blue-{'abcd'[number]}"
    await cluster.until(lambda: len(node.spokes.devices()) == 8)
    await node.spokes.attach(veth(spoke, node.pod(spoke), container=spoke))
    return node


def test_join_is_one_look_elsewhere() -> None:
    """A node that joins a LAN has each peer reconcile once, and write nothing."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        peers = [await _carries(cluster, number) for number in (1, 2)]
        await asyncio.sleep(SETTLED)
        before = [dict(peer.work) for peer in peers]
        joined = await _carries(cluster, 3)
        await asyncio.sleep(SETTLED)
        for peer, work in zip(peers, before, strict=True):
            assert joined.address in peer.world.names["blue"].flood
            assert peer.work["reconciles"] - work["reconciles"] == 1
            assert peer.work["requests"] == work["requests"]

    play(story, LanCluster)


def test_underlays_before_the_first_pod() -> None:
    """Nodes report the links that LANs name as soon as one names them, and again when something of a link changes."""

    async def story(cluster: LanCluster) -> None:
        nodes = [await cluster.node(f"n{number}", number) for number in (1, 2)]
        nodes[0].world.underlays["u7"] = Underlay(name="u7", index=7, mtu=9000, addresses=("fe80::7",))
        await asyncio.sleep(SETTLED)
        assert not await links(cluster, "n1")
        await cluster.lan(vxlanDevMap={"n1": "u7", "n2": "u7", "n3": "u8"})
        await asyncio.sleep(SETTLED)
        assert await links(cluster, "n1") == [
            UnderlayLink(name="u7", mtu=9000, addresses=("IPv6-link-local",))
        ]
        assert await links(cluster, "n2") == [UnderlayLink(name="u7")]
        nodes[1].world.underlays["u7"] = Underlay(name="u7", index=9, mtu=1500, addresses=("10.1.0.2",))
        nodes[1].world.changed("")
        await asyncio.sleep(SETTLED)
        assert await links(cluster, "n2") == [UnderlayLink(name="u7", mtu=1500, addresses=("IPv4",))]
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        nodes[0].world.changed("")
        await asyncio.sleep(SETTLED)
        assert not await links(cluster, "n1")

    play(story, LanCluster)


def test_no_write_without_a_change() -> None:
    """LANs on a link that was reported cost no write, nor do new addresses of a kind that it has, nor other links."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        nodes = [await cluster.node(f"n{number}", number) for number in (1, 2, 3)]
        await asyncio.sleep(SETTLED)
        before = [dict(node.work) for node in nodes]
        for number in range(8, 28):
            await cluster.lan(f"l{number}", vni=number)
        for number, node in enumerate(nodes):
            known = node.world.underlays["u0"]
            node.world.underlays["u0"] = replace(known, addresses=(*known.addresses, f"10.7.0.{number}"))
            node.world.underlays["other"] = replace(known, name="other")
            node.world.changed("")
        await asyncio.sleep(SETTLED)
        for node, work in zip(nodes, before, strict=True):
            assert node.work["requests"] == work["requests"]

    play(story, LanCluster)


async def links(cluster: LanCluster, node: str) -> list[UnderlayLink]:
    """What a node reports of underlays."""
    found = [item for item in (await cluster.client.list(LAN_NODES)).items if item.metadata.name == node]
    return [link for item in found for link in item.status.underlays]


def test_restart_is_no_news() -> None:
    """An agent that starts again changes nothing of its report, so that the peers keep on sending to its node."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        first, second = [await _carries(cluster, number) for number in (1, 2)]
        await asyncio.sleep(SETTLED)
        before, writes = await cluster.client.get(LAN_NODES, "n2"), first.world.writes
        await second.kill()
        second.start()
        await asyncio.sleep(SETTLED)
        assert await cluster.client.get(LAN_NODES, "n2") == before
        assert first.world.writes == writes

    play(story, LanCluster)


def test_what_goes_while_the_agent_is_away() -> None:
    """A LAN that goes while the agent does not run leaves the report, however long the first look takes."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await _carries(cluster, 1)
        await asyncio.sleep(SETTLED)
        assert await cluster.entries("n1")
        await node.kill()
        node.world.pods.clear()
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        node.world.pace = 2.0
        node.start()

        async def is_empty() -> bool:
            return not await cluster.entries("n1")

        await cluster.until_later(is_empty, SETTLED)

    play(story, LanCluster)


def test_a_watch_that_is_late() -> None:
    """A LAN that went while the watch had not shown its report leaves the report when the watch shows it."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await cluster.until(lambda: bool(node.spokes.devices()))
        node.deafen(of=LAN_NODES)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await asyncio.sleep(70.0)
        assert await cluster.entries("n1")
        await cluster.client.delete(LANS, "blue", NAMESPACE)
        await node.spokes.detach("c1", "net1")
        await asyncio.sleep(SETTLED)
        node.deafen(False)

        async def is_empty() -> bool:
            return not await cluster.entries("n1")

        await cluster.until_later(is_empty, SETTLED)

    play(story, LanCluster)


def test_report_of_somebody_else() -> None:
    """A report that a user deleted or changed is written again."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        await _carries(cluster, 1)
        await asyncio.sleep(SETTLED)
        before = await cluster.entries("n1")
        assert before

        async def is_back() -> bool:
            return await cluster.entries("n1") == before

        await cluster.client.patch(LAN_NODES, "n1", {"status": {"lans": []}}, subresource="status")
        await cluster.until_later(is_back, SETTLED)
        await cluster.client.delete(LAN_NODES, "n1")
        await cluster.until_later(is_back, SETTLED)

    play(story, LanCluster)


def test_report_of_multus() -> None:
    """Multus' configuration is reported without any LAN, follows within a minute, and the manager's conditions stay."""

    async def story(cluster: LanCluster) -> None:
        node = await cluster.node("n1", 1)
        found: list[MultusReport | None] = [MultusReport(file="00-multus.conf", namespace_isolation=True)]

        async def read() -> MultusReport | None:
            return found[-1]

        await node.kill()
        node.multus = read
        node.start()
        await asyncio.sleep(SETTLED)
        report = await cluster.client.get(LAN_NODES, "n1")
        assert (report.status.multus, report.status.lans) == (found[0], ())
        condition = {"type": "NamespaceIsolation", "status": "False"}
        patch = {"status": {"conditions": [condition]}}
        conditions = (
            await cluster.client.patch(LAN_NODES, "n1", patch, subresource="status")
        ).status.conditions
        for following in (MultusReport(file="00-multus.conf"), None):
            found.append(following)
            await asyncio.sleep(61.0)
            report = await cluster.client.get(LAN_NODES, "n1")
            assert (report.status.multus, report.status.conditions) == (following, conditions)
        await cluster.lan()
        await cluster.until(lambda: len(node.spokes.devices()) == 8)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await asyncio.sleep(SETTLED)
        report = await cluster.client.get(LAN_NODES, "n1")
        assert (len(report.status.lans), report.status.conditions) == (1, conditions)

    play(story, LanCluster)

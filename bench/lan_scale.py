"""What it costs that a node joins LANs, in a cluster of 200 nodes with 100 LANs: the work is that of the LANs it joins.

The agents' whole data planes run in one process under a virtual clock, on kernels in memory, with the embedded engine.
Every reconcile, every request to the API server but watches, and every change of a kernel is counted, on the
node that joins, on those that carry the LANs with it, and on all others.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

from msgspec import Struct

from bench.report import Row
from lanloom.features.lan.agent import controller
from lanloom_embedded.engine.storage import MemoryStorage
from tests.features.lan.agent.nodes import LanCluster, Node, veth
from tests.harness.cluster import installed
from tests.harness.virtual import run as run_virtually

NODE_COUNT = 200
LAN_COUNT = 100
PEERS = 4
"""Nodes that carry a LAN before the one joins it."""

JOINED = (1, 5, 20)
SETTLED = 60.0
"""Seconds of the virtual clock, after which everything has come to rest."""

LIMITS = {"reconciles": 4 + 2 * PEERS, "kernel changes": 5 + 2 * PEERS}
"""For each LAN: its namespace, bridge, VXLAN link, the pod's veth and its storm control, an entry for each peer, and
one on each peer. Reconciles are the node's own and its reports', and at most two on each peer."""

REPORTS = 5
"""Requests for all LANs of a join: they are in one report, which is written again while they are built. Besides, each
LAN is asked for before a pod is attached, of which each has one here."""


class Work(Struct, frozen=True):
    """What a join took on the node itself, on the peers of its LANs, and elsewhere."""

    own: Counter[str]
    peers: Counter[str]
    others: Counter[str]

    def for_each(self, kind: str, lans: int) -> float:
        """Return the work of a kind for each LAN, wherever it was."""
        return (self.own[kind] + self.peers[kind]) / lans


def rows() -> Iterator[Row]:
    """Yield the work for each LAN, for a join at all, and elsewhere."""
    # Every LAN is looked at again now and then without a reason, which is no work of a join.
    with patch.object(controller, "CALM_SECONDS", 10 * SETTLED * len(JOINED)):
        found = run_virtually(_joins(installed(*LanCluster.kinds)))
    most = max(found)
    work = found[most]
    for kind, limit in LIMITS.items():
        yield Row(
            name=f"a node of {NODE_COUNT} joins {most} LANs, {PEERS} peers each: {kind} for each LAN",
            measured=work.for_each(kind, most),
            limit=limit,
            unit="",
            note=f"{work.own[kind]} on the node, {work.peers[kind]} on the peers; for each of "
            + ", ".join(f"{count}: {each.for_each(kind, count):.1f}" for count, each in found.items()),
        )
    yield Row(
        name=f"the same: requests to the API server for all {most}",
        measured=work.own["requests"] + work.peers["requests"],
        limit=REPORTS + most,
        unit="",
        note=", ".join(f"{each.own['requests']} for {count}" for count, each in found.items()),
    )
    yield Row(
        name=f"the same: work of any kind on the other nodes, which have {LAN_COUNT} LANs among them",
        measured=sum(each.others.total() for each in found.values()),
        limit=0,
        unit="",
    )


async def _joins(storage: MemoryStorage) -> dict[int, Work]:
    async with LanCluster(storage) as cluster:
        lans = [f"l{number}" for number in range(LAN_COUNT)]
        for vni, name in enumerate(lans, 100):
            await cluster.lan(name, vni, spokes=[f"{name}-{spoke}" for spoke in range(PEERS + 1)])
        nodes = [await cluster.node(f"n{number}", number) for number in range(1, NODE_COUNT + 1)]
        carrying, joining = nodes[: -len(JOINED)], nodes[-len(JOINED) :]
        peers: dict[str, list[Node]] = {}
        for number, name in enumerate(lans):
            peers[name] = [carrying[(number * PEERS + each) % len(carrying)] for each in range(PEERS)]
            for spoke, node in enumerate(peers[name]):
                await _attach(node, name, spoke)
        await asyncio.sleep(SETTLED)
        found = {}
        for count, node in zip(JOINED, joining, strict=True):
            joined, lans = lans[:count], lans[count:]
            before = {each.name: _work(each) for each in nodes}
            await asyncio.gather(*(_attach(node, name, PEERS) for name in joined))
            await asyncio.sleep(SETTLED)
            near = {each.name for name in joined for each in peers[name]}
            work = Work(Counter(), Counter(), Counter())
            for each in nodes:
                part = work.own if each is node else work.peers if each.name in near else work.others
                part.update(_work(each) - before[each.name])
            found[count] = work
        return found


async def _attach(node: Node, lan: str, spoke: int) -> None:
    pod = f"{node.name}-{lan}"
    await node.spokes.attach(veth(f"{lan}-{spoke}", node.pod(pod), container=pod))


def _work(node: Node) -> Counter[str]:
    return node.work + Counter({"kernel changes": node.world.writes})

"""Moves in place of 1,000 running machines at once: what they cost the manager, in CPU time and in API calls.

As in `liveupdate`, the engine and the manager's part are in one process, and requests are calls. The agents are played:
each port is on its new network as soon as its swap moves. The guests' gaps are measured in `livegap`.
"""

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.cost import Stopwatch
from bench.liveupdate import Cluster, nads_of, node_of
from bench.report import Row
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.kube.ports import Client
from lanloom_embedded.engine.storage import Change
from tests.features.liveupdate.objects import PLACE
from tests.harness.interceptor import Interceptor, Request

MOVES = 1_000
CALLS_EACH = 70.0
SECONDS = 120.0

Raw = dict[str, Any]


class Counting(Interceptor):
    """Counts requests by their verb, but for watches."""

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()

    async def send(self, request: Request) -> Any:
        self.calls[request.verb] += 1
        return await super().send(request)


def rows() -> Iterator[Row]:
    """All moves at once."""
    yield asyncio.run(_moves())


class _Agents:
    """Answer each swap that moves: its port is there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._moving: asyncio.Queue[Raw] = asyncio.Queue()
        self.ended: Counter[str] = Counter()
        self.all_ended = asyncio.Event()
        cluster.engine.ledger.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if change.resource.plural != NETWORK_SWAPS.plural or change.after is None:
            return
        raw = change.after.raw()
        phase = raw.get("status", {}).get("phase", "")
        before = change.before.raw().get("status", {}).get("phase", "") if change.before is not None else ""
        if phase == before:
            return
        if phase == "Moving":
            self._moving.put_nowait(raw)
        elif phase in ("Succeeded", "Reverted", "Failed"):
            self.ended[phase] += 1
            if self.ended.total() == MOVES:
                self.all_ended.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            raw = await self._moving.get()
            port = {
                "node": raw["status"]["node"],
                "phase": "Moving",
                "nad": raw["spec"]["to"],
                "link": "veth0",
            }
            patch = {"status": {"port": port}}
            name = raw["metadata"]["name"]
            await self._cluster.client.patch(NETWORK_SWAPS, name, patch, PLACE, subresource="status")


async def _moves() -> Row:
    cluster = Cluster(MOVES)
    await cluster.furnish()
    gc.collect()
    counting = Counting(cluster.client)
    async with cluster.managed(counting):
        agents = _Agents(cluster)
        task = asyncio.create_task(agents.run())
        counting.calls.clear()
        began, stopwatch = time.perf_counter(), Stopwatch()
        await asyncio.gather(*map(_request, [cluster] * MOVES, range(MOVES)))
        async with asyncio.timeout(SECONDS):
            await agents.all_ended.wait()
        cost, seconds = stopwatch.cost().each(MOVES), time.perf_counter() - began
        task.cancel()
    await cluster.engine.close()
    assert agents.ended == {"Succeeded": MOVES}, agents.ended
    calls = counting.calls
    verbs = ", ".join(f"{count / MOVES:.1f} {verb}" for verb, count in sorted(calls.items()))
    return Row(
        name=f"{MOVES:,} NICs that move in place at once: API calls of the manager for each",
        measured=calls.total() / MOVES,
        limit=CALLS_EACH,
        unit="",
        note=f"{verbs}; {cost.cpu * 1e3:.1f} ms of CPU for each, server included; {seconds:.1f} s for all",
    )


async def _request(cluster: Cluster, number: int) -> None:
    """Request a move of the second NIC of a machine, as `lanloom vm move` does."""
    name = f"vm{number}"
    vmi = await cluster.client.get(VIRTUAL_MACHINE_INSTANCES, name, PLACE)
    before, after = nads_of(number)["red"], nads_of(number, 1)["red"]
    assert vmi.status.node_name == node_of(number)
    spec = {
        "machine": name,
        "uid": vmi.metadata.uid,
        "network": "red",
        "from": f"{PLACE}/{before}",
        "to": f"{PLACE}/{after}",
        "record": True,
    }
    await cluster.client.create(NETWORK_SWAPS, {"metadata": {"name": name}, "spec": spec}, PLACE)

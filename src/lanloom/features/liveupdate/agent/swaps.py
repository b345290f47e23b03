"""The swaps of a node: each is looked at when it changes, and again while its port is not where it belongs.

The agent writes nothing of a swap but `status.port`, in which it answers the phase that it acted on. A swap that ended
needs nothing once the port is where its end wants it; one that failed is still brought back when that becomes possible.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import structlog
from msgspec import to_builtins

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.liveupdate import BACK, FINAL, FORWARD, NETWORK_SWAPS, NetworkSwap, SwapPort
from lanloom.api.meta import Key, rfc3339
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.agent.mover import Mover, Outcome, SwapView
from lanloom.features.liveupdate.agent.records import MoveRecords
from lanloom.kube.controller import Controller, Observer, doubling
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import get_or_none, ignore_not_found
from lanloom.kube.patches import StatusWriter, merge_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents, referring
from lanloom.node.errors import RecordError

log = structlog.get_logger(__name__)

RETRY_SECONDS, LONGEST_RETRY = 1.0, 60.0
"""How soon a port is looked at again that could not be brought where it belongs; each time later, up to the second."""

ANNOUNCE_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)
"""After a move, until the next announcement: a switch that just then learns its ports forgets the first."""


class SwapAgent:
    """Keep the ports of one node's swaps. `now` is in seconds since the epoch, `gap` receives each move."""

    def __init__(
        self,
        client: Client,
        swaps: Informer[NetworkSwap],
        mover: Mover,
        records: MoveRecords,
        *,
        node: str,
        now: Callable[[], float],
        rng: Random,
        gap: Callable[[float], None] = lambda _milliseconds: None,
        observe: Observer[Any] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._swaps = swaps
        self._mover = mover
        self._records = records
        self._node = node
        self._now = now
        self._gap = gap
        self._statuses = StatusWriter(client)
        self._failures: Counter[str] = Counter()
        self._moves: dict[str, Outcome] = {}
        self._announcing: set[asyncio.Task[None]] = set()
        self.controller: Controller[Key] = Controller(
            "swap-agent",
            self.reconcile,
            rng=rng,
            observe=observe,
            refusals=RefusalEvents(recorder, referring(NETWORK_SWAPS, swaps.store)) if recorder else None,
        )
        swaps.on_change(self._changed)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._swaps.synced()
        for swap in self._swaps.store.items():
            self._changed(None, swap)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forget_gone())
                group.create_task(self.controller.run())
        finally:
            for task in self._announcing:
                task.cancel()

    def _changed(self, old: NetworkSwap | None, new: NetworkSwap | None) -> None:
        item = new or old
        if item is not None and item.status.node == self._node:
            self.controller.enqueue(item.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        """Bring the port of a swap to where it belongs; in how many seconds to look again."""
        swap = self._swaps.store.get(key)
        if swap is None:
            await self._forget_gone()
            return None
        if swap.status.node != self._node or swap.status.phase not in FORWARD | BACK:
            return None
        scene = await self._scene(swap) if not _is_settled(swap) else None
        if scene is None:
            self._moves.pop(swap.metadata.uid, None)
            await self._mover.forget(swap.metadata.uid)
            return None
        outcome = self._note(scene, await self._bring(scene))
        with ignore_not_found(key.name):
            await self._report(swap, outcome)
        return self._again(swap.metadata.uid, outcome)

    def _again(self, uid: str, outcome: Outcome) -> float | None:
        if not outcome.error:
            del self._failures[uid]
            return None
        self._failures[uid] += 1
        return doubling(self._failures[uid] - 1, first=RETRY_SECONDS, cap=LONGEST_RETRY)

    def _note(self, scene: SwapView, outcome: Outcome) -> Outcome:
        """Announce a move, whether or not it can be reported; return it as it is known until then."""
        uid = scene.swap.metadata.uid
        known = self._moves.get(uid)
        if known is not None and known.nad == outcome.nad and not outcome.gap:
            return outcome._replace(gap=known.gap)
        if outcome.moved:
            self._moves[uid] = outcome
            self._announce(scene)
        if outcome.gap:
            self._gap(outcome.gap)
        return outcome

    async def _bring(self, scene: SwapView) -> Outcome:
        try:
            return await self._mover.bring(scene)
        except RecordError as error:
            return Outcome(error=str(error))

    async def _scene(self, swap: NetworkSwap) -> SwapView | None:
        """Return the objects of a swap as they are now; None where its pod is gone, and its port with it."""
        client, namespace = self._client, swap.metadata.namespace
        pod = await get_or_none(client, PODS, Key(namespace, swap.status.pod))
        machine = await get_or_none(client, VIRTUAL_MACHINE_INSTANCES, Key(namespace, swap.spec.machine))
        if pod is None or machine is None or pod.metadata.uid != swap.status.pod_uid or pod.has_ended:
            return None
        source = await get_or_none(client, NADS, swap.spec.source)
        target = await get_or_none(client, NADS, swap.spec.target)
        return SwapView(swap, pod, machine, source, target)

    async def _report(self, swap: NetworkSwap, outcome: Outcome) -> None:
        before = swap.status.port
        gap, moved_at = (before.gap_milliseconds, before.moved_at) if before is not None else (0.0, "")
        if outcome.gap or (outcome.moved and (before is None or before.nad != outcome.nad)):
            gap, moved_at = _tenths(outcome.gap), rfc3339(self._now())
        port = SwapPort(
            node=self._node,
            phase=swap.status.phase,
            link=outcome.link,
            nad=outcome.nad,
            error=outcome.error[:1000],
            final=outcome.final,
            gap_milliseconds=gap,
            moved_at=moved_at,
        )
        if port == before:
            return
        patch = merge_diff(to_builtins(before) if before is not None else {}, to_builtins(port))
        meta = swap.metadata
        await self._statuses.patch(NETWORK_SWAPS, meta.name, {"status": {"port": patch}}, meta.namespace)

    def _announce(self, scene: SwapView) -> None:
        task = asyncio.create_task(self._announce_again(scene))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def _announce_again(self, scene: SwapView) -> None:
        for seconds in ANNOUNCE_SECONDS:
            await asyncio.sleep(seconds)
            await self._mover.announce(scene)

    async def _forget_gone(self) -> None:
        """Remove the records of swaps that are not there any more."""
        present = {swap.metadata.uid for swap in self._swaps.store.items()}
        self._moves = {uid: outcome for uid, outcome in self._moves.items() if uid in present}
        try:
            for uid in await self._records.uids():
                if uid not in present:
                    await self._records.forget(uid)
        except RecordError as error:
            log.warning("swap-records-unread", error=str(error))


def _tenths(gap: float) -> float:
    """Return milliseconds as they are reported; 0 is for unknown ones."""
    return max(round(gap, 1), 0.1) if gap else 0.0


def _is_settled(swap: NetworkSwap) -> bool:
    """Return whether a swap has ended, and its port is known to be where its end wants it."""
    phase, port = swap.status.phase, swap.status.port
    if phase not in FINAL:
        return False
    if phase == "Succeeded":
        return True
    return port is not None and port.phase in BACK and port.nad == swap.spec.from_

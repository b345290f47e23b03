"""One LAN of this node at a time: from the record, the cluster and the kernel to what should be there.

Everything that touches a LAN runs here, one task at a time for each LAN, and to its end even where nobody waits for it
any more: a request that is cancelled must not let the next one in while the kernel is at work for the first.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import LAN, LANEntry, Spoke
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.carried import Carried, Place, carried, conflict, followed
from lanloom.features.lan.rules.desired import DesiredLan, Endpoint, desired, endpoint
from lanloom.features.lan.rules.flood import Peers, peers, unreachable
from lanloom.features.lan.rules.linksteps import LanStep, MakeTap, MoveTap
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.plan import plan
from lanloom.features.lan.rules.spec import faults
from lanloom.node.errors import LinkError, NodeError

log = structlog.get_logger(__name__)

T = TypeVar("T")


class LanState(Struct, frozen=True):
    """How a LAN is on this node after a look: its own endpoint, and what is wrong."""

    own: Endpoint
    problem: str = ""


class _Look(Struct, frozen=True):
    """What should be there and what is; `around` is None while the other nodes are not known."""

    own: Endpoint
    around: Peers | None
    wanted: DesiredLan
    seen: SeenLan


class Carrier:
    """The LANs of `node`. `on_state` is told when what the node reports of a LAN may have changed."""

    def __init__(
        self,
        kernel: LanKernel,
        records: LanRecords,
        view: ClusterView,
        *,
        node: str,
        now: Callable[[], float],
        on_state: Callable[[], None] = lambda: None,
    ) -> None:
        self._kernel = kernel
        self._records = records
        self._view = view
        self._node = node
        self._now = now
        self._on_state = on_state
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[object]] = set()
        self._states: dict[str, LanState] = {}

    async def exclusive(self, uid: str, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns or raises, run when nothing else works at the LAN, and to its end."""
        lock = self._locks.setdefault(uid, asyncio.Lock())
        self._waiting[uid] += 1

        async def run() -> T:
            try:
                async with lock:
                    return await work()
            finally:
                self._leave(uid)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _leave(self, uid: str) -> None:
        self._waiting[uid] -= 1
        if not self._waiting[uid]:
            del self._waiting[uid], self._locks[uid]

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may be there any more

    async def close(self) -> None:
        """Waits for what is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def reconcile(self, uid: str, ports: Collection[str] | None = None) -> SeenLan:
        """Brings the LAN to what it should be; what is there then. Within `exclusive`.

        Far ends are looked for behind `ports`, which are being attached, or, with None, behind all ports. Raises
        NodeError with what is wrong, after everything else was tried.
        """
        try:
            own, seen = await self._reconcile(uid, ports)
        except NodeError as error:
            known = self._states.get(uid)
            self._note(uid, LanState(known.own if known else Endpoint(None), str(error)))
            raise
        self._note(uid, own)
        return seen

    def entries(self) -> tuple[LANEntry, ...]:
        """What the node reports: each LAN of which it has something, by namespace and name."""
        now = self._now()
        found = [
            self._entry(record)
            for record in self._records.carried.values()
            if record.built or record.used(now)
        ]
        return tuple(sorted(found, key=lambda entry: (entry.namespace, entry.name)))

    def state(self, uid: str) -> LanState | None:
        """How a LAN is, None before the first look."""
        return self._states.get(uid)

    def _entry(self, record: Carried) -> LANEntry:
        state = self._states.get(record.uid, LanState(Endpoint(None), "not looked at yet"))
        return LANEntry(
            namespace=record.namespace,
            name=record.name,
            uid=record.uid,
            vni=record.vni,
            port=record.port,
            address=state.own.address,
            device=record.device,
            mtu=state.own.mtu,
            ready=not state.problem,
            message=state.problem,
            spokes=tuple(
                Spoke(name=place.spoke, mode=place.mode) for place in record.places if place.attached
            ),
        )

    def _note(self, uid: str, state: LanState) -> None:
        before = self._states.get(uid)
        if uid not in self._records.carried:
            self._states.pop(uid, None)
        else:
            self._states[uid] = state
        if state.problem and (before is None or before.problem != state.problem):
            log.warning("lan-not-ready", uid=uid, reason=state.problem)
        self._on_state()

    async def missing(self, uid: str, device: str) -> tuple[SeenLan, tuple[LanStep, ...]]:
        """What is there of a LAN with the far end of one port, and what it would take to be well. Changes nothing."""
        record = self._records.carried[uid]
        look = await self._look(record, (device,))
        return look.seen, plan(look.wanted, look.seen)

    async def _reconcile(self, uid: str, ports: Collection[str] | None) -> tuple[LanState, SeenLan]:
        lan = self._view.lan(uid)
        record = self._records.carried.get(uid)
        if record is None:
            return LanState(Endpoint(None)), SeenLan()
        record = await self._followed(record, lan, ports)
        look = await self._look(record, ports)
        own, wanted, seen = look.own, look.wanted, look.seen
        if wanted.present and not record.built:
            self._check_conflicts(record)
        if seen.foreign and wanted.present:
            raise LinkError(f"can't build {record.title}: {seen.foreign}")
        if not seen.foreign:
            seen = await self._brought(record, wanted, seen, ports)
        if not wanted.present:
            return LanState(own), await self._gone(record, lan, seen)
        return LanState(own, own.problem or unreachable(look.around or Peers())), seen

    async def _look(self, record: Carried, ports: Collection[str] | None) -> _Look:
        underlays = await self._kernel.underlays((record.device,)) if record.device else {}
        own = endpoint(record, underlays.get(record.device))
        around = self._peers(record, own)
        wanted = desired(record, own, around or Peers(), self._node, self._now(), ports or ())
        seen = await self._kernel.observe(wanted, ports)
        if around is None:
            wanted = _undisturbed(wanted, seen)
        return _Look(own, around, wanted, seen)

    def _check_conflicts(self, record: Carried) -> None:
        built = [each for each in self._records.carried.values() if each.built]
        if words := conflict(record, built):
            raise LinkError(f"can't build {record.title}: {words}")

    async def _followed(self, record: Carried, lan: LAN | None, ports: Collection[str] | None) -> Carried:
        """The record as the LAN and the pods are now, saved."""
        usable = lan is not None and not faults(lan.spec)
        found = followed(record, lan, self._node) if lan is not None and usable else record
        for place in found.places:
            looked_at = ports is None or place.id in ports
            if place.attached and looked_at and not await self._kernel.is_namespace(place.netns):
                log.info("lan-pod-gone", lan=found.title, spoke=place.spoke, pod=place.pod)
                found = found.with_place(place.free())
        await self._records.save(found)
        return found

    def _peers(self, record: Carried, own: Endpoint) -> Peers | None:
        """The other nodes, None while they are not known."""
        if not self._view.is_synced:
            return None
        reports = self._view.reports(record.uid)
        return peers(record.uid, record.vni, record.port, self._node, own.address, reports)

    async def _brought(
        self, record: Carried, wanted: DesiredLan, seen: SeenLan, ports: Collection[str] | None
    ) -> SeenLan:
        """What is there once the plan is applied. Taps of what was made anew get their devices."""
        steps = plan(wanted, seen)
        if steps:
            if wanted.present and not record.built:
                await self._records.save(replace(record, built=True))
                wanted = replace(wanted, built=True)
            log.info("lan-change", lan=record.title, steps=[repr(step) for step in steps])
            await self._kernel.apply(wanted, steps)
            seen = await self._kernel.observe(wanted, ports)
            for index in _untapped(record, wanted):
                await self._kernel.forget_tap(index)
        moved = {step.index for step in steps if isinstance(step, MakeTap | MoveTap)}
        for port in wanted.ports:
            if port.mode == "macvtap" and (ports is None or port.index in moved):
                await self._kernel.tap(port.index, quick=port.index not in moved)
        return seen

    async def _gone(self, record: Carried, lan: LAN | None, seen: SeenLan) -> SeenLan:
        """Nothing of the LAN is here. Indices are kept for as long as the LAN is there."""
        if lan is None and self._view.is_synced:
            await self._records.forget(record.uid)
        else:
            places = tuple(replace(place, allocated=0.0) for place in record.places)
            await self._records.save(replace(record, built=False, places=places))
        return seen

    async def begin(self, lan: LAN | None, record: Carried | None, device: str, place: Place) -> Carried:
        """Saves that this node has a place of the LAN, before anything is built. Within `exclusive`."""
        found = record or (carried(lan, self._node) if lan is not None else None)
        if found is None:
            raise LinkError(f"no LAN has the device {device}")
        if record is None and lan is not None and (wrong := faults(lan.spec)):
            raise LinkError(f"{found.title} can't be built: {'. '.join(wrong)}")
        found = found.with_place(place)
        await self._records.save(found)
        return found


def _undisturbed(wanted: DesiredLan, seen: SeenLan) -> DesiredLan:
    """The same with the peers and the MTU that are there: the other nodes are not known yet."""
    vxlan = seen.links.get(wanted.vxlan)
    if vxlan is None:
        return wanted
    group = wanted.vtep.group if wanted.vtep is not None else ""
    return replace(wanted, flood=seen.flood - {group}, mtu=vxlan.mtu)


def _untapped(record: Carried, wanted: DesiredLan) -> set[int]:
    """The indices of macvtaps that are not there any more: a file that is left would be another's one day."""
    return {place.index for place in record.places if place.index} - {port.index for port in wanted.ports}

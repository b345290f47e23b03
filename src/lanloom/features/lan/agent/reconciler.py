"""One LAN of this node at a time: from the record, the cluster and the kernel to what should be there.

Everything that touches a LAN runs here, one task at a time for each LAN (`exclusive`).
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import LAN, LANEntry
from lanloom.features.lan.agent.exclusive import Exclusive
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.states import LanState, LanStates
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.claims import lost_claim
from lanloom.features.lan.rules.desired import (
    DesiredLan,
    Endpoint,
    address_of,
    desired,
    endpoint,
    undisturbed,
)
from lanloom.features.lan.rules.flood import Peers, confined, mtu_budget, peers, unreachable
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge, uplink_bridge
from lanloom.features.lan.rules.lansteps import ForgetLearned
from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.mtus import too_large, unenforced
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.plan import plan
from lanloom.features.lan.rules.portsteps import MakeTap
from lanloom.features.lan.rules.record import (
    LanRecord,
    SpokeRecord,
    apart,
    at_port,
    built_elsewhere,
    conflict,
    continues,
    divergence,
    followed,
    followed_limit,
    leaving,
    record_of,
)
from lanloom.features.lan.rules.spec import faults
from lanloom.features.lan.rules.storms import looked
from lanloom.node.errors import LinkError, NodeError

log = structlog.get_logger(__name__)

T = TypeVar("T")


class _Observation(Struct, frozen=True):
    """What should be there and what is; `around` is None while the other nodes are not known."""

    own: Endpoint
    around: Peers | None
    wanted: DesiredLan
    seen: SeenLan


class LanReconciler:
    """The LANs of `node`. `on_state` is called when what the node reports of a LAN may have changed.

    `holds_uplink` tells whether this node joins the LAN of a record to the physical VLAN that the record names.
    """

    def __init__(
        self,
        kernel: LanKernel,
        records: LanRecords,
        view: ClusterView,
        *,
        node: str,
        now: Callable[[], float],
        on_state: Callable[[], None] = lambda: None,
        holds_uplink: Callable[[LanRecord], bool] = lambda _record: False,
    ) -> None:
        self._kernel = kernel
        self._records = records
        self._view = view
        self._node = node
        self._now = now
        self._holds_uplink = holds_uplink
        self._exclusive = Exclusive()
        self._states = LanStates(records, node=node, now=now, on_state=on_state, holds_uplink=holds_uplink)
        self._joined_at: dict[str, frozenset[str]] = {}

    async def exclusive(self, uid: str, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` returns or raises, run when nothing else works at the LAN, and to its end."""
        return await self._exclusive.run(uid, work)

    async def close(self) -> None:
        """Wait for what is under way."""
        await self._exclusive.close()

    async def reconcile(self, uid: str, ports: Collection[str] | None = None) -> SeenLan:
        """Bring the LAN to what it should be; return what is there then. Within `exclusive`.

        Far ends are looked for behind `ports`, which are being attached, or, with None, behind all ports, after a look
        whether their pods are there. Raises NodeError with what is wrong, after everything else was tried.
        """
        lan = self._view.lan(uid)
        try:
            state, seen = await self._reconcile(uid, ports)
        except NodeError as error:
            self._states.note_failure(uid, str(error), lan)
            raise
        if uid not in self._records.by_uid:
            self._joined_at.pop(uid, None)
        self._states.note(uid, state, lan)
        return seen

    def entries(self) -> tuple[LANEntry, ...]:
        """Return what the node reports: each LAN of which it has something, by namespace and name."""
        return self._states.entries()

    def state(self, uid: str) -> LanState | None:
        """Return how a LAN is, None before the first look."""
        return self._states.get(uid)

    async def missing(self, uid: str, device: str) -> tuple[SeenLan, tuple[LanStep, ...]]:
        """Return what is there of a LAN with the far end of one port, and what it would take to be well.

        It changes nothing.
        """
        record = self._records.by_uid[uid]
        observation = await self._observe(record, (device,))
        return observation.seen, plan(observation.wanted, observation.seen)

    async def _reconcile(self, uid: str, ports: Collection[str] | None) -> tuple[LanState, SeenLan]:
        lan = self._view.lan(uid)
        record = self._records.by_uid.get(uid) or await self._joined(lan)
        if record is None:
            return LanState(Endpoint(None)), SeenLan()
        if lan is None and self._view.is_synced and (successor := self._successor(record)) is not None:
            await self._adopt(record, successor)
            return LanState(Endpoint(None)), SeenLan()
        record = await self._followed(record, lan, ports)
        record, observation = await self._identified(record, ports)
        own, wanted, seen = observation.own, observation.wanted, observation.seen
        if not record.built and not wanted.present:
            # Nothing of it is in the kernel; what has its namespace's name is another LAN's.
            return LanState(own), await self._gone(record, lan, SeenLan())
        lost = lost_claim(lan, self._view.twins(lan)) if lan is not None else ""
        if wanted.present and not record.built:
            self._check_conflicts(record, lost)
        if seen.foreign and wanted.present:
            raise LinkError(f"can't build {record.title}: {seen.foreign}")
        if not seen.foreign:
            seen = await self._brought(record, wanted, seen, ports)
        if not wanted.present:
            return LanState(own), await self._gone(record, lan, seen)
        around = observation.around or Peers()
        await self._follow_uplink(record, wanted, seen, observation.around)
        budget = mtu_budget(self._node, own.mtu, around)
        strays = divergence(record, lan, self._node)
        misfits = (
            confined(record.replication, record.group),
            unreachable(around) if not own.problem else "",
            too_large(record, budget),
            unenforced(record, wanted, seen),
        )
        problem = "; ".join(filter(None, (lost, own.problem, own.dead, strays, *misfits)))
        before = self._states.get(record.uid)
        floods = looked(before.floods if before is not None else None, record, wanted, seen, self._now())
        return LanState(own, problem, budget, floods), seen

    async def _joined(self, lan: LAN | None) -> LanRecord | None:
        """Return the record of a LAN that this node begins to carry because its host has the bridge that it joins."""
        if lan is None or faults(lan.spec):
            return None
        record = record_of(lan, self._node)
        if await self._host(record) is None:
            return None
        self._view.follow_nodes()
        await self._records.save(record)
        return record

    async def _host(self, record: LanRecord) -> DesiredHostBridge | None:
        """Return the bridge of the host that the LAN is joined to; None where it is not there, or is another one's."""
        if record.host_bridge:
            wanted = DesiredHostBridge(record.host_bridge, record.host_alias)
        elif record.uplink and self._holds_uplink(record):
            wanted = uplink_bridge(record.uplink, record.uplink_vlan)
        else:
            return None
        found = await self._kernel.host_bridge(record.uid, wanted)
        return wanted if found.bridge else None

    async def _observe(self, record: LanRecord, ports: Collection[str] | None) -> _Observation:
        underlays = await self._kernel.underlays((record.device,)) if record.device else {}
        own = endpoint(record, underlays.get(record.device))
        around = self._peers(record, own)
        host = await self._host(record)
        marking = any(each.options.isolates for each in at_port(record, self._records.by_uid.values()))
        wanted = desired(
            record, own, around or Peers(), self._node, self._now(), ports or (), host, shares_marking=marking
        )
        seen = await self._kernel.observe(wanted, ports)
        if around is None:
            wanted = undisturbed(wanted, seen)
        return _Observation(own, around, wanted, seen)

    async def _follow_uplink(
        self, record: LanRecord, wanted: DesiredLan, seen: SeenLan, around: Peers | None
    ) -> None:
        """Forget stations of the VLAN when another node joins the LAN to it: they are behind that node then."""
        if around is None or wanted.vxlan not in seen.links:
            return
        own = frozenset([""]) if record.uplink and self._holds_uplink(record) else frozenset[str]()
        now = around.uplinks | own if record.uplink else frozenset[str]()
        before = self._joined_at.get(record.uid, now)
        if now:
            self._joined_at[record.uid] = now
        else:
            self._joined_at.pop(record.uid, None)
        if before and before != now:
            await self._kernel.apply(wanted, (ForgetLearned(ns=wanted.ns, vxlan=wanted.vxlan),))

    def _successor(self, record: LanRecord) -> LAN | None:
        """Return the LAN that takes the place of one that is gone, for the pods that are still at it."""
        if not any(place.attached for place in record.places):
            return None
        found = self._view.named(record.namespace, record.name)
        return found if found is not None and continues(record, found) else None

    async def _adopt(self, record: LanRecord, successor: LAN) -> None:
        """Adopt the pods of a LAN that was recreated. Their interfaces stay as they are."""
        uid = successor.metadata.uid

        async def take() -> None:
            found = self._records.by_uid.get(uid) or record_of(successor, self._node)
            new = replace(found, built=True, was=record.uid, entry_limit=followed_limit(record, successor))
            for place in record.places:
                kept = replace(place, mac=address_of(place, record, self._node)) if place.attached else place
                new = new.with_place(kept)
            await self._records.save(new)

        await self.exclusive(uid, take)
        await self._records.forget(record.uid)
        log.info("lan-handed-over", lan=record.title, before=record.uid, uid=uid)

    def _check_conflicts(self, record: LanRecord, lost: str) -> None:
        built = [each for each in self._records.by_uid.values() if each.built]
        reports = self._view.reports(record.uid)
        if words := lost or conflict(record, built) or built_elsewhere(record, self._node, reports):
            raise LinkError(f"can't build {record.title}: {words}")

    async def _followed(self, record: LanRecord, lan: LAN | None, ports: Collection[str] | None) -> LanRecord:
        """Return the record as the LAN and the pods are now, saved."""
        usable = lan is not None and not faults(lan.spec)
        found = followed(record, lan, self._node) if lan is not None and usable else record
        if lan is None and self._view.is_synced:
            found = apart(found)
        if self._view.is_synced and (lan is None or lan.metadata.is_deleting):
            found = leaving(found, self._now())
        for place in found.places if ports is None else ():
            if place.attached and not await self._kernel.is_namespace(place.netns):
                log.info("lan-pod-gone", lan=found.title, spoke=place.spoke, pod=place.pod)
                found = found.with_place(place.free())
        await self._records.save(found)
        return found

    async def is_there(self, place: SpokeRecord) -> bool:
        """Return whether the namespace of a place's pod is there, and not another one that has its path now."""
        if place.netns_cookie:
            return await self._kernel.cookie(place.netns) == place.netns_cookie
        return await self._kernel.is_namespace(place.netns)

    async def _identified(
        self, record: LanRecord, ports: Collection[str] | None
    ) -> tuple[LanRecord, _Observation]:
        """Return what is there, and the record, saved, without pods whose namespace was replaced under its path.

        A namespace that has the far end of a port is that of its pod, and is known again by its cookie: nothing is made
        in another's. Each look is checked, as one may be replaced between two.
        """
        while True:
            observation, found = await self._observe(record, ports), record
            replaced = False
            for place in record.places:
                if not place.attached or place.in_transit or place.id not in observation.seen.ends:
                    continue
                end = observation.seen.ends[place.id]
                if end is None and not await self.is_there(place):
                    log.info("lan-pod-replaced", lan=found.title, spoke=place.spoke, pod=place.pod)
                    found, replaced = found.with_place(place.free()), True
                elif end is not None and ports is None and place.netns_cookie != end.cookie:
                    found = found.with_place(replace(place, netns_cookie=end.cookie))
            await self._records.save(found)
            if not replaced:
                return found, observation
            record = found

    def _peers(self, record: LanRecord, own: Endpoint) -> Peers | None:
        """Return the other nodes, None while they are not known."""
        if not self._view.knows_nodes:
            return None
        reports = self._view.reports(record.uid)
        multicast = record.replication == "multicast"
        return peers(
            record.uid, record.vni, record.port, self._node, own.address, reports, multicast=multicast
        )

    async def _brought(
        self, record: LanRecord, wanted: DesiredLan, seen: SeenLan, ports: Collection[str] | None
    ) -> SeenLan:
        """Return what is there once the plan is applied. Devices of macvtaps that stayed are mended."""
        steps = plan(wanted, seen)
        if steps:
            if wanted.present and not record.built:
                await self._records.save(replace(record, built=True))
                wanted = replace(wanted, built=True)
            log.info("lan-change", lan=record.title, steps=[repr(step) for step in steps])
            seen = await self._kernel.apply(wanted, steps, ports)
            for index in _untapped(record, wanted):
                await self._kernel.forget_tap(index)
        made = {step.index for step in steps if isinstance(step, MakeTap)}
        looked_at = [port for port in wanted.ports if ports is None or port.name in ports]
        taps = (port.index for port in looked_at if port.mode == "macvtap")
        await self._kernel.mend_taps([index for index in taps if index not in made])
        return seen

    async def _gone(self, record: LanRecord, lan: LAN | None, seen: SeenLan) -> SeenLan:
        """Record that nothing of the LAN is here. Indices are kept for as long as the LAN exists."""
        if lan is None and self._view.is_synced:
            await self._records.forget(record.uid)
        else:
            places = tuple(replace(place, allocated=0.0) for place in record.places)
            await self._records.save(replace(record, built=False, places=places))
        return seen

    async def begin(
        self, lan: LAN | None, record: LanRecord | None, device: str, place: SpokeRecord
    ) -> LanRecord:
        """Save that this node has a place of the LAN, before anything is built. Within `exclusive`."""
        found = record or (record_of(lan, self._node) if lan is not None else None)
        if found is None:
            raise LinkError(f"no LAN has the device {device}")
        if record is None and lan is not None and (wrong := faults(lan.spec)):
            raise LinkError(f"{found.title} can't be built: {'. '.join(wrong)}")
        found = found.with_place(place)
        await self._records.save(found)
        return found


def _untapped(record: LanRecord, wanted: DesiredLan) -> set[int]:
    """Return the indices of macvtaps that are not there any more: a file that is left would be another's one day."""
    return {place.index for place in record.places if place.index} - {port.index for port in wanted.ports}

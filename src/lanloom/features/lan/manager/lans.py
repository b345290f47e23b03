"""Reconciles one LAN at a time: its NADs, its addresses, its status, its end; and what a removal by force leaves.

A change costs requests in proportion to what differs: nothing where all is as it should be, two NADs for a new spoke.
Before anything is made for a LAN it has the finalizer, so that it never goes without the care of `removal`.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

import structlog

from lanloom.api.core import EventDraft, ObjectReference
from lanloom.api.lan import FINALIZER, LAN, LAN_NODES, LANS, LANStatus
from lanloom.api.lannads import spoke_of
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.lan.manager.networks import LanNetworks
from lanloom.features.lan.manager.removal import NadRemover, Nads
from lanloom.features.lan.reader import BY_UID, LanInformers
from lanloom.features.lan.rules.admit import is_forced
from lanloom.features.lan.rules.claims import lost_claim
from lanloom.features.lan.rules.nads import WantedNad, body_of, is_as_wanted, owner_of, repair, wanted_nads
from lanloom.features.lan.rules.removal import (
    REREAD_SECONDS,
    Retirement,
    attached,
    carrying_nodes,
    with_attached,
)
from lanloom.features.lan.rules.spec import faults
from lanloom.features.lan.rules.status import SETTLING_REASONS, Verdict, lan_status, node_results
from lanloom.features.lan.rules.underlays import underlays_of
from lanloom.kube.conditions import find
from lanloom.kube.errors import AlreadyExists, ApiError, Conflict, ServerError
from lanloom.kube.events import Recorder, reference
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import REFUSED, text_of
from lanloom.nads.users import NadUsers
from lanloom.text import listed

log = structlog.get_logger(__name__)

RETRY_SECONDS = 60.0
"""Delay before a request is tried again that the API server refused, and about which an operator has to act."""

_CREATES = 8
"""So many NADs are created at once."""


class NadsDelayed(ServerError):
    """NADs of a LAN that the API server could not write; another try may help."""


class Lans:
    """The LANs, by namespace and name. `now` is in seconds since the epoch."""

    def __init__(
        self,
        client: Client,
        informers: LanInformers,
        users: NadUsers,
        networks: LanNetworks,
        remover: NadRemover,
        recorder: Recorder,
        *,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._informers = informers
        self._users = users
        self._networks = networks
        self._remover = remover
        self._recorder = recorder
        self._now = now
        self._statuses = StatusWriter(client)
        self._written = informers.lans.mutations()

    async def reconcile(self, key: Key) -> float | None:
        """Do what is to be done for a LAN.

        It returns in how many seconds to look again, None for when something happens.
        """
        lan = self._written.get(key)
        if lan is None:
            return None
        with ignore_not_found(key.name):
            if lan.metadata.is_deleting:
                return await self._remove(lan)
            return await self._ensure(lan)
        return None

    async def refused(self, key: Key, error: ApiError) -> None:
        """Implement Refusals: the condition Ready is False, and an Event tells of that. Raises KubeError."""
        lan = self._written.get(key)
        if lan is not None:
            reason = "NADRefused" if isinstance(error, NadsDelayed) else REFUSED
            reason = "Terminating" if lan.metadata.is_deleting else reason
            users = lan.status.users if lan.metadata.is_deleting else ()
            await self._report(lan, Verdict(reason=reason, message=text_of(error), users=users))

    async def accepted(self, key: Key) -> None:
        """Implement Refusals; the reconcile that went well has written the condition."""

    async def _ensure(self, lan: LAN) -> float | None:
        """Return a LAN that stays. What was made for one that became invalid is left as it is."""
        if found := faults(lan.spec):
            await self._report(lan, Verdict(reason="InvalidSpec", message=". ".join(found)))
            return None
        if lost := lost_claim(lan, self._informers.claimants(lan)):
            await self._report(lan, Verdict(reason="Conflict", message=lost))
            return None
        if FINALIZER not in lan.metadata.finalizers:
            lan = await self._finalizers(lan, (*lan.metadata.finalizers, FINALIZER))
        if waits := await self._network(lan):
            await self._report(lan, waits)
            return RETRY_SECONDS
        try:
            conflicts = await self._nads(lan)
            left = await self._orphans(lan)
            if not lan.spec.subnets and self._networks.are_there(lan):
                await self._networks.remove(lan.metadata.uid)
        except (AlreadyExists, Conflict):
            raise
        except ServerError as error:
            raise NadsDelayed(error.code, error.reason, error.message, error.status) from error
        except ApiError as error:
            await self._report(lan, Verdict(reason="NADRefused", message=str(error)))
            return RETRY_SECONDS
        if conflicts:
            await self._report(lan, Verdict(reason="NADConflict", message=_conflict(conflicts)))
        elif left is not None and left.users:
            message = f"a NAD of a spoke that was taken out is {left.message}"
            await self._report(lan, Verdict(reason="SpokeInUse", message=message))
        else:
            await self._report(lan, Verdict())
        return left.wait if left is not None else None

    async def _network(self, lan: LAN) -> Verdict | None:
        """See to the LAN's own subnets; return what keeps them from being used, None for nothing."""
        try:
            waits = await self._networks.ensure(lan)
        except (AlreadyExists, Conflict, ServerError):
            raise
        except ApiError as error:
            return Verdict(reason="NetworkRefused", message=f"spec.subnets: {error}")
        return Verdict(reason="NetworkBeingDeleted", message=waits) if waits else None

    async def _nads(self, lan: LAN) -> tuple[str, ...]:
        """Create and repair the NADs; return the names of those in whose place there is another one."""
        store = self._informers.nads.store
        missing: list[WantedNad] = []
        conflicts: list[str] = []
        for wanted in wanted_nads(lan):
            found = store.get(wanted.key)
            if found is None:
                missing.append(wanted)
            elif not _may_adopt(lan, wanted, found):
                conflicts.append(wanted.key.name)
            elif not found.metadata.is_deleting:
                await self._repair(lan, wanted, found)
        limit = asyncio.Semaphore(_CREATES)
        creates = (self._create(lan, wanted, limit) for wanted in missing)
        for result in await asyncio.gather(*creates, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        return tuple(conflicts)

    async def _create(self, lan: LAN, wanted: WantedNad, limit: asyncio.Semaphore) -> None:
        async with limit:
            await self._client.create(NADS, body_of(lan, wanted), wanted.key.namespace)
        log.info("lan-nad-created", lan=str(lan.metadata.key), nad=str(wanted.key))

    async def _repair(self, lan: LAN, wanted: WantedNad, found: NetworkAttachmentDefinition) -> None:
        patch = repair(lan, wanted, found)
        if not patch:
            return
        patch.setdefault("metadata", {})["resourceVersion"] = found.metadata.resource_version
        with ignore_not_found(wanted.key.name):
            await self._client.patch(NADS, wanted.key.name, patch, wanted.key.namespace)
        log.info("lan-nad-repaired", lan=str(lan.metadata.key), nad=str(wanted.key))
        if owner_of(found.metadata) == lan.metadata.uid:
            fields = sorted({*patch, *patch["metadata"]} - {"metadata", "resourceVersion"})
            text = f"NetworkAttachmentDefinition {wanted.key} was changed ({', '.join(fields)}) and is as before again"
            await self._record(lan, EventDraft("Warning", "NADRepaired", text))

    async def _orphans(self, lan: LAN) -> Retirement | None:
        """Take away the NADs of spokes that the LAN has no more; return None where there are none.

        Those that are used wait, and don't hold up the others.
        """
        uid, wanted = lan.metadata.uid, {item.key for item in wanted_nads(lan)}
        nads = [nad for nad in self._made(uid) if nad.metadata.key not in wanted]
        if not nads:
            return None
        steps = [await self._remover.retire(uid, group, lan) for group in self._by_use(nads) if group]
        waits = [step.wait for step in steps if step.wait is not None]
        users = tuple(sorted({user for step in steps for user in step.users}))
        message = f"in use by {listed(users)}" if users else ""
        return Retirement(stage="users", message=message, users=users, wait=min(waits, default=None))

    def _by_use(self, nads: Sequence[NetworkAttachmentDefinition]) -> tuple[Nads, Nads]:
        used = {nad.metadata.key for nad in nads if self._users.is_used(nad.metadata.key)}
        return (
            tuple(nad for nad in nads if nad.metadata.key in used),
            tuple(nad for nad in nads if nad.metadata.key not in used),
        )

    async def _remove(self, lan: LAN) -> float | None:
        """Return a LAN that goes."""
        if FINALIZER not in lan.metadata.finalizers:
            return None
        uid, nads = lan.metadata.uid, self._made(lan.metadata.uid)
        if is_forced(lan):
            await self._remover.delete_now(await self._remover.read(uid, lan.metadata.namespace))
            if self._networks.are_there(lan):
                await self._networks.remove(uid)
            await self._release(lan, "ForceDeleted")
            return None
        others = self._informers.nads_of_others(lan, lan.spec.spokes)
        step = await self._remover.retire(uid, nads, lan, others)
        if step.stage == "gone":
            # A watch may not have brought the last ones yet.
            nads = tuple(await self._remover.read(uid, lan.metadata.namespace))
            step = await self._remover.retire(uid, nads, lan, others) if nads else step
        if step.stage != "gone":
            there = attached(uid, self._informers.carrying(uid))
            users = with_attached(self._users, step.users, there)
            reason = "DeletionBlocked" if users else "Terminating"
            message = f"in use by {listed(users)}" if step.users else step.message
            await self._report(lan, Verdict(reason=reason, message=message, users=users))
            return step.wait
        return await self._leave_nodes(lan)

    async def _leave_nodes(self, lan: LAN) -> float | None:
        """Wait for the nodes to give the LAN up, then let it go."""
        reports = (await self._client.list(LAN_NODES)).items
        nodes = self._informers.nodes.store.items()
        found = carrying_nodes(lan.metadata.uid, reports, nodes, self._now())
        if not found.waited:
            if self._networks.are_there(lan) and (held := await self._networks.remove(lan.metadata.uid)):
                await self._report(lan, Verdict(reason="Terminating", message=held))
                return REREAD_SECONDS
            await self._release(lan, "Deleted")
            return None
        message = f"waits until {listed(found.waited)} no longer carries it"
        there = (item for item in attached(lan.metadata.uid, reports) if item[0] in found.waited)
        users = with_attached(self._users, (), there)
        reason = "DeletionBlocked" if users else "Terminating"
        message += f": in use by {listed(users)}" if users else ""
        await self._report(lan, Verdict(reason=reason, message=message, users=users))
        left = math.inf if found.until is None else max(0.0, found.until - self._now()) + 1
        return min(left, REREAD_SECONDS)

    async def _release(self, lan: LAN, reason: str) -> None:
        rest = tuple(item for item in lan.metadata.finalizers if item != FINALIZER)
        await self._finalizers(lan, rest)
        log.info("lan-released", lan=str(lan.metadata.key), reason=reason)

    async def _finalizers(self, lan: LAN, finalizers: Sequence[str]) -> LAN:
        meta = lan.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": list(finalizers)}}
        return self._written.add(await self._client.patch(LANS, meta.name, patch, meta.namespace))

    async def _report(self, lan: LAN, verdict: Verdict) -> None:
        """Write the status if it differs, and tell of a new reason by an Event. Raises KubeError."""
        uid = lan.metadata.uid
        store = self._informers.nodes.store
        reports = self._informers.carrying(uid)
        nodes = {
            node.metadata.name: node
            for report in reports
            if (node := store.get(Key("", report.metadata.name))) is not None
        }
        underlays = underlays_of(lan, self._informers.lan_nodes.store.items())
        results = node_results(lan, reports, nodes)
        status = lan_status(lan, results, verdict, underlays, now=self._now())
        if status == lan.status:
            return
        meta = lan.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": struct_diff(lan.status, status),
        }
        written = self._written.add(await self._statuses.patch(LANS, meta.name, patch, meta.namespace))
        if draft := _event(lan.status, status):
            await self._record(written, draft)

    async def _record(self, lan: LAN, draft: EventDraft) -> None:
        await self._recorder.record(reference(LANS, lan), (draft,))

    def _made(self, uid: str) -> tuple[NetworkAttachmentDefinition, ...]:
        return self._informers.nads.store.by(BY_UID, uid)


def _may_adopt(lan: LAN, wanted: WantedNad, found: NetworkAttachmentDefinition) -> bool:
    """Return whether a NAD is the LAN's, or may become that: it does the same, and no other LAN has it.

    A LAN of the same name that is gone left it behind; its users go on in the new one.
    """
    uid = owner_of(found.metadata)
    if uid == lan.metadata.uid:
        return True
    names = {item.name for item in found.metadata.owner_references if item.uid == uid}
    return is_as_wanted(wanted, found) and (not uid or lan.metadata.name in names)


def _conflict(names: Iterable[str]) -> str:
    return (
        f"in the place of {listed(names)} there is a NetworkAttachmentDefinition that was not made for this LAN, and "
        "it is left alone; delete it, or give the spoke another name"
    )


def _event(old: LANStatus, new: LANStatus) -> EventDraft | None:
    """Return what is worth telling: another reason of the condition Ready, once nodes have reported."""
    before, after = find(old.conditions, "Ready"), find(new.conditions, "Ready")
    if after is None or after.reason in SETTLING_REASONS:
        return None
    if before is not None and (before.status, before.reason) == (after.status, after.reason):
        return None
    return EventDraft("Normal" if after.status == "True" else "Warning", after.reason, after.message)


class Orphans:
    """NADs and Networks of LANs that are gone, by the uid of the LAN: its finalizer was removed by force."""

    def __init__(
        self,
        client: Client,
        informers: LanInformers,
        networks: LanNetworks,
        remover: NadRemover,
        recorder: Recorder,
    ) -> None:
        self._client = client
        self._informers = informers
        self._networks = networks
        self._remover = remover
        self._recorder = recorder
        self._reported: dict[str, str] = {}

    def is_orphaned(self, uid: str) -> bool:
        """Return whether no LAN of that uid is known; one that the watch has not brought yet is none, too."""
        return bool(uid) and self._informers.of_uid(uid) is None

    def reference(self, uid: str) -> ObjectReference | None:
        """Return the first of the NADs that a LAN of that uid left, for Events."""
        nads = self._informers.nads.store.by(BY_UID, uid)
        return reference(NADS, nads[0]) if nads else None

    async def reconcile(self, uid: str) -> float | None:
        """Take the next step; return in how many seconds to look again, None for when something happens."""
        nads = self._informers.nads.store.by(BY_UID, uid)
        if not self.is_orphaned(uid) or not (nads or self._networks.of(uid)):
            self._reported.pop(uid, None)
            return None
        every = (await self._client.list(LANS)).items
        if any(lan.metadata.uid == uid for lan in every):
            return None
        if not nads:
            await self._networks.remove(uid)
            return None
        nads = tuple(nad for nad in nads if not _is_awaited(nad, uid, every))
        step = await self._remover.retire(uid, nads)
        await self._report_users(uid, nads, step)
        return step.wait

    async def _report_users(
        self, uid: str, nads: Sequence[NetworkAttachmentDefinition], step: Retirement
    ) -> None:
        """Say what is waited for, once; by Events on the NADs, as there is no status any more."""
        if step.stage not in ("users", "requests") or self._reported.get(uid) == step.message:
            return
        self._reported[uid] = step.message
        text = f"the LAN that it was made for was removed by force; the NAD goes when it is unused: {step.message}"
        for nad in nads:
            await self._recorder.record(reference(NADS, nad), (EventDraft("Warning", "Orphaned", text),))


def _is_awaited(nad: NetworkAttachmentDefinition, uid: str, lans: Iterable[LAN]) -> bool:
    """Return whether a LAN of the same name, created again, takes the NAD over."""
    places = {
        (nad.metadata.namespace, item.name) for item in nad.metadata.owner_references if item.uid == uid
    }
    return any(
        spoke_of(nad.metadata.name) in lan.spec.spokes
        for lan in lans
        if lan.metadata.key in places and not lan.metadata.is_deleting
    )

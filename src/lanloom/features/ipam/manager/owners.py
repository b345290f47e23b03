"""Hold NICs as long as their owners live, release those whose deletion was requested, and delete leaked ones.

A NIC is held by a finalizer. The watches only say when to check. An address is given back only for what is read
live, and whatever can't be read counts as in use. A NIC that no owner is left to delete is deleted after two checks
some minutes apart, and released only after a third. So is that of a network that a machine has no more.

A NIC that belongs to a name (`rules/shares.py`) waits for the next owner of that name for its period, and for as long
as a StatefulSet wants one.

The finalizer goes on the version of the NIC that was there before the check. Owners that are gone never come back; a
machine that has got the network again writes the NIC before it uses it (`agent/nics.py`), and its pod is there by then.

The end of a period is a time, which outlives the process. If the clock is set meanwhile, as after a boot, it is moved.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from lanloom.api.core import Pod
from lanloom.api.ipam import (
    FINALIZER,
    HELD_UNTIL,
    NICS,
    STICKY_FOR,
    VIRTUAL_MACHINE,
    Nic,
)
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.meta import Key, Object, is_ahead, rfc3339
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.features.ipam.manager.evidence import (
    Evidence,
    OwnerInformers,
    cached_evidence,
    held_until,
    is_expected,
    is_leaked,
    is_unused,
    live_evidence,
    may_go,
    owners_of_pod,
    period_of,
)
from lanloom.features.ipam.reader import BY_OWNER
from lanloom.features.ipam.rules.model import Owner
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents, referring

log = structlog.get_logger(__name__)

RECHECK_SECONDS = 30.0
"""Delay before an owner that still lives, or could not be read, is checked again; a watch may bring it before."""

LEAK_SECONDS = 300.0
"""How far apart the two checks are after which a NIC without an owner is deleted."""

WORKERS = 4

_OWNER_GONE = ("OwnerGone", "does not exist")
_NOT_USED = ("NotUsed", "no longer has network {interface} with its NAD")
_NOT_BACK = ("HoldExpired", "did not come back in time")
"""Reasons of the deletion of a NIC, and their sentences."""


class OwnerController:
    """One controller over all NICs. It runs on the leader only; the informers run on every replica.

    The store of `nics` has the index BY_OWNER. `leaked` is called for each NIC that is deleted as its owner is gone.
    """

    def __init__(
        self,
        client: Client,
        nics: Informer[Nic],
        owners: OwnerInformers,
        recorder: Recorder,
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
        leaked: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._nics = nics
        self._owners = owners
        self._recorder = recorder
        self._leaked = leaked
        self._now = now
        self._suspected: dict[str, tuple[str, float]] = {}
        self._held: dict[str, tuple[float, float]] = {}
        self._controller: Controller[str] = Controller(
            "nicowner",
            self._reconcile,
            rng=rng,
            workers=WORKERS,
            observe=observe,
            refusals=RefusalEvents(recorder, referring(NICS, nics.store)),
        )
        nics.on_change(self._nic_changed)
        owners.pods.on_change(self._pod_changed)
        owners.machines.on_change(self._machine_changed)
        owners.instances.on_change(self._instance_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queue and its workers, for metrics."""
        return (self._controller,)

    async def run(self) -> None:
        """Run until cancelled; check everything once, because events of the time before are not known."""
        for informer in (self._nics, *self._owners.all()):
            await informer.synced()
        self._suspected.clear()  # an earlier term knows nothing of the time between
        self._held.clear()
        for nic in self._nics.store.items():
            self._controller.enqueue(str(nic.metadata.key))
        await self._controller.run()

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        if new is None and old is not None:
            self._suspected.pop(str(old.metadata.key), None)
            self._held.pop(old.metadata.uid, None)
        elif new is not None and (old is None or _holding(old) != _holding(new)):
            self._controller.enqueue(str(new.metadata.key))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and _use(old) == _use(new):
            return
        for item in (old, new):
            for owner in owners_of_pod(item) if item is not None else ():
                self._enqueue(owner)

    def _machine_changed(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._enqueue_machine(new or old)

    def _instance_changed(
        self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None
    ) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._enqueue_machine(new or old)

    def _enqueue_machine(self, item: Object | None) -> None:
        if item is not None:
            meta = item.metadata
            self._enqueue(Owner(kind=VIRTUAL_MACHINE, namespace=meta.namespace, name=meta.name))

    def _enqueue(self, owner: Owner) -> None:
        for nic in self._nics.store.by(BY_OWNER, str(owner)):
            self._controller.enqueue(str(nic.metadata.key))

    async def _reconcile(self, key: str) -> float | None:
        nic = self._nics.store.get(Key(*key.split("/")))
        if nic is None:
            return None
        if nic.metadata.is_deleting:
            return await self._release(nic)
        if FINALIZER not in nic.metadata.finalizers:
            await self._patch_finalizers(nic, (*nic.metadata.finalizers, FINALIZER))
        return await (self._check_name(nic) if nic.is_sticky else self._check_leak(nic))

    async def _release(self, nic: Nic) -> float | None:
        """Take the finalizer away once the owner has ended."""
        if FINALIZER not in nic.metadata.finalizers:
            return None
        if not may_go(nic, cached_evidence(self._owners, nic)):
            return RECHECK_SECONDS  # the watch brings it before; a read at each step of an end would be many
        evidence = await self._read(nic)
        if evidence is None or not may_go(nic, evidence):
            return RECHECK_SECONDS
        await self._patch_finalizers(nic, [item for item in nic.metadata.finalizers if item != FINALIZER])
        log.info("nic-released", nic=str(nic.metadata.key), addresses=nic.status.ips)
        return None

    async def _check_leak(self, nic: Nic) -> float | None:
        """Delete the NIC of an owner that is gone, or has no use for it, at the second check that finds it so."""
        key, uid, now = str(nic.metadata.key), nic.metadata.uid, asyncio.get_running_loop().time()
        if not is_leaked(nic, cached_evidence(self._owners, nic)):
            self._suspected.pop(key, None)
            return None  # the watch brings its end
        evidence = await self._read(nic)
        if evidence is None or not is_leaked(nic, evidence):
            self._suspected.pop(key, None)
            return RECHECK_SECONDS
        whose, since = self._suspected.get(key, ("", now))
        if whose != uid:
            self._suspected[key] = (uid, now)
            return LEAK_SECONDS
        if now - since < LEAK_SECONDS:
            return LEAK_SECONDS - (now - since)
        unused = is_unused(nic, evidence)
        if await self._delete(nic, *(_NOT_USED if unused else _OWNER_GONE)) and not unused:
            self._leaked()
        return None

    async def _check_name(self, nic: Nic) -> float | None:
        """Delete the NIC of a name that no object has had for the NIC's period; write down when that is."""
        until = held_until(nic)
        if not may_go(nic, cached_evidence(self._owners, nic)) and not until:
            return None  # the watch brings its end
        evidence = await self._read(nic)
        if evidence is None:
            return RECHECK_SECONDS
        if not may_go(nic, evidence) or is_expected(nic, evidence):
            if until:
                await self._hold(nic, None)
            return LEAK_SECONDS  # what a StatefulSet wants is not watched
        now, latest = self._now(), self._now() + period_of(nic)
        end = until + self._set_by(nic, until) if until else latest
        end = latest if is_ahead(end, latest) else end
        if end <= now:
            await self._delete(nic, *_NOT_BACK)
            return None
        if end != until:
            await self._hold(nic, rfc3339(end))
            given = ", ".join(nic.status.ips) or "no address"
            message = f"Keeps {given} for {nic.spec.owner.kind} {nic.spec.owner.name} until {rfc3339(end)}"
            await self._recorder.event(reference(NICS, nic), "Normal", "AddressesHeld", message)
        return end - now + 1.0

    def _set_by(self, nic: Nic, until: float) -> float:
        """Return by how much the clock was set since this process knows until when a NIC is held; negative for back."""
        offset = self._now() - asyncio.get_running_loop().time()
        known, before = self._held.get(nic.metadata.uid, (0.0, 0.0))
        if known != until:
            self._held[nic.metadata.uid] = (until, offset)
            return 0.0
        return offset - before if is_ahead(offset, before) or is_ahead(before, offset) else 0.0

    async def _hold(self, nic: Nic, until: str | None) -> None:
        meta = {"resourceVersion": nic.metadata.resource_version, "annotations": {HELD_UNTIL: until}}
        with ignore_not_found(nic.metadata.name):
            await self._client.patch(NICS, nic.metadata.name, {"metadata": meta}, nic.metadata.namespace)

    async def _read(self, nic: Nic) -> Evidence | None:
        """Return the owner as it is now; None if that can't be known."""
        try:
            return await live_evidence(self._client, nic)
        except KubeError as error:
            log.warning("owner-not-read", nic=str(nic.metadata.key), error=str(error))
            return None

    async def _patch_finalizers(self, nic: Nic, wanted: list[str] | tuple[str, ...]) -> None:
        """Patch finalizers in the version that was checked, so that no owner is exchanged in between."""
        meta = {"resourceVersion": nic.metadata.resource_version, "finalizers": list(wanted)}
        with ignore_not_found(nic.metadata.name):
            await self._client.patch(NICS, nic.metadata.name, {"metadata": meta}, nic.metadata.namespace)

    async def _delete(self, nic: Nic, reason: str, why: str) -> bool:
        """Delete a NIC that no owner is left to delete, and report why; False where another writer did."""
        meta, owner = nic.metadata, nic.spec.owner
        try:
            await self._client.delete(NICS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound as error:
            if not error.is_of(meta.name):
                raise
            return False
        self._suspected.pop(str(meta.key), None)
        log.warning("nic-of-nobody-deleted", nic=str(meta.key), owner=owner.name, addresses=nic.status.ips)
        given = ", ".join(nic.status.ips) or "no address"
        message = f"{owner.kind} {owner.name} {why.format(interface=nic.spec.interface)}; gave back {given}"
        await self._recorder.event(reference(NICS, nic), "Normal", reason, message)
        return True


def _use(pod: Pod) -> tuple[str, str]:
    """Return the key of a pod: the fields that decide whether it uses addresses, and of which networks."""
    return pod.status.phase, pod.metadata.annotations.get(MULTUS_NETWORKS, "")


def _holding(nic: Nic) -> tuple[object, ...]:
    """Return the key of a NIC: the fields that this controller depends on."""
    meta = nic.metadata
    marks = meta.annotations.get(STICKY_FOR), meta.annotations.get(HELD_UNTIL)
    return meta.uid, meta.deletion_timestamp, meta.finalizers, meta.owner_references, marks, nic.spec.owner

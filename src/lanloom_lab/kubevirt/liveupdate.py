"""KubeVirt's live update in the lab: the release that KubeVirt's object names acts on the lab's machines.

Without such an object, Lanloom does this part, and nothing here is done.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

import structlog
from msgspec import convert, to_builtins

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.kubevirtconfig import KubeVirt
from lanloom.api.meta import Condition, Key
from lanloom.api.multus import NETWORK_STATUS, interfaces_of
from lanloom.features.liveupdate.manager.rawmachines import ControllerRevision
from lanloom.kube.controller import Controller
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom_lab.kubevirt.installed import installed_of
from lanloom_lab.kubevirt.instances import InstanceController
from lanloom_lab.kubevirt.objects import REVISION_NAME, Whole
from lanloom_lab.kubevirt.rules import started_from
from lanloom_lab.kubevirt.virtcontroller import Act, Installed, Running, VirtController

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.2
"""Between two rounds of the workload updater: in the lab, KubeVirt's 30 ns would take a processor."""

RETRY_SECONDS = 1.0


class LiveUpdate:
    """Syncs machines to their instances, evaluates these, and makes the rounds of the workload updater."""

    def __init__(
        self,
        client: Client,
        kubevirts: Informer[KubeVirt],
        vms: Informer[Whole],
        vmis: Informer[Whole],
        vmims: Informer[Whole],
        revisions: Informer[ControllerRevision],
        instances: InstanceController,
        rng: Random,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._kubevirts = kubevirts
        self._vms = vms
        self._vmis = vmis
        self._revisions = revisions
        self._instances = instances
        self._now = now
        self._woken = asyncio.Event()
        self._virt = VirtController(client, self._installed, self._evict, now, _log)
        self.controller: Controller[Key] = Controller("live-update", self._reconcile, rng=rng)
        kubevirts.on_change(lambda _old, _new: self._another_release())
        vms.on_change(self._changed)
        vmis.on_change(self._changed)
        vmis.on_change(lambda _old, new: self._heard_of(new))
        vmims.on_change(lambda _old, _new: self._heard())
        revisions.on_change(self._kept)

    async def run_updater(self) -> None:
        """Make the rounds until cancelled."""
        while True:
            due = self._virt.due
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(due - self._now(), PAUSE_SECONDS)):
                    await self._woken.wait()
            self._woken.clear()
            if self._virt.is_due:
                with suppress(KubeError):
                    await self._round()

    async def _round(self) -> None:
        # As they are now: a round that did not see the migration of the one before would request another.
        instances = (await self._client.list(VIRTUAL_MACHINE_INSTANCES)).items
        migrations = (await self._client.list(MIGRATIONS)).items
        mine = [item for item in instances if self._vmis.store.get(item.metadata.key) is not None]
        await self._virt.update(mine, migrations)

    def _installed(self) -> Installed | None:
        return installed_of(self._kubevirts.store.items())

    def _another_release(self) -> None:
        log.info("another KubeVirt", installed=str(self._installed()))
        for vmi in self._vmis.store.items():
            self.controller.enqueue(vmi.metadata.key)
            self._instances.controller.enqueue(vmi.metadata.key)
        self._heard()

    def _heard(self) -> None:
        self._virt.receive_migration()
        self._woken.set()

    def _heard_of(self, vmi: Whole | None) -> None:
        if vmi is not None:
            self._virt.receive_machine(_seen(vmi))
            self._woken.set()

    def _changed(self, old: Whole | None, new: Whole | None) -> None:
        if (item := new or old) is not None:
            self.controller.enqueue(item.metadata.key)

    def _kept(self, _old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        """Note what a machine was started from."""
        if new is None:
            return
        for owner in new.metadata.owner_references:
            self.controller.enqueue(Key(new.metadata.namespace, owner.name))

    async def _reconcile(self, key: Key) -> float | None:
        vm, vmi = self._vms.store.get(key), self._vmis.store.get(key)
        if vm is None or vmi is None or vm.metadata.is_deleting or vmi.metadata.is_deleting:
            return None
        if all(item.uid != vm.metadata.uid for item in vmi.metadata.owner_references):
            return None
        template = (vm.spec.get("template") or {}).get("spec") or {}
        kept = Key(key.namespace, vmi.status.get(REVISION_NAME, ""))
        machine = Running(
            meta=vm.metadata,
            conditions=convert(to_builtins(vm), VirtualMachine, strict=False).status.conditions,
            template=template,
            started=started_from(self._revisions.store.get(kept)) or template,
            vmi=_seen(vmi),
            spec=vmi.spec,
            pod=self._instances.active_pod(vmi),
        )
        try:
            await self._virt.sync(machine)
        except KubeError as error:
            log.info("a machine was not synced", machine=str(key), error=str(error))
            return RETRY_SECONDS
        return None

    def evaluate(self, vmi: Whole, pod: Pod) -> tuple[Condition, ...]:
        """Return the conditions of an instance, with MigrationRequired as its pod's networks need it."""
        attached = interfaces_of(pod.metadata.annotations.get(NETWORK_STATUS, ""))
        return self._virt.conditions(_seen(vmi), attached)

    async def _evict(self, key: Key) -> None:
        """Delete the launcher pods: the guest ends with them."""
        vmi = self._vmis.store.get(key)
        for pod in self._instances.pods(vmi) if vmi is not None else ():
            with suppress(NotFound):
                meta = pod.metadata
                await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)


def _seen(vmi: Whole) -> VirtualMachineInstance:
    return convert(to_builtins(vmi), VirtualMachineInstance, strict=False)


def _log(key: Key, act: Act) -> None:
    log.info("the workload updater acts", machine=str(key), act=act)

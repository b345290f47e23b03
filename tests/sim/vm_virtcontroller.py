"""KubeVirt's own live update of networks, as a release has it: sync, conditions, and the workload updater."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.meta import Condition, Key, Object
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.features.liveupdate.rules.updates import MACHINE_LABEL
from lanloom.kube.conditions import find
from lanloom.kube.errors import KubeError
from lanloom_embedded.local import LocalClient
from lanloom_lab.kubevirt import releases, updater
from lanloom_lab.kubevirt.releases import MIGRATION_REQUIRED, Release
from lanloom_lab.kubevirt.updater import Updater
from tests.sim.vm_judge import Witness
from tests.sim.vm_multus import Multus, asked
from tests.sim.vm_state import PLACE, State

Raw = dict[str, Any]

RESTART = "RestartRequired"


class VirtController:
    """What KubeVirt does with networks of running machines. `started` are the templates of starts, by instance."""

    def __init__(
        self,
        admin: LocalClient,
        state: State,
        release: Release,
        methods: tuple[str, ...],
        witness: Witness,
        multus: Multus,
    ) -> None:
        self._admin = admin
        self._state = state
        self._release = release
        self._methods = methods
        self._witness = witness
        self._multus = multus
        self._now = asyncio.get_running_loop().time
        self._updater = Updater()
        self.started: dict[str, Raw] = {}
        self.heeds_holds = True
        state.listeners.append(self._hear)

    def _hear(self, plural: str, _before: Object | None, after: Object | None) -> None:
        if plural == MIGRATIONS.plural:
            self._updater = self._updater.heard(self._now())
        elif isinstance(after, VirtualMachineInstance):
            self._updater = self._updater.heard_of(after, self._now())

    async def sync(self, vm: VirtualMachine, vmi: VirtualMachineInstance, pod: Pod | None) -> None:
        """Take the edit of a machine to its instance, and say whether it needs a restart."""
        assert vm.spec.template is not None
        template, spec = to_builtins(vm.spec.template.spec), to_builtins(vmi.spec)
        required = releases.restart_required(
            self._release,
            self.started.get(vmi.metadata.uid, template),
            template,
            spec,
            migratable=vmi.is_migratable,
        )
        if (find(vm.status.conditions, RESTART) is not None) != required:
            found = (
                [{"type": RESTART, "status": "True", "message": "a field was changed"}] if required else []
            )
            patch = {"status": {"conditions": found}}
            await self._admin.patch(VIRTUAL_MACHINES, vm.metadata.name, patch, PLACE, subresource="status")
        reported = {item.name for item in vmi.status.interfaces}
        steps = releases.sync(self._release, template, spec, reported, migratable=vmi.is_migratable)
        if steps:
            await self._admin.json_patch(VIRTUAL_MACHINE_INSTANCES, vmi.metadata.name, steps, PLACE)
        else:
            await self._plug_live(vmi, pod)

    async def _plug_live(self, vmi: VirtualMachineInstance, pod: Pod | None) -> None:
        """What is plugged or unplugged is asked of Multus for the running pod; its other networks stay."""
        if pod is None or not vmi.is_running:
            return
        present = {item["interface"]: item for item in json.loads(pod.metadata.annotations[MULTUS_NETWORKS])}
        wanted = {item["interface"]: item for item in json.loads(asked(vmi.spec))}
        if present.keys() != wanted.keys():
            text = json.dumps([present.get(name, item) for name, item in wanted.items()])
            change = {"metadata": {"annotations": {MULTUS_NETWORKS: text}}}
            await self._admin.patch(PODS, pod.metadata.name, change, PLACE)

    def conditions(self, vmi: VirtualMachineInstance, attached: Mapping[str, str]) -> tuple[Condition, ...]:
        """Return the conditions of an instance, with MigrationRequired as its pod's networks need it."""
        if not vmi.is_running:
            return vmi.status.conditions
        need = releases.need_of(self._release, vmi, attached)
        wanted, _ = releases.migration_required(vmi, need, self._now())
        others = tuple(item for item in vmi.status.conditions if item.type != MIGRATION_REQUIRED)
        return (*others, wanted) if wanted is not None else others

    async def update(self) -> float | None:
        """Round at the cluster if that is due; when to look again."""
        now = self._now()
        if self._updater.due is not None and self._updater.due <= now:
            found, self._updater = updater.sync_workloads(
                self._updater,
                self._methods,
                tuple(map(self._looked_at, self._state.instances.values())),
                tuple(self._state.migrations.values()),
                now,
            )
            for key in found.migrate:
                await self._migrate(key)
            for key in found.evict:
                await self._evict(key)
            for key in found.abort:
                await self._abort(key)
        return self._updater.due

    def _looked_at(self, vmi: VirtualMachineInstance) -> VirtualMachineInstance:
        if self.heeds_holds:
            return vmi
        annotations = {k: v for k, v in vmi.metadata.annotations.items() if k != updater.NO_MIGRATION}
        return replace(vmi, metadata=replace(vmi.metadata, annotations=annotations))

    async def _migrate(self, key: Key) -> None:
        self._witness.updates(key, "migration")
        meta = {"generateName": "kubevirt-workload-update-", "annotations": {updater.MARK: ""}}
        meta |= {"labels": {MACHINE_LABEL: key.name}}
        with suppress(KubeError):
            await self._admin.create(MIGRATIONS, {"metadata": meta, "spec": {"vmiName": key.name}}, PLACE)

    async def _evict(self, key: Key) -> None:
        """The launcher pod goes, and the guest with it."""
        self._witness.updates(key, "eviction")
        vmi = self._state.instances[key]
        for pod in self._state.pods_of(vmi.metadata.uid):
            with suppress(KubeError):
                await self._multus.end(pod)

    async def _abort(self, key: Key) -> None:
        for item in list(self._state.migrations.values()):
            if item.spec.vmi_name == key.name and updater.MARK in item.metadata.annotations:
                with suppress(KubeError):
                    await self._admin.delete(MIGRATIONS, item.metadata.name, PLACE)

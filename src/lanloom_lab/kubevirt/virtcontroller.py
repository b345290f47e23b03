"""KubeVirt's own live update of networks, as its virt-controller carries it out: the lab and simulations run it.

What is done follows from `releases` and `updater`, which name their sources. This writes it: a machine's networks to
its instance, what is plugged to the launcher pod, and the migrations and evictions of the workload updater. The release
may change at any moment.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct, to_builtins

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from lanloom.api.meta import Condition, Key, ObjectMeta
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.features.liveupdate.rules.annotation import launcher_annotations
from lanloom.kube.conditions import find
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom_lab.kubevirt import releases, updater
from lanloom_lab.kubevirt.objects import MACHINE_LABEL, Raw
from lanloom_lab.kubevirt.releases import MIGRATION_REQUIRED, Release
from lanloom_lab.kubevirt.updater import Updater

RESTART_REQUIRED = "RestartRequired"

Act = Literal["migration", "eviction"]
"""What the workload updater does to a machine."""


class Installed(Struct, frozen=True):
    """The KubeVirt of a cluster: its release, and its methods of updating workloads."""

    release: Release
    methods: tuple[str, ...] = ()


class Running(Struct, frozen=True, kw_only=True):
    """A machine that runs, as virt-controller compares it with its instance.

    `meta` and `conditions` are the VirtualMachine's, `template` and `spec` the instance's spec as the machine wants it
    and as it is, `started` what the template was at the start.
    """

    meta: ObjectMeta
    conditions: tuple[Condition, ...]
    template: Raw
    started: Raw
    vmi: VirtualMachineInstance
    spec: Raw
    pod: Pod | None


class VirtController:
    """Does KubeVirt's part for running machines. `installed` tells the KubeVirt of now, None where there is none.

    `evict` ends the launcher pods of a machine. `acts` hears what the workload updater is about to do.
    """

    def __init__(
        self,
        client: Client,
        installed: Callable[[], Installed | None],
        evict: Callable[[Key], Awaitable[None]],
        now: Callable[[], float],
        acts: Callable[[Key, Act], None] = lambda _key, _act: None,
    ) -> None:
        self._client = client
        self._installed = installed
        self._evict = evict
        self._now = now
        self._acts = acts
        self._updater = Updater()

    @property
    def due(self) -> float | None:
        """When the workload updater looks at the cluster next; None for not before something happens."""
        return self._updater.due

    @property
    def is_due(self) -> bool:
        """Whether the workload updater has to look at the cluster now."""
        return self._updater.due is not None and self._updater.due <= self._now()

    def receive_migration(self) -> None:
        """Take in that a migration came, changed or went."""
        self._updater = self._updater.heard(self._now())

    def receive_machine(self, vmi: VirtualMachineInstance) -> None:
        """Take in an instance as it is now."""
        self._updater = self._updater.heard_of(vmi, self._now())

    async def sync(self, machine: Running) -> None:
        """Take the networks of a machine to its instance, and report whether they need a restart. Raises KubeError."""
        installed, vmi = self._installed(), machine.vmi
        if installed is None:
            return
        release, migratable = installed.release, vmi.is_migratable
        required = releases.restart_required(
            release, machine.started, machine.template, machine.spec, migratable=migratable
        )
        await self._report_restart(machine, required=required)
        reported = [item.name for item in vmi.status.interfaces]
        steps = releases.sync(release, machine.template, machine.spec, reported, migratable=migratable)
        key = vmi.metadata.key
        if steps:
            await self._client.json_patch(VIRTUAL_MACHINE_INSTANCES, key.name, steps, key.namespace)
        elif trimmed := releases.without_unplugged(machine.template, machine.spec, reported):
            await self._client.json_patch(VIRTUAL_MACHINES, key.name, trimmed, key.namespace)
        elif machine.pod is not None and vmi.is_running:
            await self._plug(vmi, machine.pod)

    async def _report_restart(self, machine: Running, *, required: bool) -> None:
        if (find(machine.conditions, RESTART_REQUIRED) is not None) == required:
            return
        kept: list[Raw] = [to_builtins(item) for item in machine.conditions if item.type != RESTART_REQUIRED]
        message = "a non-live-updatable field was changed in the template spec"
        own: list[Raw] = [{"type": RESTART_REQUIRED, "status": "True", "message": message}]
        meta = machine.meta
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {"conditions": [*kept, *own] if required else kept},
        }
        await self._client.patch(VIRTUAL_MACHINES, meta.name, patch, meta.namespace, subresource="status")

    async def _plug(self, vmi: VirtualMachineInstance, pod: Pod) -> None:
        """Ask Multus for what is plugged or unplugged in a running pod; its other networks stay."""
        asked = launcher_annotations(vmi.spec, vmi.metadata.namespace)
        present = _by_interface(pod.metadata.annotations.get(MULTUS_NETWORKS, "[]"))
        wanted = _by_interface(asked.get(MULTUS_NETWORKS, "[]"))
        if present.keys() != wanted.keys():
            text = json.dumps([present.get(name, item) for name, item in wanted.items()])
            change = {"metadata": {"annotations": {MULTUS_NETWORKS: text}}}
            await self._client.patch(PODS, pod.metadata.name, change, pod.metadata.namespace)

    def conditions(self, vmi: VirtualMachineInstance, attached: Mapping[str, str]) -> tuple[Condition, ...]:
        """Return the conditions of an instance, with MigrationRequired as its pod's networks need it.

        `attached` are the NADs by the interface of the pod's network-status.
        """
        installed, found = self._installed(), vmi.status.conditions
        if installed is None or not vmi.is_running:
            return found
        need = releases.need_of(installed.release, vmi, attached)
        wanted, _ = releases.migration_required(vmi, need, self._now())
        if wanted == find(found, MIGRATION_REQUIRED):
            return found
        others = tuple(item for item in found if item.type != MIGRATION_REQUIRED)
        return (*others, wanted) if wanted is not None else others

    async def update(
        self,
        instances: Iterable[VirtualMachineInstance],
        migrations: Collection[VirtualMachineInstanceMigration],
    ) -> None:
        """Make the round of the workload updater that is due, of the cluster as it is now."""
        now, installed = self._now(), self._installed()
        methods = installed.methods if installed is not None else ()
        found, self._updater = updater.sync_workloads(self._updater, methods, instances, migrations, now)
        if installed is None:
            return
        for key in found.migrate:
            await self._migrate(key)
        for key in found.evict:
            self._acts(key, "eviction")
            await self._evict(key)
        for key in found.abort:
            await self._abort(key, migrations)

    async def _migrate(self, key: Key) -> None:
        self._acts(key, "migration")
        meta = {
            "generateName": "kubevirt-workload-update-",
            "annotations": {updater.MARK: ""},
            "labels": {MACHINE_LABEL: key.name},
        }
        with suppress(KubeError):
            body = {"metadata": meta, "spec": {"vmiName": key.name}}
            await self._client.create(MIGRATIONS, body, key.namespace)

    async def _abort(self, key: Key, migrations: Iterable[VirtualMachineInstanceMigration]) -> None:
        for item in migrations:
            own = item.spec.vmi_name == key.name and updater.MARK in item.metadata.annotations
            if own and item.metadata.namespace == key.namespace:
                with suppress(KubeError):
                    await self._client.delete(MIGRATIONS, item.metadata.name, key.namespace)


def _by_interface(annotation: str) -> dict[str, Any]:
    return {item["interface"]: item for item in json.loads(annotation)}

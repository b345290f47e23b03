"""KubeVirt's own live update for the simulated machines: the lab's stand-in."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.kubevirt import MIGRATIONS, VirtualMachine, VirtualMachineInstance
from lanloom.api.meta import Condition, Key, Object
from lanloom.kube.errors import KubeError
from lanloom_embedded.local import LocalClient
from lanloom_lab.kubevirt import updater
from lanloom_lab.kubevirt.virtcontroller import Installed, Running
from lanloom_lab.kubevirt.virtcontroller import VirtController as StandIn
from tests.sim.vm_judge import Verifier
from tests.sim.vm_multus import Multus
from tests.sim.vm_state import State

Raw = dict[str, Any]


class VirtController:
    """What KubeVirt does with networks of running machines. `started` are the templates of starts, by instance."""

    def __init__(
        self, admin: LocalClient, state: State, installed: Installed, witness: Verifier, multus: Multus
    ) -> None:
        self._state = state
        self._multus = multus
        self.installed = installed
        now = asyncio.get_running_loop().time
        self._stand_in = StandIn(admin, lambda: self.installed, self._evict, now, witness.updates)
        self.started: dict[str, Raw] = {}
        self.heeds_holds = True
        state.listeners.append(self._hear)

    def _hear(self, plural: str, _before: Object | None, after: Object | None) -> None:
        if plural == MIGRATIONS.plural:
            self._stand_in.receive_migration()
        elif isinstance(after, VirtualMachineInstance):
            self._stand_in.receive_machine(after)

    async def sync(self, vm: VirtualMachine, vmi: VirtualMachineInstance, pod: Pod | None) -> None:
        """Take the edit of a machine to its instance, and report whether it needs a restart."""
        assert vm.spec.template is not None
        template = to_builtins(vm.spec.template.spec)
        await self._stand_in.sync(
            Running(
                meta=vm.metadata,
                conditions=vm.status.conditions,
                template=template,
                started=self.started.get(vmi.metadata.uid, template),
                vmi=vmi,
                spec=to_builtins(vmi.spec),
                pod=pod,
            )
        )

    def conditions(self, vmi: VirtualMachineInstance, attached: Mapping[str, str]) -> tuple[Condition, ...]:
        """Return the conditions of an instance, with MigrationRequired as its pod's networks need it."""
        return self._stand_in.conditions(vmi, attached)

    async def update(self) -> float | None:
        """Round at the cluster if that is due; when to look again."""
        if self._stand_in.is_due:
            instances = map(self._looked_at, self._state.instances.values())
            await self._stand_in.update(tuple(instances), tuple(self._state.migrations.values()))
        return self._stand_in.due

    def _looked_at(self, vmi: VirtualMachineInstance) -> VirtualMachineInstance:
        if self.heeds_holds:
            return vmi
        annotations = {k: v for k, v in vmi.metadata.annotations.items() if k != updater.NO_MIGRATION}
        return replace(vmi, metadata=replace(vmi.metadata, annotations=annotations))

    async def _evict(self, key: Key) -> None:
        """The launcher pod goes, and the guest with it."""
        for pod in self._state.pods_of(self._state.instances[key].metadata.uid):
            with suppress(KubeError):
                await self._multus.end(pod)

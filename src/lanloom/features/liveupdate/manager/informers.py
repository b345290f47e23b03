"""What is watched for live update, and by what it is looked up."""

from collections.abc import Iterator

from lanloom.api.core import NODES, Node, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    machine_uid_of,
)
from lanloom.api.kubevirtconfig import KubeVirt
from lanloom.api.liveupdate import ACTIVE, NetworkSwap
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.liveupdate.manager.networks import NetworkInformers
from lanloom.features.liveupdate.manager.swapreader import BY_MACHINE, SwapInformers
from lanloom.features.liveupdate.rules.conditions import MIGRATION_REQUIRED
from lanloom.features.liveupdate.rules.launcher import launcher_of
from lanloom.kube.conditions import is_true
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView

BY_STATE = "live-update-state"
"""Machines and migrations by what the updater has to do with them: NEEDED, UNFINISHED."""

NEEDED, UNFINISHED = "needed", "unfinished"


class MachineInformers(InformerView, frozen=True):
    """The machines with all that belongs to them, the networks, the nodes, and KubeVirt itself."""

    networks: NetworkInformers
    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    migrations: Informer[VirtualMachineInstanceMigration]
    swaps: Informer[NetworkSwap]
    pods: Informer[Pod]
    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    kubevirts: Informer[KubeVirt]

    def owner_of(self, machine: VirtualMachineInstance) -> VirtualMachine | None:
        """Return the VirtualMachine that an instance belongs to."""
        found = self.machines.store.get(machine.metadata.key)
        return found if found is not None and found.metadata.uid == machine_uid_of(machine) else None

    def launcher_of(self, machine: VirtualMachineInstance) -> Pod | None:
        """Return the launcher pod in which an instance runs now."""
        return launcher_of(machine, self.pods_of(machine))

    def pods_of(self, machine: VirtualMachineInstance) -> tuple[Pod, ...]:
        """Return the pods in which an instance runs, ran, or is to run."""
        return self.pods.store.by(BY_MACHINE, str(machine.metadata.key))

    def migrations_of(self, key: Key) -> tuple[VirtualMachineInstanceMigration, ...]:
        """Return all migrations of a machine."""
        return self.migrations.store.by(BY_MACHINE, str(key))

    def swaps_of(self, machine: VirtualMachineInstance) -> tuple[NetworkSwap, ...]:
        """Return all swaps of an instance."""
        meta = machine.metadata
        found = self.swaps.store.by(BY_MACHINE, str(meta.key))
        return tuple(item for item in found if item.spec.uid in ("", meta.uid))

    def is_swapping(self, machine: VirtualMachineInstance) -> bool:
        """Return whether a swap owns a port of an instance."""
        return any(item.status.phase in ACTIVE for item in self.swaps_of(machine))


def machine_informers(informers: Informers, swaps: SwapInformers) -> MachineInformers:
    """Return the informers with their indexes; those of swaps are the same."""
    informers.get(VIRTUAL_MACHINE_INSTANCES, indexes={BY_STATE: _needed}, optional=True)
    informers.get(MIGRATIONS, indexes={BY_STATE: _unfinished}, optional=True)
    return MachineInformers(
        networks=swaps.networks,
        machines=swaps.machines,
        instances=swaps.instances,
        migrations=swaps.migrations,
        swaps=swaps.swaps,
        pods=swaps.pods,
        nads=swaps.nads,
        nodes=informers.get(NODES),
        kubevirts=swaps.kubevirts,
    )


def machine_of(migration: VirtualMachineInstanceMigration) -> Key:
    """Return the machine that a migration is for."""
    return Key(migration.metadata.namespace, migration.spec.vmi_name)


def _needed(machine: VirtualMachineInstance) -> Iterator[str]:
    if is_true(machine.status.conditions, MIGRATION_REQUIRED) and not machine.has_ended:
        yield NEEDED


def _unfinished(migration: VirtualMachineInstanceMigration) -> Iterator[str]:
    if not migration.is_final:
        yield UNFINISHED

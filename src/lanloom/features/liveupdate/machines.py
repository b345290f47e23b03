"""A machine with all that belongs to it: its instance, the pod in which it runs, its migrations and its swaps.

The objects are those of the API server or of stores, in any order.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    VmNic,
    instance_of,
    machine_uid_of,
    nad_of,
)
from lanloom.api.liveupdate import QUIET, NetworkSwap
from lanloom.api.meta import Key, Object
from lanloom.features.liveupdate.rules.launcher import launcher_of

T = TypeVar("T", bound=Object)


class Machine(Struct, frozen=True, kw_only=True):
    """A machine. `vm` is None for an instance without an owner, `vmi` for a machine that does not run.

    `pod` is the launcher pod in which it runs now, `pods` are all of its launcher pods. Migrations and swaps are those
    of this instance, the newest last.
    """

    key: Key
    vm: VirtualMachine | None = None
    vmi: VirtualMachineInstance | None = None
    pod: Pod | None = None
    pods: tuple[Pod, ...] = ()
    migrations: tuple[VirtualMachineInstanceMigration, ...] = ()
    swaps: tuple[NetworkSwap, ...] = ()

    @property
    def migration(self) -> VirtualMachineInstanceMigration | None:
        """The migration that is not over yet."""
        return next((item for item in self.migrations if not item.is_final), None)

    @property
    def swap(self) -> NetworkSwap | None:
        """The swap that moves something, or is about to."""
        return next((item for item in self.swaps if item.status.phase not in QUIET), None)

    def until_restart(self, nic: str) -> NetworkSwap | None:
        """Return the swap that keeps a NIC on a network of which KubeVirt knows nothing before a restart."""
        found = (item for item in self.swaps if item.status.phase == "UntilRestart")
        return next((item for item in found if item.spec.network == nic), None)

    @property
    def wanted(self) -> tuple[VmNic, ...]:
        """The networks that the machine is to have."""
        if self.vm is not None:
            template = self.vm.spec.template
            return template.spec.networks if template is not None else ()
        return self.vmi.spec.networks if self.vmi is not None else ()


class Objects(Struct, frozen=True, kw_only=True):
    """What machines are made of. `pods` may have any pods among them."""

    machines: tuple[VirtualMachine, ...] = ()
    instances: tuple[VirtualMachineInstance, ...] = ()
    pods: tuple[Pod, ...] = ()
    migrations: tuple[VirtualMachineInstanceMigration, ...] = ()
    swaps: tuple[NetworkSwap, ...] = ()


def machines_of(objects: Objects) -> tuple[Machine, ...]:
    """Return every machine, ordered by namespace and name."""
    owners = {item.metadata.key: item for item in objects.machines}
    instances = {item.metadata.key: item for item in objects.instances}
    pods, migrations, swaps = (
        _by_instance(objects.pods, lambda pod: instance_of(pod)[0]),
        _by_instance(objects.migrations, lambda item: item.spec.vmi_name),
        _by_instance(objects.swaps, lambda item: item.spec.machine),
    )
    found = []
    for key in sorted(owners.keys() | instances.keys()):
        vm, vmi = owners.get(key), instances.get(key)
        if vm is not None and vmi is not None and machine_uid_of(vmi) not in ("", vm.metadata.uid):
            vmi = None  # the instance of a former machine of that name, which is about to go
        found.append(_machine(key, vm, vmi, pods[key], migrations[key], swaps[key]))
    return tuple(found)


def _by_instance(items: Iterable[T], name: Callable[[T], str]) -> defaultdict[Key, list[T]]:
    found: defaultdict[Key, list[T]] = defaultdict(list)
    for item in sorted(items, key=lambda item: (item.metadata.creation_timestamp or "", item.metadata.name)):
        found[Key(item.metadata.namespace, name(item))].append(item)
    return found


def _machine(
    key: Key,
    vm: VirtualMachine | None,
    vmi: VirtualMachineInstance | None,
    pods: Collection[Pod],
    migrations: Iterable[VirtualMachineInstanceMigration],
    swaps: Iterable[NetworkSwap],
) -> Machine:
    if vmi is None:
        return Machine(key=key, vm=vm)
    since, uid = vmi.metadata.creation_timestamp or "", vmi.metadata.uid
    return Machine(
        key=key,
        vm=vm,
        vmi=vmi,
        pod=launcher_of(vmi, pods),
        pods=tuple(pods),
        migrations=tuple(item for item in migrations if (item.metadata.creation_timestamp or "") >= since),
        swaps=tuple(item for item in swaps if item.spec.uid == uid),
    )


def wanted_nad(network: VmNic, namespace: str) -> Key | None:
    """Return the NAD that a network of a machine in that namespace names; None for the pod network."""
    return nad_of(network.multus, namespace) if network.multus is not None else None

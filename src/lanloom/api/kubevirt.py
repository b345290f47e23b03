"""KubeVirt's running virtual machine (kubevirt.io/v1), as far as it says which networks it uses and where it runs."""

from msgspec import Struct

from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource

_ENDED = ("Succeeded", "Failed")


class MultusNetwork(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The NAD of a network: `namespace/name`, or a name in the machine's own namespace."""

    network_name: str = ""


class VmNic(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A network of a machine; `multus` is None for the pod network."""

    name: str = ""
    multus: MultusNetwork | None = None


class VirtualMachineInstanceSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the machine is made of."""

    networks: tuple[VmNic, ...] = ()


class MigrationState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The machine's last migration to another node."""

    target_node: str = ""
    completed: bool = False


class VirtualMachineInstanceStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far the machine is; `node_name` is empty until it is scheduled."""

    phase: str = ""
    node_name: str = ""
    migration_state: MigrationState | None = None


class VirtualMachineInstance(Object, frozen=True, kw_only=True):
    """A virtual machine that runs, or is about to."""

    spec: VirtualMachineInstanceSpec = VirtualMachineInstanceSpec()
    status: VirtualMachineInstanceStatus = VirtualMachineInstanceStatus()


def networks_of(machine: VirtualMachineInstance) -> tuple[Key, ...]:
    """The NADs that a machine uses; none once it has ended."""
    if machine.status.phase in _ENDED:
        return ()
    own = machine.metadata.namespace
    titles = [item.multus.network_name for item in machine.spec.networks if item.multus is not None]
    return tuple(Key(*title.split("/", 1)) if "/" in title else Key(own, title) for title in titles)


def nodes_of(machine: VirtualMachineInstance) -> frozenset[str]:
    """The nodes that a machine needs: its own, and the one that it is just being moved to."""
    move = machine.status.migration_state
    target = move.target_node if move is not None and not move.completed else ""
    return frozenset({machine.status.node_name, target} - {""})


VIRTUAL_MACHINE_INSTANCES = Resource(
    group="kubevirt.io",
    version="v1",
    kind="VirtualMachineInstance",
    plural="virtualmachineinstances",
    type=VirtualMachineInstance,
    namespaced=True,
    short_names=("vmi",),
)

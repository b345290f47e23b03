"""KubeVirt's virtual machines (kubevirt.io/v1): which networks they use, where they run, and what belongs to which.

A VirtualMachine is what users keep; while it runs there is a VirtualMachineInstance of the same name, and for that a
pod, or two while it moves to another node.
"""

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.meta import Key, Object, ObjectMeta
from lanloom.api.resource import Resource

_ENDED = ("Succeeded", "Failed")


class MultusNetwork(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The NAD of a network: `namespace/name`, or a name in the machine's own namespace.

    One that is `default` takes the place of the pod network.
    """

    network_name: str = ""
    default: bool = False


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

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more, and never will."""
        return self.status.phase in _ENDED


class VirtualMachineTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an instance of the machine will be, with its labels and annotations."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VirtualMachineInstanceSpec = VirtualMachineInstanceSpec()


class VirtualMachineSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the machine is to be. There is always a template; None is one that could not be read."""

    template: VirtualMachineTemplate | None = None


class VirtualMachine(Object, frozen=True, kw_only=True):
    """A virtual machine, whether it runs or not."""

    spec: VirtualMachineSpec = VirtualMachineSpec()


_ROLE, _LAUNCHER, _CREATED_BY, _DOMAIN = (
    "kubevirt.io",
    "virt-launcher",
    "kubevirt.io/created-by",
    "kubevirt.io/domain",
)
LAUNCHER_LABELS = f"{_ROLE}={_LAUNCHER}"
"""Selects the pods in which machines run."""

LAUNCHER_MARKS = (_ROLE, _CREATED_BY, _DOMAIN)
"""The labels and the annotation by which `instance_of` knows the machine of a pod without an owner."""


def machine_uid_of(instance: VirtualMachineInstance) -> str:
    """Return the uid of the VirtualMachine that an instance belongs to; empty for an instance of its own."""
    owners = instance.metadata.owner_references
    return next((item.uid for item in owners if item.kind == "VirtualMachine"), "")


def instance_of(pod: Pod) -> tuple[str, str]:
    """Name and uid of the VirtualMachineInstance that runs, or ran, in a pod; both empty for any other pod.

    A pod whose instance was deleted without it (`--cascade=orphan`) has lost its owner, but runs on; KubeVirt's labels
    and annotations still tell.
    """
    meta = pod.metadata
    for owner in meta.owner_references:
        if owner.kind == "VirtualMachineInstance":
            return owner.name, owner.uid
    if meta.labels.get(_ROLE) == _LAUNCHER:
        return meta.annotations.get(_DOMAIN, ""), meta.labels.get(_CREATED_BY, "")
    return "", ""


def nad_of(network: MultusNetwork, namespace: str) -> Key:
    """Return the NAD of a network of a machine in that namespace.

    As KubeVirt does, the title is split at its first slash.
    """
    place, slash, name = network.network_name.partition("/")
    return Key(place or namespace, name) if slash else Key(namespace, network.network_name)


def networks_of(machine: VirtualMachineInstance) -> tuple[Key, ...]:
    """Return the NADs that a machine uses; none once it has ended."""
    if machine.has_ended:
        return ()
    own = machine.metadata.namespace
    return tuple(nad_of(item.multus, own) for item in machine.spec.networks if item.multus is not None)


def nads_named_by(machine: VirtualMachine) -> tuple[Key, ...]:
    """Return the NADs that a VirtualMachine names, each once, whether it runs or not."""
    template, own = machine.spec.template, machine.metadata.namespace
    nics = template.spec.networks if template is not None else ()
    return tuple(dict.fromkeys(nad_of(nic.multus, own) for nic in nics if nic.multus is not None))


def places_of(spec: VirtualMachineInstanceSpec, namespace: str) -> frozenset[tuple[str, Key]]:
    """Return the networks of a machine in that namespace that lead to NADs: its own name of each, and the NAD."""
    found = ((item.name, item.multus) for item in spec.networks if item.multus is not None)
    return frozenset((name, nad_of(network, namespace)) for name, network in found)


def nodes_of(machine: VirtualMachineInstance) -> frozenset[str]:
    """Return the nodes that a machine needs: its own, and the one that it is just being moved to."""
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
VIRTUAL_MACHINES = Resource(
    group="kubevirt.io",
    version="v1",
    kind="VirtualMachine",
    plural="virtualmachines",
    type=VirtualMachine,
    namespaced=True,
    short_names=("vm",),
)

"""KubeVirt's virtual machines (kubevirt.io/v1): which networks they use, where they run, and what belongs to which.

A VirtualMachine is what users keep; while it runs there is a VirtualMachineInstance of the same name, and for that a
pod, or two while it moves to another node. A VirtualMachineInstanceMigration requests such a move.
"""

from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from lanloom.api.core import Pod
from lanloom.api.meta import Condition, Key, Object, ObjectMeta
from lanloom.api.resource import Resource

_ENDED = ("Succeeded", "Failed")

_HASHED = "pod"
"""What KubeVirt puts before the hashes that it names interfaces by, and takes off for the names of other links."""


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

    @property
    def is_secondary(self) -> bool:
        """Whether a NAD gives it, in addition to the pod's primary network."""
        return self.multus is not None and not self.multus.default


class VmInterface(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A NIC of a machine, for the network of the same name.

    `state` is empty, `up`, `down` or `absent`. The binding is the one of `bridge`, `sriov`, `masquerade` and `binding`
    that is not None.
    """

    name: str = ""
    mac_address: str = ""
    state: str = ""
    bridge: dict[str, Any] | None = None
    sriov: dict[str, Any] | None = None
    masquerade: dict[str, Any] | None = None
    binding: dict[str, Any] | None = None


class VmDevices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The devices of a machine, as far as networks go."""

    interfaces: tuple[VmInterface, ...] = ()


class VmDomain(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hardware of a machine, as far as networks go."""

    devices: VmDevices = VmDevices()


class VirtualMachineInstanceSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the machine is made of."""

    networks: tuple[VmNic, ...] = ()
    domain: VmDomain = VmDomain()

    @property
    def interfaces(self) -> tuple[VmInterface, ...]:
        """The NICs of the machine."""
        return self.domain.devices.interfaces


class MigrationState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The machine's last migration to another node.

    It runs from `start_timestamp` to `end_timestamp`; from `target_node_domain_ready_timestamp` on the machine is on
    the target.
    """

    source_node: str = ""
    target_node: str = ""
    target_pod: str = ""
    migration_uid: str = field(name="migrationUid", default="")
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    target_node_domain_ready_timestamp: str | None = None
    completed: bool = False
    failed: bool = False
    failure_reason: str = ""


class InterfaceStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A NIC as KubeVirt found it.

    `info_source` lists where it was found, with commas: domain, guest-agent, multus-status. `pod_interface_name` is the
    interface in the launcher pod. `ip_addresses` are those that the guest has, as far as it tells;
    `link_state` is whether its link is up or down.
    """

    name: str = ""
    mac: str = ""
    ip_addresses: tuple[str, ...] = ()
    link_state: str = ""
    pod_interface_name: str = ""
    info_source: str = ""

    def is_from(self, source: str) -> bool:
        """Return whether the NIC was found there."""
        return source in self.info_source.replace(" ", "").split(",")


class VirtualMachineInstanceStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far the machine is; `node_name` is empty until it is scheduled.

    `active_pods` are nodes by the pods' uids. `virtual_machine_revision_name` is the ControllerRevision in which
    KubeVirt keeps the spec of the VirtualMachine at the start.
    """

    phase: str = ""
    node_name: str = ""
    migration_state: MigrationState | None = None
    interfaces: tuple[InterfaceStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()
    active_pods: dict[str, str] = {}
    virtual_machine_revision_name: str = ""


class VirtualMachineInstance(Object, frozen=True, kw_only=True):
    """A virtual machine that runs, or is about to."""

    spec: VirtualMachineInstanceSpec = VirtualMachineInstanceSpec()
    status: VirtualMachineInstanceStatus = VirtualMachineInstanceStatus()

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more, and never will."""
        return self.status.phase in _ENDED

    @property
    def is_running(self) -> bool:
        """Whether the guest runs."""
        return self.status.phase == "Running"

    @property
    def is_migratable(self) -> bool:
        """Whether KubeVirt says that it can move to another node without a reboot."""
        return any(item.type == "LiveMigratable" and item.status == "True" for item in self.status.conditions)

    @property
    def is_migrating(self) -> bool:
        """Whether the guest is being moved to another node at this moment."""
        move = self.status.migration_state
        if move is None or move.completed or move.failed:
            return False
        return move.start_timestamp is not None and move.end_timestamp is None


class VirtualMachineTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an instance of the machine will be, with its labels and annotations."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VirtualMachineInstanceSpec = VirtualMachineInstanceSpec()


class VirtualMachineSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the machine is to be. There is always a template; None is one that could not be read."""

    template: VirtualMachineTemplate | None = None


class VirtualMachineStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far a machine is, as KubeVirt says. `printable_status` is its own word, such as Running or Stopped.

    `snapshot_in_progress` names a snapshot that is being made; no one may change the spec meanwhile.
    """

    printable_status: str = ""
    ready: bool = False
    snapshot_in_progress: str = ""
    conditions: tuple[Condition, ...] = ()


class VirtualMachine(Object, frozen=True, kw_only=True):
    """A virtual machine, whether it runs or not."""

    spec: VirtualMachineSpec = VirtualMachineSpec()
    status: VirtualMachineStatus = VirtualMachineStatus()


class MigrationSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The VirtualMachineInstance that is to move."""

    vmi_name: str = ""


class PhaseTransition(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """When a migration came into a phase."""

    phase: str = ""
    phase_transition_timestamp: str | None = None


class MigrationStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far a migration is."""

    phase: str = ""
    phase_transition_timestamps: tuple[PhaseTransition, ...] = ()
    migration_state: MigrationState | None = None
    conditions: tuple[Condition, ...] = ()


_PLACED = ("Scheduled", "PreparingTarget", "TargetReady", "Running")


class VirtualMachineInstanceMigration(Object, frozen=True, kw_only=True):
    """A request to move a machine to another node without a reboot."""

    spec: MigrationSpec = MigrationSpec()
    status: MigrationStatus = MigrationStatus()

    @property
    def is_placed(self) -> bool:
        """Whether its target pod is on a node, and has its networks."""
        return self.status.phase in _PLACED

    @property
    def is_final(self) -> bool:
        """Whether it succeeded or failed."""
        return self.status.phase in _ENDED


_ROLE, _LAUNCHER, _DOMAIN = "kubevirt.io", "virt-launcher", "kubevirt.io/domain"

CREATED_BY = "kubevirt.io/created-by"
"""Label of a launcher pod: the uid of its instance."""

LAUNCHER_LABELS = f"{_ROLE}={_LAUNCHER}"
"""Selects the pods in which machines run."""

LAUNCHER_MARKS = (_ROLE, CREATED_BY, _DOMAIN)
"""The labels and the annotation by which `instance_of` knows the machine of a pod without an owner."""

STARTED_WITH = "liveupdate.lanloom.io/started-with"
"""Annotation of a launcher pod: the IPv4 addresses with which the interfaces that moved since had started, as JSON.

Next to them is how the last move left the interface, which tells it from a later one of its name. KubeVirt answers DHCP
requests of the guest with them, whatever network-status says after a move.
"""


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
        return meta.annotations.get(_DOMAIN, ""), meta.labels.get(CREATED_BY, "")
    return "", ""


def nad_of(network: MultusNetwork, namespace: str) -> Key:
    """Return the NAD of a network of a machine in that namespace.

    As KubeVirt does, the title is split at its first slash.
    """
    place, slash, name = network.network_name.partition("/")
    return Key(place or namespace, name) if slash else Key(namespace, network.network_name)


def pod_interface_name(network: str) -> str:
    """Return the interface in the launcher pod for a secondary network, by the machine's own name of it.

    KubeVirt's scheme: `pod` and 11 hex digits of a hash of the name. So it stays when the NAD changes.
    """
    return _HASHED + sha256(network.encode()).hexdigest()[:11]


def guest_bridge(interface: str) -> str:
    """Return the name of the bridge in the launcher pod that KubeVirt makes for a pod's interface."""
    return f"k6t-{interface.removeprefix(_HASHED)}"


def bridged_name(interface: str) -> str:
    """Return the name that KubeVirt's bridge binding gives a pod's interface in its bridge."""
    return f"{interface.removeprefix(_HASHED)}-nic"


def is_ordinal(interface: str) -> bool:
    """Return whether an interface of a launcher pod has a name in KubeVirt's former scheme: net1, net2 and so on."""
    return interface.startswith("net") and interface[3:].isascii() and interface[3:].isdecimal()


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
    status=True,
    short_names=("vm",),
)
MIGRATIONS = Resource(
    group="kubevirt.io",
    version="v1",
    kind="VirtualMachineInstanceMigration",
    plural="virtualmachineinstancemigrations",
    type=VirtualMachineInstanceMigration,
    namespaced=True,
    status=True,
    short_names=("vmim",),
)

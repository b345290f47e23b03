"""Which pod a call is for, which of its interfaces, whose its addresses are, and the name of its NIC.

`CNI_ARGS`, Multus' annotation and KubeVirt's names tell. A pod of KubeVirt's only carries a machine: its NIC belongs to
the VirtualMachine, or to the VirtualMachineInstance where there is no other, and to the machine's own network and NAD.
So the pod to which a machine migrates, or in which it starts again, has the same NIC and the same addresses. Any other
pod's NIC is its own, for as long as it lives. A machine that is to move to another NAD is looked at as if it had moved.
"""

import hashlib
import re
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import POD, VIRTUAL_MACHINE, OwnerSpec
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, MultusNetwork, VirtualMachineInstance, nad_of
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Key, Object, OwnerReference
from lanloom.api.multus import MULTUS_NETWORKS, NetworkAttachmentDefinition, selections
from lanloom.api.nadconfig import read_config
from lanloom.api.resource import Resource
from lanloom.runtime.cni.calls import BAD_ENVIRONMENT, UNKNOWN_CONTAINER, Call, CniError

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_UID = re.compile(r"[A-Za-z0-9-]{0,64}")

_LAUNCHER = ("kubevirt.io", "virt-launcher")
_CREATED_BY = "kubevirt.io/created-by"
_MACHINE_GROUP = "kubevirt.io/"

PRIMARY = "eth0"
"""The interface of the pod network, or of the NAD that takes its place."""

PLUGIN = "lanloom-ipam"


class PodRef(Struct, frozen=True):
    """The pod of a call; `uid` is empty where the runtime is too old to say."""

    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> Key:
        """Where the pod is."""
        return Key(self.namespace, self.name)

    def is_of(self, pod: Pod) -> bool:
        """Return whether it is that pod and not a namesake."""
        return not self.uid or self.uid == pod.metadata.uid


class Attachment(Struct, frozen=True):
    """An interface of a pod, and the NAD behind it."""

    interface: str
    nad: Key


def parse_args(text: str) -> PodRef:
    """Return the pod in `CNI_ARGS`, which Kubernetes' runtimes fill in. Raises CniError."""
    pairs = dict(item.split("=", 1) for item in text[:4096].split(";") if "=" in item)
    found = PodRef(*(pairs.get(f"K8S_POD_{key}", "") for key in ("NAMESPACE", "NAME", "UID")))
    if not (_NAME.fullmatch(found.namespace) and _NAME.fullmatch(found.name) and _UID.fullmatch(found.uid)):
        raise CniError(
            BAD_ENVIRONMENT,
            "CNI_ARGS must name the pod: K8S_POD_NAMESPACE=…;K8S_POD_NAME=…;K8S_POD_UID=…",
        )
    return found


def check_pod(pod: Pod, wanted: PodRef, node: str) -> None:
    """Raise CniError unless it is the pod of the call, and one of this node."""
    title = f"pod {pod.metadata.key}"
    if not wanted.is_of(pod):
        raise CniError(UNKNOWN_CONTAINER, f"{title} was replaced: its uid is not {wanted.uid}")
    if pod.spec.node_name != node:
        raise CniError(
            UNKNOWN_CONTAINER, f"{title} is on node {pod.spec.node_name or '(none)'}, not on {node}"
        )


def attachments(pod: Pod) -> tuple[Attachment, ...]:
    """Return the attachments of a pod by Multus, in order. An annotation that Multus could not read either has none.

    Multus counts interfaces that have no name of their own by their place in the list.
    """
    try:
        found = selections(pod.metadata.annotations.get(MULTUS_NETWORKS, ""))
    except ValueError:
        return ()
    if not all(item.name for item in found):
        return ()
    own = pod.metadata.namespace
    return tuple(
        Attachment(item.interface or f"net{at}", Key(item.namespace or own, item.name))
        for at, item in enumerate(found, 1)
    )


def launcher_of(pod: Pod) -> OwnerReference | None:
    """Return the running machine (VirtualMachineInstance) that a pod of KubeVirt's belongs to; None for other pods."""
    label, value = _LAUNCHER
    if pod.metadata.labels.get(label) != value:
        return None
    for item in pod.metadata.owner_references:
        if (
            item.controller
            and item.kind == "VirtualMachineInstance"
            and item.api_version.startswith(_MACHINE_GROUP)
            and pod.metadata.labels.get(_CREATED_BY) == item.uid
        ):
            return item
    return None


def machine_network(machine: VirtualMachineInstance, interface: str) -> tuple[int, str, Key] | None:
    """Return which network of a machine an interface of its pod is for: its place, its name in the machine, its NAD.

    KubeVirt calls the pod's interface `pod` and the beginning of the SHA-256 of the network's name, or (before 1.0, and
    in what was started then) `net1`, `net2`… by the order of the networks; the primary one is eth0.
    """
    secondary = 0
    for index, item in enumerate(machine.spec.networks):
        if item.multus is None:
            continue
        if item.multus.default:
            names = {PRIMARY}
        else:
            secondary += 1
            names = {hashed_interface(item.name), f"net{secondary}"}
        if interface in names:
            return index, item.name, nad_of(item.multus, machine.metadata.namespace)
    return None


def hashed_interface(network: str) -> str:
    """Return KubeVirt's name of a pod's interface for the machine's network of that name."""
    return f"pod{hashlib.sha256(network.encode()).hexdigest()[:11]}"


def is_attached(pod: Pod, call: Call) -> bool:
    """Return whether the pod still wants the interface: its primary one always, others while Multus is to make them."""
    attached = attachments(pod)
    return (
        not attached or call.interface == PRIMARY or call.interface in {item.interface for item in attached}
    )


_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_OWNER_PART, _INTERFACE_PART = 30, 14


class Holder(Struct, frozen=True, kw_only=True):
    """Who gets the addresses. `interface` is the owner's own name for it, `index` its place among the owner's.

    `known_as` are the names under which an annotation may ask for addresses for it, the most exact first, and `others`
    the owner's own names of its other interfaces. `runs` says that the owner uses the addresses already, so that none
    of them may change. `nad` is that of a machine's network; empty where the machine's spec does not tell it. `named`
    is the kind of what makes owners of that name; addresses are kept for the name as long as `sticky_for` says.
    """

    namespace: str
    owner: OwnerSpec
    reference: OwnerReference
    interface: str
    known_as: tuple[str, ...]
    others: tuple[str, ...] = ()
    nic: str
    index: int = 0
    runs: bool = False
    nad: str = ""
    named: str = ""
    sticky_for: str = ""

    @property
    def is_of_pod(self) -> bool:
        """Whether the NIC is that of one pod, and of no pod before or after it."""
        return self.owner.kind == POD and not self.sticky_for


def pod_holder(pod: Pod, call: Call) -> Holder:
    """Return a pod that has its addresses for itself."""
    meta = pod.metadata
    owner = OwnerSpec(kind=POD, name=meta.name, uid=meta.uid)
    attached = attachments(pod)
    index = next((at for at, item in enumerate(attached, 1) if item.interface == call.interface), 0)
    return Holder(
        namespace=meta.namespace,
        owner=owner,
        reference=_reference(PODS, pod),
        interface=call.interface,
        known_as=(call.interface, *_nads(pod, call)),
        nic=pod_nic(PodRef(meta.namespace, meta.name, meta.uid), call),
        index=index,
        named=next((item.kind for item in meta.owner_references if item.controller), POD),
    )


def holder_by_name(holder: Holder, call: Call, sticky_for: str) -> Holder:
    """Return the name of a holder in its place, for which the addresses are kept for a period."""
    owner = OwnerSpec(kind=holder.owner.kind, name=holder.owner.name)
    nic = _nic_name(owner, holder.interface, holder.nad or call.network_name)
    return replace(holder, owner=owner, nic=nic, sticky_for=sticky_for)


def pod_nic(pod: PodRef, call: Call) -> str:
    """Return the name of a pod's NIC, which needs nothing of the pod but what a DEL says."""
    owner = OwnerSpec(kind=POD, name=pod.name, uid=pod.uid)
    return _nic_name(owner, call.interface, call.network_name)


def machine_holder(pod: Pod, machine: VirtualMachineInstance, call: Call) -> Holder:
    """Return the machine that a pod carries."""
    meta = machine.metadata
    found = machine_network(machine, call.interface)
    index, interface, nad = (
        (0, call.interface, call.network_name) if found is None else (found[0], found[1], str(found[2]))
    )
    reference = _machine_reference(machine)
    owner = OwnerSpec(kind=VIRTUAL_MACHINE, name=reference.name, uid=reference.uid)
    return Holder(
        namespace=meta.namespace,
        owner=owner,
        reference=reference,
        interface=interface,
        known_as=tuple(dict.fromkeys((interface, call.interface, nad, *_nads(pod, call)))),
        others=tuple(item.name for item in machine.spec.networks),
        nic=_nic_name(owner, interface, nad),
        index=index,
        runs=machine.status.phase == "Running",
        nad="" if found is None else nad,
        named=VIRTUAL_MACHINE,
    )


def _machine_reference(machine: VirtualMachineInstance) -> OwnerReference:
    """Return the owner with whose end the NIC ends: the VirtualMachine, or the instance where there is none."""
    for item in machine.metadata.owner_references:
        if item.controller and item.kind == VIRTUAL_MACHINE:
            return OwnerReference(api_version=item.api_version, kind=item.kind, name=item.name, uid=item.uid)
    return _reference(VIRTUAL_MACHINE_INSTANCES, machine)


def _reference(resource: Resource[Any], item: Object) -> OwnerReference:
    meta = item.metadata
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=meta.name, uid=meta.uid)


def _nads(pod: Pod, call: Call) -> tuple[str, ...]:
    """Return the names of the NAD of a call.

    They are: with its namespace, alone where that is the pod's own, and that of the CNI network.
    """
    own = pod.metadata.namespace
    found = [item.nad for item in attachments(pod) if item.interface == call.interface]
    names = [str(nad) for nad in found] + [nad.name for nad in found if nad.namespace == own]
    return tuple(dict.fromkeys((*names, call.network_name)))


def _nic_name(owner: OwnerSpec, interface: str, nad: str) -> str:
    """`<owner>-<interface>-<hash>`: for people, and never the same for two."""
    exact = "\0".join((owner.kind, owner.name, owner.uid, interface, nad))
    digest = hashlib.sha256(exact.encode()).hexdigest()[:12]
    return "-".join(filter(None, (_slug(owner.name, _OWNER_PART), _slug(interface, _INTERFACE_PART), digest)))


def _slug(text: str, longest: int) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower())[:longest].strip("-")


def config_of(nad: NetworkAttachmentDefinition) -> dict[str, object] | None:
    """Return the configuration of a NAD whose addresses Lanloom gives; None for any other."""
    with suppress(AnnotationError):
        config = read_config(nad.spec.config)
        plugins = config.get("plugins")
        first = plugins[0] if isinstance(plugins, list) and plugins else config
        section = first.get("ipam") if isinstance(first, dict) else None
        if isinstance(section, dict) and section.get("type") == PLUGIN:
            return {"name": config.get("name", nad.metadata.name), **first}
    return None


def moved_holder(
    instance: VirtualMachineInstance, pod: Pod, network: str, nad: Key, config: dict[str, object]
) -> tuple[Holder, Call]:
    """Return the machine as it would be with that NAD for the network, and the call of the plugin that would come."""
    nics = tuple(
        replace(item, multus=replace(item.multus or MultusNetwork(), network_name=str(nad)))
        if item.name == network
        else item
        for item in instance.spec.networks
    )
    moved = replace(instance, spec=replace(instance.spec, networks=nics))
    call = Call(
        program=PLUGIN,
        command="ADD",
        config={"name": nad.name, **config},
        interface=hashed_interface(network),
    )
    return machine_holder(pod, moved, call), call

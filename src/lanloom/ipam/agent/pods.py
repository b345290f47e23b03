"""Which pod a call is for, and which of its interfaces: `CNI_ARGS`, Multus' annotation, KubeVirt's names."""

import hashlib
import re

from msgspec import Struct

from lanloom.api.cni import MULTUS_NETWORKS
from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance, nad_of
from lanloom.api.meta import Key, OwnerReference
from lanloom.api.multus import selections
from lanloom.ipam.agent.protocol import UNKNOWN_CONTAINER, CniError, Request

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_UID = re.compile(r"[A-Za-z0-9-]{0,64}")

_LAUNCHER = ("kubevirt.io", "virt-launcher")
_CREATED_BY = "kubevirt.io/created-by"
_MACHINE_GROUP = "kubevirt.io/"
_BAD_ENVIRONMENT = 4

PRIMARY = "eth0"
"""The interface of the pod network, or of the NAD that takes its place."""


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
        """Whether it is that pod and not a namesake."""
        return not self.uid or self.uid == pod.metadata.uid


class Attachment(Struct, frozen=True):
    """An interface of a pod, and the NAD behind it."""

    interface: str
    nad: Key


def parse_args(text: str) -> PodRef:
    """The pod in `CNI_ARGS`, which Kubernetes' runtimes fill in. Raises CniError."""
    pairs = dict(item.split("=", 1) for item in text[:4096].split(";") if "=" in item)
    found = PodRef(*(pairs.get(f"K8S_POD_{key}", "") for key in ("NAMESPACE", "NAME", "UID")))
    if not (_NAME.fullmatch(found.namespace) and _NAME.fullmatch(found.name) and _UID.fullmatch(found.uid)):
        raise CniError(
            _BAD_ENVIRONMENT,
            "CNI_ARGS must name the pod: K8S_POD_NAMESPACE=…;K8S_POD_NAME=…;K8S_POD_UID=…",
        )
    return found


def check_pod(pod: Pod, wanted: PodRef, node: str) -> None:
    """Raises CniError unless it is the pod of the call, and one of this node."""
    title = f"pod {pod.metadata.key}"
    if not wanted.is_of(pod):
        raise CniError(UNKNOWN_CONTAINER, f"{title} is another one by now: its uid is not {wanted.uid}")
    if pod.spec.node_name != node:
        raise CniError(
            UNKNOWN_CONTAINER, f"{title} is on node {pod.spec.node_name or '(none)'}, not on {node}"
        )


def attachments(pod: Pod) -> tuple[Attachment, ...]:
    """What Multus attaches to a pod, in order. An annotation that Multus could not read either has none.

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
    """The running machine (VirtualMachineInstance) that a pod of KubeVirt's belongs to; None for other pods."""
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
    """Which network of a machine an interface of its pod is for: its place, its name in the machine, its NAD.

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
    """What KubeVirt calls a pod's interface for the machine's network of that name."""
    return f"pod{hashlib.sha256(network.encode()).hexdigest()[:11]}"


def is_attached(pod: Pod, request: Request) -> bool:
    """Whether the pod still wants the interface: its primary one always, others while Multus is told to make them."""
    told = attachments(pod)
    return not told or request.interface == PRIMARY or request.interface in {item.interface for item in told}

"""Whose addresses a pod's are, and under which name its NIC is found again.

A pod of KubeVirt's only carries a machine: its NIC belongs to the VirtualMachine, or to the VirtualMachineInstance
where there is no other, and to the machine's own network and NAD. So the pod to which a machine migrates, or in which
it starts again, has the same NIC and the same addresses. Any other pod's NIC is its own, for as long as it lives.
"""

import hashlib
import re
from typing import Any

from msgspec import Struct

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import POD, VIRTUAL_MACHINE, OwnerSpec
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VirtualMachineInstance
from lanloom.api.meta import Object, OwnerReference
from lanloom.api.resource import Resource
from lanloom.ipam.agent.pods import PodRef, attachments, machine_network
from lanloom.ipam.agent.protocol import Request

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_OWNER_PART, _INTERFACE_PART = 30, 14


class Holder(Struct, frozen=True, kw_only=True):
    """Who gets the addresses. `interface` is the owner's own name for it, `index` its place among the owner's.

    `known_as` are the names under which an annotation may ask for addresses for it, the most exact first, and `others`
    the owner's own names of its other interfaces. `runs` says that the owner uses the addresses already, so that none
    of them may change. `nad` is that of a machine's network; empty where the machine's spec does not tell it.
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


def pod_holder(pod: Pod, request: Request) -> Holder:
    """A pod that has its addresses for itself."""
    meta = pod.metadata
    owner = OwnerSpec(kind=POD, name=meta.name, uid=meta.uid)
    told = attachments(pod)
    index = next((at for at, item in enumerate(told, 1) if item.interface == request.interface), 0)
    return Holder(
        namespace=meta.namespace,
        owner=owner,
        reference=_reference(PODS, pod),
        interface=request.interface,
        known_as=(request.interface, *_nads(pod, request)),
        nic=pod_nic(PodRef(meta.namespace, meta.name, meta.uid), request),
        index=index,
    )


def pod_nic(pod: PodRef, request: Request) -> str:
    """The name of a pod's NIC, which needs nothing of the pod but what a DEL says."""
    owner = OwnerSpec(kind=POD, name=pod.name, uid=pod.uid)
    return _nic_name(owner, request.interface, request.network_name)


def machine_holder(pod: Pod, machine: VirtualMachineInstance, request: Request) -> Holder:
    """The machine that a pod carries."""
    meta = machine.metadata
    found = machine_network(machine, request.interface)
    index, interface, nad = (
        (0, request.interface, request.network_name) if found is None else (found[0], found[1], str(found[2]))
    )
    reference = _machine_reference(machine)
    owner = OwnerSpec(kind=VIRTUAL_MACHINE, name=reference.name, uid=reference.uid)
    return Holder(
        namespace=meta.namespace,
        owner=owner,
        reference=reference,
        interface=interface,
        known_as=tuple(dict.fromkeys((interface, request.interface, nad, *_nads(pod, request)))),
        others=tuple(item.name for item in machine.spec.networks),
        nic=_nic_name(owner, interface, nad),
        index=index,
        runs=machine.status.phase == "Running",
        nad="" if found is None else nad,
    )


def _machine_reference(machine: VirtualMachineInstance) -> OwnerReference:
    """Whose end is the NIC's: the VirtualMachine's, or that of the instance itself where there is no other."""
    for item in machine.metadata.owner_references:
        if item.controller and item.kind == VIRTUAL_MACHINE:
            return OwnerReference(api_version=item.api_version, kind=item.kind, name=item.name, uid=item.uid)
    return _reference(VIRTUAL_MACHINE_INSTANCES, machine)


def _reference(resource: Resource[Any], item: Object) -> OwnerReference:
    meta = item.metadata
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=meta.name, uid=meta.uid)


def _nads(pod: Pod, request: Request) -> tuple[str, ...]:
    """The names of the NAD of a call: with its namespace, alone where it is the pod's own, that of the CNI network."""
    own = pod.metadata.namespace
    found = [item.nad for item in attachments(pod) if item.interface == request.interface]
    names = [str(nad) for nad in found] + [nad.name for nad in found if nad.namespace == own]
    return tuple(dict.fromkeys((*names, request.network_name)))


def _nic_name(owner: OwnerSpec, interface: str, nad: str) -> str:
    """`<owner>-<interface>-<hash>`: for people, and never the same for two."""
    exact = "\0".join((owner.kind, owner.name, owner.uid, interface, nad))
    digest = hashlib.sha256(exact.encode()).hexdigest()[:12]
    return "-".join(filter(None, (_slug(owner.name, _OWNER_PART), _slug(interface, _INTERFACE_PART), digest)))


def _slug(text: str, longest: int) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower())[:longest].strip("-")

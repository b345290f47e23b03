"""When an owner has ended: pure rules over what the API server has by its name.

A doubt is never decided against the owner: an address that is kept too long costs one address, an address that is given
away too early cuts off two machines.
"""

from msgspec import Struct

from lanloom.api.cni import MULTUS_NETWORKS, NAD
from lanloom.api.core import Pod
from lanloom.api.ipam import POD, VIRTUAL_MACHINE, Nic
from lanloom.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    instance_of,
    machine_uid_of,
    places_of,
)
from lanloom.api.meta import Key, Object
from lanloom.ipam.agent.pods import attachments


class Evidence(Struct, frozen=True, kw_only=True):
    """What there is by the name of an owner, in its namespace.

    `pod` is the pod of that name; `machine` and `instance` are KubeVirt's objects of that name, and `launchers` the
    pods in which an instance of that name runs. Read in this order, parents before what they make: whoever is gone
    makes nothing any more.
    """

    pod: Pod | None = None
    machine: VirtualMachine | None = None
    instance: VirtualMachineInstance | None = None
    launchers: tuple[Pod, ...] = ()


def may_go(nic: Nic, seen: Evidence) -> bool:
    """Whether a NIC whose deletion was asked for may go, and its addresses with it.

    An instance is nothing but its NICs, and what a node does with an address is for those to end who ask for the
    deletion; both let go at once.
    """
    match nic.spec.owner.kind:
        case "Pod":
            return _pod_has_ended(nic.spec.owner.uid, seen.pod)
        case "VirtualMachine":
            return _machine_has_ended(nic, seen) or is_unused(nic, seen)
    return True


def is_leaked(nic: Nic, seen: Evidence) -> bool:
    """Whether nobody is left who would ever ask for a NIC's deletion.

    Only of a pod or a machine whose uid is known: one without may yet come.
    """
    owner = nic.spec.owner
    return owner.kind in (POD, VIRTUAL_MACHINE) and owner.uid != "" and may_go(nic, seen)


def is_unused(nic: Nic, seen: Evidence) -> bool:
    """Whether a machine is there and has no such network any more, nor anything that runs and has.

    Only of a NIC that an agent made, as its mark tells for which network: any other is somebody's own doing.
    """
    machine, owner, mark = seen.machine, nic.spec.owner, nic.metadata.annotations.get(NAD, "")
    namespace, _, name = mark.partition("/")
    if not name or owner.kind != VIRTUAL_MACHINE or machine is None or machine.metadata.uid != owner.uid:
        return False
    template, instance, own = machine.spec.template, seen.instance, nic.metadata.namespace
    specs = [template.spec] if template is not None else []
    specs += [instance.spec] if instance is not None else []
    place = (nic.spec.interface, Key(namespace, name))
    if template is None or any(place in places_of(spec, own) for spec in specs):
        return False
    running = [pod for pod in seen.launchers if not pod.has_ended]
    return not any(_may_use(pod, place[1], instance) for pod in running)


def _may_use(pod: Pod, nad: Key, instance: VirtualMachineInstance | None) -> bool:
    """Whether a pod may be attached to a NAD. Of a pod of another instance nobody knows what it was made from."""
    if instance is None or instance_of(pod)[1] != instance.metadata.uid:
        return True
    told = attachments(pod)
    unread = not told and bool(pod.metadata.annotations.get(MULTUS_NETWORKS, "").strip(" []"))
    return unread or any(item.nad == nad for item in told)


def _pod_has_ended(uid: str, pod: Pod | None) -> bool:
    return pod is None or not _is(pod, uid) or pod.has_ended


def _machine_has_ended(nic: Nic, seen: Evidence) -> bool:
    """Whether neither that machine, nor its instance, nor a pod that runs it is there."""
    if seen.machine is not None and _is(seen.machine, nic.spec.owner.uid):
        return False
    instances = {seen.instance.metadata.uid} if seen.instance is not None else set()
    instances.update(instance_of(pod)[1] for pod in seen.launchers if not pod.has_ended)
    return all(_is_anothers(nic, uid, seen) for uid in instances)


def _is_anothers(nic: Nic, uid: str, seen: Evidence) -> bool:
    """Whether the instance of that uid is known to be none of the NIC's owner's.

    Known is which instance a NIC belongs to that has no machine, and which instances belong to a later machine of the
    same name. An instance older than the machine that it belongs to was adopted by it: the guest goes on, with the
    address that it got from the machine before.
    """
    owner, instance, machine = nic.spec.owner.uid, seen.instance, seen.machine
    if not owner or uid == owner:
        return False
    if any(
        item.uid == owner and item.kind == "VirtualMachineInstance" for item in nic.metadata.owner_references
    ):
        return True
    if instance is None or uid != instance.metadata.uid or machine is None:
        return False
    born, made = instance.metadata.creation_timestamp, machine.metadata.creation_timestamp
    adopted = born is None or made is None or born < made  # RFC 3339 in UTC sorts as text
    return machine_uid_of(instance) == machine.metadata.uid and not adopted


def _is(item: Object, uid: str) -> bool:
    """Whether an object is the one that is meant; any of its name where the uid is not known."""
    return uid in ("", item.metadata.uid)

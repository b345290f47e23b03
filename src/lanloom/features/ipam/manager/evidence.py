"""Whether an owner has ended: the rules, and what the watches and the API server have by its name.

A doubt is never decided against the owner: an address that is kept too long costs one address, an address that is given
away too early cuts off two machines.
"""

from collections.abc import Iterator

from msgspec import Struct

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import HELD_UNTIL, POD, STICKY_FOR, VIRTUAL_MACHINE, Nic, nads_of
from lanloom.api.kubevirt import (
    LAUNCHER_LABELS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    instance_of,
    machine_uid_of,
    places_of,
)
from lanloom.api.liveupdate import NETWORK_SWAPS, NetworkSwap, swapped
from lanloom.api.meta import Key, Object, parse_rfc3339
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.api.workloads import STATEFUL_SET_SIZES, StatefulSet, strip_pod
from lanloom.features.ipam.agent.pods import attachments, hashed_interface
from lanloom.features.ipam.rules.model import Owner
from lanloom.features.ipam.rules.shares import LONGEST, ordinal_of, parse_period
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.ports import Reader
from lanloom.refusals import Malformed

BY_INSTANCE = "instance"
"""The index of the store of pods: `namespace/name` of the machine that runs in each."""


BY_MACHINE = "nic-owner"
"""The index of the store of swaps: `namespace/name` of the machine whose NIC moves."""


class OwnerInformers(InformerView, frozen=True):
    """Informers of the owners of NICs that can end by themselves."""

    pods: Informer[Pod]
    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    swaps: Informer[NetworkSwap]


def owner_informers(informers: Informers) -> OwnerInformers:
    """Return the informers, with their indexes."""
    return OwnerInformers(
        pods=informers.get(PODS, indexes={BY_INSTANCE: _instances}, transform=strip_pod),
        machines=informers.get(VIRTUAL_MACHINES, optional=True),
        instances=informers.get(VIRTUAL_MACHINE_INSTANCES, optional=True),
        swaps=informers.get(NETWORK_SWAPS, optional=True, indexes={BY_MACHINE: _machine}),
    )


def owners_of_pod(pod: Pod) -> Iterator[Owner]:
    """Yield the owners that a pod may be: itself, and the machine that runs in it."""
    namespace = pod.metadata.namespace
    yield Owner(kind=POD, namespace=namespace, name=pod.metadata.name)
    name, _ = instance_of(pod)
    if name:
        yield Owner(kind=VIRTUAL_MACHINE, namespace=namespace, name=name)


def _machine(swap: NetworkSwap) -> tuple[str, ...]:
    return (f"{swap.metadata.namespace}/{swap.spec.machine}",)


def _instances(pod: Pod) -> tuple[str, ...]:
    name, _ = instance_of(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


class Evidence(Struct, frozen=True, kw_only=True):
    """The objects of an owner's name, in its namespace.

    `pod` is the pod of that name; `machine` and `instance` are KubeVirt's objects of that name, and `launchers` the
    pods in which an instance of that name runs. `stateful_set` makes pods of such names, and is read for NICs of names
    alone. `swaps` are moves of its NICs to other networks, in place. Read in this
    order, parents before what they make: an object that is gone makes nothing any more. Swaps come first: one that has
    ended has written into the others where the NIC is.
    """

    swaps: tuple[NetworkSwap, ...] = ()

    pod: Pod | None = None
    machine: VirtualMachine | None = None
    instance: VirtualMachineInstance | None = None
    launchers: tuple[Pod, ...] = ()
    stateful_set: StatefulSet | None = None


def is_expected(nic: Nic, evidence: Evidence) -> bool:
    """Return whether a StatefulSet is going to make the next pod of a name."""
    ordinal = ordinal_of(nic.spec.owner.name) if nic.spec.owner.kind == POD else None
    found = evidence.stateful_set
    return ordinal is not None and found is not None and found.wants(ordinal.number)


def held_until(nic: Nic) -> float:
    """Return when a NIC of an unused name is deleted, in seconds since the epoch; 0 where that is not decided."""
    try:
        return parse_rfc3339(nic.metadata.annotations.get(HELD_UNTIL, ""))
    except (ValueError, OverflowError):
        return 0.0


def period_of(nic: Nic) -> float:
    """Return for how many seconds a NIC of an unused name is kept: in doubt, for the longest period."""
    try:
        return parse_period(STICKY_FOR, nic.metadata.annotations[STICKY_FOR])
    except Malformed:
        return LONGEST


def may_go(nic: Nic, evidence: Evidence) -> bool:
    """Return whether a NIC whose deletion was asked for may go, and its addresses with it.

    An instance is nothing but its NICs, and what a node does with an address is for those to end who ask for the
    deletion; both let go at once.
    """
    match nic.spec.owner.kind:
        case "Pod":
            return _pod_has_ended(nic.spec.owner.uid, evidence.pod)
        case "VirtualMachine":
            return _machine_has_ended(nic, evidence) or is_unused(nic, evidence)
    return True


def is_leaked(nic: Nic, evidence: Evidence) -> bool:
    """Return whether no object is left that would ever ask for a NIC's deletion.

    Only of a pod or a machine whose uid is known: one without may yet come.
    """
    owner = nic.spec.owner
    return owner.kind in (POD, VIRTUAL_MACHINE) and owner.uid != "" and may_go(nic, evidence)


def is_unused(nic: Nic, evidence: Evidence) -> bool:
    """Return whether a machine is there and has no such network any more, nor anything that runs and has.

    Only of a NIC that an agent made, as its mark says for which network: any other was made by a user.
    """
    machine, owner = evidence.machine, nic.spec.owner
    places = places_of_nic(nic)
    if not places or owner.kind != VIRTUAL_MACHINE or machine is None:
        return False
    if machine.metadata.uid != owner.uid and not nic.is_sticky:
        return False
    template, instance, own = machine.spec.template, evidence.instance, nic.metadata.namespace
    specs = [template.spec] if template is not None else []
    specs += [instance.spec] if instance is not None else []
    if template is None or any(places & places_of(spec, own) for spec in specs):
        return False
    if any(places & swapped(swap) for swap in evidence.swaps):
        return False
    running = [pod for pod in evidence.launchers if not pod.has_ended]
    return not any(_may_use(pod, *place, instance) for pod in running for place in places)


def places_of_nic(nic: Nic) -> frozenset[tuple[str, Key]]:
    """Return the network of a machine for which an agent made a NIC, with each NAD for which it has it."""
    named = (mark.partition("/") for mark in nads_of(nic))
    return frozenset((nic.spec.interface, Key(namespace, name)) for namespace, _, name in named if name)


def _may_use(pod: Pod, network: str, nad: Key, instance: VirtualMachineInstance | None) -> bool:
    """Return whether a pod may be attached to a NAD for a network of its machine.

    Interfaces of its other networks are known by their names, but for those that are in order of the networks at some
    time. What a pod of another instance was made from is unknown.
    """
    if instance is None or instance_of(pod)[1] != instance.metadata.uid:
        return True
    attached = attachments(pod)
    unread = not attached and bool(pod.metadata.annotations.get(MULTUS_NETWORKS, "").strip(" []"))
    others = {hashed_interface(item.name) for item in instance.spec.networks if item.name != network}
    return unread or any(item.nad == nad and item.interface not in others for item in attached)


def _pod_has_ended(uid: str, pod: Pod | None) -> bool:
    return pod is None or not _is(pod, uid) or pod.has_ended


def _machine_has_ended(nic: Nic, evidence: Evidence) -> bool:
    """Return whether neither that machine, nor its instance, nor a pod that runs it is there."""
    if evidence.machine is not None and _is(evidence.machine, nic.spec.owner.uid):
        return False
    instances = {evidence.instance.metadata.uid} if evidence.instance is not None else set()
    instances.update(instance_of(pod)[1] for pod in evidence.launchers if not pod.has_ended)
    return all(_is_anothers(nic, uid, evidence) for uid in instances)


def _is_anothers(nic: Nic, uid: str, evidence: Evidence) -> bool:
    """Return whether the instance of that uid is known to be none of the NIC's owner's.

    Known is which instance a NIC belongs to that has no machine, and which instances belong to a later machine of the
    same name. An instance older than the machine that it belongs to was adopted by it: the guest goes on, with the
    address that it got from the machine before.
    """
    owner, instance, machine = nic.spec.owner.uid, evidence.instance, evidence.machine
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
    """Return whether an object is the one that is meant; any of its name where the uid is not known."""
    return uid in ("", item.metadata.uid)


def cached_evidence(informers: OwnerInformers, nic: Nic) -> Evidence:
    """Return the owner as the watches have brought it.

    It may lag behind: no address may be given back for this alone.
    """
    key = Key(nic.metadata.namespace, nic.spec.owner.name)
    match nic.spec.owner.kind:
        case "Pod":
            return Evidence(pod=informers.pods.store.get(key))
        case "VirtualMachine":
            return Evidence(
                swaps=informers.swaps.store.by(BY_MACHINE, str(key)),
                machine=informers.machines.store.get(key),
                instance=informers.instances.store.get(key),
                launchers=informers.pods.store.by(BY_INSTANCE, str(key)),
            )
    return Evidence()


async def live_evidence(client: Reader, nic: Nic) -> Evidence:
    """Return the owner as the API server has it now.

    A kind that it does not serve has no objects. Raises any other KubeError.
    One after the other, see `Evidence`: read at once, a machine's last pod could be made between the two answers.
    """
    key = Key(nic.metadata.namespace, nic.spec.owner.name)
    match nic.spec.owner.kind:
        case "Pod":
            pod = await get_or_none(client, PODS, key)
            ordinal = ordinal_of(key.name) if nic.is_sticky else None
            if ordinal is None:
                return Evidence(pod=pod)
            place = Key(key.namespace, ordinal.stateful_set)
            return Evidence(pod=pod, stateful_set=await get_or_none(client, STATEFUL_SET_SIZES, place))
        case "VirtualMachine":
            swaps = await list_or_empty(client, NETWORK_SWAPS, key.namespace)
            machine = await get_or_none(client, VIRTUAL_MACHINES, key)
            instance = await get_or_none(client, VIRTUAL_MACHINE_INSTANCES, key)
            pods = await client.list(PODS, key.namespace, labels=LAUNCHER_LABELS)
            return Evidence(
                swaps=tuple(swap for swap in swaps if swap.spec.machine == key.name),
                machine=machine,
                instance=instance,
                launchers=tuple(pod for pod in pods.items if instance_of(pod)[0] == key.name),
            )
    return Evidence()

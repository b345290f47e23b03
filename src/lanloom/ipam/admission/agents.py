"""What the agent of a node may do to NICs: have those of pods and machines that run on its node, and no others.

An agent that somebody has taken over can so neither take addresses from others nor give some away. Where a pod or a
machine runs is read anew each time: the object was made a moment ago.
"""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import Nic
from lanloom.api.kubevirt import (
    LAUNCHER_LABELS,
    VIRTUAL_MACHINE_INSTANCES,
    instance_of,
    machine_uid_of,
)
from lanloom.api.meta import Key
from lanloom.ipam.rules.addresses import shown
from lanloom.ipam.rules.errors import Refused
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client


async def check_agent(client: Client, node: str, new: Nic | None, old: Nic | None) -> None:
    """Raises Refused, and KubeError if the pods can't be read. `node` is the agent's own, empty for an unknown one."""
    nic = new or old
    if nic is None:
        return
    verb = "delete" if new is None else "create" if old is None else "update"
    title = f"can't {verb} Nic {nic.metadata.key} because"
    if old is None and not (nic.spec.owner.uid and _refers_to_owner(nic)):
        raise Refused(
            f"{title} an agent must name its owner with the uid, in spec.owner and as an owner reference"
        )
    if new is not None and new.spec.force:
        raise Refused(f"{title} an agent may not insist on reserved addresses; leave spec.force out")
    if new is not None and old is not None and _protected(new) != _protected(old):
        raise Refused(f"{title} an agent may change only which network and addresses are asked for")
    if new is None and await _has_left(client, nic):
        return
    if not node or not await _runs_on(client, nic, node):
        raise Refused(
            f'{title} {nic.spec.owner.kind} {shown(nic.spec.owner.name)} does not run on node "{node}", '
            "whose agent may write the NICs of what runs there only"
        )


def _protected(nic: Nic) -> tuple[object, ...]:
    """What of a NIC is not an agent's to change."""
    meta = nic.metadata
    return replace(nic.spec, network="", ips=(), release=()), meta.finalizers, meta.owner_references


def _refers_to_owner(nic: Nic) -> bool:
    return any(item.uid == nic.spec.owner.uid for item in nic.metadata.owner_references)


async def _has_left(client: Client, nic: Nic) -> bool:
    """Whether the NIC was of a pod that is gone or has ended: nobody's any more, and nothing is lost with it."""
    if nic.spec.owner.kind != PODS.kind:
        return False
    pod = await look_up(client, PODS, Key(nic.metadata.namespace, nic.spec.owner.name))
    return pod is None or pod.metadata.uid != nic.spec.owner.uid or pod.has_ended


async def _runs_on(client: Client, nic: Nic, node: str) -> bool:
    pods = _machine_pods(client, nic) if nic.spec.owner.kind == "VirtualMachine" else _own_pod(client, nic)
    async for pod in pods:
        if pod.spec.node_name == node and not pod.has_ended:
            return True
    return False


async def _own_pod(client: Client, nic: Nic) -> AsyncIterator[Pod]:
    if nic.spec.owner.kind == PODS.kind:
        pod = await look_up(client, PODS, Key(nic.metadata.namespace, nic.spec.owner.name))
        if pod is not None and pod.metadata.uid == nic.spec.owner.uid:
            yield pod


async def _machine_pods(client: Client, nic: Nic) -> AsyncIterator[Pod]:
    """The pods in which the instance of that machine runs, or that instance if it has no machine."""
    namespace, owner = nic.metadata.namespace, nic.spec.owner
    instance = await look_up(client, VIRTUAL_MACHINE_INSTANCES, Key(namespace, owner.name))
    if instance is None or owner.uid not in (instance.metadata.uid, machine_uid_of(instance)):
        return
    for pod in (await client.list(PODS, namespace, labels=LAUNCHER_LABELS)).items:
        if instance_of(pod) == (owner.name, instance.metadata.uid):
            yield pod

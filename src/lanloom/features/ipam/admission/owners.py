"""Who may own a NIC: what is there, in the NIC's namespace, and is not being deleted.

A NIC whose owner is gone is cleared up. One that is made for a running machine with the uid of an earlier one would
lose its addresses while they are used; one of a pod that never comes would never give them back. An instance is nothing
but its NICs. NICs of nodes are the manager's: it gives a node the address of its NIC, in the VLAN of the NAD that the
NIC names.

An owner is looked up when a NIC gets it, and not again: it may go at any time, and then the NIC can still be changed
and deleted.
"""

from collections.abc import Callable, Iterable

from lanloom.api import names
from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import INSTANCE, NODE, POD, VIRTUAL_MACHINE, Nic
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachineInstance,
    machine_uid_of,
)
from lanloom.api.meta import Key, Object
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.refusals import Denied

PodOf = Callable[[Key], Pod | None]
"""Gives a pod as a watch has brought it, None for one that it has not brought."""


async def find_pod(client: Client, cached: PodOf, nic: Nic) -> Pod | None:
    """Return the pod of the name of a NIC's owner. Raises KubeError.

    Of the owner's very own pod, the watch knows all that counts: a pod never changes its node. It lags only behind the
    pod's end, and a NIC of a pod that has ended is cleared up. Any other pod is read live.
    """
    place = Key(nic.metadata.namespace, nic.spec.owner.name)
    pod = cached(place)
    lives = pod is not None and pod.spec.node_name and not (pod.has_ended or pod.metadata.is_deleting)
    if pod is not None and lives and pod.metadata.uid == nic.spec.owner.uid:
        return pod
    return await get_or_none(client, PODS, place)


def check_owner_stays(new: Nic, old: Nic) -> None:
    """Check that a NIC has one owner for life; only a uid that was not known may be filled in. Raises Denied.

    An instance is nothing but its NICs, so its name may change.
    """
    before, after = old.spec.owner, new.spec.owner
    same_name = before.name == after.name or before.kind == INSTANCE
    if before.kind != after.kind or not same_name or before.uid not in ("", after.uid):
        raise Denied(
            f"Nic {new.metadata.key}: spec.owner is immutable: the NIC belongs to {before.kind} {before.name}; "
            "delete the NIC, and create one for the other owner"
        )


def check_owner_kind(new: Nic, old: Nic | None) -> None:
    """Raise Denied for a user's NIC of a node, also for a change of what it asks for: nodes get its address."""
    if new.spec.owner.kind == NODE and (old is None or old.spec != new.spec):
        raise Denied(
            f"Nic {new.metadata.key}: spec.owner.kind: NICs of nodes are written by Lanloom's manager only; set the "
            f"source of node addresses in annotation {names.L3_CONNECTIVITY} of the NAD"
        )


async def check_owner_is_there(client: Client, cached: PodOf, new: Nic, old: Nic | None) -> None:
    """Raise Denied for an owner that is not there, or is another one; KubeError if it can't be read."""
    owner = new.spec.owner
    if owner.kind not in (POD, VIRTUAL_MACHINE) or (old is not None and old.spec.owner == owner):
        return
    place = Key(new.metadata.namespace, owner.name)
    found = await _owners(client, cached, new)
    title = f"Nic {new.metadata.key}: spec.owner"
    if not found:
        raise Denied(
            f"{title}: {owner.kind} {place} does not exist; create it before its NIC, or use the kind Instance "
            "for an owner outside of this cluster"
        )
    if owner.uid and owner.uid not in _uids(found):
        raise Denied(
            f"{title}.uid: the existing {owner.kind} {owner.name} has another uid; use that uid, or omit it"
        )
    if all(item.metadata.is_deleting for item in found):
        raise Denied(f"{title}: {owner.kind} {place} is being deleted; wait until another one exists")


async def _owners(client: Client, cached: PodOf, nic: Nic) -> tuple[Object, ...]:
    """Return the owner of that name; a machine and its instance, which may be alone."""
    key = Key(nic.metadata.namespace, nic.spec.owner.name)
    if nic.spec.owner.kind == POD:
        found: list[Object | None] = [await find_pod(client, cached, nic)]
    else:
        found = [
            await get_or_none(client, VIRTUAL_MACHINES, key),
            await get_or_none(client, VIRTUAL_MACHINE_INSTANCES, key),
        ]
    return tuple(item for item in found if item is not None)


def _uids(found: Iterable[Object]) -> set[str]:
    """Return the uids by which an owner is known; a machine is by its instance's too."""
    machines = (machine_uid_of(item) for item in found if isinstance(item, VirtualMachineInstance))
    return {uid for uid in (*(item.metadata.uid for item in found), *machines) if uid}

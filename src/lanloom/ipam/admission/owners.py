"""Whether the owner that somebody names is the one that is there.

A NIC whose owner is gone is cleared up, so one that is made for a machine that runs, with the uid of an earlier one,
would lose its addresses while they are used. An owner that is not there at all may come.
"""

from lanloom.api.core import PODS
from lanloom.api.ipam import POD, VIRTUAL_MACHINE, Nic
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, machine_uid_of
from lanloom.api.meta import Key
from lanloom.ipam.rules.errors import Refused
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client


async def check_owner_is_there(client: Client, new: Nic, old: Nic | None) -> None:
    """Raises Refused for the uid of another one, and KubeError if the owner can't be read."""
    owner = new.spec.owner
    if not owner.uid or (old is not None and old.spec.owner == owner):
        return
    found = [uid for uid in await _uids(client, new) if uid]
    if found and owner.uid not in found:
        raise Refused(
            f"Nic {new.metadata.key}: spec.owner.uid: the {owner.kind} {owner.name} that is there has another uid; "
            "take that one, or leave it out"
        )


async def _uids(client: Client, nic: Nic) -> list[str]:
    """The uids by which the owner of that name is known; a machine is by its instance's too, which may be alone."""
    key, kind = Key(nic.metadata.namespace, nic.spec.owner.name), nic.spec.owner.kind
    found: list[str] = []
    if kind == POD and (pod := await look_up(client, PODS, key)) is not None:
        found.append(pod.metadata.uid)
    if kind == VIRTUAL_MACHINE:
        if (machine := await look_up(client, VIRTUAL_MACHINES, key)) is not None:
            found.append(machine.metadata.uid)
        if (instance := await look_up(client, VIRTUAL_MACHINE_INSTANCES, key)) is not None:
            found += [instance.metadata.uid, machine_uid_of(instance)]
    return found

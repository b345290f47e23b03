"""What is known of an owner: by the watches, and read anew from the API server."""

from typing import TypeVar

from lanloom.api.core import PODS
from lanloom.api.ipam import Nic
from lanloom.api.kubevirt import LAUNCHER_LABELS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, instance_of
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.ipam.owners.ends import Evidence
from lanloom.ipam.owners.informers import BY_INSTANCE, OwnerInformers
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client

T = TypeVar("T", bound=Object)


def seen(informers: OwnerInformers, nic: Nic) -> Evidence:
    """What the watches have brought. It may lag behind, and must not be all that an address is given back for."""
    key = Key(nic.metadata.namespace, nic.spec.owner.name)
    match nic.spec.owner.kind:
        case "Pod":
            return Evidence(pod=informers.pods.store.get(key))
        case "VirtualMachine":
            return Evidence(
                machine=informers.machines.store.get(key),
                instance=informers.instances.store.get(key),
                launchers=informers.pods.store.by(BY_INSTANCE, str(key)),
            )
    return Evidence()


async def look(client: Client, nic: Nic) -> Evidence:
    """What the API server has now. A kind that it does not serve has no objects. Raises any other KubeError.

    One after the other, see `Evidence`: read at once, a machine's last pod could be made between the two answers.
    """
    namespace, name = nic.metadata.namespace, nic.spec.owner.name
    match nic.spec.owner.kind:
        case "Pod":
            return Evidence(pod=await _find(client, PODS, namespace, name))
        case "VirtualMachine":
            machine = await _find(client, VIRTUAL_MACHINES, namespace, name)
            instance = await _find(client, VIRTUAL_MACHINE_INSTANCES, namespace, name)
            pods = await client.list(PODS, namespace, labels=LAUNCHER_LABELS)
            return Evidence(
                machine=machine,
                instance=instance,
                launchers=tuple(pod for pod in pods.items if instance_of(pod)[0] == name),
            )
    return Evidence()


async def _find(client: Client, resource: Resource[T], namespace: str, name: str) -> T | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None

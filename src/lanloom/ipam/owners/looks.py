"""What is known of an owner: by the watches, and read anew from the API server."""

from lanloom.api.core import PODS
from lanloom.api.ipam import Nic
from lanloom.api.kubevirt import LAUNCHER_LABELS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, instance_of
from lanloom.api.meta import Key
from lanloom.ipam.owners.ends import Evidence
from lanloom.ipam.owners.informers import BY_INSTANCE, OwnerInformers
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client


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
    key = Key(nic.metadata.namespace, nic.spec.owner.name)
    match nic.spec.owner.kind:
        case "Pod":
            return Evidence(pod=await look_up(client, PODS, key))
        case "VirtualMachine":
            machine = await look_up(client, VIRTUAL_MACHINES, key)
            instance = await look_up(client, VIRTUAL_MACHINE_INSTANCES, key)
            pods = await client.list(PODS, key.namespace, labels=LAUNCHER_LABELS)
            return Evidence(
                machine=machine,
                instance=instance,
                launchers=tuple(pod for pod in pods.items if instance_of(pod)[0] == key.name),
            )
    return Evidence()

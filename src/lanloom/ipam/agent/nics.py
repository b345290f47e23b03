"""NICs as this node's agent makes and deletes them. Two calls for one NIC at once end with the same one."""

from contextlib import suppress
from typing import Any

from lanloom.api.cni import CONTAINER
from lanloom.api.ipam import NETWORKS, NICS, VIRTUAL_MACHINE, Network, Nic
from lanloom.api.meta import Key
from lanloom.ipam.agent.protocol import REFUSED, CniError
from lanloom.ipam.agent.wanted import change
from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.names import object_name
from lanloom.ipam.state import State
from lanloom.kube.errors import AlreadyExists, BadRequest, Conflict, NotFound
from lanloom.kube.lookup import gone_already, look_up
from lanloom.kube.ports import Client

TRIES = 5
"""How often a NIC is read again that somebody changes at the same time."""


async def find_network(client: Client, ident: str) -> Network:
    """The network of that UUID, name or object name. Raises CniError, KubeError.

    Usually the ident is the object's own name and its user's name too, which can be no other's: one small request.
    Whoever writes a NAD chooses the ident: `../x` must not become part of a path that the agent asks for.
    """
    if object_name(ident) == ident:
        with suppress(NotFound, BadRequest):
            network = await client.get(NETWORKS, ident)
            if (network.spec.name or network.metadata.name) == ident:
                return network
    networks = await client.list(NETWORKS)
    try:
        return State(networks.items, ()).find(ident)
    except Refused as error:
        raise CniError(REFUSED, str(error)) from None


async def settle_nic(client: Client, body: dict[str, Any], namespace: str, *, may_change: bool) -> Nic:
    """The NIC of that body: made, or found and, where it may change, brought to the same spec.

    Raises CniError, KubeError.
    """
    name, wanted = body["metadata"]["name"], body["spec"]
    for _ in range(TRIES):
        nic = await look_up(client, NICS, Key(namespace, name))
        if nic is None:
            with suppress(AlreadyExists):
                return await client.create(NICS, body, namespace)
            continue
        _check_owner(nic, wanted)
        patch = change(nic, wanted["network"], tuple(wanted["ips"])) if may_change else None
        if patch is None:
            return nic
        with suppress(Conflict, NotFound):
            return await client.patch(NICS, name, patch, namespace)
    raise CniError(
        REFUSED, f"Nic {namespace}/{name} is changed by others all the time; see who else writes it"
    )


async def hold_nic(client: Client, nic: Nic, container: str) -> Nic:
    """Writes down who uses a machine's NIC that is being deleted, before anybody does. Raises KubeError.

    Whoever found before that nobody uses it can't let go of it any more, because it has another version; whoever looks
    after that finds the pod.
    """
    meta = nic.metadata
    if not meta.is_leaving or nic.spec.owner.kind != VIRTUAL_MACHINE:
        return nic
    marks = {"resourceVersion": meta.resource_version, "annotations": {CONTAINER: container}}
    return await client.patch(NICS, meta.name, {"metadata": marks}, meta.namespace)


def _check_owner(nic: Nic, wanted: dict[str, Any]) -> None:
    owner = nic.spec.owner
    if (owner.kind, owner.name, owner.uid) != tuple(wanted["owner"][key] for key in ("kind", "name", "uid")):
        raise CniError(
            REFUSED,
            f"Nic {nic.metadata.key} belongs to {owner.kind} {owner.name}; somebody made it by hand: delete it",
        )


async def delete_nic(client: Client, key: Key, uid: str = "") -> None:
    """Asks for a NIC's deletion; one that is not there, or not the one meant, is no error. Raises KubeError."""
    with suppress(Conflict), gone_already(key.name):
        await client.delete(NICS, key.name, key.namespace, uid=uid)

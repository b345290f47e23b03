"""What is asked of the API server to tell why an object of a certain kind is not deleted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import (
    NAMESPACES,
    NODES,
    PODS,
    Namespace,
    Pod,
)
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, FINALIZER, DummyClusterNetwork
from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    Nic,
)
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.dummy import blockers as isolated
from lanloom.features.dummy.users import list_live_users
from lanloom.features.dummy.views import dummy_view, read_dummies
from lanloom.features.ipam.blockers import network_obstacle, nic_notes, nic_obstacle
from lanloom.features.ipam.owners.evidence import live_evidence
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.processes.blockers.kinds import KINDS
from lanloom.processes.blockers.namespaces import namespace_obstacles
from lanloom.processes.blockers.networks import (
    dependents,
    pod_obstacle,
    status_notes,
    user_notes,
)
from lanloom.runtime.blockers.model import Obstacle


class Answer(NamedTuple):
    """What keeps the object, and what else is to be known."""

    obstacles: tuple[Obstacle, ...] = ()
    notes: tuple[str, ...] = ()


Question = Callable[[Client, Any], Awaitable[Answer]]


async def _isolated(client: Client, item: DummyClusterNetwork) -> Answer:
    objects, users = await read_dummies(client)
    finalizers = item.metadata.finalizers
    if not item.metadata.is_deleting:
        finalizers = (*finalizers, FINALIZER)  # the manager puts it there before it makes anything
    view = dummy_view(item, objects, users, time.time())
    return Answer(isolated.obstacles(view, finalizers))


async def _nad(client: Client, item: NetworkAttachmentDefinition) -> Answer:
    users = await list_live_users(client)
    return Answer(notes=user_notes(users.users_of(item.metadata.key)))


async def _network(client: Client, item: Network) -> Answer:
    if not item.metadata.is_deleting:
        return Answer()  # the webhook says who uses it
    return Answer(_some(network_obstacle(item, (await client.list(NICS)).items)))


async def _nic(client: Client, item: Nic) -> Answer:
    return Answer(_some(nic_obstacle(item, await live_evidence(client, item))), nic_notes(item))


async def _status(_client: Client, item: ClusterNetworkNode) -> Answer:
    return Answer(notes=status_notes(item))


async def _pod(client: Client, item: Pod) -> Answer:
    node = await get_or_none(client, NODES, Key("", item.spec.node_name)) if item.spec.node_name else None
    return Answer(_some(pod_obstacle(item, node)))


async def _namespace(client: Client, item: Namespace) -> Answer:
    if not item.metadata.is_deleting:
        return Answer()
    found = await _objects_in(client, item.metadata.name)
    notes = (f"{found.hidden[0].upper()}{found.hidden[1:]}.",) if found.hidden else ()
    return Answer(namespace_obstacles(item, found.items), notes)


QUESTIONS: dict[str, Question] = {
    DUMMY_CLUSTER_NETWORKS.full_name: _isolated,
    NADS.full_name: _nad,
    NETWORKS.full_name: _network,
    NICS.full_name: _nic,
    CLUSTER_NETWORK_NODES.full_name: _status,
    PODS.full_name: _pod,
    NAMESPACES.full_name: _namespace,
}
"""By the full name of the resource; of other kinds only their finalizers are known."""


async def owned_by(client: Client, owner: Object) -> tuple[str, ...]:
    """What keeps an object in a foreground deletion, of the kinds that are known. Raises KubeError."""
    found = await _objects_in(client, owner.metadata.namespace)
    hidden = (found.hidden,) if found.hidden else ()
    return (*dependents(owner.metadata, found.items), *hidden)


class _Found(NamedTuple):
    """Objects with their kinds; `hidden` says which kinds can't be seen, empty where all can."""

    items: tuple[tuple[str, Object], ...]
    hidden: str


async def _objects_in(client: Client, namespace: str) -> _Found:
    """The objects of every known kind; in all namespaces if it is empty."""
    kinds = [kind for kind in KINDS if kind.namespaced or not namespace]
    lists = await asyncio.gather(*(_items(client, kind, namespace) for kind in kinds))
    pairs = tuple(zip(kinds, lists, strict=True))
    forbidden = [kind.plural for kind, items in pairs if items is None]
    hidden = (
        f"what there is of {', '.join(forbidden)} is not shown: you may not list them" if forbidden else ""
    )
    return _Found(tuple((kind.kind, item) for kind, items in pairs for item in items or ()), hidden)


async def _items(client: Client, kind: Any, namespace: str) -> tuple[Object, ...] | None:
    """The objects of a kind; None where the user may not list them."""
    try:
        items: tuple[Object, ...] = (await client.list(kind, namespace)).items
    except NotFound:
        return ()
    except Forbidden:
        return None
    return items


def _some(obstacle: Obstacle | None) -> tuple[Obstacle, ...]:
    return (obstacle,) if obstacle is not None else ()

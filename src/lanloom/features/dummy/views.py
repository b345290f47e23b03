"""How isolated networks are: the values behind `lanloom dummy list` and `lanloom dummy show`.

What a node's pod says is the truth about the node's bridge: the daemon in it has no rights at the API server, and tells
by being ready, or by how it ended.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import Struct

from lanloom.api.core import (
    NODES,
    PODS,
    Node,
    Pod,
)
from lanloom.api.dummy import (
    ABSENT,
    BRIDGE_LABEL,
    DRAINING,
    DUMMY_CLUSTER_NETWORKS,
    PRESENT,
    UID_LABEL,
    DummyClusterNetwork,
    DummyResource,
    Phase,
)
from lanloom.api.lan import LANS
from lanloom.api.meta import Condition, Object, parse_rfc3339, rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.cli.details import EventView
from lanloom.cli.query import Field, Query
from lanloom.features.dummy.rules.daemonset import acknowledgement, is_up
from lanloom.features.dummy.rules.model import Settings, daemon_set_places
from lanloom.features.dummy.rules.spec import CLUSTER_MTU
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.nads.guard import Reservation, reservations_of, unsettled
from lanloom.nads.references import NadUse, User
from lanloom.nads.users import USING, list_live_users

T = TypeVar("T", bound=Object)

KINDS: tuple[Resource[Any], ...] = (DUMMY_CLUSTER_NETWORKS, NADS, DAEMON_SETS, NODES, *USING)
"""What views of isolated networks are made of."""

AWAY = "Away"
"""The state of a node that is not waited for."""

NO_POD = "NoPod"
"""The state of a node on which the network's DaemonSet has no pod."""

_DONE = {PRESENT: "Ready", ABSENT: "Gone"}
_BUSY = {
    PRESENT: "its pod is not ready yet",
    ABSENT: "its pod is not ready yet; it reports the reason after a minute",
}
_PODLESS = "the DaemonSet has no pod there yet"
_DOWN = "Down", "the node is not Ready; the manager waits for it for some minutes"
_AWAY = "the node is not Ready for some minutes and is skipped; its agent catches up when it returns"


class NodeView(Struct, frozen=True, kw_only=True):
    """A network on one node.

    `state` is Ready or Gone where the node has acknowledged; else the phase of its pod, NoPod, Down for a node that is
    not up, or Away for one that is not waited for any more. `message` says why, in the pod's own words if it said any.
    """

    node: str
    acknowledged: bool
    state: str
    message: str = ""


class Awaited(Struct, frozen=True, kw_only=True):
    """A request that was allowed to refer to the network, and until when it may come to be stored (RFC 3339)."""

    title: str
    until: str


class DummyView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A DummyClusterNetwork with what there is of it in the cluster.

    `users` are read now, and all of them; `events` only where one network is shown. `nad` is `namespace/name`. Times
    are RFC 3339, empty for never. `unreadable` says why it is unknown which requests may still come, empty where it is
    known. `lan` (`namespace/name`), `underlay`, `underlay_family` and `mtu` are of a network with the scope
    cluster.
    """

    name: str
    uid: str
    phase: Phase
    message: str
    scope: str
    bridge: str
    nad: str
    subnet: str
    gateway: str
    namespaces: tuple[str, ...]
    underlay: str
    underlay_family: str
    mtu: int
    lan: str
    created: str
    deleting: str
    draining: str
    users: tuple[User, ...]
    awaited: tuple[Awaited, ...]
    unreadable: str
    nodes: tuple[NodeView, ...]
    resources: tuple[DummyResource, ...]
    conditions: tuple[Condition, ...]
    events: tuple[EventView, ...] = ()

    @property
    def divided(self) -> tuple[str, ...]:
        """The nodes of users that do not reach each other: each node has a network of its own."""
        nodes = {node for user in self.users for node in user.nodes}
        return tuple(sorted(nodes)) if self.scope == "node" and len(nodes) > 1 else ()

    @property
    def shown_phase(self) -> str:
        """Its phase; NotSeen as long as no manager has looked at it."""
        return self.phase or "NotSeen"

    @property
    def live(self) -> int:
        """Nodes that are waited for."""
        return sum(node.state != AWAY for node in self.nodes)

    @property
    def acknowledged(self) -> int:
        """Nodes that say that the bridge is there, or is gone where the network goes."""
        return sum(node.acknowledged for node in self.nodes)

    @property
    def is_ready(self) -> bool:
        """Whether there is nothing to be done about it."""
        return self.phase == "Ready" and not self.deleting


class DummyObjects(Struct, frozen=True, kw_only=True):
    """What isolated networks are made of, in no order; `pods` are those of their DaemonSets."""

    networks: tuple[DummyClusterNetwork, ...] = ()
    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()


async def read_dummies(client: Reader) -> tuple[DummyObjects, NadUse]:
    """Read all of it, and who uses networks. Raises KubeError."""
    networks = await client.list(DUMMY_CLUSTER_NETWORKS)
    nads, daemon_sets, pods, nodes = await asyncio.gather(
        list_or_empty(client, NADS, labels=UID_LABEL),
        list_or_empty(client, DAEMON_SETS, labels=UID_LABEL),
        list_or_empty(client, PODS, labels=UID_LABEL),
        list_or_empty(client, NODES),
    )
    objects = DummyObjects(
        networks=networks.items, nads=nads, daemon_sets=daemon_sets, pods=pods, nodes=nodes
    )
    return objects, await list_live_users(client)


def dummy_views(objects: DummyObjects, users: NadUse, now: float) -> tuple[DummyView, ...]:
    """Return every network, ordered by name. `now` is in seconds since the epoch."""
    ordered = sorted(objects.networks, key=lambda item: item.metadata.name)
    return tuple(dummy_view(item, objects, users, now) for item in ordered)


def dummy_view(network: DummyClusterNetwork, objects: DummyObjects, users: NadUse, now: float) -> DummyView:
    """Return one network."""
    meta, spec, status = network.metadata, network.spec, network.status
    nad = next((item for item in objects.nads if _is_of(item, meta.uid)), None)
    awaited, unreadable = _awaited(nad, users, now)
    return DummyView(
        name=meta.name,
        uid=meta.uid,
        phase=status.phase,
        message=status.message,
        scope=spec.scope,
        bridge=spec.bridge_name,
        nad=str(spec.nad),
        subnet=spec.subnet,
        gateway=spec.gateway,
        namespaces=spec.namespaces,
        underlay=spec.underlay,
        underlay_family=spec.underlay_family,
        mtu=spec.mtu or (CLUSTER_MTU if spec.scope == "cluster" else 0),
        lan=next(
            (f"{item.namespace}/{item.name}" for item in status.resources if item.kind == LANS.kind), ""
        ),
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp or "",
        draining=nad.metadata.annotations.get(DRAINING, "") if nad is not None else "",
        users=users.users_of(spec.nad),
        awaited=awaited,
        unreadable=unreadable,
        nodes=_nodes(network, objects, now),
        resources=status.resources,
        conditions=status.conditions,
    )


def _is_of(item: Object, uid: str) -> bool:
    return item.metadata.labels.get(UID_LABEL) == uid


def _awaited(
    nad: NetworkAttachmentDefinition | None, users: NadUse, now: float
) -> tuple[tuple[Awaited, ...], str]:
    if nad is None:
        return (), ""
    try:
        requests: tuple[Reservation, ...] = reservations_of(nad)
    except ValueError as error:
        return (), str(error)
    open_ = unsettled(requests, users.seen, now)
    return tuple(Awaited(title=item.title, until=rfc3339(item.until)) for item in open_), ""


def _nodes(network: DummyClusterNetwork, objects: DummyObjects, now: float) -> tuple[NodeView, ...]:
    """Return every node, ordered by name; none for a network without a DaemonSet."""
    uid, places = network.metadata.uid, daemon_set_places(Settings(), network.status.resources)
    state = next((_state_of(item) for item in _parts(objects.daemon_sets, uid, places)), "")
    if not state:
        return ()
    pods = _parts(objects.pods, uid, places)
    found = acknowledgement(objects.nodes, pods, state, now=now, patience=Settings().node_timeout)
    phases = {pod.spec.node_name: pod.status.phase or "Pending" for pod in pods}
    views = [NodeView(node=name, acknowledged=True, state=_DONE[state]) for name in found.acknowledged]
    views += [NodeView(node=name, acknowledged=False, state=AWAY, message=_AWAY) for name in found.away]
    up = {node.metadata.name for node in objects.nodes if is_up(node)}
    for name, why in found.missing.items():
        there = (phases[name], why or _BUSY[state]) if name in phases else (NO_POD, _PODLESS)
        said, message = there if name in up else _DOWN
        views.append(NodeView(node=name, acknowledged=False, state=said, message=message))
    return tuple(sorted(views, key=lambda view: view.node))


def _parts(items: Iterable[T], uid: str, places: frozenset[str]) -> list[T]:
    return [item for item in items if _is_of(item, uid) and item.metadata.namespace in places]


def _state_of(item: DaemonSet) -> str:
    labels = item.spec.template.get("metadata", {}).get("labels", {})
    return ABSENT if labels.get(BRIDGE_LABEL) == ABSENT else PRESENT


def _age(created: str) -> str:
    try:
        seconds = max(int(time.time() - parse_rfc3339(created)), 0)
    except ValueError:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


NETWORK_FIELDS: Query[DummyView] = Query(
    (
        Field("name", "Name", "text", "Name", lambda view: view.name, whole=True),
        Field(
            "phase",
            "Phase",
            "text",
            "Phase",
            lambda view: view.shown_phase,
            style=lambda view: "green" if view.is_ready else "yellow",
            whole=True,
            breaks="Ensuring",
        ),
        Field("scope", "Scope", "text", "Scope: node or cluster", lambda view: view.scope, whole=True),
        Field("bridge", "Bridge", "text", "Bridge on each node", lambda view: view.bridge, whole=True),
        Field("nad", "NAD", "text", "NAD, as namespace/name", lambda view: view.nad, breaks="/"),
        Field(
            "nodes",
            "Nodes",
            "text",
            "Number of nodes that have acknowledged, and of all expected nodes",
            lambda view: f"{view.acknowledged}/{view.live}",
            whole=True,
        ),
        Field(
            "users",
            "Users",
            "text",
            "Current number of users",
            lambda view: str(len(view.users)),
            whole=True,
        ),
        Field("age", "Age", "text", "Age", lambda view: _age(view.created), whole=True),
        Field(
            "message", "Message", "text", "Message of the phase, with the remedy", lambda view: view.message
        ),
    ),
    ("name", "phase", "scope", "bridge", "nad", "nodes", "users", "age"),
    narrow=("name", "phase", "bridge", "nad", "nodes", "users", "age"),
    ruled=True,
    resource=f"{DUMMY_CLUSTER_NETWORKS.singular}.{DUMMY_CLUSTER_NETWORKS.group}",
)
"""The fields of `lanloom dummy list`."""

NODE_FIELDS: Query[NodeView] = Query(
    (
        Field("node", "Node", "text", "Node", lambda view: view.node, whole=True),
        Field(
            "state",
            "State",
            "text",
            "State",
            lambda view: view.state,
            style=lambda view: "green" if view.acknowledged else "yellow",
            whole=True,
        ),
        Field("message", "Message of its pod", "text", "Message of the pod", lambda view: view.message),
    ),
    ("node", "state", "message"),
    ruled=True,
)
"""The table of `lanloom dummy show`."""

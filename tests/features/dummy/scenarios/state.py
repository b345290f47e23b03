"""A cluster as a value: objects by kind and name, and what an API server does with them.

What no API server could hold is refused (`check`): a scenario that begins there is wrong itself.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import (
    NODES,
    PODS,
    EventDraft,
    Node,
    Pod,
)
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    VlanConfig,
)
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LANS
from lanloom.api.meta import Key, Object, rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.model import Settings
from lanloom.features.dummy.rules.observed import Failure
from lanloom.nads.references import User

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""

IMAGE = f"registry.example/lanloom@sha256:{'0' * 64}"

KINDS: tuple[Resource[Any], ...] = (
    DUMMY_CLUSTER_NETWORKS,
    NADS,
    DAEMON_SETS,
    NETWORKS,
    CLUSTER_NETWORKS,
    LANS,
    VLAN_CONFIGS,
    NODES,
    PODS,
)


class Known(Struct, frozen=True):
    """Who uses which NAD (a `NadUse`), and which versions of objects are known."""

    users: dict[Key, tuple[User, ...]] = {}
    versions: dict[str, int] = {}

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """As the rules ask."""
        return self.users.get(nad, ())

    def user_of(self, pod: Key) -> User:
        """Never called."""
        raise NotImplementedError

    def seen(self, uid: str) -> int | None:
        """As the rules ask."""
        return self.versions.get(uid)


class State(Struct, frozen=True, kw_only=True):
    """Objects by kind and key, who uses what, and what was reported.

    `watched` are users as the watches have brought them, `live` as the API server says, None where it does not.
    `unseen` are kinds of whose objects the watches have not brought any. `answering` are the nodes whose pods are
    Ready, `lanless` those without the agent of LANs; `lan_mtu` is what LANs carry. `refusals` are actions that the API
    server refuses, by the plural of their resource. `waits` are the moments at which a manager is to look again.
    """

    objects: dict[tuple[str, Key], Any] = {}
    watched: Known = Known()
    live: Known | None = Known()
    unseen: frozenset[str] = frozenset()
    answering: frozenset[str] = frozenset()
    lanless: frozenset[str] = frozenset()
    lan_mtu: int = 1450
    settings: Settings = Settings(image=IMAGE)
    refusals: dict[str, str] = {}
    failures: dict[str, Failure] = {}
    now: float = START
    serial: int = 1
    events: tuple[EventDraft, ...] = ()
    trace: tuple[str, ...] = ()
    waits: tuple[float, ...] = ()

    def of(self, resource: Resource[T]) -> tuple[T, ...]:
        """Every object of a kind."""
        return tuple(item for (kind, _), item in self.objects.items() if kind == resource.kind)

    def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object that must be there."""
        found: T = self.objects[resource.kind, Key(namespace, name)]
        return found

    def find(self, resource: Resource[T], name: str, namespace: str = "") -> T | None:
        """One object, if it is there."""
        return self.objects.get((resource.kind, Key(namespace, name)))

    @property
    def dcn(self) -> DummyClusterNetwork:
        """The only DummyClusterNetwork, or the one called `net`."""
        return self.get(DUMMY_CLUSTER_NETWORKS, "net")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of what was reported, in order."""
        return tuple(item.reason for item in self.events)


class Impossible(AssertionError):
    """A state that no API server can hold: the test is wrong."""


Event = Callable[[State], State]


def put(state: State, item: Object, resource: Resource[Any] | None = None) -> State:
    """The state with an object as it is written: with another version, and gone if nothing holds it any more."""
    kind = resource.kind if resource is not None else _kind_of(item)
    version = str(state.serial + 1)
    meta = replace(
        item.metadata,
        resource_version=version,
        uid=item.metadata.uid or f"uid-{state.serial}",
        creation_timestamp=item.metadata.creation_timestamp or rfc3339(state.now),
    )
    objects = dict(state.objects)
    if meta.deletion_timestamp is not None and not meta.finalizers:
        objects.pop((kind, meta.key), None)
    else:
        objects[kind, meta.key] = replace(item, metadata=meta)
    return replace(state, objects=objects, serial=state.serial + 1)


def deleted(state: State, resource: Resource[Any], key: Key) -> State:
    """The state after a deletion was asked for."""
    current = state.objects[resource.kind, key]
    stamp = current.metadata.deletion_timestamp or rfc3339(state.now)
    state = put(
        state, replace(current, metadata=replace(current.metadata, deletion_timestamp=stamp)), resource
    )
    if resource is DAEMON_SETS:
        mine = [item for item in state.of(PODS) if _belongs(item, current)]
        gone = {(PODS.kind, item.metadata.key) for item in mine}
        state = replace(state, objects={key: item for key, item in state.objects.items() if key not in gone})
    return state


def _belongs(pod: Pod, daemon_set: DaemonSet) -> bool:
    return any(item.uid == daemon_set.metadata.uid for item in pod.metadata.owner_references)


_TYPES: dict[type[Object], str] = {
    DummyClusterNetwork: DUMMY_CLUSTER_NETWORKS.kind,
    NetworkAttachmentDefinition: NADS.kind,
    DaemonSet: DAEMON_SETS.kind,
    Network: NETWORKS.kind,
    ClusterNetwork: CLUSTER_NETWORKS.kind,
    VlanConfig: VLAN_CONFIGS.kind,
    Node: NODES.kind,
    Pod: PODS.kind,
}


def _kind_of(item: Object) -> str:
    return _TYPES[type(item)]


def check(state: State) -> None:
    """Raises Impossible for what no API server can hold."""
    uids: dict[str, str] = {}
    for (kind, key), item in state.objects.items():
        meta, title = item.metadata, f"{kind} {key}"
        resource = next(each for each in KINDS if each.kind == kind)
        problems: Iterable[tuple[bool, str]] = (
            (meta.key != key, "is not stored under its own name"),
            (not meta.uid, "has no uid"),
            (meta.uid in uids, f"has the uid of {uids.get(meta.uid)}"),
            (not meta.resource_version, "has no version"),
            (resource.namespaced != bool(key.namespace), "is in a namespace, or in none, against its kind"),
            (meta.deletion_timestamp is not None and not meta.finalizers, "would be gone: nothing holds it"),
        )
        for wrong, what in problems:
            if wrong:
                raise Impossible(f"{title} {what}")
        uids[meta.uid] = title
    nodes = {item.metadata.name for item in state.of(NODES)}
    if away := state.answering - nodes:
        raise Impossible(f"{sorted(away)} answer, and are no nodes")

"""Users of a NAD: virtual machines, pods, and controllers of pods; by an index over the stores, or listed live.

An operator who wants a network to be unused changes the Deployment and not its pods. So a user is the top of a chain of
owners: a pod counts as its instance, and that as its machine. Only an owner that is known by its uid counts. An object
without one is its own user, so that no user is ever lost.

Machines, instances and pods are watched for other features as well. Controllers of pods are watched whole: the
templates decide, and no selector finds those that matter.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    instance_of,
    nodes_of,
)
from lanloom.api.liveupdate import NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    strip_pod,
)
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.lookup import SingleFlight, list_or_empty
from lanloom.kube.ports import Reader
from lanloom.kube.store import Store
from lanloom.nads.guard import VersionOf
from lanloom.nads.references import (
    ANY,
    NONE,
    NadUse,
    References,
    User,
    marks_of,
    references_of,
)
from lanloom.text import listed

POD_CONTROLLERS: tuple[Resource[Any], ...] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SET_TEMPLATES, CRON_JOBS)
"""Controllers of pods; a Deployment creates them by ReplicaSets, a CronJob by Jobs."""

OWNED_CONTROLLERS: tuple[Resource[Any], ...] = (REPLICA_SETS, JOBS)
"""Controllers of pods that one of the `POD_CONTROLLERS` may own."""

WAVES: tuple[tuple[Resource[Any], ...], ...] = (
    (NETWORK_SWAPS,),
    (VIRTUAL_MACHINES, *POD_CONTROLLERS),
    (VIRTUAL_MACHINE_INSTANCES, *OWNED_CONTROLLERS),
    (PODS,),
)
"""Every kind that may use a network; owners are in an earlier wave than the objects that they own.

Swaps are in the first: one that has ended by then has written its network into the machine and the pod.
"""

USING: tuple[Resource[Any], ...] = tuple(kind for wave in WAVES for kind in wave)
"""All of them."""

REFERENCES = "references"
"""The index of every store: `References.marks` as text."""


class UserInformers(InformerView, frozen=True):
    """Every kind that may use a network; no other feature follows `pod_controllers`."""

    swaps: Informer[NetworkSwap]
    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    pod_controllers: tuple[Informer[Any], ...]


def user_informers(informers: Informers) -> UserInformers:
    """Return the informers with the index that finds users; pods are watched in all namespaces."""
    indexes = {REFERENCES: index_values}
    return UserInformers(
        swaps=informers.get(NETWORK_SWAPS, indexes=indexes, optional=True),
        machines=informers.get(VIRTUAL_MACHINES, indexes=indexes, optional=True),
        instances=informers.get(VIRTUAL_MACHINE_INSTANCES, indexes=indexes, optional=True),
        pods=informers.get(PODS, indexes=indexes, transform=strip_pod),
        pod_controllers=tuple(
            informers.get(resource, indexes=indexes, optional=True)
            for resource in (*POD_CONTROLLERS, *OWNED_CONTROLLERS)
        ),
    )


def index_values(item: Object) -> tuple[str, ...]:
    """Return the values of an object in the index."""
    return tuple(map(str, references_of(item).marks))


def values_of(nad: Key) -> tuple[str, ...]:
    """Return the index values of all objects that may use a NAD."""
    return tuple(map(str, marks_of(nad)))


_MACHINES = (VIRTUAL_MACHINES.kind, VIRTUAL_MACHINE_INSTANCES.kind)

_LEVELS = 4
"""How many owners a chain may have: real chains are shorter, and references may form a circle."""

_NAMED_MAX = 3
"""How many pods of a user are named, and how many of its places: any pod may name any owner."""


class Found(NamedTuple):
    """An object and its kind, which objects of lists don't tell themselves."""

    kind: str
    item: Object


class _Using:
    """The objects of one user: `top` owns all `parts`, and is `itself` one where it names the network.

    It is `sure` unless each part merely may use the network.
    """

    __slots__ = ("itself", "parts", "sure", "top")

    def __init__(self, top: Found) -> None:
        self.top = top
        self.parts: list[Found] = []
        self.sure = self.itself = False

    def add(self, part: Found, sure: bool) -> None:
        """Add a part; the same part may be added again."""
        self.parts.append(part)
        self.sure |= sure
        self.itself |= part.item is self.top.item


class StoredUsers:
    """A `NadUse` of stores by kind that have the index REFERENCES; `seen` returns the newest version of an object."""

    def __init__(self, stores: Mapping[str, Store[Any]], seen: VersionOf) -> None:
        self._stores = stores
        self._seen = seen

    def seen(self, uid: str) -> int | None:
        """Return the newest known resourceVersion of a swap, VM, VMI or pod of that uid; None if it is unknown."""
        return self._seen(uid)

    def newest(self, other: NadUse) -> "StoredUsers":
        """Return these users with the newer version of each object, as they or another view know it."""

        def seen(uid: str) -> int | None:
            known = (self._seen(uid), other.seen(uid))
            return max((version for version in known if version is not None), default=None)

        return StoredUsers(self._stores, seen)

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Return every user of a NAD, and every object that may use it, each once, ordered."""
        users: dict[int, _Using] = {}  # by what is at the top: no two objects are one
        exact = str(nad)
        for value in values_of(nad):
            for kind, store in self._stores.items():
                for item in store.by(REFERENCES, value):
                    found = Found(kind, item)
                    top = self._top(found)
                    using = users.get(id(top.item))
                    if using is None:
                        using = users[id(top.item)] = _Using(top)
                    using.add(found, value == exact)
        return tuple(sorted(_user(using) for using in users.values()))

    def is_used(self, nad: Key) -> bool:
        """Return whether the NAD has users. Many users take no longer than few."""
        values = values_of(nad)
        return any(store.has(REFERENCES, value) for store in self._stores.values() for value in values)

    def user_of(self, pod: Key) -> User:
        """Return the user that a pod is, or is a part of."""
        item = self._stores[PODS.kind].get(pod)
        top = self._top(Found(PODS.kind, item)) if item is not None else None
        if top is None:
            return User(PODS.kind, pod.namespace, pod.name)
        return User(top.kind, top.item.metadata.namespace, top.item.metadata.name)

    def _top(self, found: Found) -> Found:
        for _ in range(_LEVELS):
            owner = self._owner(found.item)
            if owner is None:
                break
            found = owner
        return found

    def _owner(self, item: Object) -> Found | None:
        namespace = item.metadata.namespace
        for reference in item.metadata.owner_references:
            owner = self._known(reference.kind, Key(namespace, reference.name), reference.uid)
            if owner is not None:
                return owner
        if isinstance(item, Pod):
            name, uid = instance_of(item)
            return self._known(VIRTUAL_MACHINE_INSTANCES.kind, Key(namespace, name), uid)
        return None

    def _known(self, kind: str, key: Key, uid: str) -> Found | None:
        store = self._stores.get(kind)
        item = store.get(key) if store is not None else None
        return Found(kind, item) if item is not None and item.metadata.uid == uid else None


def _user(using: _Using) -> User:
    kind, item = using.top
    problems = () if using.sure else (references_of(part.item).problem for part in using.parts)
    via = _places(using) if kind in _MACHINES else _made(using)
    problem = next(filter(None, problems), "")
    return User(kind, item.metadata.namespace, item.metadata.name, via, problem, _nodes(using))


def _nodes(using: _Using) -> tuple[str, ...]:
    """Return the nodes of the user's pods, and of its instance: a machine without a pod may say where it runs."""
    pods = {part.item.spec.node_name for part in using.parts if isinstance(part.item, Pod)}
    instances = {
        part.item.status.node_name for part in using.parts if isinstance(part.item, VirtualMachineInstance)
    }
    return tuple(sorted((pods | instances) - {""}))


def _made(using: _Using) -> str:
    """Name the objects of a former template through which a user that does not name the network uses it."""
    if using.itself:
        return ""
    named = sorted({f"{kind.lower()} {item.metadata.name}" for kind, item in using.parts})
    return listed(named, _NAMED_MAX)


def _places(using: _Using) -> str:
    """Say where a machine runs with the network, and through which pods if its instance does not tell."""
    words, pods, nodes = [], set[str](), frozenset[str]()
    for _, item in using.parts:
        if isinstance(item, VirtualMachineInstance):
            nodes, here = nodes_of(item), item.status.node_name
            former = "" if using.itself else "still "
            words.append(f"{former}runs on {here}" if here else "is starting")
            words += [f"migrates to {node}" for node in sorted(nodes - {here})]
    for _, item in using.parts:
        if isinstance(item, Pod) and item.spec.node_name not in nodes:
            where = f" on {item.spec.node_name}" if item.spec.node_name else ""
            pods.add(f"pod {item.metadata.name}{where}")
    return listed((*dict.fromkeys(words), *sorted(pods)), _NAMED_MAX)


GONE_SECONDS = 120.0
"""How long a deleted object is remembered: longer than any request about it may take."""


class VersionTracker:
    """The newest observed version of each object. `now` is in seconds, of any clock that does not go back.

    Of a deleted object it is the last version observed before. An object that came and went while a watch was broken
    was never observed. Memory is bounded by the present objects, and those deleted within GONE_SECONDS.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._there: dict[str, Object] = {}
        self._gone: dict[str, int] = {}
        self._forget: deque[tuple[float, str]] = deque()

    def __call__(self, uid: str) -> int | None:
        """Return the newest observed resourceVersion of the object of that uid; None for an unknown one."""
        self._forget_old()
        item = self._there.get(uid)
        return item.metadata.version if item is not None else self._gone.get(uid)

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Record a change from an informer."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._leave(old)
        if new is not None:
            self._there[new.metadata.uid] = new

    def _leave(self, item: Object) -> None:
        uid = item.metadata.uid
        if self._there.pop(uid, None) is not None:
            self._forget_old()
            self._gone[uid] = item.metadata.version
            self._forget.append((self._now() + GONE_SECONDS, uid))

    def _forget_old(self) -> None:
        now = self._now()
        while self._forget and self._forget[0][0] <= now:
            self._gone.pop(self._forget.popleft()[1], None)


Handler = Callable[[frozenset[Key] | None], None]
"""Receives the NADs whose users may have changed; None: any NAD."""


class NadUsers(StoredUsers):
    """The users of every NAD as observed by the watches.

    It is whole when all its informers are synced. `now` is in seconds, of any clock that does not go back.
    """

    def __init__(self, client: Reader, informers: UserInformers, now: Callable[[], float]) -> None:
        versions = VersionTracker(now)
        super().__init__({item.resource.kind: item.store for item in informers.all()}, versions)
        self._live = shared_live_users(client)
        self._handlers: list[Handler] = []
        for informer in (informers.swaps, informers.machines, informers.instances, informers.pods):
            informer.on_change(versions.changed)
        for informer in informers.all():
            informer.on_change(self._changed)

    async def live(self) -> StoredUsers:
        """Return the users as the API server has them now. Raises KubeError where that can't be known."""
        return (await self._live.get()).newest(self)

    def on_change(self, handler: Handler) -> None:
        """Add a quick, synchronous handler. It is called after each change, when the answers contain it."""
        self._handlers.append(handler)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _references(old), _references(new)
        same = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        marks = before.marks ^ after.marks if same else before.marks | after.marks
        if any(mark.namespace == ANY for mark in marks):
            self._notify(None)
        elif nads := [nad for nad in marks if not same or before.may_mean(nad) != after.may_mean(nad)]:
            self._notify(frozenset(nads))

    def _notify(self, nads: frozenset[Key] | None) -> None:
        for handler in self._handlers:
            handler(nads)


def _references(item: Object | None) -> References:
    return references_of(item) if item is not None else NONE


_SEEN = {resource.kind for resource in (NETWORK_SWAPS, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)}


async def list_live_users(client: Reader) -> StoredUsers:
    """List everything that may use a network. Raises KubeError; any NAD may be in use then."""
    stores: dict[str, Store[Any]] = {}
    for wave in WAVES:
        lists = await asyncio.gather(*(_listed(client, resource) for resource in wave))
        stores |= {resource.kind: _store(items) for resource, items in zip(wave, lists, strict=True)}
    seen = (item.metadata for kind in _SEEN for item in stores[kind].items())
    return StoredUsers(stores, {meta.uid: meta.version for meta in seen}.get)


def shared_live_users(client: Reader) -> SingleFlight[StoredUsers]:
    """Share `list_live_users` between callers: each call lists everything, and 50 networks may be deleted together."""
    return SingleFlight(partial(list_live_users, client))


def _store(items: tuple[Object, ...]) -> Store[Any]:
    store: Store[Any] = Store({REFERENCES: index_values})
    for _ in store.replace(items):
        pass
    return store


async def _listed(client: Reader, resource: Resource[Any]) -> tuple[Object, ...]:
    return (await client.list(PODS)).items if resource is PODS else await list_or_empty(client, resource)

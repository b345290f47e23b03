"""Users of a network, from stores of everything that may use one: found by an index, named by their controllers.

Nobody minds a pod of a Deployment; an operator who wants a network to be unused changes the Deployment. So a user is
the top of its chain of owners: a pod counts as its instance, and that as its machine. Only an owner that is known, by
its uid, counts: an object without one stands for itself, so that no user is ever lost.

Machines, instances and pods are followed for other features as well. Controllers of pods are followed as a whole, too:
the templates decide, and no selector finds those that matter.
"""

from collections.abc import Mapping
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
from lanloom.api.meta import Key, Object
from lanloom.api.references import marks_of, references_of
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    lean,
)
from lanloom.features.dummy.rules.model import User
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.store import Store
from lanloom.text import listed

POD_CONTROLLERS: tuple[Resource[Any], ...] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SET_TEMPLATES, CRON_JOBS)
"""What makes pods; a Deployment by ReplicaSets, a CronJob by Jobs."""

OWNED_CONTROLLERS: tuple[Resource[Any], ...] = (REPLICA_SETS, JOBS)
"""What makes pods and may be made by one of the `POD_CONTROLLERS` itself."""

WAVES: tuple[tuple[Resource[Any], ...], ...] = (
    (VIRTUAL_MACHINES, *POD_CONTROLLERS),
    (VIRTUAL_MACHINE_INSTANCES, *OWNED_CONTROLLERS),
    (PODS,),
)
"""Every kind that may use a network; whoever makes others is in an earlier wave than they."""

REFERENCES = "references"
"""The index of every store: `References.marks` as text."""


class UserInformers(InformerView, frozen=True):
    """Every kind that may use a network; no other feature follows `pod_controllers`."""

    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    pod_controllers: tuple[Informer[Any], ...]


def user_informers(informers: Informers) -> UserInformers:
    """The informers, with the index by which users are found; that of pods follows all namespaces."""
    indexes = {REFERENCES: index_values}
    return UserInformers(
        machines=informers.get(VIRTUAL_MACHINES, indexes=indexes, optional=True),
        instances=informers.get(VIRTUAL_MACHINE_INSTANCES, indexes=indexes, optional=True),
        pods=informers.get(PODS, indexes=indexes, transform=lean),
        pod_controllers=tuple(
            informers.get(resource, indexes=indexes, optional=True)
            for resource in (*POD_CONTROLLERS, *OWNED_CONTROLLERS)
        ),
    )


def index_values(item: Object) -> tuple[str, ...]:
    """The values of an object in the index."""
    return tuple(map(str, references_of(item).marks))


def values_of(nad: Key) -> tuple[str, ...]:
    """The values under which everybody is found who may use a NAD."""
    return tuple(map(str, marks_of(nad)))


_MACHINES = (VIRTUAL_MACHINES.kind, VIRTUAL_MACHINE_INSTANCES.kind)

_LEVELS = 4
"""How often an owner's owner is asked for: there are fewer, but owners may own each other by somebody's force."""

_NAMED_MAX = 3
"""How many pods of a user are told by name, and how many of its places: anybody may say whose his pods are."""


class Found(NamedTuple):
    """An object and its kind, which objects of lists don't tell themselves."""

    kind: str
    item: Object


class _Using:
    """What uses a network by the doing of the one at the `top`, which is perhaps `itself` a part of it.

    It is `sure` unless each part merely may use it.
    """

    __slots__ = ("itself", "parts", "sure", "top")

    def __init__(self, top: Found) -> None:
        self.top = top
        self.parts: list[Found] = []
        self.sure = self.itself = False

    def add(self, part: Found, sure: bool) -> None:
        """One part more; the same may come again."""
        self.parts.append(part)
        self.sure |= sure
        self.itself |= part.item is self.top.item


class StoredUsers:
    """The users of every NAD. The stores are by kind, and each has the index REFERENCES."""

    def __init__(self, stores: Mapping[str, Store[Any]]) -> None:
        self._stores = stores

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
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
        """Whether anybody uses a NAD or may use it, however many they are."""
        values = values_of(nad)
        return any(store.has(REFERENCES, value) for store in self._stores.values() for value in values)

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
    return User(kind, item.metadata.namespace, item.metadata.name, via, next(filter(None, problems), ""))


def _made(using: _Using) -> str:
    """Through what something uses a network that does not name it itself: what it made from a former template."""
    if using.itself:
        return ""
    named = sorted({f"{kind.lower()} {item.metadata.name}" for kind, item in using.parts})
    return listed(named, _NAMED_MAX)


def _places(using: _Using) -> str:
    """Where a machine runs with the network, and through which pods if its instance does not tell."""
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

"""Who uses a network, from stores of everything that may: found by an index, and named by what people know.

Nobody minds a pod of a Deployment; whoever wants a network to be unused changes the Deployment. So users are named by
what is at the top: a pod by its instance, and that by its machine. Only what is known, by its uid, counts as an owner:
whoever has none stands for itself, so nobody is ever lost by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachineInstance,
    instance_of,
    nodes_of,
)
from lanloom.api.meta import Key, Object
from lanloom.api.references import references_of
from lanloom.dummy.rules.model import User
from lanloom.dummy.users.informers import REFERENCES, values_of
from lanloom.kube.store import Store

_LEVELS = 4
"""How often an owner's owner is asked for: there are fewer, but owners may own each other by somebody's force."""

_NAMED_MAX = 3
"""How many pods of a user are told by name."""


class Found(NamedTuple):
    """An object and its kind, which objects of lists don't tell themselves."""

    kind: str
    item: Object


class StoredUsers:
    """The users of every NAD. The stores are by kind, and each has the index REFERENCES."""

    def __init__(self, stores: Mapping[str, Store[Any]]) -> None:
        self._stores = stores

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        users: dict[tuple[str, Key], tuple[Found, list[Found]]] = {}
        for found in self._referring(nad):
            top = self._top(found)
            users.setdefault((top.kind, top.item.metadata.key), (top, []))[1].append(found)
        return tuple(sorted(_user(top, parts, nad) for top, parts in users.values()))

    def _referring(self, nad: Key) -> Iterator[Found]:
        for kind, store in self._stores.items():
            items = {
                item.metadata.key: item for value in values_of(nad) for item in store.by(REFERENCES, value)
            }
            yield from (Found(kind, item) for item in items.values())

    def _top(self, found: Found) -> Found:
        for _ in range(_LEVELS):
            owner = self._owner(found)
            if owner is None:
                break
            found = owner
        return found

    def _owner(self, found: Found) -> Found | None:
        meta = found.item.metadata
        owners = [(item.kind, item.name, item.uid) for item in meta.owner_references]
        if isinstance(found.item, Pod):
            owners.append((VIRTUAL_MACHINE_INSTANCES.kind, *instance_of(found.item)))
        for kind, name, uid in owners:
            store = self._stores.get(kind)
            owner = store.get(Key(meta.namespace, name)) if store is not None else None
            if owner is not None and owner.metadata.uid == uid:
                return Found(kind, owner)
        return None


def _user(top: Found, parts: Sequence[Found], nad: Key) -> User:
    """The user by whose doing all those parts use a NAD; it may be one of them."""
    meta, told = top.item.metadata, [references_of(item) for _, item in parts]
    sure = any(nad in item.networks for item in told)
    problem = "" if sure else next((item.problem for item in told if item.problem), "")
    is_machine = top.kind in (VIRTUAL_MACHINES.kind, VIRTUAL_MACHINE_INSTANCES.kind)
    via = _places(top, parts) if is_machine else _makes(top, parts)
    return User(top.kind, meta.namespace, meta.name, via, problem)


def _makes(top: Found, parts: Sequence[Found]) -> str:
    """Through what something uses a network that does not name it itself: what it made from a former template."""
    if any(item is top.item for _, item in parts):
        return ""
    named = sorted(f"{kind.lower()} {item.metadata.name}" for kind, item in parts)
    more = len(named) - _NAMED_MAX
    return ", ".join(named[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _places(top: Found, parts: Sequence[Found]) -> str:
    """Where a machine runs with the network, and through which pods if its instance does not tell."""
    instance = next((item for _, item in parts if isinstance(item, VirtualMachineInstance)), None)
    words, nodes = [], frozenset[str]()
    if instance is not None:
        nodes = nodes_of(instance)
        here = instance.status.node_name
        former = "" if any(item is top.item for _, item in parts) else "still "
        words.append(f"{former}runs on {here}" if here else "is starting")
        words += [f"migrates to {node}" for node in sorted(nodes - {here})]
    for kind, item in sorted(parts, key=lambda part: part.item.metadata.name):
        if kind == PODS.kind and isinstance(item, Pod) and item.spec.node_name not in nodes:
            where = f" on {item.spec.node_name}" if item.spec.node_name else ""
            words.append(f"pod {item.metadata.name}{where}")
    return ", ".join(words)

"""What must hold of isolated networks: at every write, that none is taken from under a user.

A user is what is stored, alive, and refers to a NAD. Who was allowed to refer to a NAD while it was there must find it
when he comes, and keeps it then. Who asked for a NAD before there was one was promised nothing: if he comes when it is
about to go, he is as if he had come a moment later. Nor was a DaemonSet that came, or came back, while a NAD drained.

A NAD that the API server stores only after the one before it was deleted, because the request took so long, is a twin:
its network is found unused already, and its bridges go meanwhile. The users on it keep it nevertheless.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from lanloom.api.core import PODS
from lanloom.api.dummy import (
    ABSENT,
    BRIDGE_LABEL,
    DRAINING,
    DUMMY_CLUSTER_NETWORKS,
    UID_LABEL,
    DummyClusterNetwork,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SET_TEMPLATES, DAEMON_SETS, DaemonSet
from lanloom.nads.references import NONE, References, references_of
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.kinds import Raw

USERS: dict[str, Resource[Any]] = {
    item.plural: item for item in (DAEMON_SET_TEMPLATES, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)
}
Promise = tuple[Key, str]
"""A NAD, and its uid."""


class Verifier:
    """Looks at every write, in the order of their commits. NADs that no user loses have the label `label`."""

    def __init__(self, note: Callable[[str], None], label: str = UID_LABEL) -> None:
        self._note = note
        self._label = label
        self._nads: dict[Key, NetworkAttachmentDefinition] = {}
        self._networks: dict[str, DummyClusterNetwork] = {}
        self._references: dict[tuple[str, Key], References] = {}
        self._closed: dict[Key, set[tuple[str, Key]]] = {}
        self._kept: set[tuple[str, Key, Promise]] = set()
        self._cleared: set[str] = set()
        self._promises: defaultdict[str, set[Promise]] = defaultdict(set)
        self.terminating: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.harm: list[str] = []
        self.deleted = 0
        self.refused = 0

    def present(self, request: Raw) -> frozenset[Promise]:
        """The NADs of isolated networks to which a request's object refers and that are there now."""
        item = _item(request["resource"]["resource"], request["object"])
        references = references_of(item)
        return frozenset(
            (key, nad.metadata.uid)
            for key, nad in self._nads.items()
            if self._label in nad.metadata.labels and references.may_mean(key)
        )

    def allowed(self, request: Raw, before: frozenset[Promise]) -> None:
        """A request was allowed; `before` was there when it came."""
        self._promises[request["object"]["metadata"]["uid"]] |= before & self.present(request)

    def users_of(self, nad: Key) -> list[str]:
        """Who refers to a NAD, whether it is there or not."""
        return [f"{plural} {place}" for (plural, place), _ in self._users(nad)]

    def see(self, change: Change) -> None:
        """One change."""
        if change.resource.plural in USERS:
            self._take_user(change)
        if change.resource.plural == NADS.plural:
            self._take_nad(change)
        elif change.resource.plural == DAEMON_SETS.plural:
            self._take_daemon_set(change)
        elif change.resource.plural == DUMMY_CLUSTER_NETWORKS.plural:
            self._take_network(change)

    def _take_user(self, change: Change) -> None:
        place = (change.resource.plural, change.key)
        self._references.pop(place, None)
        if change.after is None:
            self._leave(place, NONE)
            return
        item = _item(change.resource.plural, change.after.raw())
        references = self._references[place] = references_of(item)
        self._leave(place, references)
        promises = self._promises.pop(item.metadata.uid, set())
        self._kept |= {(*place, promise) for promise in promises}
        for key in sorted({key for key, _ in promises if references.may_mean(key)}):
            nad = self._nads.get(key)
            if (nad is None or (key, nad.metadata.uid) not in promises) and not self._is_excused(key):
                self._complain(
                    f"{place[0]} {place[1]} was allowed to refer to {key}, which has gone meanwhile"
                )

    def _leave(self, place: tuple[str, Key], references: References) -> None:
        """Who lets go of a NAD that drains has no right to come back."""
        for key, closed in self._closed.items():
            if not references.may_mean(key):
                closed.discard(place)

    def _take_nad(self, change: Change) -> None:
        key, old = change.key, self._nads.pop(change.key, None)
        if change.after is not None:
            self._nads[key] = msgspec.convert(change.after.raw(), NetworkAttachmentDefinition)
            if old is None or DRAINING not in old.metadata.annotations:
                self._closed[key] = {place for place, _ in self._users(key)}
            return
        if old is None or self._label not in old.metadata.labels:
            return
        self.deleted += 1
        self._cleared.add(old.metadata.labels[self._label])
        self._note(f"  NAD {key} is gone")
        for place, _ in self._users(key):
            kept = place in self._closed[key] or (*place, (key, old.metadata.uid)) in self._kept
            if kept and not self._is_excused(key):
                self._complain(f"NAD {key} was deleted while {place[0]} {place[1]} refers to it")

    def _is_excused(self, _nad: Key) -> bool:
        """Whether a NAD may go although it is used."""
        return False

    def _users(self, nad: Key) -> list[tuple[tuple[str, Key], References]]:
        return [item for item in self._references.items() if item[1].may_mean(nad)]

    def _take_daemon_set(self, change: Change) -> None:
        if change.before is None or (change.after is not None and not _goes(change.after.raw())):
            return
        uid = change.before.labels.get(UID_LABEL, "")
        for key, nad in self._nads.items():
            of_it = nad.metadata.labels.get(UID_LABEL) == uid and uid not in self._cleared
            if of_it and DRAINING not in nad.metadata.annotations:
                self._complain(f"the bridge of {key} goes while anybody may refer to it")

    def _take_network(self, change: Change) -> None:
        old = self._networks.pop(change.key.name, None)
        if change.after is not None:
            new = msgspec.convert(change.after.raw(), DummyClusterNetwork)
            self._networks[change.key.name] = new
            if old is None or old.status.phase != new.status.phase:
                self._note(f"  {change.key.name} is {new.status.phase}: {new.status.message}")
            if new.status.phase == "Terminating":
                self.terminating[change.key.name].set()
            else:
                self.terminating[change.key.name].clear()
        else:
            self._note(f"  {change.key.name} is gone")

    def _complain(self, text: str) -> None:
        self.harm.append(text)
        self._note(f"HARM: {text}")


def _goes(daemon_set: Raw) -> bool:
    labels = msgspec.convert(daemon_set, DaemonSet).spec.template.get("metadata", {}).get("labels", {})
    return bool(labels.get(BRIDGE_LABEL) == ABSENT)


def _item(plural: str, raw: Raw) -> Object:
    item: Object = msgspec.convert(raw, USERS[plural].type)
    return item

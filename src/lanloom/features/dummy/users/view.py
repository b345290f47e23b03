"""Users of each network: as the watches have brought them, or read live from the API server.

A query of the stores costs what the users of the network are, by the index; a change costs what the object refers to.
What a heartbeat changes wakes nobody.

By the live list a network is deleted, so it errs on the other side: what can't be read raises. Only a kind that is
known not to exist has no objects (see `lanloom.kube.lookup`); pods are never missing. Controllers are read before what
they create: one that is gone by then creates nothing more, and what it created is in a later list.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key, Object
from lanloom.api.references import (
    ANY,
    NONE,
    References,
    references_of,
)
from lanloom.api.resource import Resource
from lanloom.features.dummy.rules.model import User, UserView
from lanloom.features.dummy.users.stored import (
    REFERENCES,
    WAVES,
    StoredUsers,
    UserInformers,
    index_values,
)
from lanloom.kube.lookup import SingleFlight, list_or_empty
from lanloom.kube.ports import Client
from lanloom.kube.store import Store

GONE_SECONDS = 120.0
"""How long what is gone is remembered: longer than any request may take that concerns it (`admitted`)."""


class VersionTracker:
    """What watches brought of each object. `now` is in seconds, of any clock that does not go back.

    Of an object that is gone it is the last state that was known while it was there. What came and went while a watch
    was broken was never known. Memory is bounded by what is there, and what went within GONE_SECONDS.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._there: dict[str, Object] = {}
        self._gone: dict[str, int] = {}
        self._forget: deque[tuple[float, str]] = deque()

    def __call__(self, uid: str) -> int | None:
        """The newest known resourceVersion of the object of that uid; None for one that is not known."""
        self._forget_old()
        item = self._there.get(uid)
        return item.metadata.version if item is not None else self._gone.get(uid)

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Takes in a change, as an informer tells it."""
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
"""Told of the NADs whose users may have changed; None: those of any."""


class Users:
    """The users of every NAD as the watches have brought them; a `UserView`.

    It is whole when all its informers are synced. `now` is in seconds, of any clock that does not go back.
    """

    def __init__(self, informers: UserInformers, now: Callable[[], float]) -> None:
        self._stored = StoredUsers({item.resource.kind: item.store for item in informers.all()})
        self._seen = VersionTracker(now)
        self._handlers: list[Handler] = []
        for informer in (informers.machines, informers.instances, informers.pods):
            informer.on_change(self._seen.changed)
        for informer in informers.all():
            informer.on_change(self._changed)

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        return self._stored.users_of(nad)

    def is_used(self, nad: Key) -> bool:
        """Whether anybody uses a NAD or may use it, which takes as long for many as for few."""
        return self._stored.is_used(nad)

    def seen(self, uid: str) -> int | None:
        """The newest resourceVersion that was known of a VM, VMI or pod of that uid; see `VersionTracker`."""
        return self._seen(uid)

    def on_change(self, handler: Handler) -> None:
        """Adds a handler; quick, synchronous. It is told of changes from now on, after the answers contain them."""
        self._handlers.append(handler)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _references(old), _references(new)
        same = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        marks = before.marks ^ after.marks if same else before.marks | after.marks
        if any(mark.namespace == ANY for mark in marks):
            self._tell(None)
        elif nads := [nad for nad in marks if not same or before.may_mean(nad) != after.may_mean(nad)]:
            self._tell(frozenset(nads))

    def _tell(self, nads: frozenset[Key] | None) -> None:
        for handler in self._handlers:
            handler(nads)


def _references(item: Object | None) -> References:
    return references_of(item) if item is not None else NONE


_SEEN = {resource.kind for resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)}


class LiveUsers:
    """The users of every NAD as they were read; a `UserView`."""

    def __init__(self, stores: dict[str, Store[Any]]) -> None:
        self._stored = StoredUsers(stores)
        read = (item.metadata for kind in _SEEN for item in stores[kind].items())
        self._versions = {meta.uid: meta.version for meta in read}

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        return self._stored.users_of(nad)

    def seen(self, uid: str) -> int | None:
        """The resourceVersion of a VM, VMI or pod of that uid; None if it was not there."""
        return self._versions.get(uid)


async def list_live_users(client: Client) -> UserView:
    """Lists everything that may use a network. Raises KubeError where that can't be known: then all may be in use."""
    stores: dict[str, Store[Any]] = {}
    for wave in WAVES:
        lists = await asyncio.gather(*(_listed(client, resource) for resource in wave))
        stores |= {resource.kind: _store(items) for resource, items in zip(wave, lists, strict=True)}
    return LiveUsers(stores)


def shared_live_users(client: Client) -> SingleFlight[UserView]:
    """`list_live_users` for many callers at once: each reads everything, and 50 networks may be deleted together."""
    return SingleFlight(partial(list_live_users, client))


def _store(items: tuple[Object, ...]) -> Store[Any]:
    store: Store[Any] = Store({REFERENCES: index_values})
    for _ in store.replace(items):
        pass
    return store


async def _listed(client: Client, resource: Resource[Any]) -> tuple[Object, ...]:
    return (await client.list(PODS)).items if resource is PODS else await list_or_empty(client, resource)

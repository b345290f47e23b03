"""Reservations of objects that a webhook has allowed and no watch has brought yet.

A webhook that judges by a store allows two objects that exclude each other, if the second is sent before the watch
brings the first. So it remembers what it allowed: until the watch brings that object in a newer state than the request
was based on, or until the API server must have stored it or given it up. Each replica remembers its own requests.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import Struct

from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.informer import Informer

T = TypeVar("T", bound=Object)

SECONDS = 10.0
"""As long as the API server waits for the other webhooks that it asks at the same time, unless configured otherwise."""


class _Reservation(Struct, frozen=True):
    item: Object
    version: int
    until: float


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class InFlight:
    """Objects that may be stored any moment. `now` is a monotonic clock, in seconds: that of the event loop."""

    def __init__(self, now: Callable[[], float] = _loop_time) -> None:
        self._now = now
        self._known: dict[str, dict[Key, _Reservation]] = {}
        self._stored: dict[str, Callable[[Key], Any]] = {}

    def follow(self, resource: Resource[T], informer: Informer[T]) -> None:
        """Forget each object of this kind that the informer brings."""
        self._stored[resource.full_name] = informer.store.get
        informer.on_change(partial(self._forget_stored, resource.full_name))

    def add(self, resource: Resource[T], item: T, version: int = 0) -> None:
        """Remember an object as it may be stored; `version` is that of the state it replaces, 0 for a new one."""
        if item.metadata.name:
            known = self._known.setdefault(resource.full_name, {})
            known[item.metadata.key] = _Reservation(item, version, self._now() + SECONDS)

    def of(self, resource: Resource[T]) -> tuple[T, ...]:
        """Return the objects of a kind, without those that can't come because there is one already."""
        return self.newer(resource, self._stored.get(resource.full_name, lambda _: None))

    def newer(self, resource: Resource[T], stored: Callable[[Key], T | None]) -> tuple[T, ...]:
        """Return the objects of a kind apart from those of which something newer is `stored`."""
        known = self._known.get(resource.full_name)
        if not known:
            return ()
        now = self._now()
        for key in [key for key, item in known.items() if item.until <= now]:
            del known[key]
        found = ((item, stored(key)) for key, item in known.items())
        return tuple(
            cast("T", item.item)
            for item, present in found
            if present is None or present.metadata.version <= item.version
        )

    def get(self, resource: Resource[T], key: Key) -> T | None:
        """Return one object, if it is remembered."""
        return next((item for item in self.of(resource) if item.metadata.key == key), None)

    def _forget_stored(self, title: str, old: Object | None, new: Object | None) -> None:
        known = self._known.get(title)
        item = new or old
        if not known or item is None:
            return
        found = known.get(item.metadata.key)
        if found is not None and (new is None or new.metadata.version > found.version):
            del known[item.metadata.key]

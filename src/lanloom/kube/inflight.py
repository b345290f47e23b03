"""Reservations of objects that a webhook has allowed and no watch has brought yet.

A webhook that judges by a store allows two objects that exclude each other, if the second is sent before the watch
brings the first. So a manager remembers what its webhooks allowed: until the watch brings that object in a newer state
than the request was based on, until a webhook refuses the request, or until the API server must have stored it or
given it up. Each replica remembers its own requests, and an object once, however many features have judged it.

A feature adds an object right after its last look at what is in flight: whatever is awaited between lets others pass.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import Struct

from lanloom.api.admission import AdmissionRequest
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


_Requests = dict[str, _Reservation]
"""What the requests for one object make of it, by their uids, the newest last."""


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class InFlight:
    """Objects that may be stored any moment. `now` is a monotonic clock, in seconds: that of the event loop."""

    def __init__(self, now: Callable[[], float] = _loop_time) -> None:
        self._now = now
        self._known: dict[str, dict[Key, _Requests]] = {}
        self._ends: deque[tuple[float, str, Key, str]] = deque()
        self._stored: dict[str, Callable[[Key], Any]] = {}

    def follow(self, resource: Resource[T], informer: Informer[T]) -> None:
        """Forget each object of this kind that the informer brings. Features that share a kind share its informer."""
        if resource.full_name not in self._stored:
            self._stored[resource.full_name] = informer.store.get
            informer.on_change(partial(self._forget_stored, resource.full_name))

    def add(self, resource: Resource[T], request: AdmissionRequest, new: T, old: T | None) -> None:
        """Remember an object as an allowed request makes it of the `old` one, None for a new object.

        A dry run makes nothing, and what says the same as before stands against no other object.
        """
        if request.dry_run or not new.metadata.name or (old is not None and _said(old) == _said(new)):
            return
        self._forget_expired()
        title, key, until = resource.full_name, new.metadata.key, self._now() + SECONDS
        version = old.metadata.version if old is not None else 0
        requests = self._known.setdefault(title, {}).setdefault(key, {})
        requests[request.uid] = _Reservation(new, version, until)
        self._ends.append((until, title, key, request.uid))

    def withdraw(self, request: AdmissionRequest) -> None:
        """Forget what a request would have made, as it is refused."""
        for known in self._known.values():
            for key in [key for key, requests in known.items() if request.uid in requests]:
                _forget(known, key, request.uid)

    def of(self, resource: Resource[T]) -> tuple[T, ...]:
        """Return the objects of a kind, without those that can't come because there is one already."""
        return self.newer(resource, self._stored.get(resource.full_name, lambda _: None))

    def newer(self, resource: Resource[T], stored: Callable[[Key], T | None]) -> tuple[T, ...]:
        """Return the objects of a kind apart from those of which something newer is `stored`."""
        self._forget_expired()
        known = self._known.get(resource.full_name)
        if not known:
            return ()
        newest = ((next(reversed(requests.values())), stored(key)) for key, requests in known.items())
        return tuple(
            cast("T", item.item)
            for item, present in newest
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
        key, version = item.metadata.key, math.inf if new is None else new.metadata.version
        for uid in [uid for uid, one in known.get(key, {}).items() if version > one.version]:
            _forget(known, key, uid)

    def _forget_expired(self) -> None:
        now = self._now()
        while self._ends and self._ends[0][0] <= now:
            _, title, key, uid = self._ends.popleft()
            found = self._known[title].get(key, {}).get(uid)
            if found is not None and found.until <= now:
                _forget(self._known[title], key, uid)


def _said(item: Object) -> tuple[object, ...]:
    """Return what others may stand against in an object: no label of the manager's."""
    meta = item.metadata
    return getattr(item, "spec", None), meta.annotations, meta.deletion_timestamp


def _forget(known: dict[Key, _Requests], key: Key, uid: str) -> None:
    del known[key][uid]
    if not known[key]:
        del known[key]

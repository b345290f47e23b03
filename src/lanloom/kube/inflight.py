"""Reservations of objects that a webhook has allowed and no watch has brought yet.

A webhook that judges by a store allows two objects that exclude each other, if the second is sent before the watch
brings the first. So a manager remembers what its webhooks allowed: until the watch brings that object in a newer state
than the request was based on, until a webhook refuses the request, or until the API server must have stored it or
given it up. Each replica remembers its own requests, and an object once, however many features have judged it.

A feature adds an object right after its last look at what is in flight: whatever is awaited between lets others pass.
"""

import asyncio
import math
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
        requests = self._known.setdefault(resource.full_name, {}).setdefault(new.metadata.key, {})
        version = old.metadata.version if old is not None else 0
        requests[request.uid] = _Reservation(new, version, self._now() + SECONDS)

    def withdraw(self, request: AdmissionRequest) -> None:
        """Forget what a request would have made, as it is refused."""
        for known in self._known.values():
            _keep(known, lambda uid, _item: uid != request.uid)

    def of(self, resource: Resource[T]) -> tuple[T, ...]:
        """Return the objects of a kind, without those that can't come because there is one already."""
        return self.newer(resource, self._stored.get(resource.full_name, lambda _: None))

    def newer(self, resource: Resource[T], stored: Callable[[Key], T | None]) -> tuple[T, ...]:
        """Return the objects of a kind apart from those of which something newer is `stored`."""
        known = self._known.get(resource.full_name)
        if not known:
            return ()
        now = self._now()
        _keep(known, lambda _uid, item: item.until > now)
        newest = ((tuple(requests.values())[-1], stored(key)) for key, requests in known.items())
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
        version = math.inf if new is None else new.metadata.version
        _keep(known, lambda _uid, one: version <= one.version, item.metadata.key)


def _said(item: Object) -> tuple[object, ...]:
    """Return what others may stand against in an object: no label of the manager's."""
    meta = item.metadata
    return getattr(item, "spec", None), meta.annotations, meta.deletion_timestamp


def _keep(
    known: dict[Key, _Requests], keeps: Callable[[str, _Reservation], bool], key: Key | None = None
) -> None:
    """Forget the other requests, of one object or of all."""
    for one in tuple(known) if key is None else {key} & known.keys():
        kept = {uid: item for uid, item in known[one].items() if keeps(uid, item)}
        if kept:
            known[one] = kept
        else:
            del known[one]

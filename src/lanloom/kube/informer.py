"""Keep a store equal to what an API server has: list once, follow the watch, list again when the watch can't resume.

A broken watch resumes from the last bookmark (not from the last event: a bookmark is the server's word that nothing
before it is missing; what comes twice is recognised by the store). A version that is too old leads to a new list,
whose differences are reported like any other change, deletions included.

A process has one informer for each resource and selection, which all features share (`kube/informers.py`).
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from contextlib import aclosing
from random import Random
from typing import Any, Generic, TypeVar

import structlog

from lanloom.api.meta import Key, Object, version_number
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.controller import backoff, first_pause
from lanloom.kube.errors import ApiError, Gone, KubeError, NotFound, ServerError, SilentWatch
from lanloom.kube.outage import TROUBLE_SECONDS, WatchErrors
from lanloom.kube.ports import Listing, Watcher, WatchEvent
from lanloom.kube.store import Change, Indexes, MutationCache, Store

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Object)

Handler = Callable[[T | None, T | None], None]
"""Called with the old and the new state of an object; quick, synchronous, usually enqueues a key."""

Predicate = Callable[[T | None, T | None], bool]
"""Whether a change concerns a handler."""

_BATCH = 256
"""Changes that are taken in before others may run."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0

_TOO_LARGE = 504
"""The code of the answer that a version is larger than the server's cache has. It comes after three seconds."""

ABSENT_SECONDS = 30.0
"""How long after a look at an optional resource that was not served the next one follows; see `Informer`, too."""


class Informer(Generic[T]):
    """Follow one resource. Construct, add handlers, then keep `run` going as a task.

    An `optional` resource need not be served: while it is not (its CRD is not there), there are simply no objects.
    Those that were there are believed to be gone only after ABSENT_SECONDS: a server that starts serves none either.
    `transform` reduces an object to what the store is to hold; its key, uid and resourceVersion must stay.
    `longest_pause` is how many seconds it waits at most before it tries again. With `from_cache`, a list may be as late
    as a watch, but lacks nothing that was seen before: for a kind that all nodes follow. A `lazy` one follows nothing
    until `begin`, and counts as synced without objects.
    """

    def __init__(
        self,
        client: Watcher,
        resource: Resource[T],
        *,
        rng: Random,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Indexes[T] | None = None,
        optional: bool = False,
        title: str = "",
        transform: Callable[[T], T] = lambda item: item,
        longest_pause: float = _LONGEST_PAUSE,
        from_cache: bool = False,
        lazy: bool = False,
    ) -> None:
        self._longest_pause = longest_pause
        self.title = title or resource.full_name
        self.store: Store[T] = Store(indexes)
        self.resource = resource
        self._client = client
        self._rng = rng
        self._optional = optional
        self._transform = transform
        self._namespace = namespace
        self._selectors = {"labels": labels, "fields": fields}
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._begun = asyncio.Event()
        (self._synced if lazy else self._begun).set()
        self._from_cache = from_cache
        self._version = ""
        self._reached = 0
        self._failures = 0
        self._taken = 0
        self._watches = 0
        self._last_sign = 0.0
        self._missing_since = math.inf
        self._unreadable: dict[Key, Unreadable] = {}
        self._unreadable_handlers: list[Callable[[Unreadable], None]] = []
        self._watched_since = math.inf
        self._errors = WatchErrors(resource.full_name)

    @property
    def is_synced(self) -> bool:
        """Whether the store has held every object once."""
        return self._synced.is_set()

    @property
    def restarts(self) -> int:
        """The number of times that a watch was restarted, for whatever reason."""
        return max(0, self._watches - 1)

    @property
    def silence(self) -> float:
        """Seconds since the server was last heard of, by a list, an event or a bookmark; infinite before the first."""
        if not self._begun.is_set():
            return 0.0
        return asyncio.get_running_loop().time() - self._last_sign if self.is_synced else math.inf

    def on_change(self, handler: Handler[T], predicate: Predicate[T] | None = None) -> None:
        """Add a handler of the changes that pass the predicate.

        It receives the objects that are already there at once, others as they change.
        """
        if predicate is not None:
            handler = _filtered(handler, predicate)
        self._handlers.append(handler)
        for item in self.store.items():
            self._deliver(handler, Change(None, item))

    def mutations(self) -> MutationCache[T]:
        """Return the store with what its owner writes, until the watch brings that."""
        written = MutationCache(self.store)
        self.on_change(written.observe)
        return written

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """The objects that can't be read; the store has the last state of each in which it could be, if any."""
        return tuple(self._unreadable.values())

    def on_unreadable(self, handler: Callable[[Unreadable], None]) -> None:
        """Add a handler that hears of each new state of an object that can't be read."""
        self._unreadable_handlers.append(handler)

    def begin(self) -> None:
        """Follow what is followed lazily, from now on."""
        if not self._begun.is_set():
            self._synced.clear()
            self._begun.set()

    async def synced(self, *, begun: bool = False) -> None:
        """Return when the store has held every object once; with `begun`, not before `begin`."""
        if begun:
            await self._begun.wait()
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the resource until cancelled; errors are logged and retried with growing pauses."""
        await self._begun.wait()
        while True:
            first = _FIRST_PAUSE
            try:
                await self._follow()
            except Gone:
                self._version = ""
            except SilentWatch as error:
                # Usual where a server sends no bookmarks, so no failure. A server that is not there fails next.
                log.debug("watch resumed", resource=self.resource.full_name, error=str(error))
                self._failures = 0
            except KubeError as error:
                if self._optional and isinstance(error, NotFound) and self._is_absent():
                    await self._stay_empty()
                    continue
                self._note_error(error)
                first = first_pause(error, first)
            except MemoryError:
                raise
            except Exception:
                log.exception("informer failed; listing again", resource=self.resource.full_name)
                self._version = ""
            pause = backoff(self._failures, self._rng, first=first, cap=self._longest_pause)
            self._failures += 1
            await asyncio.sleep(pause)

    async def _follow(self) -> None:
        """List if need be, then takes in one watch until it ends."""
        self._watched_since = math.inf
        if not self._version:
            await self._list()
        self._watches += 1
        self._watched_since = asyncio.get_running_loop().time()
        events = self._client.watch(
            self.resource, self._namespace, resource_version=self._version, **self._selectors
        )
        async with aclosing(events) as stream:
            async for event in stream:
                self._failures = 0
                self._touch()
                self._errors.note_recovery()
                self._reached = max(self._reached, event.object.metadata.version)
                if event.type == "BOOKMARK":
                    self._version = event.object.metadata.resource_version
                elif event.type != "DELETED" and event.unreadable is not None:
                    self._report_unreadable(event.unreadable)
                    continue
                elif event.unreadable is None:
                    event = WatchEvent(event.type, self._transform(event.object))
                self._unreadable.pop(event.object.metadata.key, None)
                await self._take(self.store.apply(event))
        self._touch()
        if self._last_sign - self._watched_since >= _LONGEST_PAUSE:
            # The server ended it when its time was over; that nothing happened is no failure.
            self._failures = 0
            self._errors.note_recovery()

    async def _list(self) -> None:
        listing = await self._read()
        self._missing_since = math.inf
        found = {item.key: item for item in listing.unreadable}
        known = (self.store.get(key) for key in found)
        kept = (item for item in known if item is not None)
        await self._replace((*listing.readable, *kept), listing.resource_version)
        self._unreadable = {key: item for key, item in self._unreadable.items() if key in found}
        for item in found.values():
            self._report_unreadable(item)

    async def _read(self) -> Listing[T]:
        """Read all objects; from etcd where the server's cache does not reach what this has seen."""
        if self._from_cache:
            version = str(self._reached)
            try:
                return await self._client.list(
                    self.resource, self._namespace, **self._selectors, resource_version=version
                )
            except ServerError as error:
                if error.code != _TOO_LARGE:
                    raise
        return await self._client.list(self.resource, self._namespace, **self._selectors)

    def _is_absent(self) -> bool:
        """Return whether what is not served has no objects, as far as is known by now."""
        now = asyncio.get_running_loop().time()
        self._missing_since = min(self._missing_since, now)
        return len(self.store) == 0 or now - self._missing_since >= ABSENT_SECONDS

    async def _stay_empty(self) -> None:
        """Treat a kind that is not served as one without objects, and try again after a while."""
        await self._replace((), "")
        self._failures = 0
        await asyncio.sleep(ABSENT_SECONDS)

    async def _replace(self, items: Iterable[T], version: str) -> None:
        for change in self.store.replace(map(self._transform, items)):
            await self._take(change)
        self._version = version
        self._reached = version_number(version)
        self._touch()
        self._synced.set()

    def _touch(self) -> None:
        self._last_sign = asyncio.get_running_loop().time()

    async def _take(self, change: Change[T] | None) -> None:
        if change is not None:
            for handler in self._handlers:
                self._deliver(handler, change)
        self._taken += 1
        if self._taken % _BATCH == 0:
            await asyncio.sleep(0)

    def _deliver(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change.old, change.new)
        except MemoryError:
            raise
        except Exception:
            log.exception("handler failed", resource=self.resource.full_name)

    def _report_unreadable(self, found: Unreadable) -> None:
        """Leave an unreadable object out, and report each state of it once. A state that was read before stays."""
        before = self._unreadable.get(found.key)
        self._unreadable[found.key] = found
        if before is not None and before.resource_version == found.resource_version:
            return
        log.error(
            "object-unreadable", resource=self.resource.full_name, object=str(found.key), error=found.why
        )
        for handler in self._unreadable_handlers:
            handler(found)

    def _note_error(self, error: KubeError) -> None:
        """Log; a server that refuses the watch for any reason but overload is asked for a list again."""
        if isinstance(error, ApiError) and not isinstance(error, ServerError):
            self._version = ""
        if asyncio.get_running_loop().time() - self._watched_since >= TROUBLE_SECONDS:
            # The watch stood: what broke it has nothing to do with what was before.
            self._errors.end()
            self._failures = 0
        self._errors.note(error)


def changed(key: Callable[[T], object]) -> Predicate[T]:
    """Return whether an object came, went, or changed in what `key` returns of it."""

    def predicate(old: T | None, new: T | None) -> bool:
        return old is None or new is None or key(old) != key(new)

    return predicate


def present(old: T | None, new: T | None) -> tuple[T, ...]:
    """Return the states of an object before and after a change, without those that there are not."""
    return tuple(item for item in (old, new) if item is not None)


def _filtered(handler: Handler[T], predicate: Predicate[T]) -> Handler[T]:
    def filtered(old: T | None, new: T | None) -> None:
        if predicate(old, new):
            handler(old, new)

    return filtered


async def all_synced(informers: Iterable[Informer[Any]]) -> None:
    """Return when each of the informers is synced."""
    for informer in informers:
        await informer.synced()

"""A server of Things whose lists and watches break in every way that Kubernetes allows.

Within one stream, events between two bookmarks come in any order and more than once if `disorder` is set: that is
worse than a real server, and what the store promises to bear.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.meta import Key
from lanloom.api.reading import Unreadable
from lanloom.kube.errors import Gone, KubeError, ServerError
from lanloom.kube.ports import Listing, WatchEvent, unreadable_event
from tests.kube.things import Thing, thing

Events = list[WatchEvent[Thing]]

BOOKMARK_SECONDS = 60.0


class _Stream(Struct, eq=False):
    """A watch that is open; `woken` when there may be something for it."""

    woken: asyncio.Event
    ended: bool = False
    error: Exception | None = None


class ThingServer:
    """Holds Things by name, with their history. `list_faults` and `watch_faults` are raised by the next requests."""

    def __init__(self, rng: Random, disorder: bool = False) -> None:
        self.objects: dict[str, Thing] = {}
        self.spoiled: dict[str, Unreadable] = {}
        self.list_faults: deque[KubeError] = deque()
        self.watch_faults: deque[KubeError] = deque()
        self.lists = 0
        self.asked: list[str] = []
        self.watches: list[int] = []
        self._history: list[tuple[int, WatchEvent[Thing]]] = []
        self._version = 100
        self._compacted = 0
        self._behind: int | None = None
        self._streams: set[_Stream] = set()
        self._disorder = disorder
        self._rng = rng

    def put(self, name: str, colour: str) -> Thing:
        """Creates or changes a Thing."""
        item = thing(name, self._next(), colour)
        self._note("MODIFIED" if name in self.objects else "ADDED", item)
        self.objects[name] = item
        self.spoiled.pop(name, None)
        return item

    def remove(self, name: str) -> None:
        """Deletes a Thing; the event carries the version of the deletion."""
        if name in self.spoiled:
            found = replace(self.spoiled.pop(name), resource_version=str(self._next()))
            self._history.append((self._version, unreadable_event("DELETED", found)))
            return
        self._note("DELETED", thing(name, self._next(), self.objects.pop(name).colour))

    def spoil(self, name: str) -> None:
        """Changes a Thing into something that can't be read; the next change mends it."""
        meta = thing(name, self._next(), "").metadata
        found = Unreadable(key=meta.key, resource_version=meta.resource_version, why="its colour is a number")
        self._history.append((self._version, unreadable_event("MODIFIED", found)))
        self.objects.pop(name, None)
        self.spoiled[name] = found

    def compact(self) -> None:
        """Forgets the history: watches from before now are Gone."""
        self._compacted = self._version

    def lag(self) -> None:
        """What comes from now on is not in the cache of lists, until `catch_up`."""
        self._behind = self._version

    def catch_up(self) -> None:
        """The cache of lists has all again."""
        self._behind = None

    @property
    def _cached(self) -> int:
        return self._version if self._behind is None else self._behind

    def end_watches(self, error: Exception | None = None) -> None:
        """Ends every open stream, cleanly or with an error."""
        for stream in self._streams:
            stream.ended, stream.error = True, error
            stream.woken.set()

    async def list(self, *_resource: Any, resource_version: str = "", **_selectors: Any) -> Listing[Thing]:
        """As the port says; what is cached is as old as it may be, at times."""
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        self.lists += 1
        self.asked.append(resource_version)
        if self.list_faults:
            raise self.list_faults.popleft()
        if resource_version:
            oldest = max(int(resource_version), self._compacted)
            if oldest > self._cached:
                raise ServerError(504, "Timeout", "Too large resource version")
            listing = self._at(self._rng.choice((oldest, self._cached)))
        else:
            listing = self._at(self._version)
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        return listing

    def _at(self, version: int) -> Listing[Thing]:
        """All Things of a version."""
        found: dict[Key, Thing | Unreadable] = {}
        for _, event in filter(lambda each: each[0] <= version, self._history):
            if event.type == "DELETED":
                found.pop(event.object.metadata.key, None)
            else:
                found[event.object.metadata.key] = event.unreadable or event.object
        things = tuple(each for each in found.values() if isinstance(each, Thing))
        return Listing(
            things, str(version), tuple(each for each in found.values() if isinstance(each, Unreadable))
        )

    async def watch(
        self, *_resource: Any, resource_version: str, **_selectors: Any
    ) -> AsyncGenerator[WatchEvent[Thing], None]:
        """As the port says."""
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        position = int(resource_version)
        self.watches.append(position)
        if self.watch_faults:
            raise self.watch_faults.popleft()
        if position < self._compacted:
            raise Gone(410, "Expired", "too old resource version")
        stream = _Stream(asyncio.Event())
        self._streams.add(stream)
        try:
            async for event in self._events(stream, position):
                yield event
        finally:
            self._streams.discard(stream)

    async def _events(self, stream: _Stream, position: int) -> AsyncGenerator[WatchEvent[Thing], None]:
        marked = position
        while not stream.ended:
            fresh, position = self._between(position, self._version), self._version
            for event in self._delivery(fresh, self._between(marked, position)):
                yield event
                await asyncio.sleep(self._rng.uniform(0, 0.1))
                if stream.ended:
                    break
            else:
                if await self._quiet(stream) or self._rng.random() < 0.2:
                    yield WatchEvent("BOOKMARK", thing("", position))
                    marked = position
        if stream.error is not None:
            raise stream.error

    async def _quiet(self, stream: _Stream) -> bool:
        """Waits for something new; whether there was none until a bookmark is due."""
        stream.woken.clear()
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                await stream.woken.wait()
        except TimeoutError:
            return True
        return False

    def _delivery(self, fresh: Events, unmarked: Events) -> Events:
        """What goes out: the new events, with disorder in any order and among old ones that go out again."""
        if not self._disorder:
            return fresh
        events = fresh + [event for event in unmarked if self._rng.random() < 0.3]
        self._rng.shuffle(events)
        return events

    def _between(self, after: int, until: int) -> Events:
        return [event for version, event in self._history if after < version <= until]

    def _next(self) -> int:
        self._version += self._rng.randint(1, 9)
        return self._version

    def _note(self, type: Any, item: Thing) -> None:
        self._history.append((self._version, WatchEvent(type, item)))
        for stream in self._streams:
            stream.woken.set()

    async def get(self, *_arguments: Any, **_options: Any) -> Any:
        """Not what an informer needs."""
        raise NotImplementedError

    create = patch = json_patch = delete = get

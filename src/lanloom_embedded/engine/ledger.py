"""The objects of a server: what is committed, what is on its way there, and what happened recently.

Two views. Writers see *staged* states at once, so that a writer need not wait for the disk of the one before it, and
many writes share one commit. Everyone else (reads, watches) sees only what is committed: nothing that a crash could
take back is ever shown.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

import structlog

from lanloom.api.meta import Key
from lanloom.runtime.https import errors
from lanloom_embedded.engine.feed import CHANGES, Feed, History
from lanloom_embedded.engine.storage import (
    Change,
    DiskFull,
    Snapshot,
    Storage,
    StorageError,
    Stored,
    stored,
)
from lanloom_embedded.kinds import GroupPlural, Raw

log = structlog.get_logger(__name__)

Listener = Callable[[Change], None]


def place(key: Key) -> str:
    """Where an object stands in a list: Kubernetes sorts by the text `namespace/name`, so `a-b/x` before `a/x`."""
    return f"{key.namespace}/{key.name}"


class ResourceTable:
    """The committed objects of one resource, in the order of their places."""

    def __init__(self) -> None:
        self.objects: dict[Key, Stored] = {}
        self._order: list[tuple[str, Key]] = []

    def put(self, key: Key, state: Stored | None) -> None:
        """Set or remove an object."""
        if state is None:
            if self.objects.pop(key, None) is not None:
                del self._order[bisect_left(self._order, (place(key), key))]
            return
        if key not in self.objects:
            insort(self._order, (place(key), key))
        self.objects[key] = state

    def select(self, namespace: str) -> list[Stored]:
        """Return the objects of a namespace (empty: of all), in order."""
        if not namespace:
            return [self.objects[key] for _, key in self._order]
        start = bisect_left(self._order, (f"{namespace}/",))
        end = bisect_left(self._order, (f"{namespace}0",))  # 0 comes after the slash
        return [self.objects[key] for _, key in self._order[start:end]]


class Ledger:
    """All objects. `version` is the newest committed resourceVersion."""

    def __init__(self, storage: Storage, history: int = CHANGES, tick: float = 0.0) -> None:
        self._storage = storage
        self._tick = tick
        snapshot = storage.load()
        self.version = snapshot.version
        self._next = snapshot.version + 1
        self._tables: dict[GroupPlural, ResourceTable] = {}
        self._feeds: dict[GroupPlural, Feed] = {}
        self._history = History(snapshot.compacted, snapshot.history, limit=history)
        self._staged: dict[tuple[GroupPlural, Key], Change] = {}
        self._pending: list[tuple[Change, asyncio.Future[None]]] = []
        self._committer: asyncio.Task[None] | None = None
        self._room: asyncio.Task[None] | None = None
        self._listeners: list[Listener] = []
        for resource, state in snapshot.objects:
            self.table(resource).put(state.key, state)
        for change in snapshot.history:
            self.feed(change.resource).append(change)

    @property
    def compacted(self) -> int:
        """The newest version whose change is forgotten."""
        return self._history.compacted

    def table(self, resource: GroupPlural) -> ResourceTable:
        """Return the committed objects of a resource."""
        found = self._tables.get(resource)
        if found is None:
            found = self._tables[resource] = ResourceTable()
        return found

    def feed(self, resource: GroupPlural) -> Feed:
        """Return the recent changes of a resource."""
        found = self._feeds.get(resource)
        if found is None:
            found = self._feeds[resource] = Feed(self._tick)
        return found

    def close_feed(self, resource: GroupPlural) -> None:
        """End the watches of a resource that is no longer served."""
        feed = self._feeds.pop(resource, None)
        if feed is not None:
            feed.close()

    def close_feeds(self) -> None:
        """End all watches."""
        for resource in tuple(self._feeds):
            self.close_feed(resource)

    def resources(self) -> tuple[GroupPlural, ...]:
        """Return the resources of which there ever were objects."""
        return tuple(self._tables)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every committed change, in order."""
        self._listeners.append(listener)

    def get(self, resource: GroupPlural, key: Key) -> Stored | None:
        """Return the committed state of an object."""
        return self.table(resource).objects.get(key)

    def latest(self, resource: GroupPlural, key: Key) -> Stored | None:
        """Return the newest state of an object, committed or staged: what a writer must build on."""
        change = self._staged.get((resource, key))
        return change.after if change is not None else self.get(resource, key)

    def at(self, resource: GroupPlural, namespace: str, version: int) -> list[Stored]:
        """Return the objects as they were at a version, in order. The version must not be older than `compacted`."""
        changes = self.feed(resource).after(version)
        current = self.table(resource).select(namespace)
        if not changes:
            return current
        states: dict[Key, Stored | None] = {state.key: state for state in current}
        for change in reversed(changes):
            if not namespace or change.key.namespace == namespace:
                states[change.key] = change.before
        return sorted(
            (state for state in states.values() if state is not None), key=lambda each: place(each.key)
        )

    async def write(self, resource: GroupPlural, key: Key, body: Raw | None) -> Stored:
        """Stage an object's next state (None: its deletion) and wait until it is committed.

        Staging happens before the first await: the caller's look at `latest` is still true then. Returns the state
        that others see; for a deletion, the last one. Raises InsufficientStorage, InternalError.
        """
        if self._storage.full and not _frees(body):
            self._make_room()
            raise errors.disk_full("the disk of the server's data is full")
        change = self._stage(resource, key, body)
        committed = asyncio.get_running_loop().create_future()
        self._pending.append((change, committed))
        if self._committer is None:
            self._committer = asyncio.get_running_loop().create_task(self._commit_all())
        await asyncio.shield(committed)
        return change.after if change.after is not None else change.last_state()

    def snapshot(self) -> Snapshot:
        """Return the committed objects, without the history."""
        objects = (
            (resource, state) for resource, table in self._tables.items() for state in table.select("")
        )
        return Snapshot(self.version, self.version, tuple(objects))

    async def settle(self, resource: GroupPlural, key: Key) -> None:
        """Wait until the newest state of an object is committed."""
        while (resource, key) in self._staged and self._committer is not None:
            await asyncio.shield(self._pending[-1][1] if self._pending else self._committer)

    async def close(self) -> None:
        """Wait for what is on its way and let go of the storage."""
        if self._committer is not None:
            await self._committer
        if self._room is not None:
            await self._room
        await self._storage.close()

    def _stage(self, resource: GroupPlural, key: Key, body: Raw | None) -> Change:
        version = self._next
        after = None if body is None else stored(body, version)
        change = Change(resource, key, version, self.latest(resource, key), after)
        self._next += 1
        self._staged[resource, key] = change
        return change

    async def _commit_all(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, []
            changes = [change for change, _ in batch]
            compacted = self._history.compaction(changes)
            try:
                await self._storage.commit(changes, compacted)
                self._publish(changes, compacted)
            except StorageError as error:
                refusal = errors.disk_full if isinstance(error, DiskFull) else errors.internal
                self._fail([*batch, *self._pending], refusal(str(error)))
                continue
            except Exception as error:
                # Those who wait must learn of it: no other code looks at this task.
                self._fail([*batch, *self._pending], error)
                continue
            for _, committed in batch:
                committed.set_result(None)
        self._committer = None
        if self._storage.full:
            self._make_room()

    def _make_room(self) -> None:
        """See whether there is space again, without waiting for it."""
        if self._room is None or self._room.done():
            self._room = asyncio.get_running_loop().create_task(self._storage.make_room())

    def _fail(self, lost: Sequence[tuple[Change, asyncio.Future[None]]], error: Exception) -> None:
        # Whatever was staged since builds on what was lost, so all of it is lost.
        self._pending = []
        self._staged.clear()
        for _, committed in lost:
            committed.set_exception(error)

    def _publish(self, changes: Sequence[Change], compacted: int) -> None:
        touched: dict[GroupPlural, Feed] = {}
        for change in changes:
            self.table(change.resource).put(change.key, change.after)
            if self._staged.get((change.resource, change.key)) is change:
                del self._staged[change.resource, change.key]
            touched[change.resource] = feed = self.feed(change.resource)
            feed.append(change)
            self._history.append(change)
            self.version = change.version
            self._notify(change)
        if compacted > self._history.compacted:
            self._history.forget(compacted)
            for feed in self._feeds.values():
                feed.forget(compacted)
        for feed in touched.values():
            feed.wake()

    def _notify(self, change: Change) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except MemoryError:
                raise
            except Exception:
                # The change is committed, whatever a listener makes of it; those who wait for it must learn that.
                log.exception(
                    "a change was not understood", resource=str(change.resource), key=str(change.key)
                )


def _frees(body: Raw | None) -> bool:
    """Return whether a next state is a step of a deletion, as `Change.frees` has it."""
    return body is None or bool(body["metadata"].get("deletionTimestamp"))

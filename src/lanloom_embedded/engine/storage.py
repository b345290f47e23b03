"""The port to the storage that outlives the process, and a storage in memory for simulations and tests."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from lanloom.api.meta import Key
from lanloom_embedded.engine.stored import Change, Stored
from lanloom_embedded.kinds import GroupPlural


class StorageError(Exception):
    """The storage can't be opened, or can't keep a change; the message says which file and why."""


class DiskFull(StorageError):
    """There is no space for a change. Deletions may still be kept."""


class Snapshot(Struct, frozen=True):
    """The contents of a storage when it was opened.

    `version` is the newest resourceVersion ever given out; `compacted` the newest one whose change is forgotten.
    `history` holds the changes after `compacted`, oldest first.
    """

    version: int
    compacted: int
    objects: tuple[tuple[GroupPlural, Stored], ...] = ()
    history: tuple[Change, ...] = ()


class Storage(Protocol):
    """Keeps changes. One engine uses it, which never commits twice at the same time.

    `full` says that a change found no space, and that the space which is kept for deletions may be in use.
    """

    full: bool

    def load(self) -> Snapshot:
        """Load the contents. Raises StorageError."""
        ...

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keep all changes or none; return when they outlive the process. Raises StorageError, DiskFull.

        Changes up to `compacted` may be forgotten; the objects themselves are kept. Changes of which one is a step of
        a deletion (`Change.frees`) may use the space that is kept for that.
        """
        ...

    async def make_room(self) -> None:
        """Try to end `full`: take the space for deletions back from the disk. May be called at any time."""
        ...

    async def close(self) -> None:
        """Let go of the storage."""
        ...


class MemoryStorage:
    """Keeps changes in memory. An engine that is opened on it again finds what the former one committed."""

    full = False

    def __init__(self) -> None:
        self._version = 1
        self._compacted = 1
        self._objects: dict[tuple[GroupPlural, Key], Stored] = {}
        self._history: list[Change] = []

    def load(self) -> Snapshot:
        """Load the contents."""
        objects = tuple((resource, state) for (resource, _), state in self._objects.items())
        history = tuple(change for change in self._history if change.version > self._compacted)
        return Snapshot(self._version, self._compacted, objects, history)

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keep the changes, at once."""
        for change in changes:
            if change.after is None:
                self._objects.pop((change.resource, change.key), None)
            else:
                self._objects[change.resource, change.key] = change.after
            self._version = change.version
        self._history.extend(changes)
        if compacted > self._compacted:
            self._compacted = compacted
            self._history = [change for change in self._history if change.version > compacted]

    async def make_room(self) -> None:
        """There is always room."""

    async def close(self) -> None:
        """There is nothing to let go of."""

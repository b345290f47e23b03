"""A storage that forgets when the process ends: for simulations and tests."""

from collections.abc import Sequence

from lanloom.api.meta import Key
from lanloom_embedded.engine.storage import Snapshot
from lanloom_embedded.engine.stored import Change, Stored
from lanloom_embedded.kinds import GroupPlural


class MemoryStorage:
    """Keeps changes in memory. An engine that is opened on it again finds what the former one committed."""

    full = False

    def __init__(self) -> None:
        self._version = 1
        self._compacted = 1
        self._objects: dict[tuple[GroupPlural, Key], Stored] = {}
        self._history: list[Change] = []

    def load(self) -> Snapshot:
        """What is kept."""
        objects = tuple((resource, state) for (resource, _), state in self._objects.items())
        history = tuple(change for change in self._history if change.version > self._compacted)
        return Snapshot(self._version, self._compacted, objects, history)

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keeps the changes, at once."""
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

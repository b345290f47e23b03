"""What is remembered of the past, for watches to resume and for the pages of a list: some changes, and some bytes.

Both have a limit, so that neither many small changes nor a few large objects take all memory. When one is reached,
the oldest quarter goes at once: forgetting costs a little for every feed.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from lanloom.apiserver.engine.stored import Change

CHANGES = 20_000
BYTES = 128 * 1024 * 1024


class History:
    """The newest changes of all resources, oldest first. `compacted` is the newest version that is forgotten."""

    def __init__(
        self, compacted: int, changes: Iterable[Change], *, limit: int = CHANGES, weight_limit: int = BYTES
    ) -> None:
        self.compacted = compacted
        self._limit = limit
        self._weight_limit = weight_limit
        self._changes: deque[Change] = deque()
        self._weight = 0
        for change in changes:
            self.append(change)

    def append(self, change: Change) -> None:
        """Remembers the newest change."""
        self._changes.append(change)
        self._weight += _weight(change)

    def compaction(self, coming: Sequence[Change]) -> int:
        """The version up to which the past must be forgotten when these changes come."""
        count = len(self._changes) + len(coming)
        weight = self._weight + sum(map(_weight, coming))
        if count <= self._limit and weight <= self._weight_limit:
            return self.compacted
        compacted = self.compacted
        for change in self._changes:
            if count <= self._limit * 3 // 4 and weight <= self._weight_limit * 3 // 4:
                break
            count -= 1
            weight -= _weight(change)
            compacted = change.version
        return compacted

    def forget(self, compacted: int) -> None:
        """Forgets the past up to a version."""
        self.compacted = max(self.compacted, compacted)
        while self._changes and self._changes[0].version <= compacted:
            self._weight -= _weight(self._changes.popleft())


def _weight(change: Change) -> int:
    # The state before is that after the change before: counting one of them is enough.
    state = change.after or change.before
    return len(state.data) if state is not None else 0

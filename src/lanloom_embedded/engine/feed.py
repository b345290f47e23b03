"""The recent past: the changes of one resource for its watches, and how much of it all is remembered.

Under load waiters are woken once in a tick, all at the same moment: many changes then go out at once, and the same
ones to all.

Some changes and some bytes of the past are kept, for watches to resume and for the pages of a list. Both have a limit,
so that neither many small changes nor a few large objects take all memory. When one is reached, the oldest quarter goes
at once: forgetting costs a little for every feed.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

from lanloom_embedded.engine.storage import Change

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
        """Remember the newest change."""
        self._changes.append(change)
        self._weight += _weight(change)

    def compaction(self, coming: Sequence[Change]) -> int:
        """Return the version up to which the past must be forgotten when these changes come."""
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
        """Forget the past up to a version."""
        self.compacted = max(self.compacted, compacted)
        while self._changes and self._changes[0].version <= compacted:
            self._weight -= _weight(self._changes.popleft())


def _weight(change: Change) -> int:
    # The state before is that after the change before: counting one of them is enough.
    state = change.after or change.before
    return len(state.data) if state is not None else 0


class Feed:
    """Changes of one resource, oldest first. Watches read it at their own pace, each from its own position."""

    def __init__(self, tick: float = 0.0) -> None:
        """`tick` is the least time between two wakings, in seconds."""
        self._versions: list[int] = []
        self._changes: list[Change] = []
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._tick = tick
        self._woken = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def append(self, change: Change) -> None:
        """Add the newest change. `wake` tells the waiters when a whole batch is in."""
        self._versions.append(change.version)
        self._changes.append(change)

    @property
    def newest(self) -> int:
        """The version of the newest change, 0 if there is none."""
        return self._versions[-1] if self._versions else 0

    def after(self, version: int) -> Sequence[Change]:
        """Return the changes after a version."""
        if not self._versions or self._versions[-1] <= version:
            return ()
        return self._changes[bisect_right(self._versions, version) :]

    def forget(self, compacted: int) -> None:
        """Drop changes up to a version."""
        count = bisect_right(self._versions, compacted)
        del self._versions[:count]
        del self._changes[:count]

    def close(self) -> None:
        """End every watch: the resource is no longer served."""
        self.closed = True
        self._release()

    def wake(self) -> None:
        """Let everyone who waits look again, at the next tick."""
        if self._timer is not None or not self._waiters:
            return
        loop = asyncio.get_running_loop()
        due = self._woken + self._tick
        if loop.time() >= due:
            self._release()
        else:
            self._timer = loop.call_at(due, self._release)

    async def wait(self, seconds: float) -> None:
        """Return at the next waking or after so long. Between a look for changes and this call must be no await."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters[waiter] = None
        timer = loop.call_later(seconds, _finish, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)

    def _release(self) -> None:
        self._timer = None
        self._woken = asyncio.get_running_loop().time()
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            _finish(waiter)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

"""The recent changes of one resource, and whoever waits for the next.

Under load waiters are woken once in a tick, all at the same moment: many changes then go out at once, and the same
ones to all.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from lanloom.apiserver.engine.stored import Change


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
        """Adds the newest change. `wake` tells the waiters when a whole batch is in."""
        self._versions.append(change.version)
        self._changes.append(change)

    @property
    def newest(self) -> int:
        """The version of the newest change, 0 if there is none."""
        return self._versions[-1] if self._versions else 0

    def after(self, version: int) -> Sequence[Change]:
        """The changes after a version."""
        if not self._versions or self._versions[-1] <= version:
            return ()
        return self._changes[bisect_right(self._versions, version) :]

    def forget(self, compacted: int) -> None:
        """Drops changes up to a version."""
        count = bisect_right(self._versions, compacted)
        del self._versions[:count]
        del self._changes[:count]

    def close(self) -> None:
        """Ends every watch: the resource is no longer served."""
        self.closed = True
        self._release()

    def wake(self) -> None:
        """Lets everyone who waits look again, at the next tick."""
        if self._timer is not None or not self._waiters:
            return
        loop = asyncio.get_running_loop()
        due = self._woken + self._tick
        if loop.time() >= due:
            self._release()
        else:
            self._timer = loop.call_at(due, self._release)

    async def wait(self, seconds: float) -> None:
        """Returns at the next waking or after so long. Between a look for changes and this call must be no await."""
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

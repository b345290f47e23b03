"""The recent changes of one resource, and whoever waits for the next."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from lanloom.apiserver.engine.stored import Change


class Feed:
    """Changes of one resource, oldest first. Watches read it at their own pace, each from its own position."""

    def __init__(self) -> None:
        self._versions: list[int] = []
        self._changes: list[Change] = []
        self._waiters: list[asyncio.Future[None]] = []
        self.closed = False

    def append(self, change: Change) -> None:
        """Adds the newest change. `wake` tells the waiters when a whole batch is in."""
        self._versions.append(change.version)
        self._changes.append(change)

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
        self.wake()

    def wake(self) -> None:
        """Lets everyone who waits look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Returns at the next `wake`. Look for changes first: between that look and this wait nothing else runs."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

"""Work at LANs, one task at a time for each LAN, and to its end even where no caller waits for it any more.

A request that is cancelled must not let the next one in while the kernel is at work for the first.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Exclusive:
    """Run work by the uid of the LAN that it is at."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[object]] = set()

    async def run(self, uid: str, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` returns or raises, run when nothing else works at the LAN, and to its end."""
        lock = self._locks.setdefault(uid, asyncio.Lock())
        self._waiting[uid] += 1

        async def alone() -> T:
            try:
                async with lock:
                    return await work()
            finally:
                self._leave(uid)

        task = asyncio.create_task(alone())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _leave(self, uid: str) -> None:
        self._waiting[uid] -= 1
        if not self._waiting[uid]:
            del self._waiting[uid], self._locks[uid]

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that waited has it; there may be none any more

    async def close(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

"""What was read of the API a moment ago, for those who ask often, and for all while the API server does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from lanloom.kube.errors import ServerError, TransportError

K = TypeVar("K")
V = TypeVar("V")

SECONDS = 10.0
"""How old an answer may be: one exchange of a client, and many clients that start at once, ask once."""


class Recent(Generic[K, V]):
    """Values of `read` by key, each for so many seconds. All who ask for one that is being read wait for the same."""

    def __init__(self, read: Callable[[K], Awaitable[V]], seconds: float = SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._known: dict[K, tuple[float, V]] = {}
        self._reading: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K) -> V:
        """Return the value. Raises what `read` raises, unless the server is away and the value was known before."""
        known = self._known.get(key)
        if known is not None and asyncio.get_running_loop().time() - known[0] < self._seconds:
            return known[1]
        if key not in self._reading:
            self._reading[key] = asyncio.create_task(self._renew(key))
            self._reading[key].add_done_callback(_retrieve_error)
        task = self._reading[key]
        try:
            return await asyncio.shield(task)
        except (TransportError, ServerError):
            if known is None:
                raise
            return known[1]

    async def _renew(self, key: K) -> V:
        began = asyncio.get_running_loop().time()
        try:
            value = await self._read(key)
            self._known[key] = began, value
            return value
        finally:
            del self._reading[key]

    def keep(self, keys: Collection[K]) -> None:
        """Forget all others."""
        for key in self._known.keys() - set(keys):
            del self._known[key]

    def values(self) -> Iterator[V]:
        """Return what is known."""
        return (value for _, value in self._known.values())

    async def close(self) -> None:
        """End what is being read."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task


def _retrieve_error(task: "asyncio.Task[Any]") -> None:
    """Retrieve the error of a read, for which no task may wait any more: asyncio would log it."""
    if not task.cancelled():
        task.exception()

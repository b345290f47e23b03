"""A share of the server for each user: the bytes of long bodies that it may hold, and turns of the decoding thread.

A body of 3 MiB takes a tenth of a second to decode, and ten times its size while its request lasts. So one thread
decodes the bodies of all users in turn, one of each: a user that sends many waits behind the others, and not they
behind that user. A user that has too many waiting is refused (429), and so is one that would hold more than half of
what is free. By the second rule one user alone gets a third of the bytes, ten get a twelfth each, and there is always
room for another one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from lanloom.runtime.https.errors import TooManyRequests

INLINE_BYTES = 16 * 1024
"""Bytes of a body that is decoded in the event loop; the worst of them takes some ten milliseconds."""

HELD_BYTES = 96 * 1024 * 1024
"""Bytes of long bodies that all users hold together, while their requests last."""

WAITING = 32
"""Long bodies of one user that may wait for the thread."""

RETRY_SECONDS = 1

T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "decode")
"""One for all ports: several would take the interpreter from the event loop by turns. A port has one job in it."""

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Shares:
    """The shares of one port. It belongs to an event loop."""

    def __init__(self, held: int = HELD_BYTES, waiting: int = WAITING) -> None:
        self._free = held
        self._waiting = waiting
        self._held: dict[str, int] = {}
        self._jobs: dict[str, deque[_Job]] = {}
        self._busy = False

    @contextmanager
    def of(self, user: str) -> Iterator["Share"]:
        """Provide the share of a user in one request; what the request held is free at the end."""
        share = Share(self, user)
        try:
            yield share
        finally:
            self.give_back(user, share.held)

    def take(self, user: str, count: int) -> None:
        """Hold more bytes for a user. Raises TooManyRequests."""
        held = self._held.get(user, 0) + count
        if held > (self._free - count) // 2:
            raise _refused("the bodies of requests in progress are too large together")
        self._held[user] = held
        self._free -= count

    def give_back(self, user: str, count: int) -> None:
        """Hold so many bytes less for a user."""
        self._free += count
        if not (left := self._held.pop(user, 0) - count):
            return
        self._held[user] = left

    def submit(self, user: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Do work in the thread when it is the user's turn. Raises TooManyRequests."""
        jobs = self._jobs.setdefault(user, deque())
        if len(jobs) >= self._waiting:
            raise _refused(f"{self._waiting} long bodies of this user wait to be decoded already")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        jobs.append((work, done))
        self._start()
        return done

    def _start(self) -> None:
        """Start the next job, unless one runs: the first of the user whose last turn is the longest ago."""
        while self._jobs and not self._busy:
            user, jobs = next(iter(self._jobs.items()))
            work, done = jobs.popleft()
            if not jobs:
                del self._jobs[user]
            if not done.done():  # else its request was cancelled
                self._busy = True
                running = asyncio.get_running_loop().run_in_executor(_thread, work)
                running.add_done_callback(partial(self._end, user, done))

    def _end(self, user: str, done: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> None:
        self._busy = False
        if jobs := self._jobs.pop(user, None):
            self._jobs[user] = jobs  # behind those who came meanwhile
        if not done.done() and not work.cancelled():
            if (error := work.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(work.result())
        self._start()


class Share:
    """The share of a user in one request."""

    __slots__ = ("_shares", "_user", "held")

    def __init__(self, shares: Shares, user: str) -> None:
        self._shares = shares
        self._user = user
        self.held = 0

    def take(self, count: int) -> None:
        """Hold so many bytes more until the request ends. Raises TooManyRequests."""
        self._shares.take(self._user, count)
        self.held += count

    async def decoded(self, reader: Callable[[bytes], T], body: bytes) -> T:
        """Read a body with `reader`: a short one at once, a long one in the thread.

        Raises TooManyRequests, and what `reader` raises.
        """
        if len(body) <= INLINE_BYTES:
            return reader(body)
        return await self._shares.submit(self._user, partial(reader, body))


def _refused(why: str) -> TooManyRequests:
    return TooManyRequests(
        f"{why}; try again in a second, and send fewer long bodies at a time",
        details={"retryAfterSeconds": RETRY_SECONDS},
    )

"""A queue of keys to look at: each key is in it at most once, and never with two workers at the same time.

A key that is added while a worker has it comes again after that worker is done, so that no change is missed. Each key
has at most one timer, the earliest that was asked for; a worker that gets the key makes the timer void, because the
work that the timer was meant to cause happens now.

`backoff` is the one rule for how long to wait before another try.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

_MOST_DOUBLINGS = 30


def backoff(attempt: int, rng: Random, *, first: float, cap: float) -> float:
    """Seconds before try number `attempt` (from 0): doubling from `first` up to `cap`, less up to half at random.

    The random part keeps a fleet of agents from coming back at the same moment.
    """
    return float(min(cap, first * 2 ** min(attempt, _MOST_DOUBLINGS)) * (0.5 + rng.random() / 2))


K = TypeVar("K", bound=Hashable)

_FIRST_RETRY, _LONGEST_RETRY = 0.02, 60.0


class WorkQueue(Generic[K]):
    """Keys in order of arrival. Everything but `get` is synchronous and must run in the loop's thread."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._ready: deque[K] = deque()
        self._wanted: set[K] = set()
        self._worked_on: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return the number of ready keys; delayed keys and those that workers have don't count."""
        return len(self._ready)

    def add(self, key: K) -> None:
        """Queue the key, as soon as a worker is free."""
        if key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._worked_on:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key no later than in `seconds`."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._expire, key)

    def add_rate_limited(self, key: K) -> None:
        """Queue the key again after a failure; each failure in a row doubles the wait."""
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self.add_after(key, backoff(attempt, self._rng, first=_FIRST_RETRY, cap=_LONGEST_RETRY))

    def forget(self, key: K) -> None:
        """The key did well: its next failure waits as briefly as a first one."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next key, which is the caller's alone until `done`."""
        while not self._ready:
            await self._wait()
        key = self._ready.popleft()
        self._wanted.discard(key)
        self._worked_on.add(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        return key

    def done(self, key: K) -> None:
        """The worker that got the key is through with it."""
        self._worked_on.discard(key)
        if key in self._wanted:
            self._make_ready(key)

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    def _expire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # this worker was chosen but goes away: the key must not wait for the next add
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

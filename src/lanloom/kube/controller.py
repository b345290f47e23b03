"""A queue of keys, and the workers that reconcile them.

A key is in the queue at most once, and never with two workers at the same time. A key that is added while a worker has
it comes again after that worker is done, so that no change is missed. Each key has at most one timer, the earliest that
was asked for. A worker that gets the key makes the timer void, because the work that the timer was meant to cause
happens now. `backoff` is the one rule for how long to wait before another try.

Nothing that a reconcile raises ends the loop. What an API server or the network may answer on a bad day is retried with
a line in the log, anything else with a traceback. `refusals` receives reports of writes that an API server goes on to
refuse.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from random import Random
from typing import Generic, Literal, NamedTuple, TypeVar

import structlog

from lanloom.kube.errors import (
    TOO_MANY_REQUESTS,
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom.kube.refusals import Failing, Refusals

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

_MOST_DOUBLINGS = 30


def doubling(attempt: int, *, first: float, cap: float) -> float:
    """Return the seconds before try `attempt` (from 0), of any number: doubling from `first` to `cap`."""
    return float(min(cap, first * 2 ** min(attempt, _MOST_DOUBLINGS)))


def backoff(attempt: int, rng: Random, *, first: float, cap: float) -> float:
    """Return the same less up to half at random, which keeps a fleet of agents from coming back at the same moment."""
    return doubling(attempt, first=first, cap=cap) * (0.5 + rng.random() / 2)


_CROWDED_PAUSE = 2.0
"""The first pause after a server had too many requests. API servers ask for one second, which is half of it."""


def first_pause(error: KubeError, usual: float) -> float:
    """Return the first pause for `backoff` after an error: `usual`, but for a server with too many requests."""
    crowded = isinstance(error, ServerError) and error.code == TOO_MANY_REQUESTS
    return max(usual, _CROWDED_PAUSE) if crowded else usual


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

    def __contains__(self, key: K) -> bool:
        """Return whether the key comes as soon as a worker is free."""
        return key in self._wanted

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

    def add_rate_limited(self, key: K, first: float = _FIRST_RETRY) -> None:
        """Queue the key again after a failure; each failure in a row doubles the wait, from `first`."""
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self.add_after(key, backoff(attempt, self._rng, first=first, cap=_LONGEST_RETRY))

    def forget(self, key: K) -> None:
        """Forget the failures of a key that did well: its next one waits as briefly as a first one."""
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
        """Note that the worker that got the key is through with it."""
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


Outcome = Literal["done", "later", "retry", "error"]
"""done: nothing more to do; later: asked to be called again; retry: an expected failure; error: a bug or a refusal."""

Observer = Callable[[str, K, float, Outcome], None]
"""Receives the controller's name, the key, the seconds that it took and how it ended, after each reconcile."""

_PASSING = (Conflict, AlreadyExists, NotFound, ServerError, TransportError)
"""NotFound is said by a server that starts of kinds that it does not serve yet."""


BURST = 20
"""Reconciles of a key, each within `spacing` of the one before, after which the key is spaced in any case."""

IN_A_ROW = 16
"""So many reconciles of a worker, for which keys are ready, may follow each other before others run.

Most of a new leader find nothing to do and wait for nothing. Of thousands in a row, a lease must be renewed meanwhile,
and webhooks answered.
"""

_REMEMBERED = 10
"""For how many times `spacing` a start is remembered."""


_REST = 3
"""For how many times `spacing` a key rests before it has reconciles in hand again."""


class _Start(NamedTuple):
    """The last start of a key, in the loop's seconds, the number of quick ones that led to it, and what is in hand."""

    at: float
    quick: int
    in_hand: int


class Controller(Generic[K]):
    """Call `reconcile(key)` for every key that is enqueued, one call at a time for each key.

    `reconcile` returns None, or the seconds after which to look at the key again. `spacing` are the seconds between
    two reconciles of a key that `enqueue_spaced` asks for: a first change is seen at once, what follows together.
    `in_hand` are the ones after a rest that don't wait for each other, where users wait for a second or third change.
    After BURST reconciles in a quick row `enqueue` spaces the key, too. Two leaders, one of which sees less than the
    other, undo each other's writes as fast as the API server answers; this bounds what they cost.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        rng: Random,
        workers: int = 1,
        spacing: float = 0.0,
        in_hand: int = 0,
        observe: Observer[K] | None = None,
        refusals: Refusals[K] | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._queue: WorkQueue[K] = WorkQueue(rng)
        self._workers = workers
        self._spacing = spacing
        self._in_hand = in_hand
        self._started: dict[K, _Start] = {}
        self._observe = observe
        self._refusals = refusals
        self._failing: Failing[K] = Failing()

    @property
    def depth(self) -> int:
        """The number of keys that wait for a worker."""
        return len(self._queue)

    def enqueue(self, key: K) -> None:
        """Queue the key; cheap to call often."""
        last = self._started.get(key)
        if last is not None and last.quick >= BURST:
            self.enqueue_spaced(key)
        else:
            self._queue.add(key)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Queue the key no later than in `seconds`."""
        self._queue.add_after(key, seconds)

    def enqueue_spaced(self, key: K) -> None:
        """Queue the key; if nothing is in hand, no sooner than `spacing` after its last reconcile began."""
        last = self._started.get(key)
        if last is None or key in self._queue:
            self._queue.add(key)
        elif last.in_hand and last.quick < BURST:
            self._started[key] = last._replace(in_hand=last.in_hand - 1)
            self._queue.add(key)
        else:
            self._queue.add_after(key, last.at + self._spacing - asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        in_a_row = 0
        while True:
            in_a_row = in_a_row + 1 if len(self._queue) else 0
            if in_a_row == IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)
            key = await self._queue.get()
            started = loop.time()
            self._note_start(key, started)
            try:
                outcome = await self._process(key)
            finally:
                self._queue.done(key)
            if self._observe is not None:
                self._observe(self.name, key, loop.time() - started, outcome)

    def _note_start(self, key: K, now: float) -> None:
        """Remember starts in their order, none for longer than it matters."""
        last = self._started.pop(key, None)
        quick, in_hand = 0, self._in_hand
        if last is not None:
            quick = last.quick + 1 if now - last.at < self._spacing else max(0, last.quick - 1)
            in_hand = last.in_hand if now - last.at < self._spacing * _REST else self._in_hand
        self._started[key] = _Start(now, quick, in_hand)
        while self._started:
            oldest = next(iter(self._started))
            if now - self._started[oldest].at < self._spacing * _REMEMBERED:
                break
            del self._started[oldest]

    async def _process(self, key: K) -> Outcome:
        try:
            again = await self._reconcile(key)
        except _PASSING as error:
            report = log.debug if error.reported else log.info
            report("reconcile will be retried", controller=self.name, key=str(key), error=str(error))
            self._queue.add_rate_limited(key, first_pause(error, _FIRST_RETRY))
            await self._report_failure(key, error)
            return "retry"
        except MemoryError:
            raise
        except Exception as error:
            self._log_failure(key, error)
            self._queue.add_rate_limited(key)
            await self._report_failure(key, error)
            return "error"
        self._queue.forget(key)
        await self._report_success(key)
        if again is None:
            return "done"
        self._queue.add_after(key, again)
        return "later"

    def _log_failure(self, key: K, error: Exception) -> None:
        if isinstance(error, ApiError) and self._refusals is not None:
            log.warning(
                "reconcile refused and will be retried", controller=self.name, key=str(key), error=str(error)
            )
            return
        report = log.debug if isinstance(error, KubeError) and error.reported else log.exception
        report("reconcile failed and will be retried", controller=self.name, key=str(key))

    async def _report_failure(self, key: K, error: Exception) -> None:
        """Report a refusal; one that can't be reported is reported with the next failure."""
        if self._refusals is None or not isinstance(error, KubeError):
            return
        if self._failing.is_refused(key, error) and isinstance(error, ApiError):
            try:
                await self._refusals.refused(key, error)
            except KubeError:
                self._failing.forget_report(key)

    async def _report_success(self, key: K) -> None:
        if self._refusals is None:
            return
        self._failing.end(key)
        with suppress(KubeError):
            await self._refusals.accepted(key)

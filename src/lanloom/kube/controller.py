"""A queue and the workers that look at its keys: the loop around every `reconcile`.

Nothing that a reconcile raises ends the loop. What an API server or the network may answer on a bad day is retried
with a line in the log, anything else with a traceback.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import Generic, Literal, TypeVar

import structlog

from lanloom.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, ServerError, TransportError
from lanloom.kube.queue import WorkQueue

K = TypeVar("K", bound=Hashable)

Outcome = Literal["done", "later", "retry", "error"]
"""done: nothing more to do; later: asked to be called again; retry: an expected failure; error: a bug or a refusal."""

Observer = Callable[[str, K, float, Outcome], None]
"""Told the controller's name, the key, the seconds that it took and how it ended, after each reconcile."""

_PASSING = (Conflict, AlreadyExists, NotFound, ServerError, TransportError)
"""NotFound is said by a server that starts of kinds that it does not serve yet."""

log = structlog.get_logger(__name__)


class Controller(Generic[K]):
    """Calls `reconcile(key)` for every key that is enqueued, one call at a time for each key.

    `reconcile` returns None, or the seconds after which to look at the key again. `spacing` are the seconds between
    two reconciles of a key that `enqueue_spaced` asks for: a first change is seen at once, what follows together.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        rng: Random,
        workers: int = 1,
        spacing: float = 0.0,
        observe: Observer[K] | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._queue: WorkQueue[K] = WorkQueue(rng)
        self._workers = workers
        self._spacing = spacing
        self._started: dict[K, float] = {}
        self._observe = observe

    @property
    def depth(self) -> int:
        """The number of keys that wait for a worker."""
        return len(self._queue)

    def enqueue(self, key: K) -> None:
        """Queue the key; cheap to call often."""
        self._queue.add(key)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Queue the key no later than in `seconds`."""
        self._queue.add_after(key, seconds)

    def enqueue_spaced(self, key: K) -> None:
        """Queue the key, but no sooner than `spacing` after its last reconcile began."""
        due = self._started.get(key, -math.inf) + self._spacing
        self._queue.add_after(key, due - asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
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
        self._started.pop(key, None)
        self._started[key] = now
        while self._started:
            oldest = next(iter(self._started))
            if now - self._started[oldest] < self._spacing:
                break
            del self._started[oldest]

    async def _process(self, key: K) -> Outcome:
        try:
            again = await self._reconcile(key)
        except _PASSING as error:
            report = log.debug if error.reported else log.info
            report("reconcile will be retried", controller=self.name, key=str(key), error=str(error))
            self._queue.add_rate_limited(key)
            return "retry"
        except MemoryError:
            raise
        except Exception as error:
            report = log.debug if isinstance(error, KubeError) and error.reported else log.exception
            report("reconcile failed and will be retried", controller=self.name, key=str(key))
            self._queue.add_rate_limited(key)
            return "error"
        self._queue.forget(key)
        if again is None:
            return "done"
        self._queue.add_after(key, again)
        return "later"

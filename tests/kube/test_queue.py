"""The queue against a model of what it owes each key, and its promises one by one.

How long to wait before another try.
"""

import asyncio
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lanloom.kube.controller import WorkQueue, backoff
from tests.harness.examples import examples
from tests.harness.virtual import VirtualLoop, run

keys = st.sampled_from("abcd")


class Queueing(RuleBasedStateMachine):
    """Workers that take keys, keep them for a while and may be cancelled while they wait for one.

    `owed` are keys that were added and not handed out since; `due` when a timer owes a key.
    """

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.loop = VirtualLoop(Random(seed))
        self.queue: WorkQueue[str] = WorkQueue(Random(seed))
        self.owed: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: list[str] = []
        self.waiting: list[asyncio.Task[str]] = []

    def call(self, function: Any, *arguments: Any) -> None:
        async def inside() -> None:
            function(*arguments)

        self.loop.run_until_complete(inside())
        self.collect()

    def collect(self) -> None:
        """Lets workers run, and checks each key that they got."""
        self.loop.run_until_complete(asyncio.sleep(0.001))
        for key, when in list(self.due.items()):
            if when <= self.loop.time():
                self.owed.add(key)
                del self.due[key]
        for task in [task for task in self.waiting if task.done()]:
            self.waiting.remove(task)
            key = task.result()
            assert key in self.owed, f"{key} was handed out, but nobody wanted it"
            assert key not in self.working, f"{key} has two workers"
            self.owed.discard(key)
            self.due.pop(key, None)
            self.working.append(key)

    @rule(key=keys)
    def add(self, key: str) -> None:
        self.owed.add(key)
        self.call(self.queue.add, key)

    @rule(key=keys, seconds=st.sampled_from([0.0, 1.0, 5.0, 60.0]))
    def add_after(self, key: str, seconds: float) -> None:
        if seconds == 0:
            self.owed.add(key)
        else:
            self.due[key] = min(self.due.get(key, float("inf")), self.loop.time() + seconds)
        self.call(self.queue.add_after, key, seconds)

    @rule()
    def take(self) -> None:
        self.waiting.append(self.loop.create_task(self.queue.get()))
        self.collect()

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: Any) -> None:
        key = data.draw(st.sampled_from(self.working))
        self.working.remove(key)
        self.call(self.queue.done, key)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), key=keys)
    def cancel_as_it_is_chosen(self, data: Any, key: str) -> None:
        task = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))

        def at_once() -> None:
            self.queue.add(key)
            task.cancel()

        self.owed.add(key)
        self.call(at_once)
        assert task.cancelled()

    @rule(seconds=st.sampled_from([0.5, 4.5, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.collect()

    @invariant()
    def nobody_waits_for_a_key_that_is_ready(self) -> None:
        if hasattr(self, "loop"):
            ready = self.owed - set(self.working)
            assert len(self.queue) == len(ready)
            assert not (ready and self.waiting)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.cancel_pending()
            self.loop.close()
            assert self.loop.failures == []


TestQueueing = Queueing.TestCase
TestQueueing.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_keys_come_in_order_and_once() -> None:
    """Keys come in order of arrival; one that is added again before a worker takes it comes once."""

    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue(Random(0))
        for key in "abcab":
            queue.add(key)
        return [await queue.get() for _ in range(len(queue))]

    assert run(main()) == ["a", "b", "c"]


def test_failures_wait_longer_and_longer() -> None:
    """Each failure in a row doubles the wait, up to a minute; one success starts over."""

    async def waited(queue: WorkQueue[str]) -> float:
        started = asyncio.get_running_loop().time()
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        return asyncio.get_running_loop().time() - started

    async def main() -> tuple[list[float], float]:
        queue: WorkQueue[str] = WorkQueue(Random(0))
        waits = [await waited(queue) for _ in range(20)]
        queue.forget("a")
        return waits, await waited(queue)

    waits, afterwards = run(main())
    for attempt, wait in enumerate(waits):
        full = min(60.0, 0.02 * 2**attempt)
        assert full / 2 - 1e-6 <= wait <= full + 1e-6
    assert afterwards == pytest.approx(0.015, abs=0.0051)


def test_the_earliest_timer_holds() -> None:
    """Of several timers for one key the earliest holds, and the key comes once."""

    async def main() -> float:
        queue: WorkQueue[str] = WorkQueue(Random(0))
        started = asyncio.get_running_loop().time()
        for seconds in (30, 10, 20):
            queue.add_after("a", seconds)
        await queue.get()
        waited = asyncio.get_running_loop().time() - started
        queue.done("a")
        await asyncio.sleep(100)
        assert len(queue) == 0
        return waited

    assert run(main()) == 10


@given(attempt=st.integers(0, 10_000), seed=st.integers())
def test_waits_double_up_to_the_cap(attempt: int, seed: int) -> None:
    """A wait is between half and all of the first one doubled for each attempt, and never above the cap."""
    full = 30.0 if attempt > 10 else min(30.0, 0.2 * 2**attempt)
    assert full / 2 <= backoff(attempt, Random(seed), first=0.2, cap=30.0) <= full


def test_fleets_spread() -> None:
    """Waits of many agents after the same failure differ."""
    assert len({backoff(5, Random(seed), first=0.2, cap=30.0) for seed in range(100)}) > 90

"""The loop around reconcile: what it does with every way in which a reconcile can end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import pytest

from lanloom.kube.controller import BURST, IN_A_ROW, Controller, Outcome
from lanloom.kube.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    ServerError,
    TransportError,
)
from tests.harness.virtual import START, run


class Recording:
    """A controller and what it did: (seconds since the start, key, outcome)."""

    def __init__(
        self,
        reconcile: Callable[[str], Awaitable[float | None]],
        workers: int = 1,
        spacing: float = 0.0,
        in_hand: int = 0,
        seed: int = 0,
    ) -> None:
        self.seen: list[tuple[float, str, Outcome]] = []
        self.controller = Controller(
            "test",
            reconcile,
            rng=Random(seed),
            workers=workers,
            spacing=spacing,
            in_hand=in_hand,
            observe=self._observe,
        )

    def _observe(self, _controller: str, key: str, _seconds: float, outcome: Outcome) -> None:
        self.seen.append((asyncio.get_running_loop().time() - START, key, outcome))

    async def work(self, seconds: float) -> None:
        """Lets the controller run for a while."""
        task = asyncio.create_task(self.controller.run())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def _scene(main: Coroutine[Any, Any, None]) -> None:
    run(main)


def test_a_key_is_reconciled_once_for_many_events() -> None:
    """Any number of events before a worker is free is one reconcile."""

    async def main() -> None:
        async def reconcile(key: str) -> None:
            await asyncio.sleep(1)

        recording = Recording(reconcile)
        for _ in range(100):
            recording.controller.enqueue("a")
        await recording.work(10)
        assert recording.seen == [(1, "a", "done")]

    _scene(main())


def test_events_during_a_reconcile_cause_another() -> None:
    """A key that is enqueued while it is reconciled is reconciled again, after that, and never twice at a time."""

    async def main() -> None:
        running: list[str] = []

        async def reconcile(key: str) -> None:
            assert key not in running
            running.append(key)
            await asyncio.sleep(10)
            running.remove(key)

        recording = Recording(reconcile, workers=4)
        task = asyncio.create_task(recording.work(100))
        for second in range(15):
            recording.controller.enqueue("a")
            recording.controller.enqueue(f"b{second % 2}")
            await asyncio.sleep(1)
        await task
        assert [when for when, key, _ in recording.seen if key == "a"] == [10, 20, 30]

    _scene(main())


def test_reconciles_that_wait_for_nothing_let_others_run() -> None:
    """A controller with many keys, whose reconciles do nothing, lets each other task run now and then."""

    async def main() -> None:
        done, most = 0, 0

        async def reconcile(_key: str) -> None:
            nonlocal done
            done += 1

        async def watch() -> None:
            nonlocal most
            while done < 100:
                before = done
                await asyncio.sleep(0)
                most = max(most, done - before)

        recording = Recording(reconcile)
        for number in range(100):
            recording.controller.enqueue(str(number))
        async with asyncio.TaskGroup() as group:
            group.create_task(recording.work(1))
            group.create_task(watch())
        assert (done, most) == (100, IN_A_ROW)

    _scene(main())


def test_a_later_look_is_taken() -> None:
    """The seconds that a reconcile returns are when the key comes again; no number means never."""

    async def main() -> None:
        answers = [5.0, 0.0, None]

        async def reconcile(key: str) -> float | None:
            return answers.pop(0)

        recording = Recording(reconcile)
        recording.controller.enqueue("a")
        await recording.work(100)
        assert recording.seen == [(0, "a", "later"), (5, "a", "later"), (5, "a", "done")]

    _scene(main())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Conflict(409, "Conflict", "changed"), "retry"),
        (AlreadyExists(409, "AlreadyExists", "there"), "retry"),
        (ServerError(503, "", "busy"), "retry"),
        (TransportError("reset"), "retry"),
        (NotFound(404, "NotFound", "404 page not found"), "retry"),
        (ZeroDivisionError("a bug"), "error"),
        (TimeoutError(), "error"),
    ],
    ids=repr,
)
def test_failures_are_retried(error: Exception, outcome: Outcome) -> None:
    """Whatever a reconcile raises, the key comes again after growing waits, and other keys go on."""

    async def main() -> None:
        async def reconcile(key: str) -> None:
            if key == "bad" and len(recording.seen) < 5:
                raise error

        recording = Recording(reconcile)
        recording.controller.enqueue("bad")
        recording.controller.enqueue("good")
        await recording.work(60)
        assert [found for _, key, found in recording.seen if key == "bad"] == [*[outcome] * 4, "done"]
        times = [when for when, key, _ in recording.seen if key == "bad"]
        assert times[0] == 0
        assert 0.14 <= times[-1] <= 0.31
        assert (0, "good", "done") in recording.seen

    _scene(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_crowded_server_is_left_alone_for_a_second(seed: int) -> None:
    """After a 429 a key waits for a second at least, as API servers ask for, and longer each time."""

    async def main() -> None:
        async def reconcile(_key: str) -> None:
            if len(recording.seen) < 3:
                raise ServerError(429, "TooManyRequests", "too many requests")

        recording = Recording(reconcile, seed=seed)
        recording.controller.enqueue("a")
        await recording.work(60)
        first, second, third, last = (when for when, _, _ in recording.seen)
        assert 1 <= second - first <= 2 <= third - second <= 4 <= last - third <= 8

    _scene(main())


def test_an_event_does_not_wait_for_the_retry() -> None:
    """A key that waits after failures is looked at at once when something changes, and once only."""

    async def main() -> None:
        async def reconcile(key: str) -> None:
            if asyncio.get_running_loop().time() < START + 30:
                raise TransportError("reset")

        recording = Recording(reconcile)
        task = asyncio.create_task(recording.work(200))
        recording.controller.enqueue("a")
        await asyncio.sleep(31)
        recording.controller.enqueue("a")
        await task
        assert [outcome for when, _, outcome in recording.seen if when > 30] == ["done"]

    _scene(main())


def test_a_success_makes_up_for_failures() -> None:
    """After a success the next failure is retried as soon as a first one."""

    async def main() -> None:
        failing = [True] * 12 + [False, True, False]

        async def reconcile(key: str) -> None:
            if failing.pop(0):
                raise TransportError("reset")

        recording = Recording(reconcile)
        recording.controller.enqueue("a")
        await recording.work(200)
        recording.controller.enqueue("a")
        await recording.work(1)
        assert [outcome for _, _, outcome in recording.seen] == ["retry"] * 12 + ["done", "retry", "done"]

    _scene(main())


def test_delayed_keys() -> None:
    """A key can be wanted no later than in some seconds."""

    async def main() -> None:
        async def reconcile(key: str) -> None:
            return None

        recording = Recording(reconcile)
        recording.controller.enqueue_after("a", 30)
        recording.controller.enqueue_after("a", 7)
        await recording.work(100)
        assert recording.seen == [(7, "a", "done")]

    _scene(main())


def test_cancellation_reaches_the_reconcile() -> None:
    """A controller that is cancelled cancels its reconciles, waits for them, and calls that neither done nor error."""

    async def main() -> None:
        ended: list[str] = []

        async def reconcile(key: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)
                ended.append(key)

        recording = Recording(reconcile, workers=2)
        for key in "abc":
            recording.controller.enqueue(key)
        await recording.work(5)
        assert sorted(ended) == ["a", "b"]
        assert recording.seen == []

    _scene(main())


async def _done(_key: str) -> None:
    """Nothing more to do."""


def test_spaced_keys_wait_for_each_other() -> None:
    """A key is looked at at once the first time, and then no sooner than the spacing after it was begun last."""

    async def main() -> None:
        scene = Recording(_done, spacing=1.0)
        controller = scene.controller
        controller.enqueue_spaced("a")
        for seconds in (0.5, 0.6, 5.0):
            asyncio.get_running_loop().call_later(seconds, controller.enqueue_spaced, "a")
        asyncio.get_running_loop().call_later(0.7, controller.enqueue_spaced, "b")
        await scene.work(10)
        assert [(round(at, 3), key) for at, key, _ in scene.seen] == [
            (0, "a"),
            (0.7, "b"),
            (1, "a"),
            (5, "a"),
        ]

    _scene(main())


def test_spaced_keys_in_hand_do_not_wait() -> None:
    """Changes after a rest are looked at at once while some are in hand, then no sooner than the spacing after it."""

    async def main() -> None:
        scene = Recording(_done, spacing=1.0, in_hand=2)
        controller = scene.controller
        for tenth in range(0, 40, 2):
            asyncio.get_running_loop().call_later(tenth / 10, controller.enqueue_spaced, "a")
        for seconds in (5.5, 7.9, 11.0, 11.1):
            asyncio.get_running_loop().call_later(seconds, controller.enqueue_spaced, "a")
        asyncio.get_running_loop().call_later(0.7, controller.enqueue_spaced, "b")
        await scene.work(20)
        seen = [(round(at, 3), key) for at, key, _ in scene.seen]
        assert seen == [
            *((at, "a") for at in (0, 0.2, 0.4)),
            (0.7, "b"),
            *((at, "a") for at in (1.4, 2.4, 3.4, 4.4)),
            *((at, "a") for at in (5.5, 7.9, 11.0, 11.1)),
        ]

    _scene(main())


def test_a_key_in_the_queue_takes_nothing_from_the_hand() -> None:
    """Many changes at the same moment are one look, and leave the next ones in hand."""

    async def main() -> None:
        scene = Recording(_done, spacing=1.0, in_hand=2)
        for seconds in (0.0, 0.1, 0.2, 0.3):
            for _ in range(5):
                asyncio.get_running_loop().call_later(seconds, scene.controller.enqueue_spaced, "a")
        await scene.work(20)
        assert [round(at, 3) for at, _, _ in scene.seen] == [0, 0.1, 0.2, 1.2]

    _scene(main())


def test_a_key_that_wakes_itself_is_slowed_down() -> None:
    """A key that is enqueued by each of its own reconciles has a quick burst, then waits; other keys don't."""

    async def main() -> None:
        async def reconcile(key: str) -> None:
            await asyncio.sleep(0.001)
            if key == "loop":
                scene.controller.enqueue(key)

        scene = Recording(reconcile, spacing=1.0)
        scene.controller.enqueue("loop")
        for tenth in range(300):
            asyncio.get_running_loop().call_later(tenth / 10, scene.controller.enqueue_after, "other", 0.0)
        await scene.work(30)
        quick = sum(key == "loop" and at < 0.5 for at, key, _ in scene.seen)
        assert quick == BURST + 1
        assert BURST + 25 <= sum(key == "loop" for _, key, _ in scene.seen) <= BURST + 65
        assert sum(key == "other" for _, key, _ in scene.seen) == 300

    _scene(main())

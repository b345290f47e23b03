"""How watches of a host are followed when they fail."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from random import Random

import structlog
from structlog.testing import capture_logs

from lanloom.kube.controller import backoff
from lanloom.node.errors import LinkError
from lanloom.node.watch import follow
from tests.harness.virtual import run

_MINUTE = 60.0


def _following(changes: Callable[[], AsyncGenerator[None, None]], seconds: float) -> list[float]:
    """When a watch woke, in seconds since it was begun."""
    woken: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        pause = partial(backoff, rng=Random(1), first=1, cap=30)
        task = asyncio.create_task(
            follow("links", changes, lambda: woken.append(loop.time() - began), pause=pause)
        )
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())
    return woken


def test_each_change_wakes() -> None:
    """Every announcement is passed on when it comes."""

    async def changes() -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(10)
            yield

    assert _following(changes, 35) == [10, 20, 30]


def test_a_watch_that_fails_is_taken_up_again_ever_more_rarely() -> None:
    """Each failure wakes once, because something may be missed, and is logged only as the first in a row."""
    attempts = 0

    async def changes() -> AsyncGenerator[None, None]:
        nonlocal attempts
        attempts += 1
        raise LinkError("can't watch the kernel's links: Operation not permitted")
        yield

    structlog.reset_defaults()
    with capture_logs() as logs:
        woken = _following(changes, 60 * _MINUTE)
    assert len(woken) == attempts
    assert 60 * _MINUTE / 30 <= attempts <= 60 * _MINUTE / 15 + 10
    assert [entry["event"] for entry in logs] == ["watch-failed"]


def test_a_watch_that_ended_before_it_failed() -> None:
    """A failure is logged also after a watch that ended by itself."""
    lives = 0

    async def changes() -> AsyncGenerator[None, None]:
        nonlocal lives
        lives += 1
        if lives > 1:
            raise LinkError("gone")
        return
        yield

    structlog.reset_defaults()
    with capture_logs() as logs:
        _following(changes, _MINUTE)
    assert lives > 2
    assert [entry["event"] for entry in logs] == ["watch-failed"]


def test_a_watch_that_recovers_starts_with_short_pauses_again() -> None:
    """A watch that worked in between is taken up again at once."""
    lives = 0

    async def changes() -> AsyncGenerator[None, None]:
        nonlocal lives
        lives += 1
        if lives % 2:
            yield
        raise LinkError("gone")

    _following(changes, _MINUTE)
    assert lives >= 20

"""Follows what a port tells of changes, for ever: a watch that fails is taken up again after a growing pause."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import Random

import structlog

from lanloom.kube.backoff import backoff
from lanloom.node.errors import NodeError

log = structlog.get_logger(__name__)

FIRST_PAUSE = 1.0


async def follow(
    name: str,
    changes: Callable[[], AsyncGenerator[None, None]],
    wake: Callable[[], None],
    *,
    rng: Random,
    longest: float = 30.0,
) -> None:
    """Calls `wake` after every change until cancelled; also when the watch broke, because something may be missed.

    `longest` is the longest pause between two attempts, in seconds. A watch that fails again and again is logged once.
    """
    failures = 0
    while True:
        try:
            async with aclosing(changes()) as stream:
                async for _ in stream:
                    failures = 0
                    wake()
        except (NodeError, OSError) as error:
            if not failures:
                log.warning("watch-failed", watch=name, error=str(error))
        wake()
        await asyncio.sleep(backoff(failures, rng, first=FIRST_PAUSE, cap=longest))
        failures += 1

"""Follow a port's changes endlessly: the watch may break, and something may be missed then."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import structlog

from lanloom.node.errors import NodeError

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 1.0
"""How long after a watch broke the next one begins, unless another pause is asked for."""


async def follow(
    name: str,
    changes: Callable[[], AsyncGenerator[None, None]],
    wake: Callable[[], None],
    *,
    pause: Callable[[int], float] = lambda _failures: PAUSE_SECONDS,
) -> None:
    """Call `wake` after every change until cancelled; also when the watch broke, because something may be missed.

    `pause` returns the seconds until the next attempt, after so many in a row that brought no change. A watch that
    fails again and again is logged once.
    """
    failures, is_logged = 0, False
    while True:
        try:
            async with aclosing(changes()) as stream:
                async for _ in stream:
                    failures, is_logged = 0, False
                    wake()
        except (NodeError, OSError) as error:
            if not is_logged:
                log.warning("watch-failed", watch=name, error=str(error))
            is_logged = True
        wake()
        await asyncio.sleep(pause(failures))
        failures += 1

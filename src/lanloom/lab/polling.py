"""Waiting for what another process does and nobody announces: a file that appears, a lock that is given back."""

import asyncio
from collections.abc import Awaitable, Callable

PAUSE = 0.03


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition is true; whoever calls sets the limit."""
    while True:
        if condition():
            return
        await asyncio.sleep(PAUSE)


async def until_done(attempt: Callable[[], Awaitable[bool]], pause: float = PAUSE) -> None:
    """Tries again and again until the attempt returns True; whoever calls sets the limit."""
    while True:
        if await attempt():
            return
        await asyncio.sleep(pause)

"""Waiting for what a real server and its clients bring about."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from lanloom.kube.errors import Forbidden, NotFound

T = TypeVar("T")


async def eventually(
    read: Callable[[], Awaitable[T]], holds: Callable[[Any], bool], seconds: float = 60.0
) -> T:
    """What `read` gives once it holds, if it does within `seconds`; NotFound and Forbidden count as not yet."""
    async with asyncio.timeout(seconds):
        while True:
            with suppress(NotFound, Forbidden):
                value = await read()
                if holds(value):
                    return value
            await asyncio.sleep(0.1)

"""Follows the changes of a host's links, for ever."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import structlog

from lanloom.node.errors import LinkError
from lanloom.node.ports import Links

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 1.0
"""How long after a watch broke the next one begins."""


async def follow(links: Links, wake: Callable[[], None]) -> None:
    """Calls `wake` after every change until cancelled; also when the watch broke, because something may be missed.

    A watch that breaks again and again is logged once.
    """
    complained = False
    while True:
        try:
            async with aclosing(links.changes()) as stream:
                async for _ in stream:
                    complained = False
                    wake()
        except (LinkError, OSError) as error:
            if not complained:
                log.warning("watch-failed", watch="links", error=str(error))
            complained = True
        wake()
        await asyncio.sleep(PAUSE_SECONDS)

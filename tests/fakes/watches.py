"""How the fakes tell of changes: bursts of them once, as the adapters do."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from lanloom.node.ports import BURST

Watchers = list[Callable[[], None]]
"""Called after every change that takes effect."""


async def bursts(watchers: Watchers) -> AsyncGenerator[None, None]:
    """Yields some time after changes began that are reported to the watchers."""
    changed = asyncio.Event()
    watchers.append(changed.set)
    try:
        while True:
            await changed.wait()
            await asyncio.sleep(BURST)
            changed.clear()
            yield
    finally:
        watchers.remove(changed.set)

"""The agent's socket with answers of a test's own behind it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lanloom.features.ipam.agent.server import CniServer, Raw, Request
from tests.embedded.engine.running import until


@asynccontextmanager
async def serving(
    path: Path, answer: Callable[[Request], Awaitable[Raw]], **settings: Any
) -> AsyncIterator[None]:
    """A server that gives these answers."""
    task = asyncio.create_task(CniServer(path, answer, **settings).run())
    await until(path.is_socket)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

"""An engine in memory, and a way to wait for what it does by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from lanloom.apiserver.engine.admission import WebhookCaller
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.engine.storage import Storage

NOW = 1_767_225_600.0


@asynccontextmanager
async def engine_world(
    storage: Storage | None = None,
    *,
    webhooks: WebhookCaller | None = None,
    history: int = 1000,
    seed: int = 0,
) -> AsyncIterator[Engine]:
    """A running engine on an empty storage, unless one is given."""
    engine = Engine(
        storage or MemoryStorage(), now=lambda: NOW, rng=Random(seed), webhooks=webhooks, history=history
    )
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def until(condition: Callable[[], bool], turns: int = 10_000) -> None:
    """Lets everything else run until the condition holds."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never became true")

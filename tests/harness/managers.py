"""Managers that run in a test's own process, and servers that ask their webhooks."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lanloom.kube.http import HttpClient
from lanloom.kube.ports import Client
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom_embedded.client import HttpsPoster, HttpsWebhooks
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from tests.harness.servers.eventually import reviewed


@asynccontextmanager
async def asking_engine() -> AsyncIterator[Engine]:
    """An embedded server that asks webhooks over HTTPS."""
    poster = HttpsPoster()
    engine = Engine(MemoryStorage(), now=time.time, rng=random.Random(1), webhooks=HttpsWebhooks(poster))
    await engine.start()
    try:
        yield engine
    finally:
        await poster.close()
        await engine.close()


@asynccontextmanager
async def leading(client: Client, user: str = "") -> AsyncIterator[Manager]:
    """A manager that leads and whose webhooks the server asks; `user` is what it authenticates as."""
    settings = ManagerSettings(identity="test", host="127.0.0.1", port=0, local=True, user=user)
    manager = Manager(client, settings, now=time.time, rng=random.Random(1))
    running = asyncio.create_task(manager.run())
    try:
        await asyncio.wait_for(manager.ready.wait(), 60)
        if isinstance(client, HttpClient):
            await reviewed(client)
        yield manager
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

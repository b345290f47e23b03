"""The HTTPS server behind the webhooks, as a process's task."""

import asyncio
import time

import pytest

from lanloom.app.certificates import issue
from lanloom.app.webhooks import TlsServer, webhook_app


async def test_a_cancelled_server_does_not_listen() -> None:
    """When its task is cancelled, nobody can connect any more, so that a successor can have the port."""
    server = TlsServer(webhook_app([], lambda: True), "127.0.0.1", 0, issue(("127.0.0.1",), time.time()))
    task = asyncio.create_task(server.run())
    await server.started()
    port = server.port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)

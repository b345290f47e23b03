"""The HTTPS server behind the webhooks, as a process's task."""

import asyncio
import socket
import time

import pytest

from lanloom.apiserver.front.server import listen
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


async def test_a_small_answer_is_not_held_back() -> None:
    """What is accepted on a listening socket sends at once, and does not wait for an acknowledgement first (Nagle)."""
    options: asyncio.Queue[int] = asyncio.Queue()

    async def look(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        options.put_nowait(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = listen("127.0.0.1", 0)
    async with await asyncio.start_server(look, sock=listening):
        _reader, writer = await asyncio.open_connection(*listening.getsockname())
        assert await options.get()
        writer.close()

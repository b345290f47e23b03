"""The HTTPS server behind the webhooks, as a process's task."""

import asyncio
import socket
import ssl
import time

import pytest
from starlette.types import Receive, Scope, Send

from lanloom.kube.config import memory_file
from lanloom.kube.errors import TransportError
from lanloom.runtime.certificates import issue
from lanloom.runtime.https.connections import Limits
from lanloom.runtime.https.server import HttpsServer
from lanloom.runtime.sockets import listen
from lanloom.runtime.webhooks import TlsServer, webhook_app
from lanloom_embedded.client import HttpsPoster


async def test_a_cancelled_server_does_not_listen() -> None:
    """When its task is cancelled, no client can connect any more, so that a successor can have the port."""
    server = TlsServer(webhook_app([], lambda: True), "127.0.0.1", 0, issue(("127.0.0.1",), time.time()))
    task = asyncio.create_task(server.run())
    await server.started()
    port = server.port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_server_that_drains() -> None:
    """A server that drains answers what comes, also on new connections, and ends each of them with the answer."""
    bundle = issue(("127.0.0.1",), time.time())
    server = TlsServer(webhook_app([], lambda: True), "127.0.0.1", 0, bundle)
    task = asyncio.create_task(server.run())
    await server.started()
    context = ssl.create_default_context(cadata=bundle.ca.decode())

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(b"Not Found"))
        return head

    async with asyncio.timeout(60):
        known = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        assert b"connection: close" not in await ask(*known)
        server.drain()
        while b"connection: close" not in await ask(*known):
            pass
        assert await known[0].read() == b""
        fresh = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        assert b"connection: close" in await ask(*fresh)
    for _, writer in (known, fresh):
        writer.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


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


async def test_a_request_without_memory_ends_the_process() -> None:
    """A MemoryError of the application ends the process; any other error ends its request only."""
    ended = asyncio.Event()
    errors: list[Exception] = [ValueError("expected by this test"), MemoryError()]

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise errors.pop(0)

    bundle = issue(("127.0.0.1",), time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with memory_file(bundle.certificate + bundle.key) as path:
        context.load_cert_chain(path)
    listening = listen("127.0.0.1", 0)
    server = HttpsServer(app, context, (listening,), Limits(), end=ended.set)
    task = asyncio.create_task(server.run())
    await server.started()
    poster = HttpsPoster()
    url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
    for expected in (False, True):
        with pytest.raises(TransportError):
            await poster.post(url, b"", ca_bundle=bundle.ca, timeout=60)
        assert ended.is_set() is expected
    await poster.close()
    server.stop()
    await task

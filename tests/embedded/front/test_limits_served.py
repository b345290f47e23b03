"""The limits of a whole server, over TLS on loopback."""

import asyncio
import gc
import resource
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from lanloom.kube.config import memory_file
from lanloom.runtime.certificates import issue
from lanloom.runtime.https import server as https_server
from lanloom.runtime.https.connections import (
    Connections,
    Limits,
    Slot,
    Stage,
    limits_of_process,
)
from lanloom.runtime.https.server import HttpsServer
from lanloom.runtime.sockets import listen

pytestmark = pytest.mark.slow


class Clients:
    """Clients of a server that admits few; `ended` are those that it ended."""

    def __init__(self, *, connections: int = 4, per_peer: int = 2) -> None:
        limits = Limits(connections=connections, per_peer=per_peer)
        self.now = 0.0
        self.connections = Connections(limits, lambda: self.now)
        self.ended: list[str] = []

    def connect(self, name: str, peer: str = "a", stage: Stage = Stage.UNFINISHED) -> Slot | None:
        """A connection that came as far as `stage`."""
        slot = self.connections.admit(peer, lambda: self.ended.append(name))
        if slot is not None:
            slot.move(stage)
        return slot


def test_the_oldest_unfinished_connection_of_a_peer_gives_way() -> None:
    """A peer at its limit loses its oldest connection that has not finished a request."""
    clients = Clients()
    for name in ("first", "second", "third"):
        assert clients.connect(name) is not None
    assert clients.ended == ["first"]
    assert len(clients.connections) == 2


@pytest.mark.parametrize(("age", "ends"), [(4.9, "idle"), (5.0, "silent")])
def test_an_idle_connection_outlives_an_unfinished_one(age: float, ends: str) -> None:
    """A connection that has done a request is worth more than one that has not for some seconds."""
    clients = Clients()
    clients.connect("idle", stage=Stage.IDLE)
    clients.connect("silent")
    clients.now = age
    assert clients.connections.has_room("a") == (ends == "silent")
    clients.connect("new")
    assert clients.ended == [ends]


def test_room() -> None:
    """There is room without the place of a recent connection, and on a full server that of a peer with more."""
    clients = Clients(connections=3)
    assert clients.connections.has_room("a")
    clients.connect("first")
    clients.connect("second")
    assert not clients.connections.has_room("a") and clients.connections.has_room("b")
    clients.connect("other", peer="b")
    assert clients.connections.has_room("c") and not clients.connections.has_room("b")
    clients.now = 5.0
    assert clients.connections.has_room("a") and clients.connections.has_room("b")


def test_room_beside_work() -> None:
    """Where every connection works there is no room until one has long been idle, or is gone."""
    clients = Clients()
    first, _ = [clients.connect(name, stage=Stage.BUSY) for name in ("one", "two")]
    clients.now = 60.0
    assert first is not None and not clients.connections.has_room("a")
    first.move(Stage.IDLE)
    assert not clients.connections.has_room("a")
    clients.now += 5.0
    assert clients.connections.has_room("a")
    first.move(Stage.BUSY)
    assert not clients.connections.has_room("a")
    first.release()
    assert clients.connections.has_room("a")


def test_a_request_in_progress_is_never_cut_off() -> None:
    """When every connection of a peer works, a new one is refused, and other peers are admitted."""
    clients = Clients()
    for name in ("one", "two"):
        clients.connect(name, stage=Stage.BUSY)
    assert clients.connect("three") is None
    assert clients.connect("other", peer="b") is not None
    assert clients.ended == []


def test_a_full_server_takes_from_the_peer_with_the_most() -> None:
    """When the server is full, the peer with the most connections that do no work loses one."""
    clients = Clients(connections=3, per_peer=2)
    clients.connect("small", peer="a")
    clients.connect("many-1", peer="b")
    clients.connect("many-2", peer="b")
    assert clients.connect("new", peer="c") is not None
    assert clients.ended == ["many-1"]


def test_an_idle_connection_that_is_used_becomes_the_youngest() -> None:
    """Of idle connections the one that has been unused for longest gives way."""
    clients = Clients()
    used = clients.connect("used", stage=Stage.IDLE)
    clients.connect("unused", stage=Stage.IDLE)
    assert used is not None
    used.move(Stage.BUSY)
    used.move(Stage.IDLE)
    clients.connect("new")
    assert clients.ended == ["unused"]


def test_a_released_place_is_free() -> None:
    """A connection that is over, said once or twice, leaves its place to another one."""
    clients = Clients(per_peer=1)
    slot = clients.connect("first", stage=Stage.BUSY)
    assert slot is not None
    slot.release()
    slot.release()
    slot.move(Stage.IDLE)
    assert len(clients.connections) == 0
    assert clients.connect("second") is not None
    assert clients.ended == []


BUNDLE = issue(("127.0.0.1",), time.time())
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
FEW = Limits(connections=8, per_peer=4, patience_seconds=0.2)

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(_scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer every request with `ok`."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(limits: Limits, application: Any = app) -> AsyncIterator[int]:
    """A server; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with memory_file(BUNDLE.certificate + BUNDLE.key) as path:
        context.load_cert_chain(path)
    sock = listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    server = HttpsServer(application, context, (sock,), limits)
    task = asyncio.create_task(server.run())
    await server.started()
    try:
        yield port
    finally:
        server.stop()
        await task


async def connect(port: int) -> Stream:
    """A TLS connection."""
    context = ssl.create_default_context(cadata=BUNDLE.ca.decode())
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def answer(stream: Stream) -> str:
    """The answer to a request."""
    reader, writer = stream
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)
    return head.decode()


async def end(reader: asyncio.StreamReader) -> None:
    """Return when the server ended the connection."""
    try:
        while await reader.read(1024):
            continue
    except OSError:
        return


@pytest.fixture(params=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run a test on each of the event loops that serve."""

    def run(main: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await main()

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as running:
            running.run(bounded())

    return run


Run = Callable[[Callable[[], Awaitable[None]]], None]


def test_connections_that_send_nothing_keep_nobody_out(runner: Run) -> None:
    """A client gets in and is answered, however many connections stay in their handshake; the oldest of them end."""

    async def main() -> None:
        async with serving(FEW) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            assert "200 OK" in await answer(await connect(port))
            for reader, _ in silent[: 20 - FEW.per_peer]:
                await end(reader)
            for _, writer in silent:
                writer.close()

    runner(main)


def test_a_crowd_is_served(runner: Run) -> None:
    """Clients that come at the same moment, more than a peer may have connections, are all answered."""

    async def slow(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.01)
        await app(scope, receive, send)

    async def ask(port: int) -> str:
        stream = await connect(port)
        try:
            return await answer(stream)
        finally:
            stream[1].close()

    async def main() -> None:
        async with serving(Limits(connections=8, per_peer=4), slow) as port:
            answers = await asyncio.gather(*(ask(port) for _ in range(40)))
            assert all("200 OK" in each for each in answers)

    runner(main)


def test_a_crowd_that_may_not_wait(runner: Run) -> None:
    """Of more connections than may wait, the newest take places at once; the server goes on."""

    async def main() -> None:
        limits = Limits(connections=8, per_peer=4, waiting=4, patience_seconds=60.0)
        async with serving(limits) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            assert "200 OK" in await answer(await connect(port))
            for _, writer in silent:
                writer.close()

    runner(main)


def test_a_crowd_keeps_no_neighbour_waiting(runner: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client is answered before a crowd of other addresses in its /64 that waits."""

    def peer_of(address: tuple[str, int]) -> str:
        return f"2001:db8::{address[0].rpartition('.')[2]}"

    monkeypatch.setattr(https_server, "peer_of", peer_of)

    async def main() -> None:
        limits = Limits(connections=16, per_peer=8, per_network=12, waiting=32, patience_seconds=60.0)
        async with serving(limits) as port:
            crowd = [
                await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.0.{2 + number % 3}", 0))
                for number in range(30)
            ]
            assert "200 OK" in await answer(await connect(port))
            for _, writer in crowd:
                writer.close()

    runner(main)


def test_a_silent_connection_costs_no_tls() -> None:
    """The buffers of TLS are made when a client sends something, and go with a handshake that fails."""

    async def main() -> None:
        async with serving(Limits(connections=40, per_peer=20)) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            wrong = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            gc.collect()
            gc.disable()
            try:
                for reader, writer in wrong:
                    writer.write(b"GET / HTTP/1.1\r\n\r\n")
                    await end(reader)
                    writer.close()
                assert "200 OK" in await answer(await connect(port))
                both_ends = 2
                assert _alive(SSLProtocol) <= both_ends
            finally:
                gc.enable()
            for _, writer in silent:
                writer.close()

    asyncio.run(main())


def _alive(kind: type) -> int:
    return sum(isinstance(each, kind) for each in gc.get_objects())


@pytest.mark.parametrize(
    "part",
    [b"GET / HTTP/1.1\r\na: ", b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n"],
    ids=["headers", "body"],
)
def test_unfinished_requests_keep_nobody_out(runner: Run, part: bytes) -> None:
    """A client gets in and is answered, however many connections are in the middle of their headers or body."""

    async def main() -> None:
        async with serving(FEW) as port:
            slow = [await connect(port) for _ in range(FEW.per_peer)]
            for _, writer in slow:
                writer.write(part)
            fresh = await connect(port)
            assert "200 OK" in await answer(fresh)
            await end(slow[0][0])
            assert "200 OK" in await answer(fresh)
            for _, writer in (*slow, fresh):
                writer.close()

    runner(main)


def test_a_handshake_has_its_time(runner: Run) -> None:
    """A connection that does not get through its handshake is ended."""

    async def main() -> None:
        async with serving(Limits(handshake_seconds=0.05)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await end(reader)
            writer.close()

    runner(main)


def test_a_long_header_is_refused_with_a_status(runner: Run) -> None:
    """A client that sends headers without end reads why it is refused."""

    async def main() -> None:
        async with serving(Limits()) as port:
            reader, writer = await connect(port)
            writer.write(b"GET / HTTP/1.1\r\na: " + b"b" * 70_000)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 431 ")
            assert b'"reason":"RequestHeaderFieldsTooLarge"' in await reader.read()
            writer.close()

    runner(main)


def test_a_client_that_does_not_read_is_ended(runner: Run) -> None:
    """An endless answer that its client does not read ends with the connection."""

    async def main() -> None:
        over = asyncio.Event()

        async def endless(_scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            left = asyncio.ensure_future(receive())
            while not left.done():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
            over.set()

        async with serving(Limits(stall_seconds=0.05), endless) as port:
            reader, writer = await connect(port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(REQUEST)
            await over.wait()
            writer.transport.abort()
            assert not reader.at_eof()

    runner(main)


@pytest.mark.parametrize(
    ("files", "connections", "waiting"),
    [
        (resource.RLIM_INFINITY, 512, 2048),
        (1_048_576, 512, 2048),
        (1024, 512, 256),
        (600, 344, 0),
        (20, 16, 0),
    ],
)
def test_limits_leave_files_for_the_server_itself(
    files: int, connections: int, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process never spends all its file descriptors on connections, and one peer never has all of them."""
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (files, files))
    limits = limits_of_process(512)
    assert (limits.connections, limits.waiting) == (connections, waiting)
    assert (limits.per_peer, limits.per_network) == (connections // 2, connections * 3 // 4)

"""The limits of one connection, in virtual time and without a network."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec
import pytest
import uvicorn
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from lanloom.runtime.https.connections import (
    Connections,
    Limits,
    Slot,
    Stage,
)
from lanloom.runtime.https.protocol import LimitedProtocol
from tests.embedded.engine.running import until
from tests.harness.virtual import run

LIMITS = Limits(header_bytes=1024, pipelined=2)
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n"

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Wire(asyncio.Transport):
    """A transport whose client reads when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.writes = 0
        self.ended: str = ""
        self.protocol: LimitedProtocol
        self.reading = True

    def write(self, data: Any) -> None:
        """Take what goes to the client."""
        self.written += data
        self.writes += 1

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The test pauses and resumes by itself."""

    def pause_reading(self) -> None:
        """Stop reading."""
        self.reading = False

    def resume_reading(self) -> None:
        """Read again."""
        self.reading = True

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return bool(self.ended)

    def close(self) -> None:
        """End the connection after what was written."""
        self._end("closed")

    def abort(self) -> None:
        """End the connection at once."""
        self._end("aborted")

    def _end(self, how: str) -> None:
        if not self.ended:
            self.ended = how
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    @property
    def status(self) -> Mapping[str, Any]:
        """The Status that the client got, last of all."""
        status: Mapping[str, Any] = msgspec.json.decode(bytes(self.written).rpartition(b"\r\n\r\n")[2])
        return status


class Connection:
    """A connection whose handshake is over. `app` reads each request and answers it."""

    def __init__(self, app: Any = None, connections: Connections | None = None, peer: str = "a") -> None:
        self.requests: list[str] = []
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(
            app or self._app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            timeout_keep_alive=90,
        )
        self.connections = Connections(LIMITS, loop.time) if connections is None else connections
        slot = self.connections.admit(peer, lambda: None)
        assert slot is not None
        self.slot: Slot = slot
        self.wire = Wire()
        self.protocol = LimitedProtocol(slot, LIMITS, config=config, server_state=ServerState(), app_state={})
        self.wire.protocol = self.protocol
        self.protocol.connection_made(self.wire)

    async def drip(self, data: bytes, seconds: float) -> float:
        """Send a byte in every so many seconds until the server ends the connection; return how long it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for byte in data:
            if self.wire.is_closing():
                break
            self.protocol.data_received(bytes([byte]))
            await asyncio.sleep(seconds)
        return loop.time() - began

    async def answered(self, count: int) -> None:
        """Return when so many requests are answered."""
        await until(lambda: len(self.requests) >= count)
        await asyncio.sleep(0)

    async def _app(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.requests.append(scope["path"])


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time."""

    def test() -> None:
        run(main())

    test.__name__, test.__doc__ = main.__name__, main.__doc__
    return test


@virtually
async def test_an_answer_is_written_at_once() -> None:
    """The head of an answer and its body go to the client in one write."""
    client = Connection()
    client.protocol.data_received(REQUEST)
    await client.answered(1)
    assert client.wire.writes == 1 and client.wire.written.endswith(b"\r\n\r\nok")


@virtually
async def test_nothing_of_a_stream_is_kept_back() -> None:
    """The head of a stream, and each piece, is with the client before the next one is there."""

    async def app(_scope: Any, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"one", b"two"):
            await asyncio.sleep(1)
            seen.append(bytes(client.wire.written))
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(1)
        seen.append(bytes(client.wire.written))
        await send({"type": "http.response.body", "body": b"three", "more_body": True})
        client.protocol.transport.close()

    seen: list[bytes] = []
    client = Connection(app)
    client.protocol.data_received(REQUEST)
    await until(lambda: client.wire.is_closing())
    assert [b"200 OK" in seen[0], b"one" in seen[1], b"two" in seen[2]] == [True, True, True]
    assert b"three" in client.wire.written


@virtually
async def test_a_request_within_the_limits_is_answered() -> None:
    """A whole request is answered, and the connection is idle and without a deadline afterwards."""
    client = Connection()
    client.protocol.data_received(REQUEST)
    stages = [client.slot.stage]
    await client.answered(1)
    assert [*stages, client.slot.stage] == [Stage.BUSY, Stage.IDLE]
    await asyncio.sleep(80)
    assert not client.wire.is_closing()
    client.protocol.data_received(REQUEST)
    await client.answered(2)
    await asyncio.sleep(91)
    assert client.wire.ended == "closed"
    assert len(client.connections) == 0


@virtually
async def test_a_connection_without_a_request_is_closed() -> None:
    """A client that sends nothing after the handshake is hung up on."""
    client = Connection()
    await asyncio.sleep(LIMITS.header_seconds + 1)
    assert (client.wire.ended, bytes(client.wire.written)) == ("closed", b"")


@virtually
async def test_headers_that_drip_are_refused() -> None:
    """The time for headers begins with the first byte, and further bytes don't extend it."""
    client = Connection()
    assert await client.drip(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20, 1) < LIMITS.header_seconds + 2
    assert client.wire.status["code"] == 408
    assert "headers of the request did not arrive within 30 seconds" in client.wire.status["message"]


@virtually
async def test_later_requests_have_the_same_time() -> None:
    """Headers that drip after a first request are refused as well, also after an empty line."""
    client = Connection()
    client.protocol.data_received(REQUEST)
    await client.answered(1)
    assert await client.drip(b"\r\nGET / HTTP/1.1\r\n" + b"a: b\r\n" * 20, 1) <= LIMITS.header_seconds + 2
    assert client.wire.ended


@virtually
async def test_an_empty_line_is_no_request() -> None:
    """A client that sends nothing but an empty line after a request is hung up on."""
    client = Connection()
    client.protocol.data_received(REQUEST)
    await client.answered(1)
    client.protocol.data_received(b"\r\n")
    await asyncio.sleep(LIMITS.header_seconds + 1)
    assert client.wire.ended == "closed"


@virtually
async def test_a_body_that_drips_is_refused() -> None:
    """A body must be complete in its time, and the application learns that the client is gone."""
    client = Connection()
    client.protocol.data_received(POST)
    assert await client.drip(b"0123456789", 10) <= LIMITS.body_seconds + 10
    assert client.wire.status["code"] == 408
    assert "body of the request did not arrive within 60 seconds" in client.wire.status["message"]
    await asyncio.sleep(0)
    assert client.requests == []
    assert len(client.connections) == 0


@virtually
async def test_a_client_that_is_not_read_has_more_time() -> None:
    """While the application does not read a body, its deadline is not the client's."""
    read = asyncio.Event()

    async def app(_scope: object, receive: Receive, send: Send) -> None:
        await read.wait()
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    client = Connection(app)
    client.protocol.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n")
    client.protocol.data_received(b"x" * 70_000)
    assert not client.wire.reading
    await asyncio.sleep(LIMITS.body_seconds * 3)
    assert not client.wire.is_closing()
    read.set()
    await asyncio.sleep(1)
    client.protocol.data_received(b"x" * 30_000)
    await asyncio.sleep(1)
    assert b"200 OK" in client.wire.written


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\na: " + b"b" * 2000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 400 + b"\r\n",
        b"GET / HTTP/1.1\r\na: " + b"b" * 2000,
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 400 + b"\r\n",
    ],
    ids=["url", "one header", "many headers", "no end", "trailers"],
)
@pytest.mark.parametrize("piece", [1, 100, 1_000_000])
def test_headers_have_a_size(head: bytes, piece: int) -> None:
    """A request line, headers and trailers that are too long together are refused, in whatever pieces they come."""

    async def main() -> None:
        client = Connection()
        for start in range(0, len(head), piece):
            client.protocol.data_received(head[start : start + piece])
        assert client.wire.status["code"] == 431
        assert "longer than 1024 bytes; send fewer or shorter headers" in client.wire.status["message"]
        assert client.wire.ended == "closed"
        client.protocol.data_received(b"more")
        await asyncio.sleep(0)
        assert client.requests == []

    run(main())


TRAILED = (
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: authorization\r\n\r\n"
    b"2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\nImpersonate-User: evil\r\nExpect: 100-continue\r\n\r\n"
)


@pytest.mark.parametrize("piece", [1, 7, 80, 1_000_000])
@pytest.mark.parametrize("before", [b"", REQUEST, TRAILED], ids=["first", "second", "after trailers"])
def test_trailers_are_no_headers(before: bytes, piece: int) -> None:
    """Fields after a body never reach the application, in whatever pieces they come, nor the request behind."""
    seen: list[list[bytes]] = []

    async def app(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        seen.append([name for name, _ in scope["headers"]])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def main() -> None:
        client = Connection(app)
        sent = before + TRAILED + REQUEST
        for start in range(0, len(sent), piece):
            client.protocol.data_received(sent[start : start + piece])
            await asyncio.sleep(0)
        await until(lambda: len(seen) == (3 if before else 2))

    run(main())
    known = {b"host", b"transfer-encoding", b"trailer"}
    assert all(set(names) <= known for names in seen)


@virtually
async def test_a_body_does_not_count_as_headers() -> None:
    """Headers have the whole limit, whatever body came before them on the connection."""
    client = Connection()
    body = b"x" * 5000
    client.protocol.data_received(
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5000\r\n\r\n" + body + REQUEST[:9]
    )
    client.protocol.data_received(REQUEST[9:])
    await client.answered(2)
    assert not client.wire.is_closing()


@virtually
async def test_requests_wait_behind_one_another_up_to_a_limit() -> None:
    """A client that sends requests without end before it reads an answer is refused."""
    client = Connection()
    client.protocol.data_received(REQUEST * 3)
    await client.answered(3)
    client.protocol.data_received(REQUEST * 1000)
    assert client.wire.status["code"] == 400
    assert "read the answers before you send more requests" in client.wire.status["message"]


UPGRADE = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"


@virtually
async def test_clients_do_not_write_the_log() -> None:
    """However many requests are malformed or refused, the log has one line about them in a minute."""
    connections = Connections(LIMITS, asyncio.get_running_loop().time)
    with capture_logs() as lines:
        for number in range(300):
            for data in (b"rubbish\r\n\r\n", UPGRADE, b"GET /" + b"a" * 2000):
                Connection(connections=connections, peer=f"peer{number % 3}").protocol.data_received(data)
        await asyncio.sleep(120)
    line, *later = (each for each in lines if each["event"] == "client-faults")
    assert (line["malformed"], line["upgrade"], line["peers"]) == (300, 300, 3)
    assert line["refused"] >= 300
    assert len(later) <= 1
    assert {each["event"] for each in lines} <= {"client-faults", "connections-limit"}


async def _endless(_scope: object, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": b"event", "more_body": True})
        await asyncio.sleep(1)


async def _working(_scope: object, receive: Receive, _send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await asyncio.sleep(1000)


@pytest.mark.parametrize(
    ("app", "sent", "paused", "stage"),
    [
        (None, POST, None, Stage.UNFINISHED),
        (None, POST + b"0" * 9, None, Stage.UNFINISHED),
        (_working, POST + b"0" * 10, None, Stage.BUSY),
        (_working, REQUEST + POST, None, Stage.BUSY),
        (None, REQUEST + POST, None, Stage.UNFINISHED),
        (_endless, REQUEST, None, Stage.BUSY),
        (_endless, REQUEST, 0.9, Stage.BUSY),
        (_endless, REQUEST, 1.1, Stage.UNFINISHED),
        (None, POST[:20], None, Stage.UNFINISHED),
        (None, REQUEST, None, Stage.IDLE),
    ],
)
def test_who_waits_for_a_client_gives_way(app: Any, sent: bytes, paused: float | None, stage: Stage) -> None:
    """A connection works only while the application does: one that awaits a body or a reader gives way to others."""

    async def main() -> None:
        client = Connection(app)
        client.protocol.data_received(sent)
        await asyncio.sleep(2)
        if paused is not None:
            client.protocol.pause_writing()
            await asyncio.sleep(paused * LIMITS.patience_seconds)
        assert client.slot.stage is stage
        client.protocol.resume_writing()
        assert client.slot.stage is (stage if paused is None else Stage.BUSY)
        client.wire.abort()

    run(main())


@virtually
async def test_an_answer_that_nobody_reads_is_ended() -> None:
    """A client that does not read what was written is hung up on, and the application learns of it."""
    ended = asyncio.Event()

    async def app(_scope: object, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"event", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        ended.set()
        await send({"type": "http.response.body"})

    client = Connection(app)
    client.protocol.data_received(REQUEST)
    await asyncio.sleep(3000)
    assert not client.wire.is_closing()  # a watch on which nothing happens
    client.protocol.pause_writing()
    await asyncio.sleep(LIMITS.stall_seconds - 1)
    client.protocol.resume_writing()
    client.protocol.pause_writing()
    await asyncio.sleep(LIMITS.stall_seconds - 1)
    assert not client.wire.is_closing()
    await asyncio.sleep(2)
    assert client.wire.ended == "aborted"
    await ended.wait()
    assert len(client.connections) == 0

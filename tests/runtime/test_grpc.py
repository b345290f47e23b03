"""The agent's own gRPC: against grpclib on h2, and against bytes that no client should send."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.server import Server
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.runtime.grpc import FAILED_PRECONDITION, UNAVAILABLE, GrpcError, escaped, http2, unescaped
from lanloom.runtime.grpc.client import connected
from lanloom.runtime.grpc.http2 import PREFACE, frame
from lanloom.runtime.grpc.server import CONNECTIONS_MAX, IDLE_SECONDS, GrpcServer, Methods, Streaming, Unary
from tests.harness.examples import examples
from tests.harness.virtual import run

ECHO, FAIL, COUNT, NEVER = "/t.T/Echo", "/t.T/Fail", "/t.T/Count", "/t.T/Never"


class Bytes(CodecBase):
    """Messages as they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Leave it."""
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        """Leave it."""
        return data


async def echo(message: bytes) -> bytes:
    """What came."""
    return message


async def fail(message: bytes) -> bytes:
    """Nothing but an error with the message."""
    raise GrpcError(FAILED_PRECONDITION, message.decode())


async def count(message: bytes) -> AsyncGenerator[bytes, None]:
    """So many messages."""
    for number in range(int(message)):
        yield b"%d" % number


class Never:
    """A method that never ends, and tells when it was given up."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, _message: bytes) -> bytes:
        """Wait."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
            return b""
        finally:
            self.ended.set()


@asynccontextmanager
async def served(path: Path, never: Never | None = None) -> AsyncIterator[GrpcServer]:
    """Our server."""
    methods: Methods = {
        ECHO: Unary(echo),
        FAIL: Unary(fail),
        COUNT: Streaming(count),
        NEVER: Unary(never or Never()),
    }
    server = GrpcServer(path, methods)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def channel(path: Path) -> AsyncIterator[Channel]:
    """A client of grpclib's."""
    made = Channel(path=str(path), codec=Bytes())
    try:
        yield made
    finally:
        made.close()


async def call(made: Channel, path: str, message: bytes) -> bytes:
    """One call."""
    answer: bytes = await UnaryUnaryMethod(made, path, bytes, bytes)(message)
    return answer


@pytest.mark.parametrize("size", [0, 1, 126, 127, 1000, 16_379, 16_384, 65_536])
async def test_messages_of_all_sizes(tmp_path: Path, size: int) -> None:
    """A message goes there and back whole, over frames and windows."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        for _ in range(3):
            assert await call(made, ECHO, b"x" * size) == b"x" * size


async def test_calls_at_the_same_time(tmp_path: Path) -> None:
    """Calls on one connection do not wait for each other, nor mix."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        messages = [b"%d" % number * 100 for number in range(15)]
        assert await asyncio.gather(*(call(made, ECHO, each) for each in messages)) == messages


async def test_streams(tmp_path: Path) -> None:
    """A stream of answers arrives in order and ends; an empty one as well."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        method = UnaryStreamMethod(made, COUNT, bytes, bytes)
        assert await method(b"300") == [b"%d" % number for number in range(300)]
        assert await method(b"0") == []


@pytest.mark.parametrize("message", ["no", "100 % réd\nline", "", "x" * 1900])
async def test_errors(tmp_path: Path, message: str) -> None:
    """Status and message of an error arrive, whatever letters are in it."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        with pytest.raises(GRPCError) as caught:
            await call(made, FAIL, message.encode())
    assert (caught.value.status, caught.value.message or "") == (Status.FAILED_PRECONDITION, message)


async def test_methods_that_there_are_not(tmp_path: Path) -> None:
    """An unknown method is UNIMPLEMENTED, and the connection goes on."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        with pytest.raises(GRPCError) as caught:
            await call(made, "/t.T/Other", b"")
        assert caught.value.status == Status.UNIMPLEMENTED
        assert await call(made, ECHO, b"x") == b"x"


async def test_messages_that_are_too_large(tmp_path: Path) -> None:
    """A message beyond the limit is RESOURCE_EXHAUSTED, and the connection goes on."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        with pytest.raises(GRPCError) as caught:
            await call(made, ECHO, b"x" * 65_537)
        assert caught.value.status == Status.RESOURCE_EXHAUSTED
        assert await call(made, ECHO, b"x") == b"x"


async def test_a_call_that_is_given_up(tmp_path: Path) -> None:
    """What a handler does ends when the client gives the call up, or goes."""
    never = Never()
    async with served(tmp_path / "s", never), channel(tmp_path / "s") as made:
        task = asyncio.create_task(call(made, NEVER, b""))
        await never.begun.wait()
        task.cancel()
        await never.ended.wait()
        assert await call(made, ECHO, b"x") == b"x"


async def test_a_reader_that_is_slower_than_its_window(tmp_path: Path) -> None:
    """A stream to a side that takes everything, but slowly, waits for it and arrives whole."""
    request = b"\0\0\0\0\x0520000"
    headers = [(":method", "POST"), (":path", COUNT), ("content-type", "application/grpc")]
    block = http2.block((name.encode(), value.encode()) for name, value in headers)
    async with served(tmp_path / "s"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s", limit=1000)
        writer.write(PREFACE + http2.settings({4: (1 << 31) - 1}))
        writer.write(frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\0\0"))
        writer.write(frame(http2.HEADERS, 4, 1, block) + frame(http2.DATA, 1, 1, request))
        said = b""
        while b"grpc-status" not in said[-40:]:
            said += await reader.read(4096)
        writer.close()
    assert b"\0\0\0\0\x0519999" in said and said.endswith(b"grpc-status\x010")


async def test_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    """Beyond the limit a new connection takes the place of the oldest one without a call, of none with a call."""
    never = Never()
    async with served(tmp_path / "s", never), channel(tmp_path / "s") as made:
        task = asyncio.create_task(call(made, NEVER, b""))
        await never.begun.wait()
        silent = [await asyncio.open_unix_connection(tmp_path / "s") for _ in range(2 * CONNECTIONS_MAX)]
        async with channel(tmp_path / "s") as another:
            assert await call(another, ECHO, b"x") == b"x"
        for reader, writer in silent[: CONNECTIONS_MAX + 2]:
            assert bytes((http2.GOAWAY, 0, 0, 0, 0, 0)) in await reader.read()
            writer.close()
        for _, writer in silent:
            writer.close()
        assert not never.ended.is_set()
        task.cancel()
        await never.ended.wait()


async def test_connections_that_all_have_calls_keep_theirs(tmp_path: Path) -> None:
    """A connection beyond the limit is closed at once where all others have calls."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(served(tmp_path / "s", never := Never()))
        calls = []
        for _ in range(CONNECTIONS_MAX):
            made = await stack.enter_async_context(channel(tmp_path / "s"))
            never.begun.clear()
            calls.append(asyncio.create_task(call(made, NEVER, b"")))
            await never.begun.wait()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        assert await reader.read() == b""
        writer.close()
        assert not any(each.done() for each in calls)
        for each in calls:
            each.cancel()
        await asyncio.wait(calls)


BEGIN = PREFACE + http2.settings({})
BLOCK = http2.block(
    ((b":method", b"POST"), (b":path", NEVER.encode()), (b"content-type", b"application/grpc"))
)
ASK = frame(http2.HEADERS, 4, 1, BLOCK) + frame(http2.DATA, 1, 1, bytes(5))
"""A call that does not end."""

JUNK: list[tuple[str, bytes]] = [
    ("no HTTP/2", b"GET / HTTP/1.1\r\n\r\n" + b" " * 20),
    ("no settings", PREFACE + frame(http2.PING, 0, 0, b"12345678")),
    ("a huge frame", BEGIN + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
    ("data without a stream", BEGIN + frame(http2.DATA, 0, 0, b"x")),
    ("data of no stream", BEGIN + frame(http2.DATA, 0, 7, b"x")),
    ("an even stream", BEGIN + frame(http2.HEADERS, 5, 2, b"\x83")),
    ("broken headers", BEGIN + frame(http2.HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
    (
        "headers that never end",
        BEGIN + frame(http2.HEADERS, 0, 1) + frame(http2.CONTINUATION, 0, 1, b"x" * 16_000) * 2,
    ),
    ("headers between headers", BEGIN + frame(http2.HEADERS, 0, 1) + frame(http2.PING, 0, 0, b"12345678")),
    ("a continuation of nothing", BEGIN + frame(http2.CONTINUATION, 4, 1)),
    ("padding beyond the frame", BEGIN + frame(http2.HEADERS, 0x0D, 1, b"\xff\x83")),
    ("an odd ping", BEGIN + frame(http2.PING, 0, 0, b"1")),
    ("odd settings", BEGIN + frame(http2.SETTINGS, 0, 0, b"12345")),
    ("a huge window", BEGIN + http2.settings({4: 1 << 31})),
    ("a window beyond bounds", BEGIN + frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")),
    ("a window of nothing", BEGIN + frame(http2.WINDOW_UPDATE, 0, 0, bytes(4))),
    ("headers after the end", BEGIN + ASK + frame(http2.HEADERS, 5, 1, BLOCK)),
    ("headers without an end after the end", BEGIN + ASK + frame(http2.HEADERS, 4, 1, BLOCK)),
    ("a part of headers after the end", BEGIN + ASK + frame(http2.HEADERS, 0, 1, BLOCK)),
    ("data after the end", BEGIN + ASK + frame(http2.DATA, 1, 1, b"x")),
    ("trailers without an end", BEGIN + frame(http2.HEADERS, 4, 1, BLOCK) * 2),
    (
        "empty continuations",
        BEGIN + frame(http2.HEADERS, 0, 1) + frame(http2.CONTINUATION, 0, 1) * (http2.CONTINUATIONS_MAX + 1),
    ),
    ("a push", BEGIN + frame(http2.PUSH, 4, 1, bytes(4))),
]


@pytest.mark.parametrize(("case", "text"), JUNK, ids=[case for case, _ in JUNK])
async def test_what_the_protocol_forbids(tmp_path: Path, case: str, text: bytes) -> None:
    """A connection that does what HTTP/2 forbids is ended with GOAWAY; others are served."""
    async with served(tmp_path / "s"), channel(tmp_path / "s") as made:
        assert await call(made, ECHO, b"x") == b"x"
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(text)
        said = await reader.read()
        writer.close()
        assert bytes((http2.GOAWAY, 0, 0, 0, 0, 0)) in said, case
        assert await call(made, ECHO, b"x") == b"x"


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.tuples(
            st.integers(0, 11),
            st.integers(0, 255),
            st.integers(0, 5),
            st.binary(max_size=40),
        ).map(lambda each: frame(*each))
        | st.binary(max_size=60),
        max_size=12,
    )
)
def test_any_frames(frames: list[bytes]) -> None:
    """No sequence of frames or bytes breaks a server, and none makes it keep much."""

    async def play() -> None:
        heard: list[bytes] = []

        async def hear(message: bytes) -> bytes:
            heard.append(message)
            return b""

        server = GrpcServer(Path("unused"), {ECHO: Unary(hear)})
        connection = server._connection()
        transport = FakeTransport()
        connection.connection_made(transport)
        for data in (BEGIN, *frames):
            if not transport.closed:
                connection.data_received(data)
        assert len(connection.streams) <= 16
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert not heard

    asyncio.run(play())


class Line:
    """A connection to a server in virtual time, and how many handlers run behind it."""

    def __init__(self) -> None:
        self.handlers = 0
        self.server = GrpcServer(Path("unused"), {NEVER: Streaming(self._handle)})
        self.transport = FakeTransport()
        self.connection = self.server._connection()
        self.connection.connection_made(self.transport)

    async def _handle(self, _message: bytes) -> AsyncGenerator[bytes, None]:
        self.handlers += 1
        try:
            while True:
                yield b"x" * 1000  # beyond the window it waits for room
        finally:
            self.handlers -= 1


@pytest.mark.parametrize("sent", [b"", BEGIN, BEGIN + frame(http2.HEADERS, 4, 1, BLOCK)])
def test_a_connection_without_a_call_has_its_time(sent: bytes) -> None:
    """A connection that says nothing, or never ends what it asks for, is ended after a minute."""

    async def main() -> None:
        line = Line()
        line.connection.data_received(sent)
        await asyncio.sleep(IDLE_SECONDS - 1)
        assert not line.transport.closed
        await asyncio.sleep(2)
        assert line.transport.closed

    run(main())


def test_a_connection_with_a_call_stays() -> None:
    """A stream of answers keeps its connection for a day, and its minute begins when the stream is given up."""

    async def main() -> None:
        line = Line()
        line.connection.data_received(BEGIN + ASK)
        await asyncio.sleep(86_400)
        assert (line.handlers, line.transport.closed) == (1, False)
        line.connection.data_received(frame(http2.RST_STREAM, 0, 1, bytes(4)))
        await asyncio.sleep(1)
        assert (line.handlers, line.transport.closed) == (0, False)
        await asyncio.sleep(IDLE_SECONDS)
        assert line.transport.closed

    run(main())


@pytest.mark.parametrize("how", ["lost", "headers again", "stopped"])
def test_handlers_end_with_their_connection(how: str) -> None:
    """However a connection ends, no handler of its calls is left, nor counted as one that watches."""

    async def main() -> None:
        line = Line()
        line.connection.data_received(BEGIN)
        for number in range(1, 32, 2):
            line.connection.data_received(ASK.replace(b"\0\0\0\1", number.to_bytes(4, "big"), 2))
        await asyncio.sleep(1)
        assert line.handlers == 16
        if how == "headers again":
            line.connection.data_received(frame(http2.HEADERS, 5, 1, BLOCK))
        if how == "stopped":
            await asyncio.wait(line.connection.finish())
        else:
            line.connection.connection_lost(None)
            await asyncio.sleep(1)
        assert line.handlers == 0

    run(main())


class FakeTransport(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: Any) -> None:
        """Forget it."""
        assert not self.closed

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def close(self) -> None:
        """Nothing comes any more."""
        self.closed = True

    abort = close


@asynccontextmanager
async def foreign(path: Path, answer: Callable[[Any], Awaitable[None]]) -> AsyncIterator[None]:
    """A server of grpclib's."""

    class Service:
        def __mapping__(self) -> Mapping[str, Handler]:
            return {ECHO: Handler(answer, Cardinality.UNARY_UNARY, bytes, bytes)}

    server = Server([Service()], codec=Bytes())
    await server.start(path=str(path))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


async def test_the_client(tmp_path: Path) -> None:
    """Our client calls a server of another implementation, one call after the other and at the same time."""

    async def answer(stream: Any) -> None:
        await stream.send_message(await stream.recv_message())

    async with foreign(tmp_path / "s", answer), connected(tmp_path / "s") as client:
        for size in (0, 100, 60_000):
            assert await client.call(ECHO, b"x" * size) == b"x" * size
        messages = [b"%d" % number for number in range(20)]
        assert await asyncio.gather(*(client.call(ECHO, each) for each in messages)) == messages


async def test_what_a_server_refuses(tmp_path: Path) -> None:
    """An error of a server is raised with its status and message."""

    async def answer(stream: Any) -> None:
        raise GRPCError(Status.FAILED_PRECONDITION, "réd: 100 %")

    async with foreign(tmp_path / "s", answer), connected(tmp_path / "s") as client:
        with pytest.raises(GrpcError) as caught:
            await client.call(ECHO, b"")
        assert (caught.value.status, caught.value.message) == (FAILED_PRECONDITION, "réd: 100 %")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", http2.settings({}) + b"\0" * 50])
async def test_a_server_that_is_none(tmp_path: Path, said: bytes) -> None:
    """A call to something that is no gRPC server fails as UNAVAILABLE and does not wait endlessly."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(said)
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    async with connected(tmp_path / "s") as client:
        with pytest.raises(GrpcError) as caught:
            await client.call(ECHO, b"x")
    assert caught.value.status == UNAVAILABLE
    server.close()


@given(st.text(max_size=200))
def test_messages_in_headers(text: str) -> None:
    """Every message becomes visible ASCII, and is the same afterwards."""
    header = escaped(text)
    assert all(0x20 <= byte < 0x7F for byte in header)
    assert unescaped(header.decode()) == text

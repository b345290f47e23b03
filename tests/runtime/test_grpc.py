"""The agent's own gRPC: against grpclib on h2, and against bytes that nobody should send."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
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
from lanloom.runtime.grpc.server import CONNECTIONS_MAX, GrpcServer, Methods, Streaming, Unary
from tests.harness.examples import examples

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


async def count(message: bytes) -> AsyncIterator[bytes]:
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


async def test_too_many_connections(tmp_path: Path) -> None:
    """Connections beyond the limit are closed at once; the others go on, and a place that is left is free."""
    async with served(tmp_path / "s"):
        open_ = [await asyncio.open_unix_connection(tmp_path / "s") for _ in range(CONNECTIONS_MAX)]
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        assert await reader.read() == b""
        writer.close()
        for _, each in open_:
            each.close()
            await each.wait_closed()
        async with channel(tmp_path / "s") as made:
            while True:
                try:
                    assert await call(made, ECHO, b"x") == b"x"
                    break
                except (GRPCError, OSError):
                    continue


BEGIN = PREFACE + http2.settings({})
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
    """A call to something that is no gRPC server fails as UNAVAILABLE and does not wait for ever."""

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

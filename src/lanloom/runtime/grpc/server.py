"""A gRPC server on one Unix socket: each method takes one message and answers with one, or with a stream of them."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import structlog
from msgspec import Struct

from lanloom.runtime import grpc
from lanloom.runtime.grpc import GrpcError, escaped
from lanloom.runtime.grpc.http2 import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    NO_ERROR,
    PREFACE,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    ConnectionFault,
    Http2Connection,
    Stream,
    block,
    frame,
    server_settings,
)
from lanloom.runtime.sockets import file_identity, listen_at

log = structlog.get_logger(__name__)

MESSAGE_MAX = 1 << 16
"""Bytes of a request."""

STREAMS_MAX = 16
"""Calls at a time on a connection."""

CONNECTIONS_MAX = 8
"""Connections at a time to a socket. Beyond, a new one takes the place of the oldest one without a call."""

IDLE_SECONDS = 60.0
"""How long a connection may be without a call."""

_RESPONSE = block(((b":status", b"200"), (b"content-type", b"application/grpc")))


class Unary(Struct, frozen=True):
    """A method with one answer."""

    handler: Callable[[bytes], Awaitable[bytes]]


class Streaming(Struct, frozen=True):
    """A method with a stream of answers, which ends when the iterator does."""

    handler: Callable[[bytes], AsyncGenerator[bytes, None]]


Methods = Mapping[str, Unary | Streaming]
"""By path: `/package.Service/Method`."""


class GrpcServer:
    """Serve `methods` on the socket `path`. An error of a handler's that is no GrpcError is logged, and UNKNOWN."""

    __slots__ = ("_connections", "_methods", "_mine", "_server", "path")

    def __init__(self, path: Path, methods: Methods) -> None:
        self.path = path
        self._methods = methods
        self._connections: dict[_ServerConnection, None] = {}
        self._server: asyncio.Server | None = None
        self._mine: tuple[int, int] | None = None

    async def start(self) -> None:
        """Listen, in the place of whatever was there. Raises OSError."""
        listening: socket.socket = listen_at(self.path)
        self._mine = file_identity(self.path)
        self._server = await asyncio.get_running_loop().create_unix_server(self._connection, sock=listening)

    @property
    def inode(self) -> int:
        """What tells the socket from another one of the same name in its directory; 0 if it does not listen."""
        return self._mine[1] if self._mine else 0

    async def stop(self) -> None:
        """End streams and connections once what was sent is out, wait for their handlers, and remove the socket."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        handlers: set[asyncio.Task[None]] = set()
        for connection in tuple(self._connections):
            handlers |= connection.finish()
        if handlers:
            await asyncio.wait(handlers)
        if file_identity(self.path) == self._mine:  # and not one that another server has put in its place
            self.path.unlink(missing_ok=True)
        self._mine = None

    def _connection(self) -> "_ServerConnection":
        return _ServerConnection(self._methods, self._connections)


class _ServerConnection(Http2Connection):
    __slots__ = ("_all", "_greeted", "_handlers", "_idle", "_last", "_methods")

    def __init__(self, methods: Methods, connections: "dict[_ServerConnection, None]") -> None:
        super().__init__()
        self._methods = methods
        self._all = connections
        self._greeted = False
        self._last = 0
        self._handlers: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._all) >= CONNECTIONS_MAX and not self._displace():
            log.warning("grpc-connection-refused", connections=len(self._all))
            transport.close()
            self.transport = None
            return
        self._all[self] = None
        self.write(server_settings(STREAMS_MAX))
        self._rest()

    def _displace(self) -> bool:
        """End the oldest connection without a call; False if there is none."""
        spare = next((each for each in self._all if not each._handlers), None)
        if spare is None:
            return False
        del self._all[spare]
        spare.end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._all.pop(self, None)
        self._work()
        for stream in self.streams.values():
            self.reset(stream)
        self.streams.clear()

    def finish(self) -> set[asyncio.Task[None]]:
        """End all calls, the streams of answers as such that have ended. Return the handlers that still end."""
        for stream in tuple(self.streams.values()):
            self.reset(stream)
            self._close(stream, grpc.OK, "")
        self.end()
        return set(self._handlers)

    def _rest(self) -> None:
        """End a connection without a call after a while, unless one comes."""
        if self.transport is not None:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.end)

    def _work(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def data_received(self, data: bytes) -> None:
        if self._greeted:
            super().data_received(data)
            return
        data, self._buffer = self._buffer + data, b""
        if not PREFACE.startswith(data[: len(PREFACE)]):
            self.end(PROTOCOL_ERROR, "this is no HTTP/2")
        elif len(data) < len(PREFACE):
            self._buffer = data
        else:
            self._greeted = True
            super().data_received(data[len(PREFACE) :])

    def was_open(self, number: int) -> bool:
        return number <= self._last

    def headers(self, number: int, headers: Mapping[str, str], *, ended: bool) -> None:
        if number in self.streams:
            if not ended:
                raise ConnectionFault(PROTOCOL_ERROR, "headers came twice")
            stream = self.streams[number]
            stream.ended = True
            self._begin(stream)
            return
        if number % 2 == 0 or number <= self._last:
            raise ConnectionFault(PROTOCOL_ERROR, "a stream has a number that is not new")
        self._last = number
        if max(len(self.streams), len(self._handlers)) >= STREAMS_MAX:
            self.write(frame(RST_STREAM, 0, number, REFUSED_STREAM.to_bytes(4, "big")))
            return
        stream = self.new_stream(number, headers)
        stream.ended = ended
        if ended:
            self._begin(stream)

    def data(self, stream: Stream, data: bytes) -> None:
        stream.body += data
        if len(stream.body) > MESSAGE_MAX + 5:
            self._close(stream, grpc.RESOURCE_EXHAUSTED, f"a message may have {MESSAGE_MAX} bytes")
            self.write(frame(RST_STREAM, 0, stream.number, NO_ERROR.to_bytes(4, "big")))
        elif stream.ended:
            self._begin(stream)

    def reset(self, stream: Stream) -> None:
        if stream.task is not None:
            stream.task.cancel()
            stream.task = None

    def _begin(self, stream: Stream) -> None:
        """Begin the call of a request that is complete."""
        try:
            method = self._method(stream)
            message = _message(stream.body)
        except GrpcError as error:
            self._close(stream, error.status, error.message)
            return
        stream.body = b""
        stream.headers = {}
        stream.task = asyncio.get_running_loop().create_task(self._answer(stream, method, message))
        self._handlers.add(stream.task)
        stream.task.add_done_callback(self._ended)
        self._work()

    def _ended(self, handler: asyncio.Task[None]) -> None:
        self._handlers.discard(handler)
        if not self._handlers:
            self._rest()

    def _method(self, stream: Stream) -> Unary | Streaming:
        headers = stream.headers
        if headers.get(":method") != "POST" or not headers.get("content-type", "").startswith(
            "application/grpc"
        ):
            raise GrpcError(grpc.INVALID_ARGUMENT, "this is no gRPC request: POST and application/grpc are")
        path = headers.get(":path", "")
        method = self._methods.get(path)
        if method is None:
            raise GrpcError(grpc.UNIMPLEMENTED, f"there is no method {path[:200]}")
        return method

    async def _answer(self, stream: Stream, method: Unary | Streaming, message: bytes) -> None:
        code, text = grpc.OK, ""
        try:
            if isinstance(method, Unary):
                await self._send(stream, await method.handler(message), first=True)
            else:
                first = True
                async with aclosing(method.handler(message)) as answers:
                    async for answer in answers:
                        await self._send(stream, answer, first=first)
                        first = False
        except GrpcError as error:
            code, text = error.status, error.message
        except ConnectionResetError:
            return
        except MemoryError:
            raise
        except Exception:
            log.exception("grpc-call-broke")
            code, text = grpc.UNKNOWN, "Lanloom's agent failed; see its log"
        stream.task = None
        self._close(stream, code, text)

    async def _send(self, stream: Stream, message: bytes, *, first: bool) -> None:
        if first:
            self.write(frame(HEADERS, END_HEADERS, stream.number, _RESPONSE))
            stream.headers = {"answered": ""}
        await self.send(stream, b"\0" + len(message).to_bytes(4, "big") + message)

    def _close(self, stream: Stream, code: int, message: str) -> None:
        """Say the status, with the headers of an answer before if there are none yet."""
        if self.streams.pop(stream.number, None) is None:
            return
        trailers = block(
            [(b"grpc-status", b"%d" % code), *([(b"grpc-message", escaped(message))] if message else [])]
        )
        if "answered" not in stream.headers:
            trailers = _RESPONSE + trailers
        self.write(frame(HEADERS, END_HEADERS | END_STREAM, stream.number, trailers))


def _message(body: bytes) -> bytes:
    """Return the one message of a request. Raises GrpcError."""
    if len(body) < 5 or int.from_bytes(body[1:5], "big") != len(body) - 5:
        raise GrpcError(grpc.INVALID_ARGUMENT, "the request must have one message")
    if body[0]:
        raise GrpcError(grpc.UNIMPLEMENTED, "compressed messages are not supported")
    return body[5:]

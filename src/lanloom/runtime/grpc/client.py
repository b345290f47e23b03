"""Unary calls to a gRPC server on a Unix socket, over one connection for as many calls as there are."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from lanloom.runtime import grpc
from lanloom.runtime.grpc import GrpcError, unescaped
from lanloom.runtime.grpc.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    PROTOCOL_ERROR,
    ConnectionFault,
    Http2Connection,
    Stream,
    block,
    frame,
    settings,
)

MESSAGE_MAX = 1 << 16
"""Bytes of an answer."""


class GrpcClient(Http2Connection):
    """One connection; `call` may be used by several at a time."""

    __slots__ = ("_answers", "_next")

    def __init__(self) -> None:
        super().__init__()
        self._next = 1
        self._answers: dict[int, asyncio.Future[bytes]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement the protocol of asyncio."""
        super().connection_made(transport)
        self.write(PREFACE + settings({2: 0}))  # nothing may be pushed

    def connection_lost(self, exc: Exception | None) -> None:
        """Implement the protocol of asyncio."""
        super().connection_lost(exc)
        for number in tuple(self._answers):
            self._fail(number, grpc.UNAVAILABLE, "the connection was lost")

    async def call(self, path: str, message: bytes) -> bytes:
        """Return the answer to a message. Raises GrpcError; the caller limits the time."""
        if self.transport is None:
            raise GrpcError(grpc.UNAVAILABLE, "the connection was lost")
        number, self._next = self._next, self._next + 2
        headers = (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
        stream = self.new_stream(number, {})
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self.write(frame(HEADERS, END_HEADERS, number, block(headers)))
            await self.send(stream, b"\0" + len(message).to_bytes(4, "big") + message)
            self.write(frame(DATA, END_STREAM, number))
            return await answer
        except ConnectionResetError:
            raise GrpcError(grpc.UNAVAILABLE, "the connection was lost") from None
        finally:
            self.streams.pop(number, None)
            self._answers.pop(number, None)

    def was_open(self, number: int) -> bool:
        """Answer the connection."""
        return number < self._next

    def headers(self, number: int, headers: Mapping[str, str], *, ended: bool) -> None:
        """Answer the connection."""
        stream = self.streams.get(number)
        if stream is None:
            if not self.was_open(number):
                raise ConnectionFault(PROTOCOL_ERROR, "an answer without a request")
            return
        if not ended:
            stream.headers = headers
            return
        stream.ended = True
        self._finish(stream, headers)

    def data(self, stream: Stream, data: bytes) -> None:
        """Answer the connection."""
        stream.body += data
        if len(stream.body) > MESSAGE_MAX + 5:
            self._fail(stream.number, grpc.RESOURCE_EXHAUSTED, "the answer is too large")
        elif stream.ended:
            self._fail(stream.number, grpc.INTERNAL, "the answer has no status")

    def reset(self, stream: Stream) -> None:
        """Answer the connection."""
        self._fail(stream.number, grpc.CANCELLED, "the server gave the call up")

    def _finish(self, stream: Stream, trailers: Mapping[str, str]) -> None:
        code = trailers.get("grpc-status", "")
        if code != "0":
            number = int(code) if code.isascii() and code.isdigit() and len(code) < 4 else grpc.UNKNOWN
            said = unescaped(trailers.get("grpc-message", ""))[:2000]
            self._fail(
                stream.number, number, said or f"HTTP status {stream.headers.get(':status', 'unknown')}"
            )
            return
        body = stream.body
        if len(body) < 5 or body[0] or int.from_bytes(body[1:5], "big") != len(body) - 5:
            self._fail(stream.number, grpc.INTERNAL, "the answer must have one message")
            return
        answer = self._answers.get(stream.number)
        if answer is not None and not answer.done():
            answer.set_result(body[5:])

    def _fail(self, number: int, code: int, message: str) -> None:
        answer = self._answers.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(GrpcError(code, message))


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[GrpcClient]:
    """Provide a connection for the block. Raises OSError when no server listens."""
    _, client = await asyncio.get_running_loop().create_unix_connection(GrpcClient, str(path))
    try:
        yield client
    finally:
        client.end()

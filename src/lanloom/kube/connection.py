"""HTTP/1.1 on one connection of asyncio: a request, and an answer that is read as it comes.

aiohttp does this and far more, of which a client of an API server needs nothing: with what it imports it takes 8 MB of
each agent. This module follows no redirects and keeps no cookies. Its parser is that of the servers (`httptools`).
"""

import asyncio
import re
import ssl
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from lanloom.kube.config import why_not_connected
from lanloom.kube.errors import CANNOT_CONNECT

_MOST_BUFFERED = 1 << 19
"""Bytes of an answer that wait for a reader, before the server has to wait, too."""

_PART = 1 << 18
"""The most bytes of a part that was compressed. So a few bytes of a server do not fill the memory."""

_LONGEST_HEAD = 1 << 18

NOT_HTTP = "what came is no answer of HTTP; check the address, and proxies on the way"
BROKEN = "the connection broke in the middle of the answer; try again"
DROPPED = "the connection broke before there was an answer; try again"


class NoAnswer(Exception):
    """There was no whole answer. The text says why, for people."""


class Disconnected(NoAnswer):
    """The connection ended before there was an answer."""


class ConnectFailure(NoAnswer):
    """There is no connection to `place` (host:port)."""

    def __init__(self, error: OSError, place: str) -> None:
        super().__init__(why_not_connected(error, place) or f"{CANNOT_CONNECT}{place}: {error}")


class Request(NamedTuple):
    """A request; `target` is a path with a query. The headers are those that the connection does not ask for."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None = None


class Connection(asyncio.Protocol):
    """A connection, on which requests follow each other. Its transport is made by `lanloom.kube.pool`."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can carry another request."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and (self._answer is None or self._answer.is_reusable)
        )

    async def send(self, head: bytes, body: bytes) -> "Answer":
        """Send a request, and return when the head of the answer is there. Raises NoAnswer.

        A request that fails or is cancelled takes the connection with it.
        """
        if not self.is_open or self._transport is None:
            raise Disconnected(DROPPED)
        self._answer = answer = Answer(self._transport)
        try:
            self._transport.write(head + body)
            await answer.begun()
        except BaseException:
            self.abort()  # what comes on it next belongs to this request
            raise
        return answer

    def abort(self) -> None:
        """Close the connection at once. `closed` is set when that is done."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement the protocol."""
        # Those of uvloop are not derived from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Implement the protocol. What belongs to no request ends the connection."""
        if self._answer is None or not self._answer.feed(data):
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Implement the protocol."""
        self.closed.set()
        if self._answer is not None:
            self._answer.feed_end(error)


class Answer:
    """An answer: status, headers and reason once it has begun, and a body that is read once.

    The names of headers are in small letters. `warnings` are the texts of all headers of that name.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.warnings: list[str] = []
        self._transport = transport
        self._parser: Any = HttpResponseParser(self)
        self._head_size = 0
        self._has_begun = False
        self._is_complete = False
        self._keeps_alive = False
        self._gzip: _Gzip | None = None
        self._parts: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_paused = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    @property
    def is_reusable(self) -> bool:
        """Whether the answer is over, and its connection is free for another request."""
        return self._is_complete and self._keeps_alive and self._error is None

    async def begun(self) -> None:
        """Return when the head is there. Raises NoAnswer."""
        while not self._has_begun:
            if self._error is not None:
                raise self._error
            await self._change()

    async def read(self) -> bytes:
        """Return the whole body. Raises NoAnswer."""
        parts = []
        while part := await self.part():
            parts.append(part)
        return b"".join(parts)

    async def part(self) -> bytes:
        """Return the next part of the body, decompressed; empty at its end. Raises NoAnswer where it breaks off."""
        if self._gzip is None:
            return await self._received()
        while not (part := self._gzip.part()):
            received = await self._received()
            if not received:
                self._gzip.end()
                return b""
            self._gzip.feed(received)
        return part

    async def _received(self) -> bytes:
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self._is_complete:
                return b""
            await self._change()
        part = self._parts.popleft()
        self._waiting_bytes -= len(part)
        if self._is_paused and self._waiting_bytes <= _MOST_BUFFERED // 2:
            self._is_paused = False
            self._transport.resume_reading()
        return part

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def feed(self, data: bytes) -> bool:
        """Take what came; return whether it belongs to this answer."""
        if self._is_complete or self._error is not None:
            self._keeps_alive = False
            return False
        if not self._has_begun:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
            if not self._has_begun and self._head_size > _LONGEST_HEAD:
                raise HttpParserError("the head does not end")
        except (HttpParserError, HttpParserUpgrade):
            self._fail(NoAnswer(NOT_HTTP))
            return False
        if self._waiting_bytes > _MOST_BUFFERED and not self._is_paused and not self._is_complete:
            self._is_paused = True
            self._transport.pause_reading()
        return True

    def feed_end(self, error: Exception | None) -> None:
        """Take the end of the connection, with what ended it."""
        if self._is_complete or self._error is not None:
            self._keeps_alive = False
        elif isinstance(error, ssl.SSLError):
            self._fail(NoAnswer(str(error)))
        elif not self._has_begun:
            self._fail(Disconnected(DROPPED))
        elif error is None and not self._is_delimited():
            self._complete()
        else:
            self._fail(NoAnswer(BROKEN))

    def _is_delimited(self) -> bool:
        """Return whether the answer has an end of its own, other than that of the connection."""
        return (
            "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        )

    def _fail(self, error: Exception) -> None:
        # What a parser says of bytes after the end does not take a whole answer away.
        self._keeps_alive = False
        if not self._is_complete:
            self._error = error
        self._changed.set()

    def _complete(self) -> None:
        self._is_complete = True
        self._changed.set()

    def on_message_begin(self) -> None:
        """Implement the parser's target: an answer, once more after those with a status below 200."""
        if self._is_complete:
            raise HttpParserError("an answer without a request")
        self.reason = ""
        self.headers.clear()
        self.warnings.clear()

    def on_status(self, text: bytes) -> None:
        """Implement the parser's target."""
        self.reason += text.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Implement the parser's target."""
        title = name.decode("latin-1").lower()
        self.headers[title] = value.decode("latin-1")
        if title == "warning":
            self.warnings += _warnings(value)

    def on_headers_complete(self) -> None:
        """Implement the parser's target."""
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._gzip = _Gzip() if self.headers.get("content-encoding", "").lower() == "gzip" else None
            self._has_begun = True
            self._changed.set()

    def on_body(self, part: bytes) -> None:
        """Implement the parser's target."""
        self._parts.append(part)
        self._waiting_bytes += len(part)
        self._changed.set()

    def on_message_complete(self) -> None:
        """Implement the parser's target."""
        if self._has_begun:
            self._keeps_alive = self._parser.should_keep_alive()
            self._complete()


_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')


def _warnings(value: bytes) -> list[str]:
    """Return the texts of a header of warnings (RFC 7234), of which a proxy may have made one of several."""
    found = _WARNING.findall(value.decode("utf-8", "replace"))
    return [re.sub(r"\\(.)", r"\1", text) for text in found]


class _Gzip:
    """Unpacks a body in parts of bounded size."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._packed = b""
        self._is_empty = True

    def feed(self, data: bytes) -> None:
        """Take bytes; all that came before has been unpacked."""
        self._packed, self._is_empty = data, False

    def part(self) -> bytes:
        """Return a part of what is unpacked; empty if there is no more. Raises NoAnswer for what is no gzip."""
        try:
            part = self._stream.decompress(self._packed, _PART)
        except zlib.error:
            raise NoAnswer(NOT_HTTP) from None
        self._packed = self._stream.unconsumed_tail
        if self._stream.unused_data:
            raise NoAnswer(NOT_HTTP)
        return part

    def end(self) -> None:
        """Raise NoAnswer if the end is missing."""
        if not self._is_empty and not self._stream.eof:
            raise NoAnswer(BROKEN)


def head_of(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a request. Raises ValueError for a text that would add lines to it."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if any(sign in line for line in lines for sign in "\r\n\0") or " " in target:
        raise ValueError("a path or a header has a line break or a character that HTTP does not allow there")
    return "\r\n".join([*lines, "", ""]).encode()

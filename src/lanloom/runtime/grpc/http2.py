"""HTTP/2 frames over a connection: what a server and a client of small gRPC messages have in common (RFC 9113).

A connection that does what the RFC forbids is ended with GOAWAY and the RFC's code. All that the other side sends is
bounded: frames by the default size, headers by HEADERS_MAX, messages by the layer above, streams by their number.
Nothing is pushed, prioritized or compressed; headers of ours are literals, so there is no table to keep for them.
"""

import asyncio
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from hpack import Decoder
from hpack.exceptions import HPACKError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED = 0, 1, 3, 5
FRAME_SIZE_ERROR, REFUSED_STREAM, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 6, 7, 9, 11

FRAME_MAX = 1 << 14
HEADERS_MAX = 1 << 14
"""Bytes of a block of headers, before and after its compression."""

CONTINUATIONS_MAX = 16
"""Frames that go on with a block of headers; empty ones add nothing to its bytes."""

WINDOW = (1 << 16) - 1
_WINDOW_MAX = (1 << 31) - 1
_INITIAL_WINDOW_SIZE, _MAX_CONCURRENT_STREAMS, _MAX_HEADER_LIST_SIZE = 4, 3, 6
_SETTING = struct.Struct(">HI")
_WORD = struct.Struct(">I")

_WAITING_MAX = 1 << 20
"""Bytes that may wait for a side which does not read what it asks for."""


class ConnectionFault(Exception):
    """What the other side did is forbidden; the connection ends with this code."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return _WORD.pack(len(payload) << 8 | kind) + bytes((flags,)) + _WORD.pack(stream) + payload


def settings(values: Mapping[int, int]) -> bytes:
    """Return a frame of settings."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header that no peer keeps in a table."""
    return b"\0" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    head, rest = bytearray((127,)), size - 127
    while rest >= 128:
        head.append(rest & 127 | 128)
        rest >>= 7
    head.append(rest)
    return bytes(head) + text


class Stream:
    """One call on a connection."""

    __slots__ = ("body", "ended", "headers", "number", "task", "window")

    def __init__(self, number: int, headers: Mapping[str, str], window: int) -> None:
        self.number = number
        self.headers = headers
        self.window = window
        self.body = b""
        self.ended = False
        self.task: asyncio.Task[None] | None = None


class Http2Connection(asyncio.Protocol, ABC):
    """A side of a connection. A subclass says what headers, data and ends of streams mean."""

    __slots__ = (
        "_block",
        "_buffer",
        "_decoder",
        "_opened",
        "_paused",
        "_peer_window",
        "_settled",
        "_stream_window",
        "streams",
        "transport",
    )

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.streams: dict[int, Stream] = {}
        self._buffer = b""
        self._decoder: Decoder | None = None
        self._block: tuple[int, int, bytes, int] | None = (
            None  # stream, flags, bytes and frames of headers that go on
        )
        self._peer_window = WINDOW
        self._stream_window = WINDOW
        self._settled = False
        self._paused = False
        self._opened: asyncio.Event | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement the protocol of asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Implement the protocol of asyncio."""
        self.transport = None
        self._wake()

    def pause_writing(self) -> None:
        """Implement the protocol of asyncio."""
        self._paused = True

    def resume_writing(self) -> None:
        """Implement the protocol of asyncio."""
        self._paused = False
        self._wake()

    def data_received(self, data: bytes) -> None:
        """Implement the protocol of asyncio."""
        data = self._buffer + data
        at = 0
        try:
            while self.transport is not None and len(data) - at >= 9:
                word = _WORD.unpack_from(data, at)[0]
                size, kind = word >> 8, word & 0xFF
                if size > FRAME_MAX:
                    raise ConnectionFault(FRAME_SIZE_ERROR, "a frame is too large")
                if len(data) - at < 9 + size:
                    break
                stream = _WORD.unpack_from(data, at + 5)[0] & _WINDOW_MAX
                self._take(kind, data[at + 4], stream, data[at + 9 : at + 9 + size])
                at += 9 + size
        except ConnectionFault as fault:
            self.end(fault.code, str(fault))
            return
        self._buffer = data[at:]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._block is not None and (kind != CONTINUATION or stream != self._block[0]):
            raise ConnectionFault(PROTOCOL_ERROR, "a block of headers does not go on")
        if not self._settled and kind != SETTINGS:
            raise ConnectionFault(PROTOCOL_ERROR, "the settings are missing")
        if kind in (DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION) and not stream:
            raise ConnectionFault(PROTOCOL_ERROR, "a frame of a stream has none")
        if kind in (SETTINGS, PING, GOAWAY) and stream:
            raise ConnectionFault(PROTOCOL_ERROR, "a frame of the connection has a stream")
        if kind == DATA:
            self._data(stream, flags, payload)
        elif kind == HEADERS:
            self._headers(stream, flags, payload)
        elif kind == CONTINUATION:
            self._continued(flags, payload)
        elif kind == SETTINGS:
            self._settings(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._window_update(stream, payload)
        elif kind == PING:
            self._ping(flags, payload)
        elif kind == RST_STREAM:
            if (found := self.streams.pop(stream, None)) is not None:
                self.reset(found)
        elif kind == PUSH:
            raise ConnectionFault(PROTOCOL_ERROR, "nothing may be pushed")

    def _data(self, number: int, flags: int, payload: bytes) -> None:
        if payload:
            # Nothing is kept back: what may be kept is bounded by the layer above.
            self.write(frame(WINDOW_UPDATE, 0, 0, _WORD.pack(len(payload))))
        stream = self._unended(number)
        if stream is None:
            if number % 2 == 0 or not self.was_open(number):
                raise ConnectionFault(PROTOCOL_ERROR, "data of a stream that was never open")
            return
        stream.ended = bool(flags & END_STREAM)
        if payload and not stream.ended:
            self.write(frame(WINDOW_UPDATE, 0, number, _WORD.pack(len(payload))))
        self.data(stream, _unpadded(flags, payload))

    def _unended(self, number: int) -> Stream | None:
        """Return the stream of a frame, if it is open. Raises ConnectionFault after its end (RFC 9113, 5.1)."""
        stream = self.streams.get(number)
        if stream is not None and stream.ended:
            raise ConnectionFault(STREAM_CLOSED, "a stream goes on after its end")
        return stream

    def _headers(self, number: int, flags: int, payload: bytes) -> None:
        payload = _unpadded(flags, payload)
        if flags & PRIORITIZED:
            if len(payload) < 5:
                raise ConnectionFault(FRAME_SIZE_ERROR, "headers are too short")
            payload = payload[5:]
        self._unended(number)
        self._block = (number, flags, b"", 0)
        self._continued(flags, payload)

    def _continued(self, flags: int, payload: bytes) -> None:
        if self._block is None:
            raise ConnectionFault(PROTOCOL_ERROR, "there are no headers to go on with")
        number, first, block, frames = self._block
        block += payload
        if len(block) > HEADERS_MAX or frames > CONTINUATIONS_MAX:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "the headers are too large")
        if not flags & END_HEADERS:
            self._block = (number, first, block, frames + 1)
            return
        self._block = None
        if self._decoder is None:
            self._decoder = Decoder(max_header_list_size=HEADERS_MAX)
        try:
            decoded = {str(name): str(value) for name, value in self._decoder.decode(block)}
        except (HPACKError, UnicodeDecodeError, ValueError) as error:
            raise ConnectionFault(COMPRESSION_ERROR, f"the headers can't be read: {error}") from None
        self.headers(number, decoded, ended=bool(first & END_STREAM))

    def _settings(self, flags: int, payload: bytes) -> None:
        if len(payload) % 6 or (flags & ACK and payload):
            raise ConnectionFault(FRAME_SIZE_ERROR, "settings have an odd size")
        self._settled = True
        if flags & ACK:
            return
        for name, value in _SETTING.iter_unpack(payload):
            if name == _INITIAL_WINDOW_SIZE:
                if value > _WINDOW_MAX:
                    raise ConnectionFault(FLOW_CONTROL_ERROR, "the initial window is too large")
                for stream in self.streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
        self.write(frame(SETTINGS, ACK, 0))
        self._wake()

    def _window_update(self, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(FRAME_SIZE_ERROR, "a window update has an odd size")
        more = _WORD.unpack(payload)[0] & _WINDOW_MAX
        if not number:
            self._peer_window += more
            if not more or self._peer_window > _WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "the connection's window is out of bounds")
        elif (stream := self.streams.get(number)) is not None:
            stream.window += more
            if not more or stream.window > _WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "a stream's window is out of bounds")
        self._wake()

    def _ping(self, flags: int, payload: bytes) -> None:
        if len(payload) != 8:
            raise ConnectionFault(FRAME_SIZE_ERROR, "a ping has an odd size")
        if not flags & ACK:
            self.write(frame(PING, ACK, 0, payload))

    def write(self, data: bytes) -> None:
        """Send bytes, if the connection is there; one whose other side asks and does not read is ended."""
        if self.transport is None:
            return
        if self.transport.get_write_buffer_size() > _WAITING_MAX:
            self.transport.abort()
            self.transport = None
            return
        self.transport.write(data)

    async def send(self, stream: Stream, data: bytes) -> None:
        """Send data, as the other side has room for it. Raises ConnectionResetError when it has gone."""
        at = 0
        while at < len(data):
            if self.transport is None or stream.number not in self.streams:
                raise ConnectionResetError("the other side has gone")
            size = min(len(data) - at, self._peer_window, stream.window, FRAME_MAX)
            if size <= 0 or self._paused:
                self._opened = self._opened or asyncio.Event()
                self._opened.clear()
                await self._opened.wait()
                continue
            self._peer_window -= size
            stream.window -= size
            self.write(frame(DATA, 0, stream.number, data[at : at + size]))
            at += size

    def _wake(self) -> None:
        if self._opened is not None:
            self._opened.set()

    def end(self, code: int = NO_ERROR, why: str = "") -> None:
        """End the connection; what was sent before still goes out."""
        if self.transport is not None:
            last = max(self.streams, default=0)
            payload = _WORD.pack(last) + _WORD.pack(code) + why.encode()[:200]
            self.transport.write(frame(GOAWAY, 0, 0, payload))
            self.transport.close()

    def new_stream(self, number: int, headers: Mapping[str, str]) -> Stream:
        """Return a stream that begins."""
        stream = self.streams[number] = Stream(number, headers, self._stream_window)
        return stream

    @abstractmethod
    def was_open(self, number: int) -> bool:
        """Return whether a stream that is not open any more has been."""

    @abstractmethod
    def headers(self, number: int, headers: Mapping[str, str], *, ended: bool) -> None:
        """Receive headers; with `ended` the other side sends no more on this stream."""

    @abstractmethod
    def data(self, stream: Stream, data: bytes) -> None:
        """Take data that came; `stream.ended` tells whether it was the last."""

    @abstractmethod
    def reset(self, stream: Stream) -> None:
        """Note that the other side gave a stream up."""


def server_settings(streams: int) -> bytes:
    """Return what a server says first: how many calls may be open at a time."""
    return settings({_MAX_CONCURRENT_STREAMS: streams, _MAX_HEADER_LIST_SIZE: HEADERS_MAX})


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(PROTOCOL_ERROR, "the padding is larger than the frame")
    return payload[1 : len(payload) - payload[0]]


def block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a block of headers."""
    return b"".join(literal(name, value) for name, value in headers)

"""One HTTP connection within limits: uvicorn's protocol, which by itself waits and collects without end.

A connection has at most one deadline: for the headers or for the body of the request that it receives. Both begin with
the first byte and are not extended by further ones, so that a byte every now and then gains nothing. While the
application does not read, the time is not the client's.
"""

import asyncio
import logging
from typing import Any, Literal, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lanloom.runtime.https import errors
from lanloom.runtime.https.connections import Limits, Slot, Stage

_failures = logging.getLogger("uvicorn.requests")
_failures.setLevel(logging.ERROR)
"""What uvicorn says of the application. It would also warn of each malformed request of any client."""

WRITE_BUFFER_BYTES = 64 * 1024
"""Bytes that are written ahead of a client that does not read, besides the kernel's buffers."""

Phase = Literal["headers", "body", "complete"]


class AnswerTransport:
    """A transport that writes two pieces of one step together.

    uvicorn writes the head of an answer by itself: encrypted and sent alone, it costs as much as the body. A piece that
    is followed by none goes out at the end of the step, so that no stream waits; no second one is kept back, so that
    the limits of the transport's buffer hold.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._first: bytes | memoryview | None = None
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes | memoryview) -> None:
        """Write a piece, now or at the end of the step."""
        if self._first is not None:
            both, self._first = b"".join((self._first, data)), None
            self._transport.write(both)
        else:
            self._first = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close the transport after the last piece."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._first is not None and not self._transport.is_closing():
            self._transport.write(self._first)
        self._first = None


class LimitedProtocol(HttpToolsProtocol):
    """A connection that holds `slot` and is ended where it exceeds `limits`."""

    def __init__(self, slot: Slot, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self.logger = _failures
        self._slot = slot
        self._limits = limits
        self._phase: Phase = "headers"
        self._requests = 0
        self._complete = 0
        self._began = False
        self._header_bytes = 0
        self._refusal: errors.StatusError | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_of: tuple[int, Phase] = (0, "complete")
        self._stall: asyncio.TimerHandle | None = None
        self._unread = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request: the handshake is over."""
        super().connection_made(cast("asyncio.Transport", AnswerTransport(transport, self.loop)))
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._slot.ends_by(transport.abort)
        self._keep_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way: the connection is over."""
        super().connection_lost(exc)
        self._slot.release()
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what came, within the limits."""
        if self.transport.is_closing():
            return
        if self._phase == "complete" and self._is_idle():
            self._phase = "headers"
            self._header_bytes = 0
            self._requests += 1
        complete = self._complete
        super().data_received(data)
        if self._phase == "headers" and self._complete == complete:
            # The parser reports a header when it is complete: until then only the bytes tell of it. Bytes that came
            # together with the end of another request are not counted: they are few.
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes:
                self._refuse(self._headers_too_large())
        if not self.transport.is_closing():
            self._keep_deadline()
            self._place()

    def on_message_begin(self) -> None:
        """Begin a request. Raises StatusError."""
        if len(self.pipeline) >= self._limits.pipelined:
            raise self._refused(
                errors.BadRequest(
                    f"more than {self._limits.pipelined} requests wait on this connection; "
                    "read the answers before you send more requests"
                )
            )
        super().on_message_begin()
        self._phase = "headers"
        self._header_bytes = 0
        self._requests += 1

    def on_url(self, url: bytes) -> None:
        """Take a part of the request line. Raises StatusError."""
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or after a body a trailer, which is dropped (RFC 9110, 6.5.1). Raises StatusError.

        uvicorn would add a trailer to the headers that the application reads: who sends it would pass by a proxy that
        checks headers.
        """
        self._count_header(len(name) + len(value) + 4)
        if self._phase == "headers":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let the application begin: the headers are complete."""
        self._phase = "body"
        self._header_bytes = 0
        super().on_headers_complete()
        self._began = True

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._phase = "complete"
        self._complete += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that the response is complete."""
        super().on_response_complete()
        self._place()

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be parsed, or exceeded a limit."""
        if self._refusal is not None:
            self._refuse(self._refusal)
        else:
            self._slot.fault("malformed")
            super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        self._slot.fault("upgrade")

    def pause_writing(self) -> None:
        """Give the client, which does not read, a time to do so."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(self._patience(), self._give_way)

    def resume_writing(self) -> None:
        """Note that the client reads."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
            self._unread = False
            self._place()

    def _is_idle(self) -> bool:
        return not self._began or self.cycle.response_complete

    def _place(self) -> None:
        """Tell the slot how far the connection is."""
        if self._is_idle():
            stage = Stage.IDLE if self._phase == "complete" else Stage.UNFINISHED
        else:
            stage = Stage.UNFINISHED if self._awaits_client() else Stage.BUSY
        if stage is not self._slot.stage:
            self._slot.move(stage)

    def _awaits_client(self) -> bool:
        """Return whether the request in progress stands still until its client reads, or sends the rest of its body."""
        return self._unread or (self._phase == "body" and not self.pipeline)

    def _count_header(self, count: int) -> None:
        self._header_bytes += count
        if self._header_bytes > self._limits.header_bytes:
            raise self._refused(self._headers_too_large())

    def _refused(self, error: errors.StatusError) -> errors.StatusError:
        """Keep an error on its way through the parser, which makes another one of it."""
        self._refusal = error
        return error

    def _headers_too_large(self) -> errors.StatusError:
        return errors.StatusError(
            f"the request line and the headers are longer than {self._limits.header_bytes} bytes; "
            "send fewer or shorter headers",
            code=431,
            reason="RequestHeaderFieldsTooLarge",
        )

    def _keep_deadline(self) -> None:
        """Set the deadline of what is awaited from the client, once for each part of a request."""
        awaited = (self._requests, self._phase)
        if awaited == self._deadline_of:
            return
        self._deadline_of = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._phase != "complete":
            self._deadline = self.loop.call_later(self._seconds(), self._expired)

    def _seconds(self) -> float:
        return self._limits.header_seconds if self._phase == "headers" else self._limits.body_seconds

    def _expired(self) -> None:
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self._deadline = self.loop.call_later(self._seconds(), self._expired)
            return
        if self._phase == "headers" and not self._header_bytes:
            self.transport.close()
            return
        part = "headers" if self._phase == "headers" else "body"
        self._refuse(
            errors.StatusError(
                f"the {part} of the request did not arrive within {self._seconds():g} seconds; "
                "try again over a faster connection, or send a shorter request",
                code=408,
                reason="Timeout",
            )
        )

    def _refuse(self, error: errors.StatusError) -> None:
        """End the connection; tell why, unless a response is on its way."""
        self._slot.fault("refused")
        if self._is_idle() or not self.cycle.response_started:
            self.transport.write(_response(error))
        self.transport.close()

    def _patience(self) -> float:
        return min(self._limits.patience_seconds, self._limits.stall_seconds)

    def _give_way(self) -> None:
        """Let the connection end when its place is needed, and in the end also without need."""
        self._stall = self.loop.call_later(self._limits.stall_seconds - self._patience(), self._stalled)
        self._unread = True
        self._place()

    def _stalled(self) -> None:
        self._slot.fault("unread")
        self.transport.abort()


def _response(error: errors.StatusError) -> bytes:
    body = msgspec.json.encode(error.status())
    head = (
        f"HTTP/1.1 {error.code} {error.reason}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body

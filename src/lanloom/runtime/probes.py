"""The probes and metrics of a process: `/healthz`, `/readyz` and `/metrics`, by plain HTTP.

A server of its own, of asyncio's streams and nothing else, because it runs in every agent, where an HTTP framework
would cost more memory than all of this. It knows one method and a handful of pages, takes no input besides the path,
and closes the connection after each answer. Who sends slowly, or reads slowly, is hung up on; who opens too many
connections loses the oldest, so that a probe of the kubelet is always heard.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

import structlog
from msgspec import Struct

from lanloom.runtime.exposition import CONTENT_TYPE
from lanloom.runtime.sockets import listen

log = structlog.get_logger(__name__)

HEAD_BYTES = 8192
"""The longest request."""

PATIENCE_SECONDS = 5.0
"""Seconds that a client may take to send its request, and again to read the answer."""

CONNECTIONS = 64
"""Most connections that may be open at each address."""

LONG_SECONDS, SHARE = 0.05, 10
"""Metrics that take so much processor time are kept for ten times as long: clients must not stop the process."""

_TEXT = "text/plain; charset=utf-8"
_REMEDY = "choose another --metrics-address"


class Answer(Struct, frozen=True):
    """A page as it is now."""

    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT


Page = Callable[[], Answer]
Missing = Callable[[], Iterable[str]]
"""Names what a process still lacks to do its work; nothing when it is ready."""


def pages(missing: Missing, metrics: Callable[[], bytes]) -> dict[str, Page]:
    """Return the pages of every process. That `/healthz` is answered at all is what it says: the event loop turns."""
    metrics = kept(metrics)
    return {
        "/healthz": lambda: Answer(HTTPStatus.OK, b"ok\n"),
        "/readyz": lambda: _readiness(tuple(missing())),
        "/metrics": lambda: Answer(HTTPStatus.OK, metrics(), CONTENT_TYPE),
    }


def kept(
    make: Callable[[], bytes],
    clock: Callable[[], float] = time.monotonic,
    spent: Callable[[], float] = time.thread_time,
) -> Callable[[], bytes]:
    """Return a function that makes a text at most for a tenth of the time, and else returns the last one."""
    last, until = b"", -math.inf

    def get() -> bytes:
        nonlocal last, until
        if clock() < until:
            return last
        began = spent()
        made = make()
        took = spent() - began
        last, until = (made, clock() + SHARE * took) if took >= LONG_SECONDS else (b"", -math.inf)
        return made

    return get


def _readiness(missing: tuple[str, ...]) -> Answer:
    if not missing:
        return Answer(HTTPStatus.OK, b"ok\n")
    lines = "".join(f"not ready: {item}\n" for item in missing)
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, lines.encode())


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, with an IPv6 address in brackets. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text} is not an address of the form HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


class ProbeServer:
    """Serve `pages` at some addresses (HOST:PORT). Raises OSError, which names the address, and ValueError.

    A host's address need not be there yet, and may go and come: who runs in the host's network must not depend on it.
    `patience` is in seconds, see PATIENCE_SECONDS.
    """

    def __init__(
        self, addresses: Iterable[str], pages: Mapping[str, Page], *, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._pages = pages
        self._patience = patience
        with contextlib.ExitStack() as opened:
            self._sockets = [
                opened.enter_context(
                    listen(*parse_address(address), backlog=CONNECTIONS, absent=True, remedy=_REMEDY)
                )
                for address in addresses
            ]
            opened.pop_all()

    @property
    def ports(self) -> tuple[int, ...]:
        """The port of each address."""
        return tuple(int(sock.getsockname()[1]) for sock in self._sockets)

    async def run(self) -> None:
        """Serve until cancelled."""
        protocols = [_ProbeProtocol(self._pages, self._patience) for _ in self._sockets]
        servers: list[asyncio.Server] = []
        try:
            for protocol, sock in zip(protocols, self._sockets, strict=True):
                servers.append(await asyncio.start_server(protocol.serve, sock=sock, limit=HEAD_BYTES))
            await asyncio.get_running_loop().create_future()
        finally:
            for server in servers:
                server.close()
            for protocol in protocols:
                protocol.shut()
            for sock in self._sockets:
                sock.close()


class _ProbeProtocol:
    """The connections of one address, in the order in which they came."""

    def __init__(self, pages: Mapping[str, Page], patience: float) -> None:
        self._pages = pages
        self._patience = patience
        self._open: dict[asyncio.StreamWriter, None] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request, one answer."""
        self._open[writer] = None
        if len(self._open) > CONNECTIONS:
            next(iter(self._open)).transport.abort()
        try:
            async with asyncio.timeout(self._patience):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(_encoded(self._answer(head)))
            writer.close()
            async with asyncio.timeout(self._patience):
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            del self._open[writer]
            writer.transport.abort()

    def shut(self) -> None:
        """End every connection."""
        for writer in self._open:
            writer.transport.abort()

    def _answer(self, head: bytes) -> Answer:
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Answer(HTTPStatus.BAD_REQUEST, b"this is not an HTTP request\n")
        if words[0] != b"GET":
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered\n")
        page = self._pages.get(words[1].partition(b"?")[0].decode("latin-1"))
        if page is None:
            return Answer(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._pages)}\n".encode())
        try:
            return page()
        except MemoryError:
            raise
        except Exception:
            log.exception("page failed", page=words[1].decode("latin-1"))
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"this page failed; the log says why\n")


def _encoded(answer: Answer) -> bytes:
    headers = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Allow: GET",
        "Connection: close",
    ]
    return "\r\n".join([*headers, "", ""]).encode() + answer.body

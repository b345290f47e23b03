"""Connections to one server: directly or through a proxy, and each for one request after the other."""

import asyncio
import base64
import socket
import ssl
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from aiohappyeyeballs import start_connection

from lanloom.kube.connection import (
    DROPPED,
    NOT_HTTP,
    Answer,
    ConnectFailure,
    Connection,
    Disconnected,
    NoAnswer,
    Request,
    head_of,
)
from lanloom.kube.errors import ConfigError
from lanloom.kube.silence import Keepalive
from lanloom.kube.socks import connect_by_socks
from lanloom.text import authority, bracketed

CONNECT_SECONDS = 30.0
"""How long a connection may take."""

IDLE_SECONDS = 15.0
"""How long a connection is kept without a request."""

_NEXT_ADDRESS_SECONDS = 0.25
"""How long the first address of a name may take before the next one is tried as well (RFC 8305)."""

_REPEATABLE = ("GET", "DELETE")
"""Requests that are sent once more where a used connection turns out to be closed: the server may have them twice."""

_LONGEST_HEAD = 1 << 16

_PORTS = {"http": 80, "https": 443, "socks5": 1080}

Tls = ssl.SSLContext | None


class _Idle(NamedTuple):
    connection: Connection
    since: float


class ConnectionPool:
    """Connections to `server`, which is a URL, through `proxy`, if that is one.

    A certificate of the server is expected for `server_name`, by default for its host. `keepalive` holds for direct
    connections; one is kept for `idle` seconds without a request. Raises ConfigError for a port that is no number.
    """

    def __init__(
        self, server: str, *, proxy: str, server_name: str, keepalive: Keepalive, idle: float = IDLE_SECONDS
    ) -> None:
        self._place, self._port = _divided(server)
        self._host = self._place.hostname or ""
        self._proxy, self._proxy_port = _divided(proxy)
        self._server_name = server_name or _ascii(self._host)
        self._keepalive = keepalive
        self._idle_seconds = idle
        self._idle: list[_Idle] = []
        self._busy: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._tls: Tls = None

    async def close(self) -> None:
        """Close all connections. Requests on them end without an answer."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        connections = [*self._busy, *(each.connection for each in self._idle)]
        self._idle.clear()
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.closed.wait()

    async def request(self, request: Request, tls: Tls) -> tuple[Connection, Answer]:
        """Send a request, and return when the answer has begun. Raises NoAnswer.

        The caller gives the connection to `release`.
        """
        head, body = self._head(request), request.body or b""
        if (used := self._taken(tls)) is not None:
            try:
                return used, await self._send(used, head, body)
            except Disconnected:
                if request.method not in _REPEATABLE:
                    raise
        async with asyncio.timeout(CONNECT_SECONDS):
            opened = await self._open(tls)
        return opened, await self._send(opened, head, body)

    def _head(self, request: Request) -> bytes:
        headers = [("Host", self._authority()), *request.headers]
        if request.body is not None:
            headers.append(("Content-Length", str(len(request.body))))
        if not self._is_forwarded():
            return head_of(request.method, request.target, headers)
        target = f"http://{self._authority()}{request.target}"
        return head_of(request.method, target, [*headers, *self._login()])

    async def _send(self, connection: Connection, head: bytes, body: bytes) -> Answer:
        self._busy.add(connection)
        try:
            return await connection.send(head, body)
        except BaseException:
            self._busy.discard(connection)
            raise

    def release(self, connection: Connection, tls: Tls) -> None:
        """Keep a connection for the next request, if its answer was read and its credentials are the current ones."""
        self._busy.discard(connection)
        if not connection.is_open or tls is not self._tls:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._idle.append(_Idle(connection, loop.time()))
        if self._sweep is None:
            self._sweep = loop.call_later(self._idle_seconds, self._close_old)

    def _taken(self, tls: Tls) -> Connection | None:
        """Return an idle connection, the one that was used last."""
        if tls is not self._tls:
            self._tls = tls
            for each in self._idle:
                each.connection.abort()
            self._idle.clear()
        since = asyncio.get_running_loop().time() - self._idle_seconds
        while self._idle:
            last = self._idle.pop()
            if last.connection.is_open and last.since >= since:
                return last.connection
            last.connection.abort()
        return None

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        kept = [
            each
            for each in self._idle
            if each.connection.is_open and each.since + self._idle_seconds > loop.time()
        ]
        for each in self._idle:
            if each not in kept:
                each.connection.abort()
        self._idle = kept
        self._sweep = loop.call_at(kept[0].since + self._idle_seconds, self._close_old) if kept else None

    async def _open(self, tls: Tls) -> Connection:
        match self._proxy.scheme:
            case "socks5":
                return await self._open_by_socks(tls)
            case "http" | "https" if self._is_forwarded():
                proxy_tls = tls or ssl.create_default_context() if self._proxy.scheme == "https" else None
                opened = await self._connected(self._proxy.hostname or "", self._proxy_port)
                return await self._carried(
                    opened, proxy_tls, _ascii(self._proxy.hostname or ""), self._proxy_place()
                )
            case "http" | "https":
                return await self._open_by_tunnel(tls)
        opened = await self._connected(self._host, self._port)
        return await self._carried(opened, tls, self._server_name, authority(self._host, self._port))

    async def _connected(self, host: str, port: int) -> socket.socket:
        """Return a socket that is connected. Raises ConnectFailure."""
        loop = asyncio.get_running_loop()
        try:
            found = _literal(host, port) or await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return await start_connection(
                found,
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                interleave=1,
                socket_factory=self._keepalive.connection,
            )
        except OSError as error:
            raise ConnectFailure(error, authority(host, port)) from None

    async def _carried(self, opened: socket.socket, tls: Tls, name: str, place: str) -> Connection:
        """Return the connection on a socket, with TLS if there is a context. Raises ConnectFailure."""
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                Connection, sock=opened, ssl=tls, server_hostname=name if tls else None
            )
        except OSError as error:
            opened.close()
            raise ConnectFailure(error, place) from None
        except BaseException:
            opened.close()
            raise
        return connection

    async def _open_by_socks(self, tls: Tls) -> Connection:
        place = authority(self._host, self._port)
        login = unquote(self._proxy.username or ""), unquote(self._proxy.password or "")
        try:
            opened = await connect_by_socks(
                self._proxy.hostname or "", self._proxy_port, login, self._host, self._port
            )
        except OSError as error:
            raise ConnectFailure(error, place) from None
        return await self._carried(opened, tls, self._server_name, place)

    async def _open_by_tunnel(self, tls: Tls) -> Connection:
        """Connect through a proxy that passes bytes on, within TLS of its own if its URL says so."""
        loop = asyncio.get_running_loop()
        opened = await self._connected(self._proxy.hostname or "", self._proxy_port)
        outer = tls if self._proxy.scheme == "https" else None
        name = _ascii(self._proxy.hostname or "") if outer else None
        tunnel = _Tunnel()
        try:
            transport, _ = await loop.create_connection(
                lambda: tunnel, sock=opened, ssl=outer, server_hostname=name
            )
        except BaseException as error:
            opened.close()
            if isinstance(error, OSError):
                raise ConnectFailure(error, self._proxy_place()) from None
            raise
        place = authority(_ascii(self._host), self._port)
        try:
            transport.write(head_of("CONNECT", place, [("Host", place), *self._login()]))
            await tunnel.opened
            connection = Connection()
            inner = await loop.start_tls(transport, connection, tls, server_hostname=self._server_name)  # type: ignore[arg-type]
        except BaseException as error:
            transport.abort()
            if isinstance(error, OSError):
                raise ConnectFailure(error, authority(self._host, self._port)) from None
            raise
        if inner is None:
            raise Disconnected(DROPPED)
        connection.connection_made(inner)
        return connection

    def _is_forwarded(self) -> bool:
        """Return whether the proxy reads the requests, which is so for a server without TLS."""
        return self._place.scheme == "http" and self._proxy.scheme in ("http", "https")

    def _login(self) -> list[tuple[str, str]]:
        """Return the header by which a proxy knows the user of its URL."""
        if not self._proxy.username:
            return []
        pair = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}".encode()
        return [("Proxy-Authorization", f"Basic {base64.b64encode(pair).decode()}")]

    def _proxy_place(self) -> str:
        return authority(self._proxy.hostname or "", self._proxy_port)

    def _authority(self) -> str:
        host = _ascii(self._host)
        is_usual = self._port == _PORTS[self._place.scheme]
        return bracketed(host) if is_usual else authority(host, self._port)


class _Tunnel(asyncio.Protocol):
    """The answer of a proxy to CONNECT: `opened` ends when it lets bytes pass. It raises NoAnswer if it does not."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        """Implement the protocol."""
        self._head += data
        if self.opened.done() or (b"\r\n\r\n" not in self._head and len(self._head) < _LONGEST_HEAD):
            return
        version, status, reason = (*self._head.decode("latin-1").split("\r\n")[0].split(" ", 2), "", "")[:3]
        if not version.startswith("HTTP/1."):
            self.opened.set_exception(NoAnswer(NOT_HTTP))
        elif status != "200":
            why = f"the proxy answered {status} {reason}; check its address and your rights there"
            self.opened.set_exception(NoAnswer(why))
        else:
            self.opened.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Implement the protocol."""
        if not self.opened.done():
            self.opened.set_exception(Disconnected(DROPPED))


def _divided(url: str) -> tuple[SplitResult, int]:
    """Return a URL and its port. Raises ConfigError."""
    place = urlsplit(url)
    try:
        return place, place.port or _PORTS.get(place.scheme, 0)
    except ValueError:
        raise ConfigError(f"{url} has a port that is not a number; write it as https://host:6443") from None


def _literal(host: str, port: int) -> list[tuple[Any, ...]]:
    """Return what a resolver says of an address, for which none is asked; empty for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, host)
            address = (host, port) if family == socket.AF_INET else (host, port, 0, 0)
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]
    return []


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode()

"""The HTTPS server around the application: uvicorn on sockets that are given to it, within limits.

uvicorn brings the parser, ASGI and the graceful end. Connections are accepted and limited here: see `connections` and
`protocol`. asyncio's own servers count nothing before the TLS handshake is over, and stop accepting for a second when
the process has no file descriptor left. Here each connection takes a place before its handshake.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import structlog
import uvicorn

from lanloom.kube.config import memory_file
from lanloom.runtime.https.connections import Connections, Limits, Slot
from lanloom.runtime.https.peers import network_of, peer_of
from lanloom.runtime.https.protocol import LimitedProtocol
from lanloom.runtime.process import End, end_process, is_out_of_memory

log = structlog.get_logger(__name__)

_AT_ONCE = 32
"""Connections accepted before other work gets a turn."""

_PAUSE_SECONDS = 0.1
_SHUTDOWN_SECONDS = 5.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Factory = Callable[[Slot], asyncio.Protocol]
"""Makes the protocol of a connection whose handshake is over."""


class Listener:
    """Accept from construction to `close`, by TLS if there is a context. Must be constructed in a running loop."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext | None,
        connections: Connections,
        limits: Limits,
        factory: Factory,
    ) -> None:
        self._socket = sock
        seconds = {
            "ssl_handshake_timeout": limits.handshake_seconds,
            "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
        }
        self._tls: dict[str, Any] = {"ssl": context, **seconds} if context is not None else {}
        self._connections = connections
        self._limits = limits
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], Slot] = {}
        self._waiting: dict[str, deque[tuple[float, socket.socket]]] = {}
        self._crowds: Counter[str] = Counter()
        self._crowd = 0
        self._ticking = False
        self._closed = False
        sock.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Stop accepting, close the listening socket, and end handshakes in progress."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for slot in tuple(self._handshakes.values()):
            slot.end()
        for queue in self._waiting.values():
            for _, sock in queue:
                sock.close()
        self._waiting.clear()

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._ready)

    def _ready(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._socket.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._wait_for_files(error)
                return
            self._open(sock, address)

    def _wait_for_files(self, error: OSError) -> None:
        log.warning("cannot-accept", error=str(error))
        self._connections.relieve()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(_PAUSE_SECONDS, self._resume)

    def _open(self, sock: socket.socket, address: Any) -> None:
        peer = peer_of(address)
        network, own = network_of(peer), len(self._waiting.get(peer, ()))
        is_next = not own and self._connections.has_room(peer)
        if is_next or not self._limits.may_wait(own, self._crowds[network], self._crowd):
            self._begin(sock, peer)
            return
        until = self._loop.time() + self._limits.patience_seconds
        self._waiting.setdefault(peer, deque()).append((until, sock))
        self._crowds[network] += 1
        self._crowd += 1
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_PAUSE_SECONDS, self._let_in)

    def _let_in(self) -> None:
        """Begin with those that have room, and with those that waited long enough: they take a place or are refused."""
        now = self._loop.time()
        for peer in sorted(self._waiting, key=self._connections.counts):
            queue = self._waiting[peer]
            while queue and (queue[0][0] <= now or self._connections.has_room(peer)):
                self._crowds[network_of(peer)] -= 1
                self._crowd -= 1
                self._begin(queue.popleft()[1], peer)
            if not queue:
                del self._waiting[peer]
        self._ticking = bool(self._waiting)
        self._crowds = +self._crowds
        if self._ticking:
            self._loop.call_later(_PAUSE_SECONDS, self._let_in)

    def _begin(self, sock: socket.socket, peer: str) -> None:
        slot = self._connections.admit(peer, partial(_hang_up, sock))
        if slot is None:
            sock.close()
            return
        sock.setblocking(False)
        task = self._loop.create_task(self._handshake(sock, slot))
        self._handshakes[task] = slot
        task.add_done_callback(self._handshakes.pop)

    async def _handshake(self, sock: socket.socket, slot: Slot) -> None:
        try:
            await self._first_byte(sock)
        except OSError:  # also TimeoutError
            slot.release()
            sock.close()
            return
        try:
            await self._loop.connect_accepted_socket(lambda: self._factory(slot), sock, **self._tls)
        except OSError as error:  # also ssl.SSLError and TimeoutError
            log.debug("handshake-failed", peer=slot.peer, error=str(error))
            slot.release()
            # Its frames hold the future that holds the error, and asyncio's 256 KiB for each connection with them.
            error.__traceback__ = None

    async def _first_byte(self, sock: socket.socket) -> None:
        """Wait for a client to send something: until then it costs a socket, and no buffers of TLS.

        Raises TimeoutError, and OSError when the connection is over.
        """
        readable = self._loop.create_future()
        self._loop.add_reader(sock.fileno(), _set, readable)
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                await readable
        finally:
            self._loop.remove_reader(sock.fileno())
        if not sock.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError("the client left")


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _hang_up(sock: socket.socket) -> None:
    """End a connection whose socket belongs to a transport: the transport notices, and closes it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


_DRAIN_SECONDS = 2


class HttpsServer:
    """Serve an application on listening sockets until `stop`, by TLS unless `context` is None.

    `end` ends the process when a request runs out of memory. uvicorn itself would log that and go on.
    """

    def __init__(
        self,
        app: Any,
        context: ssl.SSLContext | None,
        sockets: Sequence[socket.socket],
        limits: Limits,
        *,
        end: End = end_process,
    ) -> None:
        config = uvicorn.Config(
            _ending(app, end),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        self._sockets = list(sockets)
        self._server = _Server(config, context, limits)

    async def run(self) -> None:
        """Serve until, after `stop`, open requests are answered or a grace period is over."""
        await self._server.serve(self._sockets)

    async def started(self) -> None:
        """Return when it accepts connections."""
        await self._server.up.wait()

    def drain(self) -> None:
        """End each connection after its next response, within a second, so that clients turn to other servers."""
        self._server.config.encoded_headers.append((b"connection", b"close"))

    def stop(self) -> None:
        """Accept no more connections, and end `run`."""
        self._server.should_exit = True

    def hang_up(self) -> None:
        """Stop listening and end idle connections at once. uvicorn itself does neither when it is cancelled."""
        if self._server.up.is_set():
            self._server.close_listeners()
            for connection in tuple(self._server.server_state.connections):
                connection.shutdown()


def _ending(app: Any, end: End) -> Any:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except (MemoryError, BaseExceptionGroup) as error:
            if is_out_of_memory(error):
                end()
            raise

    return serve


class _Server(uvicorn.Server):
    """uvicorn that says when it is up, accepts by `Listener`, and leaves signals to the process's owner."""

    def __init__(self, config: uvicorn.Config, context: ssl.SSLContext | None, limits: Limits) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._context = context
        self._limits = limits
        self._listeners: list[Listener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, then say so."""
        await self.lifespan.startup()
        self.servers = []
        self._connections = Connections(self._limits, asyncio.get_running_loop().time)
        self._listeners = [
            Listener(sock, self._context, self._connections, self._limits, self._protocol)
            for sock in sockets or ()
        ]
        self.started = True
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and wait for those that are open."""
        self.close_listeners()
        await super().shutdown(sockets)
        self._connections.faults.report()

    def close_listeners(self) -> None:
        """Accept no more connections."""
        for listener in self._listeners:
            listener.close()

    def _protocol(self, slot: Slot) -> LimitedProtocol:
        return LimitedProtocol(
            slot, self._limits, config=self.config, server_state=self.server_state, app_state={}
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def server_context() -> ssl.SSLContext:
    """Return the TLS settings of a server, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present a certificate to new connections. The key reaches OpenSSL through memory, never through a disk."""
    with memory_file(certificate + key) as path:
        context.load_cert_chain(path)

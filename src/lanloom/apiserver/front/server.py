"""The HTTPS server around the application: uvicorn on sockets that are given to it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn

_DRAIN_SECONDS = 2


class HttpsServer:
    """Serves an application on listening sockets until `stop`."""

    def __init__(self, app: Any, context: ssl.SSLContext, sockets: Sequence[socket.socket]) -> None:
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=90,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            ssl_context_factory=lambda _config, _default: context,
        )
        self._sockets = list(sockets)
        self._server = _Server(config)

    async def run(self) -> None:
        """Serves; returns after `stop` when open requests are answered or a grace period is over."""
        await self._server.serve(self._sockets)

    async def started(self) -> None:
        """Returns when it accepts connections."""
        await self._server.up.wait()

    def stop(self) -> None:
        """Accepts no more connections and ends `run`."""
        self._server.should_exit = True

    def hang_up(self) -> None:
        """Stops listening and ends idle connections at once. uvicorn itself does neither when it is cancelled."""
        if self._server.up.is_set():
            for server in self._server.servers:
                server.close()
            for connection in tuple(self._server.server_state.connections):
                connection.shutdown()


class _Server(uvicorn.Server):
    """uvicorn that says when it is up, and leaves signals to the process's owner."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts, then says so."""
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, which names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, because asyncio switches Nagle off only for sockets that say they are TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise OSError(
            f"can't listen on {host}:{port}: {error.strerror}; choose another port or address"
        ) from error
    return sock

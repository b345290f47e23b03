"""Serve the console until cancelled."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from lanloom.console.app import Console
from lanloom.console.sessions import Sessions

MOST_REQUESTS = 512
"""Requests at a time, streams included; more are refused with 503."""

EXPIRE_SECONDS = 60.0


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the process's owner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def serve(
    console: Console, sessions: Sessions, sock: socket.socket, tls: tuple[Path, Path] | None
) -> None:
    """Answer on a listening socket; `tls` are the files of a certificate and its key."""
    certificate, key = tls or (None, None)
    server = _Server(
        uvicorn.Config(
            console.app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=MOST_REQUESTS,
            timeout_graceful_shutdown=1,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
    )
    expiring = asyncio.create_task(_expire(sessions))
    try:
        await server.serve([sock])
    finally:
        expiring.cancel()
        await sessions.close_all()


async def _expire(sessions: Sessions) -> None:
    while True:
        await asyncio.sleep(EXPIRE_SECONDS)
        await sessions.expire()

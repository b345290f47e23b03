"""Serve the console until cancelled."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import structlog
import uvicorn

from lanloom.console.app import Console
from lanloom.console.sessions import Sessions
from lanloom.runtime.https.server import present, server_context

MOST_REQUESTS = 512
"""Requests at a time, streams included; more are refused with 503."""

EXPIRE_SECONDS = 60.0
"""How often sessions that are over end, and a certificate that was renewed is taken."""

log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the process's owner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Certificate:
    """The files of a certificate and its key, and the context of connections that uses them. Raises OSError."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._known: tuple[bytes, ...] = ()
        self.context = server_context()
        self._load()

    def renew(self) -> None:
        """Take what the files have now for connections from now on; what can't be used is left, and tried again."""
        try:
            self._load()
        except OSError as error:
            log.warning("certificate-not-renewed", file=str(self._files[0]), error=str(error))

    def _load(self) -> None:
        found = tuple(file.read_bytes() for file in self._files)
        if found != self._known:
            try:
                present(
                    server_context(), *found
                )  # a certificate of another key would spoil the context in use
                present(self.context, *found)
            except ssl.SSLError as error:
                certificate, key = self._files
                raise OSError(
                    f"{certificate} is no PEM certificate with the key in {key}: {error}"
                ) from error
            self._known = found


async def serve(
    console: Console, sessions: Sessions, sock: socket.socket, certificate: Certificate | None
) -> None:
    """Answer on a listening socket, by TLS if there is a certificate."""
    config = uvicorn.Config(
        console.app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=MOST_REQUESTS,
        timeout_graceful_shutdown=1,
    )
    config.load()
    config.ssl = certificate.context if certificate is not None else None
    expiring = asyncio.create_task(_expire(sessions, certificate))
    try:
        await _Server(config).serve([sock])
    finally:
        expiring.cancel()
        await sessions.close_all()


async def _expire(sessions: Sessions, certificate: Certificate | None) -> None:
    while True:
        await asyncio.sleep(EXPIRE_SECONDS)
        await sessions.expire()
        if certificate is not None:
            certificate.renew()

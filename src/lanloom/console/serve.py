"""Serve the console until cancelled."""

import asyncio
import socket
import ssl
from pathlib import Path

import structlog

from lanloom.console.app import Console
from lanloom.console.sessions import Sessions
from lanloom.runtime.https.connections import limits_of_process
from lanloom.runtime.https.server import HttpsServer, present, server_context

log = structlog.get_logger(__name__)

CONNECTIONS = 512
"""Connections at a time, streams included."""

EXPIRE_SECONDS = 60.0
"""How often sessions that are over end, and a certificate that was renewed is taken."""


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
                # First on another context: a certificate of another key would spoil the one in use.
                present(server_context(), *found)
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
    context = certificate.context if certificate is not None else None
    server = HttpsServer(console.app, context, (sock,), limits_of_process(CONNECTIONS))
    expiring = asyncio.create_task(_expire(sessions, certificate))
    try:
        await server.run()
    finally:
        server.hang_up()
        expiring.cancel()
        await sessions.close_all()


async def _expire(sessions: Sessions, certificate: Certificate | None) -> None:
    while True:
        await asyncio.sleep(EXPIRE_SECONDS)
        await sessions.expire()
        if certificate is not None:
            certificate.renew()

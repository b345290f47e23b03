"""Serve the stand-in's webhook over HTTPS: as much of HTTP as an API server's reviews need."""

import asyncio
import json
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanloom.runtime.certificates import Bundle

Raw = dict[str, Any]


class WebhookServer:
    """A server on a free port of the loopback address. `answer` gets the path and the review."""

    def __init__(self, bundle: Bundle, answer: Callable[[str, Raw], Raw]) -> None:
        self._bundle = bundle
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; return the URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context())
        return f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            paths = Path(directory, "crt"), Path(directory, "key")
            for path, content in zip(paths, (self._bundle.certificate, self._bundle.key), strict=True):
                path.write_bytes(content)
            context.load_cert_chain(*paths)
        return context

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _request(reader):
                body = json.dumps(self._answer(*request)).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> tuple[str, Raw] | None:
    """Return path and review of the next request; None at the end."""
    head = await reader.readline()
    if not head:
        return None
    length = 0
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        length = int(value) if name.lower() == "content-length" else length
    path = head.decode().split()[1].partition("?")[0]
    return path, json.loads(await reader.readexactly(length))

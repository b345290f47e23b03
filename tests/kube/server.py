"""An HTTPS server on loopback whose answers a test scripts, for tests of what goes over the wire."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import trustme
from aiohttp import web

from lanloom.kube.config import ClusterConfig

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """`handler` answers every request; `url` and `ca` (PEM) are for clients."""

    url: str
    ca: bytes
    handler: Handler
    seen: list[Seen] = field(default_factory=list)

    def config(self, **more: Any) -> ClusterConfig:
        """What a client needs."""
        return ClusterConfig(**({"server": self.url, "ca": self.ca} | more))


@asynccontextmanager
async def serving(handler: Handler, *, client_ca: trustme.CA | None = None) -> AsyncIterator[Server]:
    """The server, on a free port; with `client_ca` it wants certificates of its clients."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if client_ca is not None:
        client_ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    server = Server("", authority.cert_pem.bytes(), handler)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        server.seen.append(
            Seen(
                request.method,
                request.raw_path.partition("?")[0],
                dict(request.query),
                dict(request.headers),
                body,
            )
        )
        return await server.handler(request)

    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def answer(body: Any, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def status_object(code: int, reason: str, message: str = "") -> dict[str, Any]:
    """A Status object as an API server sends it with a refusal."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def always(body: Any, status: int = 200) -> Handler:
    """A handler with one answer for all."""

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return answer(body, status)

    return handle


def streaming(*chunks: bytes, hold: Callable[[], Awaitable[Any]] | None = None) -> Handler:
    """A handler that streams the chunks, one write each, then waits for `hold` (if any) before it ends."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if hold is not None:
            await hold()
        return response

    return handle

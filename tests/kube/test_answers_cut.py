"""Answers that break off, or are no HTTP: the error says so in words, with what to do about it."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import TransportError
from lanloom.kube.http import HttpClient
from lanloom_embedded.client import HttpsPoster, fetch, reason
from tests.kube.things import THINGS

OK, REFUSED = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"
CHUNKS, LENGTH = b"Transfer-Encoding: chunked\r\n\r\n", b"Content-Length: 100\r\n\r\n"
HALF = b'{"metadata":'
PART = b"20\r\n" + HALF

CUT = r": the connection broke in the middle of the answer; try again$"
NONE = r": the connection broke before there was an answer; try again$"
NO_HTTP = r": what came is no answer of HTTP; check the address, and proxies on the way$"

CASES = {
    "a chunk": (OK + CHUNKS + PART, CUT),
    "between chunks": (OK + CHUNKS + PART.replace(b"20", b"c") + b"\r\n", CUT),
    "a body of known length": (OK + LENGTH + HALF, CUT),
    "a body that has not begun": (OK + LENGTH, CUT),
    "a refusal": (REFUSED + LENGTH + HALF, CUT),
    "a refusal in chunks": (REFUSED + CHUNKS + PART, CUT),
    "the request alone": (b"", NONE),
    "the head": (OK, NONE),
    "rubbish instead of a chunk": (OK + CHUNKS + b"zz\r\n", NO_HTTP),
    "rubbish instead of gzip": (OK + b"Content-Encoding: gzip\r\n" + LENGTH + HALF, NO_HTTP),
    "another protocol": (b"SSH-2.0 server\r\n", NO_HTTP),
}
"""What a server sends before it closes the connection, and what is said of it."""


async def _watch(client: HttpClient) -> None:
    async for _ in client.watch(THINGS, resource_version="1"):
        pass


async def _post(url: str) -> None:
    poster = HttpsPoster()
    try:
        await poster.post(url, b"{}", ca_bundle=b"", timeout=60)
    finally:
        await poster.close()


READERS: dict[str, Callable[[HttpClient], Awaitable[object]]] = {
    "get": lambda client: client.get(THINGS, "a", "default"),
    "list": lambda client: client.list(THINGS),
    "watch": _watch,
    "create": lambda client: client.create(THINGS, {}, "default"),
    "patch": lambda client: client.patch(THINGS, "a", {}, "default"),
    "delete": lambda client: client.delete(THINGS, "a", "default"),
    "request": lambda client: client.request("GET", "/version"),
    "download": lambda client: client.download("/openapi/v2", len),
    "ask_pod": lambda client: client.ask_pod("default", "a", "metrics"),
    "fetch": lambda client: fetch(client.server),
    "post": lambda client: _post(client.server),
}
"""Each way in which Lanloom reads an answer."""


@asynccontextmanager
async def sending(data: bytes) -> AsyncIterator[HttpClient]:
    """A client whose server sends some bytes for a request, and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        async with HttpClient(ClusterConfig(server=f"http://{host}:{port}", compression=True)) as client:
            yield client
    finally:
        server.close()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", CASES)
async def test_an_answer_breaks_off(case: str, reader: str) -> None:
    """Wherever an answer ends too early, each reader says that in words, and nothing of the library's own."""
    data, expected = CASES[case]
    async with sending(data) as client:
        with pytest.raises(TransportError) as caught:
            await READERS[reader](client)
    assert re.search(expected, f": {caught.value}"), str(caught.value)


@pytest.mark.parametrize("reader", ["get", "list", "create", "request"])
async def test_an_answer_without_a_length_breaks_off(reader: str) -> None:
    """JSON that ends too early where HTTP tells no length can't be read, and is as good as no answer."""
    async with sending(OK + b"\r\n" + HALF) as client:
        with pytest.raises(TransportError, match="can't be read"):
            await READERS[reader](client)


def test_a_connection_that_is_reset() -> None:
    """A reset is reported as any other connection that breaks, from whichever layer."""
    for error in (ConnectionResetError(104, "reset"), aiohttp.ClientOSError(104, "reset"), BrokenPipeError()):
        assert re.search(NONE, f": {reason(error)}")


def test_a_proxy_refuses() -> None:
    """A proxy that lets no request through is named, with its own code and words."""
    info = aiohttp.RequestInfo(URL("http://x/"), "CONNECT", CIMultiDictProxy(CIMultiDict()), URL("http://x/"))
    error = aiohttp.ClientHttpProxyError(info, (), status=407, message="Proxy Authentication Required")
    assert reason(error).startswith("the proxy answered 407 Proxy Authentication Required; check")

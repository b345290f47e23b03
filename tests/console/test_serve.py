"""The console on a socket: whose certificate it shows, and what keeps others out."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import trustme

from lanloom.console.app import Console
from lanloom.console.catalogue import pages
from lanloom.console.serve import CONNECTIONS, Certificate, serve
from lanloom.console.sessions import Sessions
from lanloom.features import FEATURES
from lanloom.kube.config import ClusterConfig
from lanloom.runtime.sockets import listen

pytestmark = pytest.mark.slow


async def shown(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def issue(directory: Path) -> None:
    """Writes a certificate with its key."""
    directory.mkdir(exist_ok=True)
    made = trustme.CA().issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    made.private_key_pem.write_to_path(directory / "tls.key")


@asynccontextmanager
async def served(
    certificate: Certificate | None = None, server: str = "http://127.0.0.1:1"
) -> AsyncIterator[int]:
    """A console at work; yields its port."""
    sessions = Sessions(asyncio.get_running_loop().time)
    config = ClusterConfig(server=server)
    hosts = frozenset({"127.0.0.1", "2001:db8::1"})
    console = Console(config, pages(FEATURES), sessions, hosts=hosts, secure=certificate is not None)
    sock = listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    task = asyncio.create_task(serve(console, sessions, sock, certificate))
    try:
        yield port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_certificate_that_is_renewed(tmp_path: Path) -> None:
    """A renewed certificate is shown to new connections at once; one of another key, or none, changes nothing."""
    issue(tmp_path)
    certificate = Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with served(certificate) as port:
        first = await shown(port)
        issue(tmp_path)
        certificate.renew()
        second = await shown(port)
        assert second != first
        issue(tmp_path / "other")
        for broken in ((tmp_path / "other/tls.crt").read_text(), "nothing"):
            (tmp_path / "tls.crt").write_text(broken)
            certificate.renew()
            assert await shown(port) == second


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, 303), (403, 303), (404, 303), (401, 403), (429, 403), (500, 403), (503, 403)],
)
async def test_only_a_token_that_the_api_server_knows_is_let_in(status: int, expected: int) -> None:
    """Who may read nothing has logged in; where the API server does not say whose the token is, there is no session."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"kind": "ClusterNetworkList", "items": [], "metadata": {}, "message": "why"}'
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    api = await asyncio.start_server(answer, "127.0.0.1", 0)
    server = f"http://127.0.0.1:{api.sockets[0].getsockname()[1]}"
    async with api, served(server=server) as port:
        address = f"http://127.0.0.1:{port}"
        async with (
            aiohttp.ClientSession(address, headers={"origin": address}) as browser,
            browser.post("/login", data={"token": "some"}, allow_redirects=False) as found,
        ):
            assert found.status == expected, await found.text()


async def ask(port: int, host: str = "127.0.0.1") -> bytes:
    """The status line of the login page of a host, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /login HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9443", 200),
        ("[2001:db8::1]", 200),
        ("[2001:db8::1]:9443", 200),
        ("[2001:db8::2]:9443", 403),
    ],
)
async def test_names_of_the_console(host: str, status: int) -> None:
    """A console is asked by its names alone, among which are addresses of both IP versions, with any port."""
    async with served() as port:
        assert f" {status} ".encode() in await ask(port, host)


async def test_silent_connections_keep_nobody_out() -> None:
    """Connections that ask for nothing, as many as there may be and more, make room for one that does."""
    async with served() as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS + 8)]
        assert await ask(port) == b"HTTP/1.1 200 OK"
        for _, writer in silent:
            writer.close()


async def test_a_request_without_end() -> None:
    """A request whose headers are too long is refused, also where there is no TLS."""
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /login HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 100_000)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()

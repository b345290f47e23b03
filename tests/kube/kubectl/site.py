"""An API server and its proxies on loopback that record how they are spoken to, by kubectl or by Lanloom.

The name `api.example` is known to the proxies only. Whatever a proxy is asked for, it connects to the server. Requests
for anything but /probe are not recorded: some builds of kubectl look at the server's version first.
"""

import asyncio
import base64
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trustme
from msgspec import Struct, field

PLUGIN = """#!/bin/sh
echo run >> "$0.runs"
printf '%s' "$KUBERNETES_EXEC_INFO" > "$0.info"
printf '%s' "$*" > "$0.args"
cat "$0.answer"
"""
"""A program that prints credentials, and records how it was run."""

Recorded = dict[str, Any]


class Site(Struct, kw_only=True):
    """The server and the proxies; `seen` are the requests, and `connected` what proxies were asked for."""

    directory: Path
    authority: trustme.CA
    clients: trustme.CA
    words: dict[str, str] = field(default_factory=dict)
    names: list[str | None] = field(default_factory=list)
    seen: list[Recorded] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)

    def filled(self, value: Any) -> Any:
        """Replace the words in capitals that stand for addresses, certificates and files."""
        match value:
            case str():
                for word in sorted(self.words, key=len, reverse=True):
                    value = value.replace(f"${word}", self.words[word])
            case dict():
                return {key: self.filled(item) for key, item in value.items()}
            case list():
                return [self.filled(item) for item in value]
        return value

    def recorded(self) -> Recorded:
        """Return what the one request for /probe was like, without what is as usual."""
        (request,) = self.seen
        proxy = {"proxy": " ".join(dict.fromkeys(self.connected))} if self.connected else {}
        return request | proxy


@asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    """Serve until the block ends."""
    made = Site(directory=directory, authority=trustme.CA(), clients=trustme.CA())
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.authority.issue_cert("127.0.0.1", "localhost", "api.example", "other.example").configure_cert(tls)
    made.clients.configure_trust(tls)
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.sni_callback = lambda _socket, name, _context: made.names.append(name)
    relay = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.authority.issue_cert("127.0.0.1").configure_cert(relay)

    async with AsyncExitStack() as stack:

        async def start(handle: Any, context: ssl.SSLContext | None = None) -> int:
            server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
            stack.push_async_callback(_stop, server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        secure = await start(lambda reader, writer: _answer(made, reader, writer), tls)
        plain = await start(lambda reader, writer: _answer(made, reader, writer))
        proxy = await start(lambda reader, writer: _relay(made, "", secure, plain, reader, writer))
        silent = await start(lambda _reader, _writer: asyncio.sleep(0))
        secured = await start(
            lambda reader, writer: _relay(made, "https ", secure, plain, reader, writer), relay
        )
        made.words = _words(made, secure, plain, proxy, secured) | {"SILENT": f"127.0.0.1:{silent}"}
        yield made


async def _stop(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


def _words(made: Site, secure: int, plain: int, proxy: int, secured: int) -> dict[str, str]:
    """Return what stands for the words of a case."""
    leaf = made.clients.issue_cert("client.example", common_name="client")
    certificate, key = leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()
    other = trustme.CA().cert_pem.bytes()
    for name, content in {
        "ca.crt": made.authority.cert_pem.bytes(),
        "client.crt": certificate,
        "client.key": key,
        "token": b"from-file\n",
        "plugin": PLUGIN.encode(),
    }.items():
        (made.directory / name).write_bytes(content)
    (made.directory / "plugin").chmod(0o755)
    return {
        "SERVER": f"https://127.0.0.1:{secure}",
        "HOSTPORT": f"127.0.0.1:{secure}",
        "PLAINPORT": f"127.0.0.1:{plain}",
        "PLAIN": f"http://127.0.0.1:{plain}",
        "PROXYPORT": f"127.0.0.1:{proxy}",
        "TLSPROXYPORT": f"127.0.0.1:{secured}",
        "OTHERCA": base64.b64encode(other).decode(),
        "CA": base64.b64encode(made.authority.cert_pem.bytes()).decode(),
        "CERT": base64.b64encode(certificate).decode(),
        "CERTPEM": certificate.decode(),
        "KEYPEM": key.decode(),
        "KEY": base64.b64encode(key).decode(),
        "DIR": str(made.directory),
    }


async def _answer(made: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Record one request, and answer it."""
    with suppress(asyncio.IncompleteReadError, OSError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        if head[0].split(" ")[1].endswith("/probe"):
            made.seen.append(_request(made, head, writer))
        body = b'{"kind":"Probe","apiVersion":"v1"}'
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
    writer.close()


def _request(made: Site, head: list[str], writer: asyncio.StreamWriter) -> Recorded:
    path = head[0].split(" ")[1]
    found: Recorded = {"path": path} if path != "/probe" else {}
    for line in head[1:]:
        name, _, value = line.partition(": ")
        if name.lower() == "authorization" or name.lower().startswith("impersonate-"):
            found.setdefault(name.lower(), []).append(value)
    encodings = [line for line in head if line.lower().startswith("accept-encoding: ") and "gzip" in line]
    found |= {} if encodings else {"compression": False}
    found = {name: sorted(value) if isinstance(value, list) else value for name, value in found.items()}
    if writer.get_extra_info("sslcontext") is None:
        return found | {"tls": False}
    if made.names and made.names[-1]:
        found["name"] = made.names[-1]
    if peer := writer.get_extra_info("peercert"):
        found["certificate"] = dict(pair for part in peer["subject"] for pair in part)["commonName"]
    return found


async def _relay(
    made: Site, kind: str, secure: int, plain: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Be a proxy: of CONNECT, of requests in the clear, and of SOCKS 5."""
    with suppress(asyncio.IncompleteReadError, OSError):
        first = await reader.readexactly(1)
        if first == b"\x05":
            await _socks(made, reader, writer)
            await _join(reader, writer, secure, b"")
            return
        head = first + await reader.readuntil(b"\r\n\r\n")
        verb, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        login = next(
            (line for line in head.decode().split("\r\n") if line.lower().startswith("proxy-auth")), ""
        )
        user = base64.b64decode(login.split(" ")[-1]).decode() + " " if login else ""
        if verb == "CONNECT" or target.endswith("/probe"):
            made.connected.append(f"{kind}{verb} {user}{target}")
        if verb == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await _join(reader, writer, secure, b"")
        else:
            path = "/" + target.split("/", 3)[3]
            await _join(reader, writer, plain, head.replace(target.encode(), path.encode(), 1))
    writer.close()


async def _socks(made: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    methods = await reader.readexactly((await reader.readexactly(1))[0])
    user = ""
    if 2 in methods:
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        user = (await reader.readexactly((await reader.readexactly(1))[0])).decode() + " "
        await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\x01\x00")
    else:
        writer.write(b"\x05\x00")
    kind = (await reader.readexactly(4))[3]
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    else:
        host = ".".join(map(str, await reader.readexactly(4)))
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    made.connected.append(f"socks5 {user}{host}:{port}")
    writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, first: bytes) -> None:
    """Connect a client to a server until both have ended."""
    there, back = await asyncio.open_connection("127.0.0.1", port)
    back.write(first)
    async with asyncio.TaskGroup() as group:
        group.create_task(_copy(reader, back))
        group.create_task(_copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()

"""A console on loopback with an embedded API server, and browsers of users with different rights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from lanloom.console.app import Console
from lanloom.console.catalogue import pages
from lanloom.console.serve import serve as serve_console
from lanloom.console.sessions import Sessions
from lanloom.console.stores import Stores
from lanloom.features import FEATURES
from lanloom.kube.config import ClusterConfig
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.runtime.sockets import listen
from lanloom_embedded.serve import ServeSettings, serve
from tests.console import agents
from tests.harness.servers.real import free_ports

TENANT = "tenant-token"
"""The token of a user who may read the namespace `ours` and nothing else."""

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/ours"


class Gate:
    """The way from the console to the API server, which can be shut: connections break, and new ones are refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self) -> None:
        """Let requests through."""
        if not self.port:
            (self.port,) = free_ports(1)  # none of those that the kernel gives to others while it is shut
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    async def shut(self) -> None:
        """Break what there is, and refuse what comes."""
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, back}
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._copy(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while part := await source.read(65536):
                sink.write(part)
                await sink.drain()
        self._open.discard(sink)
        sink.close()


class Site(Struct, kw_only=True):
    """The console's address, and an administrator's client of its cluster. The console reaches it through the gate."""

    address: str
    sessions: Sessions
    config: ClusterConfig
    admin: HttpClient
    gate: Gate

    @asynccontextmanager
    async def browser(self, token: str = "") -> AsyncIterator[aiohttp.ClientSession]:
        """A browser that has logged in by a token, or without one by the administrator's link.

        It has seen no page yet, so the console follows nothing for it: its first page has all that was written before.
        """
        jar = aiohttp.CookieJar(unsafe=True)
        headers = {"origin": self.address}
        async with aiohttp.ClientSession(self.address, cookie_jar=jar, headers=headers) as made:
            if token:
                answer = await made.post("/login", data={"token": token}, allow_redirects=False)
            else:
                once = {"once": self.sessions.link(self.config)}
                answer = await made.get("/login", params=once, allow_redirects=False)
            assert answer.status == 303, await answer.text()
            yield made


async def read(browser: aiohttp.ClientSession, path: str, status: int = 200) -> str:
    """The text of a page."""
    async with browser.get(path) as answer:
        assert answer.status == status, (path, answer.status)
        return await answer.text()


async def read_until(
    browser: aiohttp.ClientSession, path: str, text: str, *, there: bool = True, status: int = 200
) -> str:
    """The text of a page once it has some text, or has it no more: the console hears of a write right after it."""
    async with asyncio.timeout(60):
        while True:
            async with browser.get(path) as answer:
                page = await answer.text()
                if answer.status == status and (text in page) == there:
                    return page
            await asyncio.sleep(0.02)


@asynccontextmanager
async def site(directory: Path, *, shared: bool = False) -> AsyncIterator[Site]:
    """A console, where a tenant may read one namespace. The server's data in the directory may have objects already.

    With `shared` it follows the whole cluster as an administrator for all of its users.
    """
    tokens = directory / "tokens"
    tokens.write_text(f"{TENANT},tenant,tenant\n")
    settings = ServeSettings(
        data=directory / "data",
        kubeconfig=directory / "kubeconfig",
        tokens=tokens,
        manager=False,
        kubevirt=True,
    )
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve(settings, ready.set_result, agents.get))
    try:
        await asyncio.wait((server, ready), return_when=asyncio.FIRST_COMPLETED)
        config = load(str(directory / "kubeconfig"))
        async with HttpClient(config) as admin:
            await _share(admin)
            async with console_of(config, admin, shared) as made:
                yield made
    finally:
        await _end(server)


@asynccontextmanager
async def console_of(config: ClusterConfig, admin: HttpClient, shared: bool) -> AsyncIterator[Site]:
    """A console in front of an API server, behind a gate."""
    gate = Gate(urlsplit(config.server).port or 0)
    await gate.open()
    config = replace(config, server=f"https://127.0.0.1:{gate.port}")
    now = asyncio.get_running_loop().time
    client = HttpClient(config)
    stores = Stores(client, now, Random(1)) if shared else None
    sessions = Sessions(now, stores)
    console = Console(config, pages(FEATURES), sessions, hosts=frozenset({"127.0.0.1"}), secure=False)
    sock = listen("127.0.0.1", 0)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    task = asyncio.create_task(serve_console(console, sessions, sock, None))
    try:
        yield Site(address=address, sessions=sessions, config=config, admin=admin, gate=gate)
    finally:
        await _end(task)
        if stores is not None:
            stores.close()
        await client.close()
        await gate.shut()


async def _share(admin: HttpClient) -> None:
    """Gives the tenant the namespace `ours`."""
    for name in ("ours", "theirs"):
        await admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    subject = {"kind": "User", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    await admin.request("POST", f"{ROLES}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    binding: dict[str, Any] = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [subject],
    }
    await admin.request("POST", f"{ROLES}/rolebindings", binding)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

"""A console on loopback beside an embedded API server, and browsers of users with different rights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from lanloom.console.app import Console
from lanloom.console.menu import pages
from lanloom.console.serve import serve as serve_console
from lanloom.console.sessions import Sessions
from lanloom.features import FEATURES
from lanloom.kube.config import ClusterConfig
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.runtime.https.server import listen
from lanloom_embedded.serve import ServeSettings, serve

TENANT = "tenant-token"
"""The token of a user who may read the namespace `ours` and nothing else."""

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/ours"


class Site(Struct, kw_only=True):
    """The console's address, and an administrator's client of its cluster."""

    address: str
    sessions: Sessions
    config: ClusterConfig
    admin: HttpClient

    @asynccontextmanager
    async def browser(self, token: str = "") -> AsyncIterator[aiohttp.ClientSession]:
        """A browser that has logged in by a token, or without one by the administrator's link."""
        jar = aiohttp.CookieJar(unsafe=True)
        headers = {"origin": self.address}
        async with aiohttp.ClientSession(self.address, cookie_jar=jar, headers=headers) as made:
            if token:
                answer = await made.post("/login", data={"token": token})
            else:
                answer = await made.get("/login", params={"once": self.sessions.link(self.config)})
            assert answer.status == 200, await answer.text()
            yield made


async def read(browser: aiohttp.ClientSession, path: str, status: int = 200) -> str:
    """The text of a page."""
    async with browser.get(path) as answer:
        assert answer.status == status, (path, answer.status)
        return await answer.text()


@asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    """A console, where a tenant may read one namespace."""
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
    server = asyncio.create_task(serve(settings, ready.set_result))
    try:
        await asyncio.wait((server, ready), return_when=asyncio.FIRST_COMPLETED)
        config = load(str(directory / "kubeconfig"))
        async with HttpClient(config) as admin:
            await _share(admin)
            async with _console(config, admin) as made:
                yield made
    finally:
        await _end(server)


@asynccontextmanager
async def _console(config: ClusterConfig, admin: HttpClient) -> AsyncIterator[Site]:
    sessions = Sessions(asyncio.get_running_loop().time)
    console = Console(config, pages(FEATURES), sessions, hosts=frozenset({"127.0.0.1"}), secure=False)
    sock = listen("127.0.0.1", 0)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    task = asyncio.create_task(serve_console(console, sessions, sock, None))
    try:
        yield Site(address=address, sessions=sessions, config=config, admin=admin)
    finally:
        await _end(task)


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

"""Reading without an event loop: the same requests, values and errors as with one."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from lanloom.api.core import NODES
from lanloom.kube.blocking import BlockingReader, finished
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import (
    ApiError,
    ConfigError,
    KubeError,
    TransportError,
)
from lanloom.kube.http import HttpClient
from lanloom.kube.ports import Reader
from tests.kube.server import (
    Handler,
    Seen,
    Server,
    always,
    answer,
    serving,
    status_object,
)
from tests.kube.things import THINGS

Work = Callable[[Reader], Awaitable[Any]]

RED = {"metadata": {"namespace": "default", "name": "a", "resourceVersion": "7"}, "colour": "red"}
ODD = {"metadata": {"namespace": "default", "name": "b"}, "colour": 5}


def read(config: ClusterConfig, work: Work, **options: Any) -> Any:
    """What work on a BlockingReader comes to: a value or an error."""
    try:
        with BlockingReader(config, **options) as reader:
            return finished(work(reader))  # type: ignore[arg-type]
    except KubeError as error:
        return error


async def both(config: ClusterConfig, work: Work, **options: Any) -> tuple[Any, Any]:
    """What the same work comes to on a BlockingReader and on an HttpClient."""
    blocking = await asyncio.to_thread(read, config, work, **options)
    try:
        async with HttpClient(config, **options) as client:
            return blocking, await work(client)
    except KubeError as error:
        return blocking, error


async def get_one(reader: Reader) -> Any:
    """Reads one object whose name has to be quoted."""
    return await reader.get(THINGS, "a/b?c", "default")


async def list_some(reader: Reader) -> Any:
    """Reads a list by selectors."""
    return await reader.list(THINGS, "default", labels="colour in (red,blue)", fields="metadata.name!=x")


async def pages(request: web.BaseRequest) -> web.StreamResponse:
    """A list of two pages, the second of which has an object that can't be read."""
    if "continue" not in request.query:
        return answer({"metadata": {"resourceVersion": "9", "continue": "1"}, "items": [RED]})
    return answer({"metadata": {"resourceVersion": "9"}, "items": [ODD]})


async def proxy(_request: web.BaseRequest) -> web.StreamResponse:
    """What a proxy says that has no server behind it."""
    return web.Response(status=502, text="<h1>no upstream</h1>")


async def elsewhere(_request: web.BaseRequest) -> web.StreamResponse:
    """A redirect, which could lead the token anywhere."""
    return web.Response(status=302, headers={"Location": "https://example.org"})


def essentials(seen: Seen) -> tuple[Any, ...]:
    """What of a request the server goes by."""
    headers = {name.lower(): value for name, value in seen.headers.items()}
    return seen.method, seen.path, seen.query, seen.body, headers["accept"], headers.get("authorization")


@pytest.mark.parametrize("work", [get_one, list_some])
@pytest.mark.parametrize(
    "handler",
    [
        always(RED),
        pages,
        always({"metadata": {"resourceVersion": "3"}, "items": None}),
        always(status_object(403, "Forbidden", "because of the tests"), 403),
        always(status_object(410, "Expired", "too old"), 410),
        always("text"),
        proxy,
        elsewhere,
    ],
)
async def test_both_send_and_make_the_same(handler: Handler, work: Work) -> None:
    """Whatever the server answers, the requests, the values and the errors are those of the other client."""
    async with serving(handler) as server:
        one, other = await both(server.config(token="secret"), work, page=1)
        half = len(server.seen) // 2
    assert [essentials(item) for item in server.seen[:half]] == [
        essentials(item) for item in server.seen[half:]
    ]
    assert (type(one), str(one)) == (type(other), str(other))
    if isinstance(one, ApiError):
        assert (one.code, one.reason, one.status) == (other.code, other.reason, other.status)
    elif not isinstance(one, KubeError):
        assert one == other


async def test_without_a_connection_both_say_why() -> None:
    """No listener, no such name, a CA of others: each in the words of the other client."""
    async with serving(always(RED)) as server:
        closed = server.config()
    configs = [closed, ClusterConfig(server="https://nowhere.invalid:6443")]
    async with serving(always(RED)) as server:
        configs.append(server.config(ca=trustme.CA().cert_pem.bytes()))
        for config in configs:
            one, other = await both(config, get_one)
            assert isinstance(one, TransportError)
            assert (type(one), str(one)) == (type(other), str(other))
        assert server.seen == []


async def test_credentials_are_shown(tmp_path: Path) -> None:
    """A client certificate and the token of a file reach a server that wants them."""
    authority = trustme.CA()
    file = tmp_path / "token"
    file.write_text("secret\n")
    leaf = authority.issue_cert("admin")
    async with serving(always(RED), client_ca=authority) as server:
        config = _certified(server, leaf, file)
        assert (await asyncio.to_thread(read, config, get_one)).colour == "red"
    assert server.seen[0].headers["Authorization"] == "Bearer secret"


def _certified(server: Server, leaf: trustme.LeafCert, token: Path) -> ClusterConfig:
    return server.config(
        client_certificate=leaf.cert_chain_pems[0].bytes(),
        client_key=leaf.private_key_pem.bytes(),
        token_file=str(token),
    )


def test_what_can_not_be_used_is_named(tmp_path: Path) -> None:
    """A token file that is missing and a port that is none are refused before anything is sent."""
    missing = ClusterConfig(server="https://127.0.0.1:1", token_file=str(tmp_path / "token"))
    with pytest.raises(ConfigError, match=r"token: No such file"):
        BlockingReader(missing)
    with pytest.raises(ConfigError, match="https://x:port"):
        BlockingReader(ClusterConfig(server="https://x:port"))


async def test_an_answer_that_does_not_come_or_breaks_off() -> None:
    """A server that says nothing in time, or closes in the middle of its answer, is as good as none."""
    over = asyncio.Event()

    async def silent(_request: web.BaseRequest) -> web.StreamResponse:
        await over.wait()
        return web.Response()

    async def broken(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(silent) as server:
        found = await asyncio.to_thread(read, server.config(), get_one, timeout=0.05)
        over.set()
    assert isinstance(found, TransportError)
    assert str(found).endswith("no answer in time")
    async with serving(broken) as server:
        found = await asyncio.to_thread(read, server.config(), get_one)
    assert isinstance(found, TransportError)


async def test_the_connection_is_used_again() -> None:
    """Several requests go over one connection."""
    peers = set()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return answer({"metadata": {"name": "a"}})

    async def twice(reader: Reader) -> Any:
        await reader.get(NODES, "a")
        return await reader.get(NODES, "a")

    async with serving(handle) as server:
        await asyncio.to_thread(read, server.config(), twice)
    assert len(peers) == 1


def test_what_needs_an_event_loop_is_an_error() -> None:
    """A coroutine that waits for something else than the reader is refused, not left half done."""
    with pytest.raises(RuntimeError, match="event loop"):
        finished(asyncio.sleep(1))

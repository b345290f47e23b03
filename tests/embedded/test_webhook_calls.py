"""Calls of admission webhooks over HTTPS."""

import asyncio

import pytest
import trustme
from aiohttp import web

from lanloom.kube.errors import TransportError
from lanloom_embedded.client import HttpsPoster
from tests.kube.server import (
    always,
    answer,
    serving,
    streaming,
)

BODY = b'{"kind": "AdmissionReview"}'


async def _post(poster: HttpsPoster, url: str, ca: bytes, timeout: float = 60) -> bytes:
    return await poster.post(url, BODY, ca_bundle=ca, timeout=timeout)


async def test_the_body_arrives_and_the_answer_comes_back() -> None:
    """A call posts the body as JSON to the URL, trusting the given CA alone, and gives the answer's body."""
    poster = HttpsPoster()
    async with serving(always({"response": {}})) as server:
        assert await _post(poster, f"{server.url}/v1/check?timeout=10s", server.ca) == b'{"response":{}}'
        await poster.close()
    [request] = server.seen
    assert (request.method, request.path, request.query) == ("POST", "/v1/check", {"timeout": "10s"})
    assert request.headers["Content-Type"] == "application/json"
    assert request.body == BODY


async def test_connections_are_used_again() -> None:
    """Calls of one webhook share a connection."""
    ports = set()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return answer({})

    poster = HttpsPoster()
    async with serving(handle) as server:
        for _ in range(3):
            await _post(poster, server.url, server.ca)
        await poster.close()
    assert len(ports) == 1


async def test_servers_of_another_ca_are_not_believed() -> None:
    """A webhook that the bundle doesn't vouch for is not called, also right after a call that trusted it."""
    poster = HttpsPoster()
    async with serving(always({})) as server:
        await _post(poster, server.url, server.ca)
        for bundle in (trustme.CA().cert_pem.bytes(), b""):
            with pytest.raises(TransportError, match="certificate"):
                await _post(poster, server.url, bundle)
        await poster.close()
    assert len(server.seen) == 1


async def test_the_name_that_is_checked() -> None:
    """A server that is reached by address must still have the name that was asked for."""
    poster = HttpsPoster()
    async with serving(always({})) as server:
        with pytest.raises(TransportError, match="certificate"):
            await poster.post(
                server.url, BODY, ca_bundle=server.ca, server_name="webhook.default.svc", timeout=60
            )
        await poster.close()


async def test_refusals_and_redirects() -> None:
    """Any answer but 200 is an error with the answer's text; a redirect is not followed."""

    async def redirect(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/elsewhere"}, text="over there")

    poster = HttpsPoster()
    async with serving(always({"error": "no"}, 500)) as server:
        with pytest.raises(TransportError, match=r'the server answered 500: \{"error":"no"\}'):
            await _post(poster, server.url, server.ca)
        server.handler = redirect
        with pytest.raises(TransportError, match="the server answered 307: over there"):
            await _post(poster, server.url, server.ca)
        await poster.close()
    assert len(server.seen) == 2


async def test_no_answer_in_time() -> None:
    """A webhook that takes longer than its time-out is given up."""
    poster = HttpsPoster()
    async with serving(streaming(b"{", hold=asyncio.Event().wait)) as server:
        with pytest.raises(TransportError, match=r"no answer within 0\.2 s"):
            await _post(poster, server.url, server.ca, timeout=0.2)
        await poster.close()


async def test_nobody_there() -> None:
    """A webhook that can't be reached, a bundle that is none and an address that is none are errors alike."""
    async with serving(always({})) as server:
        pass
    poster = HttpsPoster()
    for url, bundle in (
        (server.url, server.ca),
        (server.url, b"no PEM"),
        (server.url, b"\xff"),
        ("https://", server.ca),
        ("nothing", server.ca),
    ):
        with pytest.raises(TransportError):
            await _post(poster, url, bundle)
    await poster.close()


@pytest.mark.slow
async def test_many_bundles() -> None:
    """A poster goes on working when a webhook's CA was renewed many times."""
    poster = HttpsPoster()
    async with serving(always({})) as server:
        for renewal in range(70):
            assert await _post(poster, server.url, server.ca + b"\n" * renewal) == b"{}"
        await poster.close()


async def test_closing_twice() -> None:
    """A poster can be closed before its first call and again afterwards, and used after that."""
    poster = HttpsPoster()
    await poster.close()
    async with serving(always({})) as server:
        for _ in range(2):
            await _post(poster, server.url, server.ca)
            await poster.close()
            await poster.close()

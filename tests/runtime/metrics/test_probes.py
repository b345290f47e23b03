"""The pages that watch over a process, on the wire."""

import asyncio
from http import HTTPStatus

import pytest

from lanloom.runtime.probes import (
    CONNECTIONS,
    HEAD_BYTES,
    Answer,
    ProbeServer,
    kept,
    pages,
    parse_address,
)
from tests.runtime.metrics.probing import ask, exchange, serving_pages

PAGES = pages(lambda: (), lambda: b"lanloom_up 1\n")


async def test_pages_are_served() -> None:
    """Each page is answered with its text, its length and its type, and the connection is closed."""
    async with serving_pages(PAGES) as server:
        health = await ask(server.port, "/healthz")
        metrics = await ask(server.port, "/metrics?ignored=yes")
        ready = await ask(server.port, "/readyz")
    assert (health.status, health.body) == (ready.status, ready.body) == (200, "ok\n")
    assert (metrics.status, metrics.body) == (200, "lanloom_up 1\n")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert metrics.headers["content-length"] == "13"
    assert metrics.headers["connection"] == "close"


@pytest.mark.parametrize(("seconds", "made"), [(0.001, 100), (0.2, 10)])
def test_metrics_take_a_tenth_of_the_time(seconds: float, made: int) -> None:
    """Metrics that take long are made again once ten times as long has passed; short ones at each request."""
    now, count = 0.0, 0

    def make() -> bytes:
        nonlocal now, count
        now, count = now + seconds, count + 1
        return str(count).encode()

    get = kept(make, lambda: now, lambda: now)
    for _ in range(100):
        assert get() == str(count).encode()
        now += 0.2
    assert abs(count - made) <= 1


async def test_readiness_names_all_that_is_missing() -> None:
    """A process that is not ready answers 503 and says in words, a line for each, what it waits for."""
    async with serving_pages(pages(lambda: ("water", "bread"), bytes)) as server:
        answer = await ask(server.port, "/readyz")
    assert (answer.status, answer.body) == (503, "not ready: water\nnot ready: bread\n")


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "DELETE"])
async def test_only_get_is_answered(method: str) -> None:
    """Any other method is refused, with the one that works."""
    async with serving_pages(PAGES) as server:
        answer = await ask(server.port, "/metrics", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET"


async def test_unknown_paths_name_the_pages() -> None:
    """A path that is none is answered with those that are."""
    async with serving_pages(PAGES) as server:
        answer = await ask(server.port, "/../etc/passwd")
    assert answer.status == 404
    assert answer.body == "there is /healthz, /readyz, /metrics\n"


@pytest.mark.parametrize(
    "rubbish", [b"\r\n\r\n", b"GET /\r\n\r\n", b"\x16\x03\x01\x00\r\n\r\n", b"a b c\r\n\r\n"]
)
async def test_rubbish_is_refused(rubbish: bytes) -> None:
    """What is not HTTP is answered with 400 and breaks nothing."""
    async with serving_pages(PAGES) as server:
        assert (await exchange(server.port, rubbish)).startswith(b"HTTP/1.1 400 ")
        assert (await ask(server.port, "/healthz")).status == 200


async def test_endless_requests_are_hung_up_on() -> None:
    """A head that is longer than any client's ends the connection without an answer."""
    async with serving_pages(PAGES) as server:
        with pytest.raises(ConnectionError):
            assert not await exchange(server.port, b"GET / HTTP/1.1\r\nX: " + b"x" * 4 * HEAD_BYTES)
            raise ConnectionError
        assert (await ask(server.port, "/healthz")).status == 200


async def test_a_crowd_of_idle_connections_keeps_nobody_out() -> None:
    """However many connections say nothing, a new one is answered, and the oldest are dropped for it."""
    async with serving_pages(PAGES) as server:
        crowd = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(CONNECTIONS + 5)]
        try:
            assert (await ask(server.port, "/healthz")).status == 200
            with pytest.raises(ConnectionError):
                assert not await asyncio.wait_for(crowd[0][0].read(), 60)
                raise ConnectionError
        finally:
            for _, writer in crowd:
                writer.close()


async def test_a_client_that_sends_slowly_is_hung_up_on() -> None:
    """A request that is not whole in time ends without an answer."""
    async with serving_pages(PAGES, patience=0.05) as server:
        with pytest.raises(ConnectionError):
            assert not await exchange(server.port, b"GET /healthz HTTP/1.1\r\n")
            raise ConnectionError


@pytest.mark.slow
async def test_a_client_that_reads_slowly_is_hung_up_on() -> None:
    """An answer that is not taken in time is cut off."""
    size = 64 * 1024 * 1024
    server = ProbeServer(["127.0.0.1:0"], pages(tuple, lambda: bytes(size)), patience=1.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0], limit=1)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")  # in time, for it is there before the server
    before = asyncio.all_tasks()
    serving = asyncio.create_task(server.run())
    assert await reader.read(1)
    for connection in asyncio.all_tasks() - before - {serving}:  # none where the server's end of it is over
        await asyncio.wait((connection,), timeout=60)
    assert len(await reader.read()) < size / 2
    writer.close()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_page_that_fails_hurts_no_other() -> None:
    """A page with a bug ends its own connection only."""

    def broken() -> Answer:
        raise ZeroDivisionError

    async with serving_pages(PAGES | {"/broken": broken}) as server:
        assert (await ask(server.port, "/broken")).status == HTTPStatus.INTERNAL_SERVER_ERROR
        assert (await ask(server.port, "/healthz")).status == 200


async def test_an_address_need_not_be_there_yet() -> None:
    """A server listens at an address that the host has not got, so that it is heard as soon as the host gets it."""
    server = ProbeServer(["192.0.2.1:0", "127.0.0.1:0"], PAGES)
    task = asyncio.create_task(server.run())
    assert (await ask(server.ports[1], "/healthz")).status == 200
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_port_that_is_taken_is_named() -> None:
    """A port that another process has is an error that names the address and the option."""
    async with serving_pages(PAGES) as server:
        with pytest.raises(
            OSError, match=rf"127\.0\.0\.1:{server.port}: Address already in use.*--metrics-address"
        ):
            ProbeServer([f"127.0.0.1:{server.port}"], PAGES)


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:9", ("::1", 9)), ("node1:0", ("node1", 0))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """An address is a host and a port."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["9810", ":9810", "host:", "host:x", "host:70000", "host:-1"])
def test_addresses_that_are_none(text: str) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)

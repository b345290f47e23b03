"""Connections to a server: when one is used again, what is sent once more, and answers however they come."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.kube.config import ClusterConfig
from lanloom.kube.connection import Answer, NoAnswer, Request, head_of
from lanloom.kube.errors import TransportError
from lanloom.kube.http import HttpClient
from lanloom.kube.pool import ConnectionPool
from lanloom.kube.silence import KEEPALIVE
from tests.kube.things import THINGS

BODY = b'{"metadata": {"name": "a"}}'
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
WHOLE = OK + LENGTH + BODY
CHUNKED = (
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY[:5] + b"\r\n%x\r\n" % (len(BODY) - 5) + BODY[5:]
)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(*talks: Talk) -> AsyncIterator[tuple[HttpClient, list[int]]]:
    """A client of a server with a talk for each connection; the list has an entry for each."""
    opened: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(len(opened))
        try:
            await talks[min(opened[-1], len(talks) - 1)](reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        async with HttpClient(ClusterConfig(server=f"http://{host}:{port}")) as client:
            yield client, opened
    finally:
        server.close()


def answering(answer: bytes, times: int = 1000) -> Talk:
    """Give the answer to each of so many requests, then close the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(times):
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            writer.write(answer)

    return talk


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, and close the connection when the next one is there."""
    await answering(WHOLE, 1)(reader, writer)
    await reader.readuntil(b"\r\n\r\n")


class Case(NamedTuple):
    """An answer, and whether its connection carries another request."""

    answer: bytes
    is_kept: bool


CASES = {
    "a length": Case(WHOLE, is_kept=True),
    "chunks": Case(CHUNKED + b"\r\n0\r\n\r\n", is_kept=True),
    "chunks and a trailer": Case(CHUNKED + b"\r\n0\r\nX-Sum: 1\r\n\r\n", is_kept=True),
    "a note before the answer": Case(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WHOLE, is_kept=True),
    "a server that closes": Case(OK + b"Connection: close\r\n" + LENGTH + BODY, is_kept=False),
    "an old server": Case(WHOLE.replace(b"1.1", b"1.0"), is_kept=False),
    "more than the answer": Case(WHOLE + b"HTTP/1.1 200 OK\r\n\r\n", is_kept=False),
    "rubbish after the answer": Case(WHOLE + b"rubbish", is_kept=False),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_connection_is_used_again(name: str) -> None:
    """A connection carries one request after the other, unless the server ends it or sends what belongs to none."""
    case = CASES[name]
    async with talking(answering(case.answer)) as (client, opened):
        for _ in range(3):
            assert (await client.get(THINGS, "a", "default")).metadata.name == "a"
    assert len(opened) == (1 if case.is_kept else 3)


async def test_requests_at_once_have_connections_of_their_own() -> None:
    """No request waits for the answer to another one."""
    reached, hold = asyncio.Event(), asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reached.set()
        await hold.wait()
        writer.write(WHOLE)

    async with talking(late, answering(WHOLE)) as (client, opened):
        first = asyncio.ensure_future(client.get(THINGS, "a", "default"))
        await reached.wait()
        await client.get(THINGS, "a", "default")
        hold.set()
        await first
    assert len(opened) == 2


READS: dict[str, Callable[[HttpClient], Awaitable[object]]] = {
    "get": lambda client: client.get(THINGS, "a", "default"),
    "delete": lambda client: client.delete(THINGS, "a", "default"),
}
WRITES: dict[str, Callable[[HttpClient], Awaitable[object]]] = {
    "create": lambda client: client.create(THINGS, {}, "default"),
    "patch": lambda client: client.patch(THINGS, "a", {}, "default"),
}


@pytest.mark.parametrize("name", READS)
async def test_a_request_that_can_be_repeated(name: str) -> None:
    """A server may close a connection that was idle: what it may have twice is sent once more, on a new one."""
    async with talking(_hang_up, answering(WHOLE)) as (client, opened):
        await client.get(THINGS, "a", "default")
        await READS[name](client)
    assert len(opened) == 2


@pytest.mark.parametrize("name", WRITES)
async def test_a_request_that_cannot_be_repeated(name: str) -> None:
    """Whether a write was done before the connection broke is unknown, so it is not sent a second time."""
    async with talking(_hang_up, answering(WHOLE)) as (client, opened):
        await client.get(THINGS, "a", "default")
        with pytest.raises(TransportError, match="the connection broke before there was an answer"):
            await WRITES[name](client)
    assert len(opened) == 1


async def test_a_new_connection_that_breaks_is_not_tried_again() -> None:
    """A request is sent twice at the most."""
    async with talking(answering(b"", 1)) as (client, opened):
        with pytest.raises(TransportError, match="the connection broke before there was an answer"):
            await client.get(THINGS, "a", "default")
    assert len(opened) == 1


async def test_an_idle_connection_is_closed() -> None:
    """A connection without requests is closed after some seconds."""
    closed = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answering(WHOLE)(reader, writer)
        closed.set()

    async with talking(talk) as (client, _):
        pool = ConnectionPool(client.server, proxy="", server_name="", keepalive=KEEPALIVE, idle=0.01)
        connection, answer = await pool.request(Request("GET", "/", []), None)
        assert await answer.read() == BODY
        pool.release(connection, None)
        await closed.wait()
        await pool.close()


async def test_a_client_that_is_closed_ends_its_requests() -> None:
    """Closing a client ends the requests that wait, and a request after it has a connection of its own."""
    reached = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reached.set()
        await reader.read()

    async with talking(silent, answering(WHOLE)) as (client, _):
        waiting = asyncio.ensure_future(client.get(THINGS, "a", "default"))
        await reached.wait()
        await client.close()
        with pytest.raises(TransportError):
            await waiting
        await client.get(THINGS, "a", "default")


async def test_a_watch_that_is_left_closes_its_connection() -> None:
    """What comes on a watch after its reader has left belongs to no other request."""
    event = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
    stream = OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(event) + event + b"\r\n"
    async with talking(answering(stream, 1), answering(WHOLE)) as (client, opened):
        async with aclosing(client.watch(THINGS, resource_version="1")) as events:
            assert (await anext(events)).object.metadata.name == "a"
        await client.get(THINGS, "a", "default")
    assert len(opened) == 2


class Transport:
    """Records whether its reader wants more."""

    def __init__(self) -> None:
        self.is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def _answer() -> tuple[Answer, Transport]:
    transport = Transport()
    return Answer(cast(Any, transport)), transport


@given(cuts=st.lists(st.integers(0, 400)), packed=st.booleans(), chunked=st.booleans())
def test_an_answer_is_the_same_however_it_is_cut(cuts: list[int], packed: bool, chunked: bool) -> None:
    """Where the network cuts an answer changes nothing of it."""
    content = gzip.compress(BODY) if packed else BODY
    head = b"HTTP/1.1 201 Very Created\r\nX-One: 1\r\n" + (b"Content-Encoding: gzip\r\n" if packed else b"")
    if chunked:
        parts = [content[:7], content[7:]]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        data = head + b"Transfer-Encoding: chunked\r\n\r\n" + framed
    else:
        data = head + b"Content-Length: %d\r\n\r\n" % len(content) + content
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})

    async def read() -> bytes:
        answer, _ = _answer()
        for start, end in pairwise(places):
            assert answer.feed(data[start:end])
        await answer.begun()
        assert (answer.status, answer.reason, answer.headers["x-one"]) == (201, "Very Created", "1")
        body = await answer.read()
        assert answer.is_reusable
        return body

    assert asyncio.run(read()) == BODY


async def test_a_server_waits_for_a_slow_reader() -> None:
    """What no reader has taken yet is bounded: the server has to wait, and goes on when it was read."""
    answer, transport = _answer()
    answer.feed(OK + b"Content-Length: 100000000\r\n\r\n")
    fed = 0
    while not transport.is_paused:
        assert fed < 4 << 20
        answer.feed(b"x" * (1 << 16))
        fed += 1 << 16
    taken = 0
    while taken < fed:
        taken += len(await answer.part())
    assert not transport.is_paused


async def test_a_packed_answer_does_not_fill_the_memory() -> None:
    """Few bytes that unpack to very many are unpacked part by part, as they are read."""
    packed = gzip.compress(bytes(64 << 20))
    answer, _ = _answer()
    answer.feed(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
    tracemalloc.start()
    try:
        size = 0
        while part := await answer.part():
            size += len(part)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 64 << 20
    assert peak < 4 << 20


async def test_a_head_without_an_end() -> None:
    """Headers that go on and on are no answer."""
    answer, _ = _answer()
    line = b"X-More: " + b"x" * 1000 + b"\r\n"
    assert answer.feed(OK)
    assert not all(answer.feed(line) for _ in range(10_000))
    with pytest.raises(NoAnswer):
        await answer.begun()


@pytest.mark.parametrize("text", ["a\r\nX: y", "a\nb", "a\0b"])
def test_a_header_is_one_line(text: str) -> None:
    """A path or a header adds no lines to a request."""
    for target, header in ((text, "x"), ("/", text)):
        with pytest.raises(ValueError, match="line break"):
            head_of("GET", target, [("X", header)])

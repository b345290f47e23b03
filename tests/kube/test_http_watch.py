"""Watches on the wire: streams that are cut anywhere, refused, silent, broken or full of rubbish."""

import asyncio
import ctypes
import json
import os
import socket
import struct
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from lanloom.kube.errors import (
    Gone,
    ServerError,
    SilentWatch,
    TransportError,
)
from lanloom.kube.http import HttpClient
from lanloom.kube.ports import WatchEvent
from lanloom.kube.silence import BOOKMARKED_IDLE_SECONDS, IDLE_SECONDS, Keepalive
from tests.kube.server import (
    always,
    serving,
    status_object,
    streaming,
)
from tests.kube.things import THINGS, Thing

SO_ATTACH_FILTER = 26
"""Of <asm-generic/socket.h>; Python has no name for it."""

RED = {"metadata": {"namespace": "default", "name": "a", "resourceVersion": "7"}, "colour": "red"}


def _line(type: str, item: Any) -> bytes:
    return json.dumps({"type": type, "object": item}).encode() + b"\n"


async def _watch(client: HttpClient, version: str = "5") -> list[WatchEvent[Thing]]:
    async with aclosing(client.watch(THINGS, "default", resource_version=version)) as events:
        return [event async for event in events]


async def test_watch_joins_split_lines() -> None:
    """Events come whole however the stream is cut, two in one piece or one in many, with empty lines between."""
    added, changed = _line("ADDED", RED), _line("MODIFIED", RED | {"colour": "blau \u00fc"})
    stream = added + b"\n" + changed + _line("DELETED", RED)
    for size in (1, 2, 7, 61, len(stream)):
        chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
        async with serving(streaming(*chunks)) as server, HttpClient(server.config()) as client:
            events = await _watch(client)
        assert [(event.type, event.object.colour) for event in events] == [
            ("ADDED", "red"),
            ("MODIFIED", "blau \u00fc"),
            ("DELETED", "red"),
        ]


async def test_watch_asks_for_bookmarks() -> None:
    """A watch starts after the version, wants bookmarks, and gives them as events without a body."""
    bookmark = {"kind": "Thing", "apiVersion": "example.org/v1", "metadata": {"resourceVersion": "99"}}
    async with (
        serving(streaming(_line("BOOKMARK", bookmark))) as server,
        HttpClient(server.config()) as client,
    ):
        [event] = await _watch(client, "41")
    assert event.type == "BOOKMARK"
    assert event.object.metadata.resource_version == "99"
    query = server.seen[0].query
    assert (query["watch"], query["allowWatchBookmarks"], query["resourceVersion"]) == ("true", "true", "41")


async def test_watch_error_events() -> None:
    """An ERROR in the stream is the error of its code, after the events before it; 410 is Gone."""
    for code, error in ((410, Gone), (500, ServerError)):
        stream = streaming(_line("ADDED", RED), _line("ERROR", status_object(code, "", "compacted")))
        async with serving(stream) as server, HttpClient(server.config()) as client:
            seen = []
            with pytest.raises(error, match="compacted"):
                async with aclosing(client.watch(THINGS, resource_version="1")) as events:
                    async for event in events:
                        seen.append(event.type)  # noqa: PERF401
            assert seen == ["ADDED"]


async def test_watch_that_is_refused() -> None:
    """A watch that the server refuses at once raises as any request does."""
    async with (
        serving(always(status_object(410, "Expired", "old"), 410)) as server,
        HttpClient(server.config()) as client,
    ):
        with pytest.raises(Gone):
            await _watch(client)


async def test_watch_with_rubbish() -> None:
    """A line that is not an event breaks the watch as a lost connection does."""
    for rubbish in (b"<html>\n", b'{"type":"MOVED","object":{}}\n', b'{"type":"ADDED"}\n'):
        async with serving(streaming(rubbish)) as server, HttpClient(server.config()) as client:
            with pytest.raises(TransportError, match="can't be read"):
                await _watch(client)


async def test_watch_that_never_ends_a_line() -> None:
    """A line longer than any object breaks the watch instead of filling the memory."""
    stream = streaming(*[b"x" * (1 << 20)] * 17)
    async with serving(stream) as server, HttpClient(server.config()) as client:
        with pytest.raises(TransportError, match="more than 16 MiB"):
            await _watch(client)


async def test_silent_watch_is_given_up() -> None:
    """A watch that is silent for longer than the idle time-out is broken, although the connection stands."""
    hold = asyncio.Event()
    stream = streaming(_line("ADDED", RED), hold=hold.wait)
    async with serving(stream) as server, HttpClient(server.config(), idle=0.05) as client:
        with pytest.raises(SilentWatch, match="received nothing for"):
            await _watch(client)
        hold.set()


async def test_a_watch_with_bookmarks_is_given_up_sooner() -> None:
    """Once there was a bookmark the next one is due, so that a connection which is half open is noticed soon."""
    bookmark = {"kind": "Thing", "apiVersion": "example.org/v1", "metadata": {"resourceVersion": "99"}}
    hold = asyncio.Event()
    stream = streaming(_line("BOOKMARK", bookmark), hold=hold.wait)
    async with serving(stream) as server, HttpClient(server.config(), bookmarked_idle=0.05) as client:
        with pytest.raises(SilentWatch, match="received nothing for"):
            await _watch(client)
        hold.set()


@pytest.mark.slow
async def test_a_watch_whose_path_is_lost_is_given_up() -> None:
    """A server that acknowledges no probe of a silent connection is away, long before a watch may be silent no more."""
    hold = asyncio.Event()

    async def lose(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(_line("ADDED", RED))
        assert request.transport is not None
        deafen(request.transport.get_extra_info("socket"))
        await hold.wait()
        return response

    keepalive = Keepalive(idle=1, interval=1, probes=1)
    async with serving(lose) as server, HttpClient(server.config(), keepalive=keepalive) as client:
        with pytest.raises(TransportError):
            await _watch(client)
        hold.set()


def deafen(connection: Any) -> None:
    """Lets the kernel drop all that comes in for a connection, as a path does that is lost."""
    drop_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K of no bytes
    program = struct.pack("=HxxxxxxQ", 1, ctypes.addressof(drop_all))
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


async def test_the_server_ends_a_watch_before_the_client_gives_it_up() -> None:
    """A watch has an end that the server is asked for, sooner than silence counts as a dead connection."""
    async with serving(streaming()) as server, HttpClient(server.config()) as client:
        await _watch(client)
    assert BOOKMARKED_IDLE_SECONDS < int(server.seen[0].query["timeoutSeconds"]) < IDLE_SECONDS


async def test_watch_that_breaks() -> None:
    """A connection that is lost in the middle of a stream is a TransportError, not an end."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(_line("ADDED", RED))
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(handle) as server, HttpClient(server.config()) as client:
        with pytest.raises(TransportError):
            await _watch(client)


async def test_watch_can_be_cancelled() -> None:
    """A cancelled watch ends at once and closes its connection, which the server notices."""
    closed, first = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with (
        serving(streaming(_line("ADDED", RED), hold=hold)) as server,
        HttpClient(server.config()) as client,
    ):

        async def follow() -> None:
            async with aclosing(client.watch(THINGS, resource_version="1")) as events:
                async for _ in events:
                    first.set()

        task = asyncio.create_task(follow())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await closed.wait()

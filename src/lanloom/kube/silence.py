"""When a silent connection, or a silent watch on it, is dead: time limits, TCP keepalive, and the lines of a watch."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from lanloom.kube.connection import Answer
from lanloom.kube.errors import SilentWatch, TransportError

WATCH_SECONDS = 300
"""Seconds that one watch may last before the server ends it and it is resumed: a sign of life of silent kinds, too."""

IDLE_SECONDS = WATCH_SECONDS + 30.0
"""A watch that is silent for longer is dead, its connection half open: the server would have ended it.

Not sooner. An API server on an etcd before 3.4.25 sends no bookmarks for a kind that had no event since its start.
"""

BOOKMARKED_IDLE_SECONDS = 90.0
"""A watch that had a bookmark and is silent for longer is dead: the server sends the next one after a minute."""


class Keepalive(NamedTuple):
    """TCP keepalive of a connection: probes begin after `idle` seconds of silence, one each `interval` seconds.

    A connection whose peer acknowledges none of `probes` is dead. A watch sends nothing, so without probes a client
    learns of a lost path only from its own time-outs; and what a server sent meanwhile comes as late as the server's
    TCP tries again, which after a loss of two minutes can be two minutes later.
    """

    idle: int = 15
    interval: int = 5
    probes: int = 3

    def connection(self, address: tuple[Any, ...]) -> socket.socket:
        """Return a socket with these options for an entry of `getaddrinfo`."""
        family, kind, protocol = address[:3]
        opened = socket.socket(family, kind, protocol)
        for level, option, value in (
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, self.idle),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, self.interval),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, self.probes),
        ):
            opened.setsockopt(level, option, value)
        return opened


KEEPALIVE = Keepalive()

_LONGEST_LINE = 16 * 1024 * 1024


async def next_line(seconds: float, lines: AsyncIterator[bytes], what: str) -> bytes:
    """Return the next line; empty at the end. Raises SilentWatch when none comes in time."""
    try:
        async with asyncio.timeout(seconds):
            return await anext(lines, b"")
    except TimeoutError:
        raise SilentWatch(f"the watch of {what} received nothing for {seconds:g} s") from None


async def lines_of(answer: Answer) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, however long; ends with the stream."""
    rest = bytearray()
    while chunk := await answer.part():
        rest += chunk
        if b"\n" not in chunk:
            if len(rest) > _LONGEST_LINE:
                raise TransportError("the watch sent a line of more than 16 MiB")
            continue
        *lines, tail = rest.split(b"\n")
        rest = tail
        for line in lines:
            if line:
                yield bytes(line)

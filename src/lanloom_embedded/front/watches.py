"""Watch streams: events go out in chunks, as many at once as there are.

Under load every watcher is woken at most once in a tick of the feed, and watchers that see the same changes alike
share the bytes: a hundred of them cost little more than one.

A watch holds a connection for up to an hour, so each user has a share of them: a user who opens watches without end
keeps no other user out. A watch that its client does not read is ended by the connection (`protocol`).
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random

import msgspec

from lanloom.runtime.https.errors import Expired, TooManyRequests
from lanloom_embedded.engine.storage import wire
from lanloom_embedded.engine.watching import Event, Watch
from lanloom_embedded.front.exchange import SLICE_BYTES, Exchange, integer, is_true
from lanloom_embedded.front.rendering import (
    JSON_FORM,
    Form,
    Renderer,
    encode,
)
from lanloom_embedded.kinds import Raw
from lanloom_embedded.tables import Include

_BOOKMARK_SECONDS = 60.0
_INITIAL_END = "k8s.io/initial-events-end"
"""Says with a bookmark that all objects that were there have been sent."""
_LONGEST_SECONDS = 3600.0
_RETRY_SECONDS = 10


class Streams:
    """Sends watches."""

    def __init__(self, renderer: Renderer, rng: Random, per_user: int) -> None:
        """`per_user` is the number of watches that a user may have open."""
        self._renderer = renderer
        self._rng = rng
        self._per_user = per_user
        self._open: Counter[str] = Counter()
        self._memos: dict[tuple[str, str, str], _Memo] = {}

    @contextmanager
    def share(self, username: str) -> Iterator[None]:
        """Provide a watch of a user, for as long as it is open. Raises TooManyRequests."""
        if self._open[username] >= self._per_user:
            raise TooManyRequests(
                f"user {json.dumps(username)} has {self._per_user} watches open, which is the limit; "
                "end some of them, or watch several objects with one watch",
                details={"retryAfterSeconds": _RETRY_SECONDS},
            )
        self._open[username] += 1
        try:
            yield
        finally:
            self._open[username] -= 1
            if not self._open[username]:
                del self._open[username]

    async def serve(self, exchange: Exchange, watch: Watch, form: Form, include: Include) -> None:
        """Stream a watch until its time is up, the client goes, or the resource is no longer served."""
        seconds = integer(exchange.query, "timeoutSeconds")
        longest = seconds if seconds > 0 else _LONGEST_SECONDS * (0.5 + self._rng.random() / 2)
        bookmarks = is_true(exchange.query.get("allowWatchBookmarks", ""))
        memo = self._memo(watch) if form == JSON_FORM else None
        initial = is_true(exchange.query.get("sendInitialEvents", ""))
        stream = _Stream(
            exchange,
            watch,
            self._framer(watch, form, include),
            memo,
            bookmarks=bookmarks,
            announces=bookmarks and initial,
        )
        await exchange.begin_stream(form)
        gone = asyncio.ensure_future(_disconnected(exchange))
        pump = asyncio.ensure_future(stream.run(longest, gone))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            pump.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)
        if pump.done() and not pump.cancelled():
            await exchange.end_stream()

    async def refuse(self, exchange: Exchange, error: Expired) -> None:
        """Send nothing but an error: that is how clients of a watch learn that they must list again."""
        await exchange.begin_stream(JSON_FORM)
        await exchange.stream(frame("ERROR", encode(error.status(), JSON_FORM)))
        await exchange.end_stream()

    def _memo(self, watch: Watch) -> "_Memo":
        kind = watch.kind
        return self._memos.setdefault((kind.group, kind.version, kind.plural), _Memo())

    def _framer(self, watch: Watch, form: Form, include: Include) -> Callable[[Event], bytes]:
        kind, renderer = watch.kind, self._renderer
        if not form.transform:
            return lambda event: frame(event.type, wire(kind, event.state))
        first = True

        def transformed(event: Event) -> bytes:
            nonlocal first
            shown = renderer.transformed(kind, event.state, form, include, headers=first)
            first = False
            return frame(event.type, encode(shown, JSON_FORM))

        return transformed


class _Memo:
    """The newest chunk that went to a watch of everything: the others at the same place send it too."""

    def __init__(self) -> None:
        self.span = (-1, -1)
        self.chunk = b""


class _Stream:
    """One watch on its way to one client."""

    def __init__(
        self,
        exchange: Exchange,
        watch: Watch,
        framer: Callable[[Event], bytes],
        memo: _Memo | None,
        *,
        bookmarks: bool,
        announces: bool,
    ) -> None:
        self._exchange = exchange
        self._watch = watch
        self._framer = framer
        self._memo = memo
        self._bookmarks = bookmarks
        self._announces = announces

    async def run(self, seconds: float, gone: asyncio.Future[None]) -> None:
        """Send events for so many seconds, or until the client is gone."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        bookmark = loop.time() + _BOOKMARK_SECONDS
        while not self._watch.closed and loop.time() < end:
            try:
                chunks = self._chunks()
            except Expired as error:
                await self._exchange.stream(frame("ERROR", encode(error.status(), JSON_FORM)))
                return
            for chunk in chunks:
                await self._exchange.stream(chunk)
                if gone.done():
                    return  # what is still to be sent may be much, and is not made without a reader
            if self._announces:
                self._announces = False
                await self._exchange.stream(self._bookmark({"annotations": {_INITIAL_END: "true"}}))
            if self._bookmarks and loop.time() >= bookmark:
                bookmark = loop.time() + _BOOKMARK_SECONDS
                await self._exchange.stream(self._bookmark())
            await self._watch.wait(min(end, bookmark) - loop.time())

    def _chunks(self) -> Iterable[bytes]:
        """Return the bytes to send. Raises Expired."""
        span = self._watch.span()
        if self._memo is None or span is None:
            return _joined(map(self._framer, self._watch.take()))
        if self._memo.span == span:
            self._watch.skip()
        else:
            self._memo.chunk = b"".join(map(self._framer, self._watch.take()))
            self._memo.span = span
        return (self._memo.chunk,) if self._memo.chunk else ()

    def _bookmark(self, more: Raw | None = None) -> bytes:
        kind = self._watch.kind
        metadata: Raw = {"resourceVersion": str(self._watch.position), **(more or {})}
        obj: Raw = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return frame("BOOKMARK", msgspec.json.encode(obj))


def _joined(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Yield frames joined to chunks, made one after the other while the client reads."""
    parts: list[bytes] = []
    size = 0
    for part in frames:
        parts.append(part)
        size += len(part)
        if size >= SLICE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def frame(type_: str, obj: bytes) -> bytes:
    """Return one event on the wire."""
    return b'{"type":"' + type_.encode() + b'","object":' + obj + b"}\n"


async def _disconnected(exchange: Exchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        continue

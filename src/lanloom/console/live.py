"""Follow pages: when an object of their kinds changes, a page is rendered again, and what differs of it is sent.

A browser has one stream for all of its tabs: it opens few connections to one host, and seven tabs must not hang.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from difflib import SequenceMatcher
from typing import Literal

import msgspec
from msgspec import Struct

from lanloom.console.reading import Source, UserReader
from lanloom.kube.errors import ApiError, KubeError, Unauthorized

GATHER_SECONDS = 0.5
"""How long changes are gathered before a page is made of them."""

SHARE = 3.0
"""How many times as long as it took to make a page the next one is waited for: a churn costs a part of a processor."""

BEAT_SECONDS = 15.0
"""How often a stream without news says that it is alive."""

MOST_COMPARED = 2000
"""Parts of a page that are compared with each other; more are sent again."""

_PARTS = re.compile(r"(?=<(?:tr|li|section|div|p|g|a|h1|h2)[ >])")

Run = tuple[int, int]
"""Parts that the page had before it changed: the number of the first one, and how many."""

Change = tuple[int, int, Sequence[str | Run]]
"""At which part so many are replaced by others: new ones, and runs of old ones."""


class Update(Struct, frozen=True):
    """News of a page: the whole of it, or changes of its parts, or why it may be old (empty if it is not)."""

    kind: Literal["page", "patch", "away"]
    data: str | Sequence[Change] | Sequence[str]


def parts_of(html: str) -> list[str]:
    """Split a page where its elements begin; joined, they are the page again."""
    return _PARTS.split(html)


def changes_of(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return what makes `new` of `old`, to be applied from the last to the first.

    Rows that move, because one is not ready any more, are sent as the numbers of their parts.
    """
    first = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    rest = min(len(old), len(new)) - first
    last = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(before), len(after)) > MOST_COMPARED:
        found = [(0, len(before), 0, len(after))]
    else:
        # Parts that are there often, such as the head of a row, are no place to begin: for each one all are looked at.
        counts = Counter(after)
        matcher = SequenceMatcher(lambda part: counts[part] > 1, before, after, autojunk=False)
        found = [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    known = {part: number for number, part in enumerate(old)}
    return [(first + a, b - a, _runs(after[c:d], old, known)) for a, b, c, d in reversed(found)]


def _runs(parts: Sequence[str], old: Sequence[str], known: Mapping[str, int]) -> Sequence[str | Run]:
    runs: list[str | Run] = []
    for part in parts:
        last = runs[-1] if runs else ""
        if not isinstance(last, str) and old[sum(last) : sum(last) + 1] == [part]:
            runs[-1] = (last[0], last[1] + 1)
        else:
            runs.append((known[part], 1) if part in known else part)
    return runs


async def follow(
    reader: UserReader,
    source: Source,
    make: Callable[[], Awaitable[str]],
) -> AsyncGenerator[Update, None]:
    """Yield a page, and what becomes of it. `make` raises KubeError where the page can't be made."""
    changed, last, away, took = asyncio.Event(), [""], "", 0.0
    async with reader.following(source, changed.set) as followed:
        while True:
            changed.clear()
            why = next((_why(item.error) for item in followed if item.error), "")
            now, began = last, time.monotonic()
            if not why:
                try:
                    now = parts_of(await make())
                except Unauthorized:
                    raise
                except KubeError as error:
                    why = _why(error)
                took = time.monotonic() - began
            if why != away:
                away = why
                yield Update("away", why)
            if now != last:
                patch = changes_of(last, now)
                yield Update("page", now) if last == [""] or _is_large(patch, now) else Update("patch", patch)
                last = now
            await changed.wait()
            await asyncio.sleep(max(GATHER_SECONDS, SHARE * took))


def _why(error: KubeError) -> str:
    """Return why a page may be old. How a connection broke is for the log: readers can do nothing about it."""
    return str(error) if isinstance(error, ApiError) else "the API server does not answer"


def _is_large(patch: Sequence[Change], page: Sequence[str]) -> bool:
    sent = sum(len(part) for _, _, parts in patch for part in parts if isinstance(part, str))
    return 2 * sent > sum(map(len, page))


async def together(
    pages: Mapping[str, AsyncGenerator[Update, None]], ended: asyncio.Event
) -> AsyncGenerator[str, None]:
    """Yield the updates of all pages as Server-Sent Events, each with the name of its page, until the session ended."""
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

    async def pass_on(name: str, updates: AsyncGenerator[Update, None]) -> None:
        async with aclosing(updates):
            async for item in updates:
                await queue.put(event(item.kind, {"page": name, "data": item.data}))

    tasks = [asyncio.create_task(pass_on(name, updates)) for name, updates in pages.items()]
    over = asyncio.create_task(ended.wait())
    item = asyncio.create_task(queue.get())
    try:
        while True:
            await asyncio.wait(
                (over, item, *tasks), timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if over.done():
                return
            if item.done():
                yield item.result()
                item = asyncio.create_task(queue.get())
            elif failed := next((task for task in tasks if task.done()), None):
                await failed
            else:
                yield ": alive\n\n"
    finally:
        for task in (over, item, *tasks):
            task.cancel()


def event(name: str, data: object) -> str:
    """Return one event as it is sent."""
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"

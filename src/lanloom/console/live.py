"""Follow the kinds of a page: when one of their objects changes, the page is made anew and sent if it differs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden, Gone, KubeError, NotFound, Unauthorized
from lanloom.kube.ports import Watcher

GATHER_SECONDS = 0.5
"""How long changes are gathered before a page is made of them."""

BEAT_SECONDS = 15.0
"""How often a stream without news says that it is alive."""

RETRY_SECONDS = 2.0
"""How soon a kind is read again whose server does not answer."""


class Changes:
    """What happened to the kinds since somebody asked. `away` says why one can't be followed; empty if all can be."""

    def __init__(self, client: Watcher, kinds: Sequence[Resource[Any]]) -> None:
        self._client = client
        self._kinds = kinds
        self._event = asyncio.Event()
        self._away: dict[str, str] = {}

    @property
    def away(self) -> str:
        """Why what is shown may be old."""
        return next(iter(self._away.values()), "")

    async def run(self) -> None:
        """Follow all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                group.create_task(self._follow(kind))

    async def next(self, seconds: float) -> bool:
        """Wait for a change; return whether there was one in this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(GATHER_SECONDS)
        self._event.clear()
        return True

    async def _follow(self, kind: Resource[Any]) -> None:
        version = ""
        while True:
            try:
                version = await self._watch(kind, version)
            except Gone:
                version = ""
            except (Forbidden, NotFound, Unauthorized):
                return  # what a user can't read, or nobody serves, is told by the page itself
            except KubeError as error:
                self._report(kind, str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, kind: Resource[Any], version: str) -> str:
        if not version:
            version = (await self._client.list(kind)).resource_version
            self._report(kind, "")
            self._event.set()
        async with aclosing(self._client.watch(kind, resource_version=version)) as events:
            async for event in events:
                self._report(kind, "")
                version = event.object.metadata.resource_version
                if event.type != "BOOKMARK":
                    self._event.set()
        return version

    def _report(self, kind: Resource[Any], why: str) -> None:
        if self._away.get(kind.plural, "") != why:
            self._away = {name: text for name, text in self._away.items() if name != kind.plural}
            if why:
                self._away[kind.plural] = why
            self._event.set()


async def stream(
    client: Watcher, kinds: Sequence[Resource[Any]], make: Callable[[], Awaitable[str]]
) -> AsyncIterator[str]:
    """Yield Server-Sent Events: `page` with a page that differs from the last one, `away` with why it may be old.

    `make` raises KubeError where the page can't be made.
    """
    changes, last, away = Changes(client, kinds), "", ""
    following = asyncio.create_task(changes.run())
    try:
        while True:
            changed = await changes.next(BEAT_SECONDS)
            now, why = last, changes.away
            if changed and not why:
                try:
                    now = await make()
                except KubeError as error:
                    why = str(error)
            if why != away:
                away = why
                yield event("away", why)
            if now != last:
                last = now
                yield event("page", now)
            elif not changed:
                yield ": alive\n\n"
    finally:
        following.cancel()


def event(name: str, data: str) -> str:
    """Return one event as it is sent."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"

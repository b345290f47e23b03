"""Events about objects that Lanloom can't read: whoever wrote one looks there, and not into a manager's log."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from lanloom.api.core import ObjectReference
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer

REASON = "Unreadable"

_KEPT = 1000
"""As many complaints wait to be written, at the most; the log has all of them."""


class UnreadableObjects:
    """Hears of the informers' unreadable objects, and writes an Event about each while `run` goes on."""

    def __init__(self, informers: Iterable[Informer[Any]], recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: asyncio.Queue[tuple[Resource[Any], Unreadable]] = asyncio.Queue(_KEPT)
        for informer in informers:
            informer.on_unreadable(partial(self._hear, informer.resource))

    async def run(self) -> None:
        """Writes Events until cancelled."""
        while True:
            resource, found = await self._queue.get()
            about = ObjectReference(
                api_version=resource.api_version,
                kind=resource.kind,
                namespace=found.key.namespace,
                name=found.key.name,
                uid=found.uid,
            )
            message = (
                f"Lanloom can't read this {resource.kind} and goes by its last readable state, if it had one: "
                f"{found.why}; correct the field"
            )
            await self._recorder.event(about, "Warning", REASON, message)

    def _hear(self, resource: Resource[Any], found: Unreadable) -> None:
        if found.key.name and not self._queue.full():
            self._queue.put_nowait((resource, found))

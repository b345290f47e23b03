"""A client of a manager that hears too little."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from lanloom.api.resource import Resource
from lanloom.kube.ports import Client, WatchEvent
from tests.harness.interceptor import Interceptor


class StaleClient(Interceptor):
    """A manager that hears nothing of a kind after its first list."""

    def __init__(self, inner: Client, *kinds: Resource[Any]) -> None:
        super().__init__(inner)
        self._kinds = kinds

    async def _hear(
        self, resource: Resource[Any], begin: Callable[[], AsyncGenerator[WatchEvent[Any], None]]
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        if resource in self._kinds:
            await asyncio.Event().wait()
        async with aclosing(begin()) as stream:
            async for event in stream:
                yield event

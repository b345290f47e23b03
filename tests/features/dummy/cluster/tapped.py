"""A client that counts what it is asked, and that dies like the process which has it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from lanloom.api.core import (
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden, TransportError
from lanloom.kube.ports import Client, WatchEvent
from tests.harness.interceptor import Interceptor, Request

T = TypeVar("T", bound=Object)

_WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_HOUSEKEEPING = frozenset(item.plural for item in (LEASES, EVENTS, SECRETS, *_WEBHOOKS))


class Tapped(Interceptor):
    """A client whose requests are counted, and which can die like the process that has it.

    While it `registers` nothing it is not let write webhooks.
    """

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.requests: Counter[str] = Counter()
        self.dies_after: int | None = None
        self.died = asyncio.Event()
        self.registers = True
        self._writes = 0
        self._follows: dict[str, asyncio.Event] = {}

    def die_after(self, writes: int) -> None:
        """Dies after so many more writes, before it hears the answer to the last one."""
        self.dies_after = self._writes + writes

    async def followed(self, resource: Resource[Any]) -> None:
        """Returns when it has begun to watch a kind."""
        await self._follows.setdefault(resource.plural, asyncio.Event()).wait()

    async def send(self, request: Request) -> Any:
        self._check()
        if request.resource in _WEBHOOKS and request.verb in ("create", "patch") and not self.registers:
            raise Forbidden(403, "Forbidden", "no user may register webhooks now")
        counts = request.resource.plural not in _HOUSEKEEPING
        if counts:
            self.requests[f"{request.verb} {request.resource.plural}"] += 1
        result = await super().send(request)
        if request.verb in ("get", "list"):
            return result
        if counts:
            self._writes += 1
            if self._writes == self.dies_after:
                self.died.set()
        self._check()
        return result

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        self._check()
        self._follows.setdefault(resource.plural, asyncio.Event()).set()
        async with aclosing(begin()) as stream:
            async for event in stream:
                self._check()
                yield event

    def _check(self) -> None:
        if self.died.is_set():
            raise TransportError("this process is dead")

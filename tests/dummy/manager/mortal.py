"""A client whose process dies at a chosen request: before it has its effect, or right after."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from lanloom.api.resource import Resource
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.local import LocalClient
from tests.interceptor import Interceptor, Verb

R = TypeVar("R")


class Mortal(Interceptor):
    """Dies at request number `at` after `begin`, at its end if `after`; watches don't count, and end with it.

    `requests` are those that were begun since then.
    """

    def __init__(self, engine: Engine, at: int = 0, *, after: bool = False) -> None:
        super().__init__(LocalClient(engine))
        self.requests = 0
        self.died = asyncio.Event()
        self._at = at
        self._after = after
        self._counts = False

    def begin(self) -> None:
        """Requests count from now on."""
        self._counts = True

    async def _ask(
        self, verb: Verb, resource: Resource[Any], send: Callable[[], Coroutine[Any, Any, R]]
    ) -> R:
        self._check()
        last = False
        if self._counts:
            self.requests += 1
            last = self.requests == self._at
        if last and not self._after:
            self.died.set()
        self._check()
        try:
            return await send()
        finally:
            if last:
                self.died.set()
            self._check()

    def _check(self) -> None:
        """Nothing that a dead process had still to do has an effect."""
        if self.died.is_set():
            raise asyncio.CancelledError

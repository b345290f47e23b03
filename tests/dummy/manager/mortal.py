"""A client whose process dies at a chosen request: before it has its effect, or right after."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.local import LocalClient
from lanloom.kube.ports import Listing

T = TypeVar("T", bound=Object)
R = TypeVar("R")


class Mortal(LocalClient):
    """Dies at request number `at` after `begin`, at its end if `after`; watches don't count, and end with it.

    `requests` are those that were begun since then.
    """

    def __init__(self, engine: Engine, at: int = 0, *, after: bool = False) -> None:
        super().__init__(engine)
        self.requests = 0
        self.died = asyncio.Event()
        self._at = at
        self._after = after
        self._counts = False

    def begin(self) -> None:
        """Requests count from now on."""
        self._counts = True

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        return await self._pass(lambda: super(Mortal, self).get(resource, name, namespace))

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says."""
        return await self._pass(
            lambda: super(Mortal, self).list(resource, namespace, labels=labels, fields=fields)
        )

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """As the port says."""
        return await self._pass(lambda: super(Mortal, self).create(resource, body, namespace))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """As the port says."""
        return await self._pass(
            lambda: super(Mortal, self).patch(resource, name, patch, namespace, subresource=subresource)
        )

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace: int | None = None,
    ) -> None:
        """As the port says."""
        await self._pass(
            lambda: super(Mortal, self).delete(
                resource, name, namespace, uid=uid, propagation=propagation, grace=grace
            )
        )

    async def _pass(self, request: Callable[[], Awaitable[R]]) -> R:
        self._check()
        last = False
        if self._counts:
            self.requests += 1
            last = self.requests == self._at
        if last and not self._after:
            self.died.set()
        self._check()
        try:
            return await request()
        finally:
            if last:
                self.died.set()
            self._check()

    def _check(self) -> None:
        """Nothing that a dead process had still to do has an effect."""
        if self.died.is_set():
            raise asyncio.CancelledError

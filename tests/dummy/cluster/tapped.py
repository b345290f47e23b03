"""A client that counts what it is asked, and that dies like the process which has it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, TypeVar

from lanloom.api.core import EVENTS, LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import TransportError
from lanloom.kube.ports import Client, Listing, WatchEvent

T = TypeVar("T", bound=Object)

_HOUSEKEEPING = frozenset(
    item.plural for item in (LEASES, EVENTS, SECRETS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
)


class Tapped(Client):
    """A client whose requests are counted, and which can die like the process that has it."""

    def __init__(self, inner: Client) -> None:
        self.requests: Counter[str] = Counter()
        self.dies_after: int | None = None
        self.died = asyncio.Event()
        self._inner = inner
        self._writes = 0
        self._follows: dict[str, asyncio.Event] = {}

    def die_after(self, writes: int) -> None:
        """Dies after so many more writes, before it hears the answer to the last one."""
        self.dies_after = self._writes + writes

    async def followed(self, resource: Resource[Any]) -> None:
        """Returns when it has begun to watch a kind."""
        await self._follows.setdefault(resource.plural, asyncio.Event()).wait()

    def _begin(self, verb: str, resource: Resource[Any]) -> None:
        if self.died.is_set():
            raise TransportError("this process is dead")
        if resource.plural not in _HOUSEKEEPING:
            self.requests[f"{verb} {resource.plural}"] += 1

    async def _write(self, verb: str, resource: Resource[Any], request: Callable[[], Awaitable[Any]]) -> Any:
        self._begin(verb, resource)
        result = await request()
        if resource.plural not in _HOUSEKEEPING:
            self._writes += 1
            if self._writes == self.dies_after:
                self.died.set()
        if self.died.is_set():
            raise TransportError("this process is dead")
        return result

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        self._begin("get", resource)
        return await self._inner.get(resource, name, namespace)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        self._begin("list", resource)
        return await self._inner.list(resource, namespace, labels=labels, fields=fields)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        if self.died.is_set():
            raise TransportError("this process is dead")
        self._follows.setdefault(resource.plural, asyncio.Event()).set()
        events = self._inner.watch(
            resource, namespace, resource_version=resource_version, labels=labels, fields=fields
        )
        async with aclosing(events) as stream:
            async for event in stream:
                if self.died.is_set():
                    raise TransportError("this process is dead")
                yield event

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        made: T = await self._write(
            "create", resource, partial(self._inner.create, resource, body, namespace)
        )
        return made

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        request = partial(self._inner.patch, resource, name, patch, namespace, subresource=subresource)
        made: T = await self._write("patch", resource, request)
        return made

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
        request = partial(
            self._inner.delete, resource, name, namespace, uid=uid, propagation=propagation, grace=grace
        )
        await self._write("delete", resource, request)

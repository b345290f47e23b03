"""A client between a process and an API server: a test says in one place what happens to requests."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Literal, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.ports import Client, Listing, WatchEvent

T = TypeVar("T", bound=Object)
R = TypeVar("R")

Verb = Literal["get", "list", "create", "patch", "delete"]


class Interceptor:
    """Passes everything on to `inner`. Who overrides `_ask` or `_hear` decides about all requests, or all watches."""

    def __init__(self, inner: Client) -> None:
        self._inner = inner

    async def _ask(
        self, verb: Verb, resource: Resource[Any], send: Callable[[], Coroutine[Any, Any, R]]
    ) -> R:
        """A request but a watch; `send` makes it."""
        return await send()

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch, which `begin` opens."""
        async with aclosing(begin()) as stream:
            async for event in stream:
                yield event

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        return await self._ask("get", resource, lambda: self._inner.get(resource, name, namespace))

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says."""
        return await self._ask(
            "list", resource, lambda: self._inner.list(resource, namespace, labels=labels, fields=fields)
        )

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """As the port says."""
        return self._hear(
            resource,
            lambda: self._inner.watch(
                resource, namespace, resource_version=resource_version, labels=labels, fields=fields
            ),
        )

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """As the port says."""
        return await self._ask("create", resource, lambda: self._inner.create(resource, body, namespace))

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
        return await self._ask(
            "patch",
            resource,
            lambda: self._inner.patch(resource, name, patch, namespace, subresource=subresource),
        )

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace: int | None = None,
    ) -> None:
        """As the port says."""
        await self._ask(
            "delete",
            resource,
            lambda: self._inner.delete(
                resource,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                grace=grace,
            ),
        )


class Meddled(Interceptor):
    """Call `meddle` before each request of these verbs; it may write something, or raise. `counts` has all requests."""

    def __init__(self, inner: Client, *verbs: Verb) -> None:
        super().__init__(inner)
        self._verbs = verbs
        self.meddle: Callable[[], Awaitable[object]] | None = None
        self.counts: Counter[Verb] = Counter()

    async def _ask(
        self, verb: Verb, resource: Resource[Any], send: Callable[[], Coroutine[Any, Any, R]]
    ) -> R:
        self.counts[verb] += 1
        if verb in self._verbs and self.meddle is not None:
            await self.meddle()
        return await send()

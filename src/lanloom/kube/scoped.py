"""Clients that see a part: one namespace, for users that may read no others, or the objects that selectors choose."""

from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden
from lanloom.kube.ports import Listing, Reader, Watcher, WatchEvent

T = TypeVar("T", bound=Object)


class Scoped(Watcher):
    """List and watch kinds that are in namespaces in one of them, where all were asked for."""

    def __init__(self, client: Watcher, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    @property
    def whole(self) -> Watcher:
        """The client of all namespaces."""
        return self._client

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Implement the port."""
        return await self._client.get(resource, name, namespace)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """Implement the port."""
        return await self._client.list(
            resource,
            self._of(resource, namespace),
            labels=labels,
            fields=fields,
            resource_version=resource_version,
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
        """Implement the port."""
        return self._client.watch(
            resource,
            self._of(resource, namespace),
            resource_version=resource_version,
            labels=labels,
            fields=fields,
        )

    def _of(self, resource: Resource[T], namespace: str) -> str:
        return namespace or (self._namespace if resource.namespaced else "")


class Widest(Reader):
    """List in all namespaces; for a client that may not, in its own, and be `narrowed` then."""

    def __init__(self, client: Reader) -> None:
        self.narrowed = False
        self._client = client
        self._all = client.whole if isinstance(client, Scoped) else client

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Implement the port."""
        return await self._client.get(resource, name, namespace)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """Implement the port."""
        try:
            return await self._all.list(resource, namespace, labels=labels, fields=fields)
        except Forbidden:
            self.narrowed = True
            return await self._client.list(resource, namespace, labels=labels, fields=fields)


class Selected(Reader):
    """List one kind by selectors, and other kinds as they are."""

    def __init__(self, reader: Reader, resource: Resource[Any], labels: str, fields: str) -> None:
        self._reader = reader
        self._resource = resource
        self._labels = labels
        self._fields = fields

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Implement the port."""
        return await self._reader.get(resource, name, namespace)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """Implement the port."""
        if resource == self._resource:
            labels, fields = (
                ",".join(filter(None, pair)) for pair in ((labels, self._labels), (fields, self._fields))
            )
        return await self._reader.list(resource, namespace, labels=labels, fields=fields)

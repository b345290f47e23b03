"""Read objects that may not be there, and check what a cache said against the API server.

That a server does not serve a kind is no proof that there are no objects of it: one that starts answers 404 for every
custom resource. The kind's definition tells. `is_absent` is the only place that decides this.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Generic, TypeVar

from lanloom.api.clusterranges import (
    API_SERVICE,
    ENDPOINT_SLICES,
    SERVICE_CIDRS,
    SERVICES,
    Taken,
    api_server_addresses,
    service_ranges,
)
from lanloom.api.core import CRDS
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Reader
from lanloom.refusals import Denied

T = TypeVar("T", bound=Object)
V = TypeVar("V")
R = TypeVar("R")


async def get_or_none(reader: Reader, resource: Resource[T], key: Key) -> T | None:
    """Return the object as the API server has it now; None where there is none, or no such kind. Raises KubeError.

    The key of an object that is in no namespace has an empty one. A key that no object can have is not asked for: the
    answer would be about a path that the server does not know, and no end of trying again.
    """
    if not _may_exist(resource, key):
        return None
    try:
        return await reader.get(resource, key.name, key.namespace)
    except NotFound as error:
        if not error.is_of(key.name) and not await is_absent(reader, resource):
            raise
        return None


async def list_or_empty(
    reader: Reader, resource: Resource[T], namespace: str = "", *, labels: str = ""
) -> tuple[T, ...]:
    """Return all objects of a kind; none where the kind is absent. Raises KubeError.

    Where the kind is defined and not served, as while an API server starts, that is an error and no empty list.
    """
    try:
        return (await reader.list(resource, namespace, labels=labels)).items
    except NotFound:
        if not await is_absent(reader, resource):
            raise
        return ()


def _may_exist(resource: Resource[Any], key: Key) -> bool:
    """Return whether an object may have this key: its name, and its namespace, are segments of paths."""
    segments = (key.name, key.namespace) if resource.namespaced else (key.name,)
    return not any(text in ("", ".", "..") or "/" in text or "%" in text for text in segments)


async def is_absent(reader: Reader, resource: Resource[Any]) -> bool:
    """Return whether a kind that the server does not serve has no objects. Raises KubeError where that can't be known.

    A kind of Kubernetes itself is served from the first answer on, or not at all. A custom kind is absent if it has
    no CustomResourceDefinition; a server that does not serve definitions yet does not know.
    """
    if _is_built_in(resource):
        return True
    try:
        await reader.get(CRDS, resource.full_name)
    except NotFound as error:
        if not error.is_of(resource.full_name):
            raise
        return True
    return False


def _is_built_in(resource: Resource[Any]) -> bool:
    return "." not in resource.group or resource.group.endswith(".k8s.io")


@contextmanager
def ignore_not_found(name: str) -> Iterator[None]:
    """Suppress that the object of that name is gone; not that the server does not serve its kind."""
    try:
        yield
    except NotFound as error:
        if not error.is_of(name):
            raise


async def recheck(check: Callable[[V], R], views: AsyncGenerator[V, None]) -> R:
    """Return the result of `check` for the first view that it does not deny. Raises the last view's Denied, KubeError.

    Caches lag behind the API server. What they allow may be allowed; a refusal must rest on live objects. So the first
    view is that of a cache, and each next one is read only when the one before led to a refusal.
    """
    refusal: Denied | None = None
    async with aclosing(views) as stream:
        async for view in stream:
            try:
                return check(view)
            except Denied as error:
                refusal = error
    raise refusal or ValueError("there is no view to check")


async def cached_then_live(cached: V, read: Callable[[], Awaitable[V]]) -> AsyncGenerator[V, None]:
    """Yield the views of `recheck` where one read replaces all that the cache said."""
    yield cached
    yield await read()


class SingleFlight(Generic[V]):
    """Share one `read` between all callers that wait for its beginning; at most one is under way.

    A caller that comes while a read is under way can't use its result: the read may have passed what matters. It gets
    the next one.
    """

    def __init__(self, read: Callable[[], Awaitable[V]]) -> None:
        self._read = read
        self._under_way: asyncio.Task[V] | None = None
        self._next: asyncio.Task[V] | None = None

    async def get(self) -> V:
        """Return the result of a read that began after this call. Raises what the read raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._under_way))
            self._next.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._next)

    async def _run(self, before: "asyncio.Task[V] | None") -> V:
        if before is not None:
            await asyncio.wait([before])
        self._under_way, self._next = self._next, None
        own = self._under_way
        try:
            return await self._read()
        finally:
            if self._under_way is own:  # or else the result would be kept in memory
                self._under_way = None


def _retrieve_error(task: "asyncio.Task[Any]") -> None:
    """Retrieve the error of a read: when all callers are cancelled by the time it fails, asyncio would log it."""
    if not task.cancelled():
        task.exception()


async def read_service_ranges(reader: Reader) -> tuple[Taken, ...]:
    """Return the ranges of services. Raises KubeError; kinds and services that are not there contribute nothing."""
    service = await get_or_none(reader, SERVICES, Key("default", API_SERVICE))
    return service_ranges(await list_or_empty(reader, SERVICE_CIDRS), (service,) if service else ())


async def read_api_servers(reader: Reader) -> tuple[Taken, ...]:
    """Return the addresses of the API servers. Raises KubeError; a server that does not publish them has none."""
    found = await get_or_none(reader, ENDPOINT_SLICES, Key("default", API_SERVICE))
    return api_server_addresses((found,) if found else ())

"""A client to an engine in the same process, for simulations and for the server's own start."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, TypeVar

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.reading import ObjectDecoder, unreadable
from lanloom.api.resource import Resource
from lanloom.kube import errors
from lanloom.kube.ports import (
    Listing,
    WatchEvent,
    bookmark,
    unreadable_event,
)
from lanloom.runtime.https.errors import StatusError, no_such_resource, not_found
from lanloom_embedded.engine.calls import SYSTEM, Call, DeleteOptions
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import ListOptions, Selection
from lanloom_embedded.engine.storage import Stored, wire
from lanloom_embedded.kinds import GroupPlural, ServedKind
from lanloom_embedded.patches import json_patch, merge_patch

T = TypeVar("T", bound=Object)

_BOOKMARK_SECONDS = 60.0


class LocalClient:
    """`lanloom.kube.ports.Client` without a network. Every call gives other tasks a turn first, as a network does.

    Webhooks are not asked about what it writes of the resources in `unreviewed`. With `dry_run` the engine judges each
    write, and stores none.
    """

    def __init__(
        self,
        engine: Engine,
        user: UserInfo = SYSTEM,
        *,
        unreviewed: frozenset[GroupPlural] = frozenset(),
        dry_run: bool = False,
    ) -> None:
        self._engine = engine
        self._user = user
        self._unreviewed = unreviewed
        self._dry_run = dry_run

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object. Raises NotFound."""
        await asyncio.sleep(0)
        with _kube_errors():
            kind = self._kind(resource)
            place = _place(kind, namespace)
            return _decode(resource, kind, self._engine.get(kind, place, name))

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """Every object, in one version."""
        await asyncio.sleep(0)
        with _kube_errors():
            kind = self._kind(resource)
            selection = Selection(_place(kind, namespace), labels=labels, fields=fields)
            page = self._engine.list_page(kind, selection, ListOptions(resource_version=resource_version))
        readable, failed = [], []
        for state in page.items:
            try:
                readable.append(_decode(resource, kind, state))
            except msgspec.DecodeError as error:
                failed.append(unreadable(wire(kind, state), error))
        return Listing(tuple(readable), str(page.version), tuple(failed))

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield events after `resource_version`, with a bookmark in every minute. Raises Gone."""
        await asyncio.sleep(0)
        with _kube_errors():
            kind = self._kind(resource)
            selection = Selection(_place(kind, namespace), labels=labels, fields=fields)
            watch = self._engine.watch(kind, selection, resource_version)
        loop = asyncio.get_running_loop()
        due = loop.time() + _BOOKMARK_SECONDS
        while not watch.closed:
            with _kube_errors():
                events = watch.take()
            for event in events:
                try:
                    yield WatchEvent(event.type, _decode(resource, kind, event.state))
                except msgspec.DecodeError as error:
                    yield unreadable_event(event.type, unreadable(wire(kind, event.state), error))
            if loop.time() >= due:
                due = loop.time() + _BOOKMARK_SECONDS
                meta = ObjectMeta(resource_version=str(watch.position))
                yield bookmark(meta)
            await watch.wait(due - loop.time())

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """Create an object."""
        await asyncio.sleep(0)
        raw = _plain(body)
        raw |= {"apiVersion": resource.api_version, "kind": resource.kind}
        with _kube_errors():
            kind = self._kind(resource)
            state = await self._engine.create(kind, _place(kind, namespace), raw, self._call(kind))
            return _decode(resource, kind, state)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Apply a JSON merge patch."""
        wanted = _plain(patch)
        return await self._patch(resource, name, lambda old: merge_patch(old, wanted), namespace, subresource)

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Apply a JSON patch."""
        wanted = _plain(list(operations))
        return await self._patch(resource, name, lambda old: json_patch(old, wanted), namespace, subresource)

    async def _patch(
        self,
        resource: Resource[T],
        name: str,
        change: Callable[[dict[str, Any]], dict[str, Any]],
        namespace: str,
        subresource: str,
    ) -> T:
        await asyncio.sleep(0)
        with _kube_errors():
            kind = self._kind(resource)
            if subresource and not kind.has_subresource(subresource):
                raise not_found(kind.resource, name)
            place = _place(kind, namespace)
            state = await self._engine.patch(kind, place, name, change, self._call(kind), subresource)
            return _decode(resource, kind, state)

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
        """Delete an object, or mark it for deletion."""
        await asyncio.sleep(0)
        options = DeleteOptions(
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period_seconds=grace,
        )
        with _kube_errors():
            kind = self._kind(resource)
            await self._engine.delete(kind, _place(kind, namespace), name, options, self._call(kind))

    def _kind(self, resource: Resource[Any]) -> ServedKind:
        found = self._engine.registry.find(resource.group, resource.version, resource.plural)
        if found is None:
            raise no_such_resource()
        return found

    def _call(self, kind: ServedKind) -> Call:
        return Call(user=self._user, webhooks=kind.key not in self._unreviewed, dry_run=self._dry_run)


def _place(kind: ServedKind, namespace: str) -> str:
    """Return the namespace, and none for kinds of the whole cluster, whatever the caller says, as over HTTP."""
    return namespace if kind.namespaced else ""


@contextmanager
def _kube_errors() -> Iterator[None]:
    try:
        yield
    except StatusError as error:
        raise errors.from_status(error.code, error.status()) from None


@lru_cache
def _decoder(kind: type[Any]) -> ObjectDecoder[Any]:
    return ObjectDecoder(kind)


def _decode(resource: Resource[T], kind: ServedKind, state: Stored) -> T:
    decoded: T = _decoder(resource.type).decode(wire(kind, state))
    return decoded


def _plain(body: object) -> Any:
    """Return a copy of plain JSON values, as if it had gone over a wire."""
    plain: Any = msgspec.json.decode(msgspec.json.encode(body))
    return plain

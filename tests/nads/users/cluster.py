"""A server of everything that may use a network, whose watches may break and whose kinds may be missing."""

import asyncio
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import msgspec

from lanloom.api.core import CRDS
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import Gone, KubeError, NotFound
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import EventType, Listing, WatchEvent
from lanloom.nads.users import WAVES, NadUsers, UserInformers, user_informers

Raw = dict[str, Any]

RESOURCES = {resource.kind: resource for wave in WAVES for resource in wave}
RECOVERED = 120.0
"""Longer than an informer pauses, twice, after its watch broke."""


class Cluster:
    """Objects by kind and key. `faults` are raised by lists of a kind; `lists` is the order of those that came."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Key, Object]] = {kind: {} for kind in RESOURCES}
        self.faults: dict[str, KubeError] = {}
        self.undefined: set[str] = set()
        self.lists: list[str] = []
        self.definitions: KubeError | None = None
        self._version = 100
        self._streams: dict[asyncio.Queue[WatchEvent[Any] | None], str] = {}

    def put(self, body: Raw) -> Object:
        """Creates or changes an object; watches report it."""
        self._version += 1
        kind = body["kind"]
        meta = body["metadata"] | {"resourceVersion": str(self._version)}
        item: Object = msgspec.convert({**body, "metadata": meta, "kind": ""}, RESOURCES[kind].type)
        known = self.objects[kind]
        self._tell(kind, "MODIFIED" if item.metadata.key in known else "ADDED", item)
        known[item.metadata.key] = item
        return item

    def remove(self, kind: str, name: str, namespace: str = "own") -> None:
        """Deletes an object."""
        self._version += 1
        item = self.objects[kind].pop(Key(namespace, name))
        meta = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        self._tell(kind, "DELETED", msgspec.structs.replace(item, metadata=meta))

    def break_watches(self) -> None:
        """Ends every watch; nothing of what happens before they are back is reported, so informers list again."""
        for stream in self._streams:
            stream.put_nowait(None)
        self._streams.clear()

    def _tell(self, kind: str, type_: EventType, item: Object) -> None:
        for stream, watched in self._streams.items():
            if watched == kind:
                stream.put_nowait(WatchEvent(type_, item))

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says; only definitions are asked for."""
        assert resource is CRDS and not namespace
        await asyncio.sleep(0)
        if self.definitions is not None:
            raise self.definitions
        if name in self.undefined:
            raise NotFound(404, "NotFound", f"no {name}", {"details": {"name": name}})
        return Object()

    async def list(self, resource: Resource[Any], *_more: Any, **_selectors: Any) -> Listing[Any]:
        """As the port says."""
        self.lists.append(resource.kind)
        await asyncio.sleep(0)
        if (fault := self.faults.get(resource.kind)) is not None:
            raise fault
        return Listing(tuple(self.objects[resource.kind].values()), str(self._version))

    async def watch(
        self, resource: Resource[Any], *_more: Any, resource_version: str, **_selectors: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """As the port says; it knows no history, so only from now on."""
        if int(resource_version) < self._version:
            raise Gone(410, "Expired", "too old")
        stream: asyncio.Queue[WatchEvent[Any] | None] = asyncio.Queue()
        self._streams[stream] = resource.kind
        try:
            while (event := await stream.get()) is not None:
                yield event
        finally:
            self._streams.pop(stream, None)


def absent() -> NotFound:
    """What a server says of a kind that it does not serve."""
    return NotFound(404, "Not Found", "404 page not found", {})


def informers_of(client: Any) -> UserInformers:
    """The informers as a manager has them; the first three may be given to others as well."""
    rng = Random(0)
    return user_informers(Informers(client, rng))


class Watching:
    """The users as watches of a cluster tell; `told` is what changes were reported since it was last emptied."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.informers = informers_of(cluster)
        self.users = NadUsers(cluster, self.informers, lambda: asyncio.get_running_loop().time())
        self.told: list[frozenset[Key] | None] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Watching":
        self._tasks = [asyncio.create_task(informer.run()) for informer in self.informers.all()]
        await all_synced(self.informers.all())
        await self.settle()
        self.users.on_change(self.told.append)
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settle(self) -> None:
        """Lets the watches bring what has happened."""
        await asyncio.sleep(0.1)

    async def recover(self) -> None:
        """Waits until the watches are back after they broke."""
        await asyncio.sleep(RECOVERED)

    def titles(self, nad: str) -> list[str]:
        """The users of `namespace/name`, as people read them."""
        return [str(user) for user in self.users.users_of(Key(*nad.split("/")))]

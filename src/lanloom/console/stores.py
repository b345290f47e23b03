"""Kinds that pages are made of, followed once by one identity: lists are answered from memory, and changes are
reported.

A kind is followed from when a page first needs it, and until no page did for a while. Where it can't be followed for
good (no right to read it, not served), the reader gets the API server's error, and a later one asks again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from random import Random
from typing import Any, Generic, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden, Gone, KubeError, NotFound, SilentWatch, Unauthorized
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Listing, Watcher, WatchEvent

T = TypeVar("T", bound=Object)

IDLE_SECONDS = 300.0
"""How long a kind is followed that no page asks for."""

MOST_KINDS = 64
"""Kinds and namespaces that one identity follows at a time; a page needs fewer than 20."""

RETRY_SECONDS = 2.0
"""How soon a kind is read again whose server does not answer."""

FINAL_SECONDS = 10.0
"""How long it is believed that a kind is not served, or that this identity may not read it."""

FINAL = (Forbidden, NotFound, Unauthorized)
"""Errors that do not go away by themselves."""


class Followed(Watcher, Generic[T]):
    """One kind in one namespace, or in all: its informer, and what is the matter with it.

    It is the informer's client, so that it sees each error. `error` is None while the server answers.
    """

    def __init__(self, client: Watcher, resource: Resource[T], namespace: str, rng: Random) -> None:
        self._client = client
        self.error: KubeError | None = None
        self.informer = Informer(self, resource, rng=rng, namespace=namespace, longest_pause=RETRY_SECONDS)
        self.informer.on_change(lambda _old, _new: self._notify())
        self.informer.on_unreadable(lambda _found: self._notify())
        self.listeners: set[Callable[[], None]] = set()
        self.began = self.used = 0.0
        self._heard = asyncio.Event()
        self._task = asyncio.create_task(self.informer.run())

    @property
    def is_over(self) -> bool:
        """Whether it is followed no more."""
        return self._task.done()

    async def listing(self) -> Listing[T]:
        """Return the objects, once they are there. Raises KubeError while the server does not answer."""
        await self._heard.wait()
        if self.error is not None:
            raise self.error
        await self.informer.synced()
        return Listing(self.informer.store.items(), "", self.informer.unreadable)

    def stop(self) -> None:
        """Follow it no more. Who waits for its objects gets an error."""
        self._task.cancel()
        self.error = self.error or KubeError(
            f"{self.informer.resource.plural} are not followed any more; try again"
        )
        self._heard.set()

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """Return the object."""
        return await self._client.get(resource, name, namespace)

    async def list(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[Any]:
        """Return the list."""
        try:
            found = await self._client.list(
                resource, namespace, labels=labels, fields=fields, resource_version=resource_version
            )
        except KubeError as error:
            self._note(error)
            raise
        self._note(None)
        return found

    async def watch(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """Yield the changes; after an error nothing is believed but a new list."""
        if self.error is not None:
            raise Gone(410, "Expired", "the server was away")
        events = self._client.watch(resource, namespace, resource_version=resource_version)
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    yield event
        except (Gone, SilentWatch):
            raise
        except KubeError as error:
            self._note(error)
            raise

    def _note(self, error: KubeError | None) -> None:
        changed = str(error or "") != str(self.error or "")
        self.error = error
        self._heard.set()
        if isinstance(error, FINAL):
            self._task.cancel()
        if changed:
            self._notify()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()


class Stores:
    """All kinds that one identity follows. `now` is a clock that never goes back, in seconds."""

    def __init__(self, client: Watcher, now: Callable[[], float], rng: Random) -> None:
        self._client = client
        self._now = now
        self._rng = rng
        self._all: dict[tuple[Resource[Any], str], Followed[Any]] = {}
        self._closed = False

    async def list(self, resource: Resource[T], namespace: str = "") -> Listing[T]:
        """Return every object of a kind, or those of a namespace. Raises KubeError."""
        found = self.follow(resource, namespace)
        return await found.listing()

    def follow(self, resource: Resource[T], namespace: str = "") -> Followed[T]:
        """Return a kind that is followed from now on, if it was not yet. Raises Unauthorized after `close`."""
        if self._closed:
            raise Unauthorized(401, "Unauthorized", "the session has ended")
        key = (resource, namespace if resource.namespaced else "")
        found = self._all.get(key)
        if found is None or (found.is_over and self._now() - found.began > FINAL_SECONDS):
            self._make_room()
            found = self._all[key] = Followed(self._client, resource, key[1], self._rng)
            found.began = self._now()
        found.used = self._now()
        return found

    def expire(self) -> None:
        """Stop what was not requested lately, and no page follows."""
        limit = self._now() - IDLE_SECONDS
        self._drop([key for key, item in self._all.items() if item.used < limit and not item.listeners])

    def _make_room(self) -> None:
        idle = sorted((key for key, item in self._all.items() if not item.listeners), key=self._used)
        self._drop(idle[: max(0, len(self._all) - MOST_KINDS + 1)])

    def _used(self, key: tuple[Resource[Any], str]) -> float:
        return self._all[key].used

    def _drop(self, keys: Sequence[tuple[Resource[Any], str]]) -> None:
        for key in keys:
            self._all.pop(key).stop()

    def close(self) -> None:
        """Stop all, for good: what is under way for the identity must follow nothing again."""
        self._closed = True
        self._drop(tuple(self._all))

"""What one user may read, answered from memory where that is the same answer.

The console's own identity may follow kinds for all users (in a pod). Before a user gets anything of that, the API
server says that this user may list the kind there (SelfSubjectAccessReview, with the user's own credentials). Where it
says no, or the console may not read the kind itself, the request goes to the API server as the user's own, and the
answer is the server's.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.console.stores import FINAL, Followed, Stores
from lanloom.kube.errors import KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.ports import Listing, Watcher, WatchEvent

T = TypeVar("T", bound=Object)

REVIEW_SECONDS = 30.0
"""How long an answer about a user's rights is believed."""

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Source(Struct, frozen=True):
    """What a page is made of: kinds in a namespace, empty for all of them, and `wide` ones that it shows of all."""

    kinds: tuple[Resource[Any], ...]
    namespace: str = ""
    wide: tuple[Resource[Any], ...] = ()


class Rights:
    """What the user of a client may list, as the API server says it. `now` is in seconds, and never goes back."""

    def __init__(self, client: HttpClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._known: dict[tuple[Resource[Any], str], tuple[bool, float]] = {}

    async def may_list(self, resource: Resource[Any], namespace: str) -> bool:
        """Return whether the user may list a kind, in a namespace or everywhere. Raises KubeError."""
        key = (resource, namespace if resource.namespaced else "")
        known, until = self._known.get(key, (False, 0.0))
        if until > self._now():
            return known
        self._known = {item: value for item, value in self._known.items() if value[1] > self._now()}
        allowed = await self._ask(resource, key[1])
        self._known[key] = (allowed, self._now() + REVIEW_SECONDS)
        return allowed

    async def _ask(self, resource: Resource[Any], namespace: str) -> bool:
        attributes = {
            "verb": "list",
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "namespace": namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        status = (await self._client.request("POST", REVIEWS, body)).get("status")
        return isinstance(status, dict) and status.get("allowed") is True


class UserReader(Watcher):
    """Reads as one user. `shared` are the kinds that the console follows for all users, None for none."""

    def __init__(self, client: HttpClient, own: Stores, shared: Stores | None, rights: Rights) -> None:
        self.client = client
        self._own = own
        self._shared = shared
        self._rights = rights

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Return the object."""
        return await self.client.get(resource, name, namespace)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """Return the list; what selectors or a version choose is asked of the API server."""
        if labels or fields or resource_version:
            return await self.client.list(
                resource, namespace, labels=labels, fields=fields, resource_version=resource_version
            )
        if self._shared is not None and await self._rights.may_list(resource, namespace):
            try:
                return _within(await self._shared.list(resource), namespace)
            except FINAL:
                pass  # the console may not read it, but this user may
        return await self._own.list(resource, namespace)

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the changes."""
        return self.client.watch(
            resource, namespace, resource_version=resource_version, labels=labels, fields=fields
        )

    async def ask_pod(self, namespace: str, pod: str, path: str) -> str:
        """Request a page of a pod, as the user alone."""
        return await self.client.ask_pod(namespace, pod, path)

    @asynccontextmanager
    async def following(
        self, source: Source, listener: Callable[[], None]
    ) -> AsyncIterator[tuple[Followed[Any], ...]]:
        """Call the listener at each change of what the user may list of it."""
        places = [(kind, source.namespace if kind.namespaced else "") for kind in source.kinds]
        found = [await self._followed(kind, place) for kind, place in places]
        found += [
            await self._followed(kind, "") or await self._followed(kind, source.namespace)
            for kind in source.wide
        ]
        known = tuple({id(item): item for item in found if item is not None}.values())
        for item in known:
            item.listeners.add(listener)
        try:
            yield known
        finally:
            for item in known:
                item.listeners.discard(listener)

    async def _followed(self, kind: Resource[Any], namespace: str) -> Followed[Any] | None:
        """Return the store that a list of the kind comes from; None for what this user may not list."""
        sources = [(self._own, namespace)]
        if self._shared is not None and await self._rights.may_list(kind, namespace):
            sources.insert(0, (self._shared, ""))
        for stores, place in sources:
            followed = stores.follow(kind, place)
            try:
                await followed.listing()
            except FINAL:
                continue
            except KubeError:
                pass  # it is away; the listener hears when it is back
            return followed
        return None

    def expire(self) -> None:
        """Stop following what was not requested lately."""
        self._own.expire()

    async def close(self) -> None:
        """Stop following, and close the user's connections."""
        self._own.close()
        await self.client.close()


def _within(listing: Listing[T], namespace: str) -> Listing[T]:
    """Return the part of a listing that is in a namespace; empty for all of them."""
    if not namespace:
        return listing
    return Listing(
        tuple(item for item in listing.readable if item.metadata.namespace in (namespace, "")),
        listing.resource_version,
        tuple(item for item in listing.unreadable if item.key.namespace in (namespace, "")),
    )

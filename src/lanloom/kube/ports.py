"""What the kit and the features need of an API server, as a Protocol.

`lanloom.kube.http.HttpClient` speaks it to a server over HTTP; `lanloom_embedded.local.LocalClient` speaks it to an
engine in the same process (tests and simulations). `lanloom.kube.blocking.BlockingReader` speaks the reading half of
it. Nothing else may be assumed of a server.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.errors import UnreadableObjects

T = TypeVar("T", bound=Object)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Listing(Struct, Generic[T], frozen=True):
    """A consistent list: every page of it, and the version to watch from.

    `readable` are the objects, but for those that are none of their kind.
    """

    readable: tuple[T, ...]
    resource_version: str
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def items(self) -> tuple[T, ...]:
        """Every object. Raises UnreadableObjects: a decision by a list must not be made by a part of it."""
        if self.unreadable:
            raise UnreadableObjects(self.unreadable)
        return self.readable


class WatchEvent(Struct, Generic[T], frozen=True):
    """One event of a watch. A BOOKMARK carries only `object.metadata.resource_version`.

    With `unreadable` the object is none of its kind, and `object` has nothing but metadata.
    """

    type: EventType
    object: T
    unreadable: Unreadable | None = None


def bookmark(metadata: ObjectMeta) -> WatchEvent[Any]:
    """Return a BOOKMARK. Its object is of no kind: one of the watched kind may not do with metadata alone."""
    return WatchEvent("BOOKMARK", Object(metadata=metadata))


def unreadable_event(type: EventType, found: Unreadable) -> WatchEvent[Any]:
    """Return an event of an object that can't be read."""
    meta = ObjectMeta(
        name=found.key.name,
        namespace=found.key.namespace,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    return WatchEvent(type, Object(metadata=meta), found)


class Reader(Protocol):
    """An API server as far as its objects can be read. Every method raises errors of `lanloom.kube.errors`.

    `namespace` is empty for cluster-scoped resources and, on list and watch, for all namespaces. `labels` and `fields`
    are selectors in Kubernetes' own syntax.
    """

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Return one object. Raises NotFound."""
        ...

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """Return every object, read in pages of one version. Raises Gone when a page's token expired."""
        ...


@runtime_checkable
class PodReader(Protocol):
    """An API server that passes questions on to pods."""

    async def ask_pod(self, namespace: str, pod: str, path: str) -> str:
        """Return what a pod answers to GET, in few seconds; `pod` is its name, or `name:port`. Raises KubeError.

        It takes the right to get `pods/proxy`.
        """
        ...


class Watcher(Reader, Protocol):
    """An API server whose objects can be watched as well."""

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """Return every object as the port of readers does, or with `resource_version` what the server has cached.

        That is as old as a watch may be, but not older than this version; any version for "0". It costs a server a
        tenth of what a read of etcd does. Raises ServerError (504) when its cache does not reach the version in time.
        """
        ...

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield events after `resource_version`, with bookmarks, until the server or the idle time-out ends the stream.

        Ends without an error when the server closes it; raises Gone when the version is too old, TransportError when
        the stream breaks or is silent for too long. The iterator must be closed (`aclosing`).
        """
        ...


class Client(Watcher, Protocol):
    """An API server whose objects can be written as well."""

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """Create; a Struct gets the resource's apiVersion and kind. Raises AlreadyExists, Invalid, Forbidden."""
        ...

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Return a JSON merge patch (RFC 7386).

        Put `metadata.resourceVersion` into it for optimistic locking (Conflict).
        """
        ...

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Apply a JSON patch (RFC 6902), all of it or nothing: for items of lists, which a merge patch can't change.

        Raises Invalid where an operation can't be applied, such as a `test` of a value that has changed.
        """
        ...

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
        """Delete; `uid` and `resource_version` make it conditional (Conflict). Raises NotFound.

        `grace` are the seconds that a pod gets to end, instead of its own; with 0 it is gone at once, which only the
        pod's kubelet should say, or a caller that knows that its node is gone.
        """
        ...

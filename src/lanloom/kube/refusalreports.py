"""What objects say of writes that the API server does not take for them: an Event, and a condition in their status."""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from lanloom.api.core import ObjectReference
from lanloom.api.meta import Condition, Key
from lanloom.api.resource import Resource
from lanloom.kube.conditions import find, set_condition, without
from lanloom.kube.errors import ApiError
from lanloom.kube.events import Recorder, reference
from lanloom.kube.patches import StatusWriter
from lanloom.kube.ports import Client
from lanloom.kube.store import Store

K = TypeVar("K", bound=Hashable)

WRITES_ACCEPTED = "WritesAccepted"
"""The condition, False, of an object for which something can't be written. An object without it has no such trouble."""

REFUSED = "WriteRefused"
"""The reason of that condition, and of the Event."""

_MESSAGE_MAX = 1000


def text_of(error: ApiError) -> str:
    """Return what an object says of a refusal."""
    return f"the API server does not take a change that belongs to this object: {error}; it is tried again"


def stored(store: Store[Any]) -> Callable[[Key | str], Any]:
    """Return what finds an object by a controller's key, which is a Key, a name, or `namespace/name`."""

    def found(key: Key | str) -> Any:
        if isinstance(key, Key):
            return store.get(key)
        namespace, _, name = key.rpartition("/")
        return store.get(Key(namespace, name))

    return found


def referring(resource: Resource[Any], store: Store[Any]) -> Callable[[Key | str], ObjectReference | None]:
    """Return what refers to an object of a kind by a controller's key; None where it is gone."""
    find = stored(store)

    def refer(key: Key | str) -> ObjectReference | None:
        item = find(key)
        return reference(resource, item) if item is not None else None

    return refer


class RefusalEvents(Generic[K]):
    """An Event of the object that `about` finds."""

    def __init__(self, recorder: Recorder, about: Callable[[K], ObjectReference | None]) -> None:
        self._recorder = recorder
        self._about = about

    async def refused(self, key: K, error: ApiError) -> None:
        """Implement Refusals."""
        if (about := self._about(key)) is not None:
            await self._recorder.event(about, "Warning", REFUSED, text_of(error))

    async def accepted(self, key: K) -> None:
        """Implement Refusals."""


class RefusalConditions(Generic[K]):
    """An Event and a condition of the object that `find` finds, of a kind with conditions in its status.

    `is_ours` tells whether its conditions are Lanloom's.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        resource: Resource[Any],
        find: Callable[[K], Any],
        *,
        now: Callable[[], float],
        is_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._statuses = StatusWriter(client)
        self._recorder = recorder
        self._resource = resource
        self._find = find
        self._now = now
        self._is_ours = is_ours

    async def refused(self, key: K, error: ApiError) -> None:
        """Implement Refusals."""
        item = self._find(key)
        if item is None:
            return
        text = text_of(error)
        await self._recorder.event(reference(self._resource, item), "Warning", REFUSED, text)
        # Without a status subresource this write counts as a generation, too: naming it would call for the next write.
        conditions = set_condition(
            item.status.conditions,
            type=WRITES_ACCEPTED,
            status="False",
            reason=REFUSED,
            message=text[:_MESSAGE_MAX],
            generation=item.metadata.generation if self._resource.status else 0,
            now=self._now(),
        )
        await self._write(item, conditions)

    async def accepted(self, key: K) -> None:
        """Implement Refusals."""
        item = self._find(key)
        if item is None or find(item.status.conditions, WRITES_ACCEPTED) is None:
            return
        await self._write(item, without(item.status.conditions, WRITES_ACCEPTED))

    async def _write(self, item: Any, conditions: tuple[Condition, ...]) -> None:
        if self._is_ours():
            await self._statuses.replace_conditions(self._resource, item, conditions)

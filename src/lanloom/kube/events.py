"""Events: what an operator should know about an object, where `kubectl describe` shows it.

The same event again within ten minutes raises the count of the first one. The recorder never fails its caller: an
event that can't be written is logged instead. `EventQueue` spares a caller the wait. `UnreadableObjects` records an
Event about each object that Lanloom can't read: its author looks there, and not into a manager's log.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Literal, TypeVar

import structlog
from msgspec import Struct, to_builtins

from lanloom.api.core import EVENTS, Event, EventDraft, EventSource, ObjectReference
from lanloom.api.meta import Object, ObjectMeta, rfc3339
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError, NotFound, ServerError, TransportError
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Object)

_WINDOW = 600.0
_REMEMBERED = 1000
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 200
"""Of the object's name in the event's: with the suffix it stays within the 253 characters of a name."""


class _Series(Struct):
    """An event that was written, and how often it happened."""

    name: str
    count: int
    last: float


_Identity = tuple[ObjectReference, str, str, str]


def reference(resource: Resource[T], item: T) -> ObjectReference:
    """Return the reference to `item` for an Event."""
    meta = item.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
    )


def node_reference(node: str) -> ObjectReference:
    """Return the Node as kubelet refers to it: an agent can't read Nodes, and its Events are found by this uid too."""
    return ObjectReference(api_version="v1", kind="Node", name=node, uid=node)


class Recorder:
    """Write events of one component on one host, and wait for that. `now` gives seconds since the epoch."""

    def __init__(
        self, client: Client, component: str, host: str, *, now: Callable[[], float], rng: Random
    ) -> None:
        self._client = client
        self._source = EventSource(component=component, host=host)
        self.now = now
        self._rng = rng
        self._series: OrderedDict[_Identity, _Series] = OrderedDict()

    async def event(
        self,
        about: ObjectReference,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        at: float | None = None,
    ) -> bool:
        """Record that `reason` (a CamelCase word) happened to `about`; `message` says it in a sentence.

        It happened now, unless `at` says otherwise.

        False where the server did not answer, so that another try may help; most callers have nothing to do about it.
        """
        message = message[:_LONGEST_MESSAGE]
        identity, now = (about, type, reason, message), self.now() if at is None else at
        try:
            if not await self._repeat(identity, now):
                await self._create(identity, now)
        except KubeError as error:
            report = log.debug if error.reported else log.warning
            report("event not written", reason=reason, message=message, about=about.name, error=str(error))
            return not isinstance(error, TransportError | ServerError)
        return True

    async def record(self, about: ObjectReference, drafts: Iterable[EventDraft]) -> None:
        """Write each draft, about its own object or else `about`."""
        for item in drafts:
            target = item.about if item.about.name else about
            await self.event(target, item.type, item.reason, item.message)

    async def _repeat(self, identity: _Identity, now: float) -> bool:
        """Count up the event's series; False if there is none (any more)."""
        series = self._series.get(identity)
        if series is None or now - series.last > _WINDOW:
            return False
        series.count += 1
        series.last = now
        patch = {"count": series.count, "lastTimestamp": rfc3339(now)}
        try:
            await self._client.patch(EVENTS, series.name, patch, _namespace(identity[0]))
        except NotFound:
            return False
        return True

    async def _create(self, identity: _Identity, now: float) -> None:
        about, type, reason, message = identity
        name = f"{about.name[:_LONGEST_NAME]}.{int(now):x}{self._rng.getrandbits(40):010x}"
        event = Event(
            metadata=ObjectMeta(name=name, namespace=_namespace(about)),
            involved_object=about,
            reason=reason,
            message=message,
            first_timestamp=rfc3339(now),
            last_timestamp=rfc3339(now),
            source=self._source,
            reporting_component=self._source.component,
            reporting_instance=self._source.host,
        )
        # Written out although they are defaults: a server doesn't fill them in.
        body = to_builtins(event) | {"type": type, "count": 1}
        await self._client.create(EVENTS, body, _namespace(about))
        self._remember(identity, _Series(name, 1, now))

    def _remember(self, identity: _Identity, series: _Series) -> None:
        self._series[identity] = series
        self._series.move_to_end(identity)
        if len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)


def _namespace(about: ObjectReference) -> str:
    """Return the namespace of an Event: the object's, or `default` for cluster-scoped objects."""
    return about.namespace or "default"


_KEPT = 1000
"""As many events wait to be written, at the most; the log has all of them."""


class EventQueue:
    """Write events in their order, without a wait for the caller: a webhook of Events may be slow.

    A task of its own writes them as long as there are any.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: deque[tuple[ObjectReference, EventDraft, float]] = deque()
        self._writing: asyncio.Task[None] | None = None

    def event(
        self, about: ObjectReference, type: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Record an event as `Recorder.event` does, as of now."""
        self.record(about, (EventDraft(type, reason, message),))

    def record(self, about: ObjectReference, drafts: Iterable[EventDraft]) -> None:
        """Record each draft, about its own object or else `about`."""
        for draft in drafts:
            target = draft.about if draft.about.name else about
            if len(self._waiting) < _KEPT:
                self._waiting.append((target, draft, self._recorder.now()))
            else:
                log.warning("too many events", reason=draft.reason, message=draft.message, about=target.name)
        if self._waiting and self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                about, draft, at = self._waiting.popleft()
                await self._recorder.event(about, draft.type, draft.reason, draft.message, at=at)
        finally:
            self._writing = None


REASON = "Unreadable"


class UnreadableObjects:
    """Receive the informers' unreadable objects, and write an Event about each while `run` goes on."""

    def __init__(self, informers: Iterable[Informer[Any]], recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: asyncio.Queue[tuple[Resource[Any], Unreadable]] = asyncio.Queue(_KEPT)
        for informer in informers:
            informer.on_unreadable(partial(self._receive, informer.resource))

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            resource, found = await self._queue.get()
            about = ObjectReference(
                api_version=resource.api_version,
                kind=resource.kind,
                namespace=found.key.namespace,
                name=found.key.name,
                uid=found.uid,
            )
            message = (
                f"Lanloom can't read this {resource.kind} and uses its last readable state, if any: "
                f"{found.why}; correct the field"
            )
            await self._recorder.event(about, "Warning", REASON, message)

    def _receive(self, resource: Resource[Any], found: Unreadable) -> None:
        if found.key.name and not self._queue.full():
            self._queue.put_nowait((resource, found))

"""Events as operators see them."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from lanloom.api.core import (
    NODES,
    Event,
    EventDraft,
    Node,
    ObjectReference,
)
from lanloom.api.meta import ObjectMeta
from lanloom.kube.errors import Forbidden, NotFound, TransportError
from lanloom.kube.events import EventQueue, Recorder, reference
from lanloom_embedded.patches import merge_patch
from tests.harness.virtual import START, run
from tests.kube.things import THINGS, thing

ABOUT = reference(THINGS, thing("a"))


class EventServer:
    """Holds Events as a server does, by namespace and name; `fault` is raised by every request while it is set.

    Each create takes `slowness` seconds.
    """

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.fault: Exception | None = None
        self.slowness = 0.0

    async def create(self, resource: Any, body: Mapping[str, Any], namespace: str = "") -> Any:
        """As the port says."""
        await asyncio.sleep(self.slowness)
        if self.fault is not None:
            raise self.fault
        self.events[namespace, body["metadata"]["name"]] = dict(body)

    async def patch(self, resource: Any, name: str, patch: Mapping[str, Any], namespace: str = "") -> Any:
        """As the port says."""
        if self.fault is not None:
            raise self.fault
        if (namespace, name) not in self.events:
            raise NotFound(404, "NotFound", "no such event")
        self.events[namespace, name] = merge_patch(self.events[namespace, name], dict(patch))

    def all(self) -> list[Event]:
        """Every event."""
        return [msgspec.convert(body, Event) for body in self.events.values()]


def _recorder(server: EventServer) -> Recorder:
    return Recorder(
        server,  # type: ignore[arg-type]
        "lanloom-agent",
        "node1",
        now=asyncio.get_running_loop().time,
        rng=Random(0),
    )


def test_an_event_says_what_who_and_when() -> None:
    """An event points at its object, lies in its namespace, and names the component, the host and the time."""

    async def main() -> None:
        server = EventServer()
        await _recorder(server).event(ABOUT, "Warning", "NoLease", "The server gave no address.")
        [event] = server.all()
        assert event.metadata.namespace == "default"
        assert event.metadata.name.startswith("a.")
        assert event.involved_object == ObjectReference(
            api_version="example.org/v1", kind="Thing", namespace="default", name="a"
        )
        assert (event.type, event.reason, event.message) == (
            "Warning",
            "NoLease",
            "The server gave no address.",
        )
        assert (event.source.component, event.source.host) == ("lanloom-agent", "node1")
        assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:00:00Z"

    run(main())


def test_defaults_are_written_out() -> None:
    """The type and the count are on the wire although they are the usual ones: servers don't fill them in."""

    async def main() -> None:
        server = EventServer()
        await _recorder(server).event(ABOUT, "Normal", "Up", "m")
        [body] = server.events.values()
        assert (body["type"], body["count"]) == ("Normal", 1)

    run(main())


def test_cluster_scoped_objects() -> None:
    """Events of an object without a namespace lie in `default`."""

    async def main() -> None:
        server = EventServer()
        node = Node(metadata=ObjectMeta(name="node1", uid="u"))
        await _recorder(server).event(reference(NODES, node), "Normal", "Up", "m")
        [(namespace, _)] = server.events
        assert namespace == "default"

    run(main())


def test_repetitions_are_counted() -> None:
    """The same event again within ten minutes raises the count; after that, or with another text, it is a new one."""

    async def main() -> None:
        server = EventServer()
        recorder = _recorder(server)
        for _ in range(5):
            await recorder.event(ABOUT, "Normal", "Up", "m")
            await asyncio.sleep(599)
        await recorder.event(ABOUT, "Normal", "Up", "another text")
        [event, other] = server.all()
        assert (event.count, other.count) == (5, 1)
        assert event.first_timestamp == "2026-01-01T00:00:00Z"
        assert event.last_timestamp == "2026-01-01T00:39:56Z"
        await asyncio.sleep(601)
        await recorder.event(ABOUT, "Normal", "Up", "m")
        assert [event.count for event in server.all()] == [5, 1, 1]

    run(main())


def test_an_event_that_is_gone_is_written_anew() -> None:
    """When the server has forgotten an event, its repetition is a new one."""

    async def main() -> None:
        server = EventServer()
        recorder = _recorder(server)
        await recorder.event(ABOUT, "Normal", "Up", "m")
        server.events.clear()
        await recorder.event(ABOUT, "Normal", "Up", "m")
        assert [event.count for event in server.all()] == [1]

    run(main())


@pytest.mark.parametrize(
    ("fault", "settled"),
    [(Forbidden(403, "Forbidden", "no"), True), (TransportError("reset"), False)],
    ids=["refused", "no answer"],
)
def test_a_recorder_never_fails_its_caller(fault: Exception, settled: bool) -> None:
    """An event that can't be written is no reason to stop; the caller hears whether another try may help."""

    async def main() -> None:
        server = EventServer()
        recorder = _recorder(server)
        await recorder.event(ABOUT, "Normal", "Up", "m")
        server.fault = fault
        for message in ("m", "new"):
            assert await recorder.event(ABOUT, "Normal", "Up", message) is settled
        server.fault = None
        assert await recorder.event(ABOUT, "Normal", "Up", "new")
        assert len(server.events) == 2

    run(main())


def test_long_texts() -> None:
    """Messages and names stay within what a server takes."""

    async def main() -> None:
        server = EventServer()
        await _recorder(server).event(reference(THINGS, thing("n" * 253)), "Normal", "Up", "m" * 5000)
        [event] = server.all()
        assert len(event.message) == 1024
        assert len(event.metadata.name) <= 253

    run(main())


def test_memory_is_bounded() -> None:
    """Of very many different events the oldest are no longer counted, so that memory doesn't grow."""

    async def main() -> None:
        server = EventServer()
        recorder = _recorder(server)
        for number in range(1001):
            await recorder.event(ABOUT, "Normal", "Up", str(number))
        await recorder.event(ABOUT, "Normal", "Up", "1000")
        await recorder.event(ABOUT, "Normal", "Up", "0")
        assert len(server.events) == 1002
        assert asyncio.get_running_loop().time() == START

    run(main())


def test_queued_events_keep_nobody_waiting() -> None:
    """They are written one by one, in the order and with the times of their recording, however slow the server is."""

    async def main() -> None:
        server = EventServer()
        server.slowness = 10.0
        events = EventQueue(_recorder(server))
        drafts = (
            EventDraft("Normal", "Up", "1"),
            EventDraft("Normal", "Up", "2", reference(THINGS, thing("b"))),
        )
        events.event(ABOUT, "Normal", "Up", "0")
        events.record(ABOUT, drafts)
        assert asyncio.get_running_loop().time() == START
        await asyncio.sleep(29)
        assert len(server.all()) == 2
        await asyncio.sleep(2)
        events.event(ABOUT, "Normal", "Up", "3")
        await asyncio.sleep(11)
        assert [item.message for item in server.all()] == ["0", "1", "2", "3"]
        assert [item.involved_object.name for item in server.all()] == ["a", "a", "b", "a"]
        assert [(item.first_timestamp or "")[-4:-1] for item in server.all()] == [":00", ":00", ":00", ":31"]

    run(main())


def test_queued_events_that_fail() -> None:
    """One that can't be written takes none of the others with it."""

    async def main() -> None:
        server = EventServer()
        events = EventQueue(_recorder(server))
        server.fault = TransportError("no answer")
        events.event(ABOUT, "Normal", "Up", "lost")
        await asyncio.sleep(1)
        server.fault = None
        events.event(ABOUT, "Normal", "Up", "m")
        await asyncio.sleep(1)
        assert [item.message for item in server.all()] == ["m"]

    run(main())


def test_queued_events_are_bounded() -> None:
    """While the server does not answer, a thousand events wait, and no more."""

    async def main() -> None:
        server = EventServer()
        events = EventQueue(_recorder(server))
        for number in range(1500):
            events.event(ABOUT, "Normal", "Up", str(number))
        await asyncio.sleep(1)
        assert [item.message for item in server.all()] == [str(number) for number in range(1000)]

    run(main())

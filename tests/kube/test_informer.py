"""Promises of the informer one by one; `test_informer_model` holds it against a server that does its worst."""

import asyncio
import gc
import math
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.kube.errors import (
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom.kube.informer import (
    ABSENT_SECONDS,
    Informer,
    all_synced,
)
from lanloom.kube.store import freeze_memory
from tests.harness.virtual import run
from tests.kube.feed import ThingServer
from tests.kube.things import THINGS, Thing


class Followed:
    """A server with two Things and an informer on it, whose changes are noted as (old colour, new colour)."""

    def __init__(
        self,
        optional: bool = False,
        transform: Callable[[Thing], Thing] = lambda item: item,
        from_cache: bool = False,
    ) -> None:
        self.server = ThingServer(Random(1))
        self.server.put("a", "red")
        self.server.put("b", "blue")
        self.informer: Informer[Thing] = Informer(
            self.server,  # type: ignore[arg-type]
            THINGS,
            rng=Random(1),
            optional=optional,
            transform=transform,
            from_cache=from_cache,
        )
        self.changes: list[tuple[str | None, str | None]] = []
        self.informer.on_change(self.note)
        self.task = asyncio.create_task(self.informer.run())

    def note(self, old: Thing | None, new: Thing | None) -> None:
        """A handler."""
        self.changes.append((old.colour if old else None, new.colour if new else None))

    async def quiet(self) -> None:
        """Lets what is under way arrive."""
        await asyncio.sleep(5)


def _scene(main: Coroutine[Any, Any, None]) -> None:
    run(main)


def test_synced_after_the_first_list() -> None:
    """Who waits for the first sync goes on when the store holds every object."""

    async def main() -> None:
        followed = Followed()
        assert len(followed.informer.store) == 0
        await all_synced([followed.informer, followed.informer])
        assert len(followed.informer.store) == 2
        assert followed.changes == [(None, "red"), (None, "blue")]

    _scene(main())


def test_a_late_handler_catches_up() -> None:
    """A handler that comes late hears at once of the objects that are there."""

    async def main() -> None:
        followed = Followed()
        await followed.informer.synced()
        heard: list[Thing | None] = []
        followed.informer.on_change(lambda _old, new: heard.append(new))
        assert heard == list(followed.informer.store.items())

    _scene(main())


def test_what_is_kept_of_objects() -> None:
    """Store and handlers get what is to be kept of an object, of a list and of a watch that goes on for long."""

    async def main() -> None:
        followed = Followed(transform=lambda item: replace(item, colour=item.colour[0]))
        await followed.informer.synced()
        await asyncio.sleep(70)
        followed.server.put("a", "green")
        await followed.quiet()
        assert [item.colour for item in followed.informer.store.items()] == ["g", "b"]
        assert followed.changes == [(None, "r"), (None, "b"), ("r", "g")]

    _scene(main())


def test_a_broken_watch_resumes_from_the_bookmark() -> None:
    """After a broken watch nothing is listed again, and what comes twice is not reported twice."""

    async def main() -> None:
        followed = Followed()
        await asyncio.sleep(70)
        followed.server.put("a", "green")
        await followed.quiet()
        for error in (None, TransportError("reset"), ServerError(500, "InternalError", "overloaded")):
            followed.server.end_watches(error)
            await followed.quiet()
        followed.server.remove("b")
        await followed.quiet()
        assert followed.changes == [(None, "red"), (None, "blue"), ("red", "green"), ("blue", None)]
        assert followed.server.lists == 1
        assert len(followed.server.watches) == 4
        assert followed.server.watches[1] > followed.server.watches[0]

    _scene(main())


def test_a_compacted_version_leads_to_a_new_list() -> None:
    """When the version is too old, the differences to a new list are reported, deletions included."""

    async def main() -> None:
        followed = Followed()
        await followed.quiet()
        followed.server.watch_faults.append(TransportError("still down"))
        followed.server.end_watches(TransportError("reset"))
        followed.server.remove("b")
        followed.server.put("c", "green")
        followed.server.compact()
        await followed.quiet()
        assert followed.changes[2:] == [(None, "green"), ("blue", None)]
        assert followed.server.lists == 2

    _scene(main())


def test_gone_in_the_stream() -> None:
    """A 410 in the middle of a stream leads to a new list as one at its start does."""

    async def main() -> None:
        followed = Followed()
        await followed.quiet()
        followed.server.end_watches(Gone(410, "Expired", "compacted"))
        await followed.quiet()
        assert followed.server.lists == 2
        assert followed.changes == [(None, "red"), (None, "blue")]

    _scene(main())


def test_lists_from_the_cache() -> None:
    """A first list asks for whatever is cached, a later one for no less than what was seen."""

    async def main() -> None:
        followed = Followed(from_cache=True)
        await followed.quiet()
        last = followed.server.put("a", "green").metadata.resource_version
        await followed.quiet()
        followed.server.end_watches(Gone(410, "Expired", "compacted"))
        await followed.quiet()
        assert followed.server.asked == ["0", last]

    _scene(main())


def test_a_cache_that_lags() -> None:
    """What the cache does not have yet is read of etcd."""

    async def main() -> None:
        followed = Followed(from_cache=True)
        await followed.quiet()
        followed.server.lag()
        last = followed.server.put("a", "green").metadata.resource_version
        await followed.quiet()
        followed.server.end_watches(Gone(410, "Expired", "compacted"))
        await followed.quiet()
        assert followed.server.asked == ["0", last, ""]
        assert followed.changes[2:] == [("red", "green")]

    _scene(main())


def test_a_lazy_informer() -> None:
    """What is followed lazily is synced and asks for nothing; told to begin, it is synced once it has listed."""

    async def main() -> None:
        server = ThingServer(Random(1))
        server.put("a", "red")
        informer: Informer[Thing] = Informer(server, THINGS, rng=Random(1), lazy=True)  # type: ignore[arg-type]
        task = asyncio.create_task(informer.run())
        known = asyncio.create_task(informer.synced(begun=True))
        await asyncio.sleep(600)
        assert (server.lists, informer.is_synced, informer.silence, known.done()) == (0, True, 0, False)
        for _ in range(2):
            informer.begin()
        assert not informer.is_synced
        await asyncio.sleep(5)
        assert (server.lists, len(informer.store), known.done()) == (1, 1, True)
        task.cancel()

    _scene(main())


def test_a_server_that_refuses_is_asked_less_and_less() -> None:
    """While lists are refused the pauses grow to half a minute; the store keeps what it has."""

    async def main() -> None:
        followed = Followed()
        await followed.quiet()
        followed.server.list_faults.extend(Forbidden(403, "Forbidden", "no") for _ in range(1000))
        followed.server.end_watches(Forbidden(403, "Forbidden", "no longer"))
        await asyncio.sleep(3600)
        assert 3600 / 31 < followed.server.lists < 3600 / 15 + 10
        assert len(followed.informer.store) == 2
        followed.server.list_faults.clear()
        followed.server.put("c", "red")
        await asyncio.sleep(31)
        assert len(followed.informer.store) == 3

    _scene(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_crowded_server_is_left_alone_for_a_second(seed: int) -> None:
    """After a 429 an informer waits for a second at least, as API servers ask for, and longer each time."""

    async def main() -> None:
        times: list[float] = []

        class Crowded(ThingServer):
            async def list(self, *resource: Any, **selectors: Any) -> Any:
                times.append(asyncio.get_running_loop().time())
                if len(times) < 4:
                    raise ServerError(429, "TooManyRequests", "too many requests")
                return await super().list(*resource, **selectors)

        informer: Informer[Thing] = Informer(Crowded(Random(1)), THINGS, rng=Random(seed))  # type: ignore[arg-type]
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(60)
        task.cancel()
        first, second, third, last = times
        assert 1 <= second - first <= 2 <= third - second <= 4 <= last - third <= 8

    _scene(main())


def test_bugs_do_not_end_the_informer() -> None:
    """After an unexpected error the informer lists again, as after any doubt about what it has."""

    async def main() -> None:
        followed = Followed()
        await followed.quiet()
        followed.server.end_watches(ZeroDivisionError("a bug"))
        await followed.quiet()
        assert followed.server.lists == 2
        assert len(followed.informer.store) == 2

    _scene(main())


def test_a_server_that_recovers_is_followed_closely_again() -> None:
    """After an outage that ended in events, the next broken watch is resumed as soon as a first one."""

    async def main() -> None:
        followed = Followed()
        await followed.quiet()
        followed.server.watch_faults.extend(TransportError("down") for _ in range(12))
        followed.server.end_watches(TransportError("down"))
        await asyncio.sleep(600)
        followed.server.put("a", "green")
        await followed.quiet()
        followed.server.end_watches(TransportError("reset"))
        followed.server.put("a", "blue")
        await asyncio.sleep(1)
        assert followed.changes[2:] == [("red", "green"), ("green", "blue")]

    _scene(main())


def test_others_run_during_a_long_list() -> None:
    """Taking in a long list gives others a turn every few hundred objects."""

    async def main() -> None:
        server = ThingServer(Random(1))
        for number in range(3000):
            server.put(str(number), "red")
        informer: Informer[Thing] = Informer(server, THINGS, rng=Random(1))  # type: ignore[arg-type]
        sizes: set[int] = set()

        async def note_sizes() -> None:
            while len(informer.store) < 3000:
                sizes.add(len(informer.store))
                await asyncio.sleep(0)

        def hear(_old: Thing | None, _new: Thing | None) -> None:
            if not observers:
                observers.append(asyncio.create_task(note_sizes()))

        observers: list[asyncio.Task[None]] = []
        informer.on_change(hear)
        following = asyncio.create_task(informer.run())
        await informer.synced()
        following.cancel()
        assert len(sizes) > 8

    _scene(main())


def test_an_informer_says_how_it_fares() -> None:
    """How long the server has been silent, and how often the watch was begun again, can be read at any time."""

    async def main() -> None:
        followed = Followed()
        informer = followed.informer
        assert (informer.is_synced, informer.silence, informer.restarts) == (False, math.inf, 0)
        await followed.quiet()
        assert informer.is_synced
        assert 3 < informer.silence < 5
        followed.server.end_watches()
        await followed.quiet()
        assert informer.restarts == 1
        followed.server.put("c", "red")
        await asyncio.sleep(0.2)
        assert informer.silence < 1

    _scene(main())


def not_served() -> NotFound:
    """What a server says of a resource whose CRD is not there."""
    return NotFound(404, "NotFound", "the server could not find the requested resource")


def test_an_optional_resource_need_not_be_served() -> None:
    """An optional resource that is not served is synced and empty, and is asked for again every half minute."""

    async def main() -> None:
        followed = Followed(optional=True)
        followed.server.list_faults.extend(not_served() for _ in range(1000))
        await followed.informer.synced()
        assert len(followed.informer.store) == 0
        await asyncio.sleep(3600)
        assert 3600 / 31 < followed.server.lists < 3600 / 30 + 2
        followed.server.list_faults.clear()
        await asyncio.sleep(31)
        assert followed.changes == [(None, "red"), (None, "blue")]

    _scene(main())


def test_an_optional_resource_may_go() -> None:
    """When an optional resource is not served for half a minute its objects are gone, until it is served again."""

    async def main() -> None:
        followed = Followed(optional=True)
        await followed.quiet()
        followed.server.list_faults.extend(not_served() for _ in range(1000))
        followed.server.end_watches(not_served())
        await asyncio.sleep(ABSENT_SECONDS - 1)
        assert followed.changes[2:] == []
        await asyncio.sleep(ABSENT_SECONDS)
        assert followed.changes[2:] == [("red", None), ("blue", None)]
        followed.server.list_faults.clear()
        await asyncio.sleep(ABSENT_SECONDS + 1)
        assert len(followed.informer.store) == 2

    _scene(main())


def test_a_server_that_starts() -> None:
    """An optional resource that a starting server does not serve yet keeps its objects, time after time."""

    async def main() -> None:
        followed = Followed(optional=True)
        await followed.quiet()
        for _ in range(3):
            followed.server.list_faults.extend(not_served() for _ in range(4))
            followed.server.end_watches(not_served())
            await asyncio.sleep(4 * ABSENT_SECONDS)
        assert followed.changes[2:] == []

    _scene(main())


def test_a_resource_that_must_be_there_is_waited_for() -> None:
    """Any other resource that is not served yet does not count as empty."""

    async def main() -> None:
        followed = Followed()
        followed.server.list_faults.extend(not_served() for _ in range(3))
        await asyncio.sleep(0.5)
        assert not followed.informer.is_synced
        await asyncio.sleep(60)
        assert len(followed.informer.store) == 2

    _scene(main())


@pytest.mark.slow
def test_frozen_memory() -> None:
    """What is alive after the first sync is out of the garbage collector's sight."""
    before = gc.get_freeze_count()
    made: list[object] = [[]]
    freeze_memory()
    assert gc.get_freeze_count() > before
    assert made[0] not in gc.get_objects()


def test_an_unreadable_object_takes_no_other_with_it() -> None:
    """An object that can't be read is left out and told once for each state; all others are followed as before."""

    async def main() -> None:
        followed = Followed()
        told: list[str] = []
        followed.informer.on_unreadable(lambda found: told.append(f"{found.key} {found.why}"))
        await followed.informer.synced()
        followed.server.spoil("c")
        followed.server.put("b", "green")
        await followed.quiet()
        assert {item.metadata.name for item in followed.informer.store.items()} == {"a", "b"}
        assert ("blue", "green") in followed.changes
        for error in (None, Gone(410, "Expired", "too old")):
            followed.server.end_watches(error)
            await asyncio.sleep(60)
        assert told == ["default/c its colour is a number"]
        assert [found.key.name for found in followed.informer.unreadable] == ["c"]
        followed.server.put("c", "red")
        await followed.quiet()
        assert not followed.informer.unreadable
        assert followed.changes[-1] == (None, "red")

    _scene(main())


def test_an_object_that_becomes_unreadable_stays_as_it_was() -> None:
    """What was read before stays in the store, over new lists too, until the object is readable again or goes."""

    async def main() -> None:
        followed = Followed()
        await followed.informer.synced()
        followed.server.spoil("a")
        await followed.quiet()
        followed.server.compact()
        followed.server.end_watches(Gone(410, "Expired", "too old"))
        await asyncio.sleep(60)
        assert followed.server.lists == 2
        assert {item.colour for item in followed.informer.store.items()} == {"red", "blue"}
        followed.server.remove("a")
        await followed.quiet()
        assert followed.changes[-1] == ("red", None)
        assert not followed.informer.unreadable

    _scene(main())


def test_a_first_list_with_an_unreadable_object() -> None:
    """An informer that starts with an unreadable object is synced with all the others."""

    async def main() -> None:
        followed = Followed()
        followed.server.spoil("b")
        await followed.informer.synced()
        assert [item.metadata.name for item in followed.informer.store.items()] == ["a"]
        assert len(followed.informer.unreadable) == 1

    _scene(main())

"""Store and informer against a model, under dropped, refused, late, repeated and reordered everything."""

import asyncio
from random import Random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lanloom.api.meta import Key
from lanloom.kube.errors import (
    Forbidden,
    Gone,
    KubeError,
    ServerError,
    TransportError,
)
from lanloom.kube.informer import Informer
from tests.harness.examples import examples
from tests.harness.virtual import VirtualLoop
from tests.kube.feed import ThingServer
from tests.kube.things import THINGS, Thing

SETTLED_SECONDS = 240.0
"""More than the longest pause between tries, a list, a watch and a bookmark."""

names = st.sampled_from("abc")
colours = st.sampled_from(["red", "green", "blue"])
faults = st.sampled_from(
    [
        TransportError("connection reset"),
        Gone(410, "Expired", "too old"),
        ServerError(500, "InternalError", "overloaded"),
        Forbidden(403, "Forbidden", "for a moment"),
    ]
)


class Following(RuleBasedStateMachine):
    """A server that changes and misbehaves while an informer follows it; `mirror` is built from what handlers hear."""

    @initialize(seed=st.integers(0, 2**32), disorder=st.booleans(), from_cache=st.booleans())
    def start(self, seed: int, disorder: bool, from_cache: bool) -> None:
        self.loop = VirtualLoop(Random(seed))
        self.server = ThingServer(Random(seed), disorder)
        self.informer: Informer[Thing] = Informer(
            self.server,  # type: ignore[arg-type]
            THINGS,
            rng=Random(seed),
            indexes={"colour": lambda item: (item.colour,), "twice": lambda item: (item.colour, "all")},
            from_cache=from_cache,
        )
        self.newest: dict[Key, int] = {}
        self.mirror: dict[Key, Thing] = {}
        self.informer.on_change(self.fail)
        self.informer.on_change(self.hear)
        self.task = self.loop.create_task(self.informer.run())

    def fail(self, old: Thing | None, new: Thing | None) -> None:
        raise ZeroDivisionError("a handler with a bug")

    def hear(self, old: Thing | None, new: Thing | None) -> None:
        present = new if new is not None else old
        assert present is not None
        assert self.mirror.get(present.metadata.key) == old
        assert new is None or new.metadata.version > self.newest.get(new.metadata.key, 0), "back in time"
        self.newest[present.metadata.key] = present.metadata.version
        if new is None:
            del self.mirror[present.metadata.key]
        else:
            self.mirror[new.metadata.key] = new

    @rule(changes=st.lists(st.tuples(names, colours | st.none()), min_size=1, max_size=6))
    def change(self, changes: list[tuple[str, str | None]]) -> None:
        """Things get a colour, or go if it is None and they are there."""
        for name, colour in changes:
            if colour is not None:
                self.server.put(name, colour)
            elif name in self.server.objects:
                self.server.remove(name)

    @rule(error=st.none() | faults, delay=st.sampled_from([0.0, 0.05, 0.2, 1.0]))
    def end_watches(self, error: KubeError | None, delay: float) -> None:
        self.loop.call_later(delay, self.server.end_watches, error)

    @rule(error=faults, watch=st.booleans())
    def fail_next(self, error: KubeError, watch: bool) -> None:
        (self.server.watch_faults if watch else self.server.list_faults).append(error)

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule(lags=st.booleans())
    def lag(self, lags: bool) -> None:
        (self.server.lag if lags else self.server.catch_up)()

    @rule(seconds=st.sampled_from([0.01, 0.3, 2.0, 70.0]))
    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule()
    def settle(self) -> None:
        """Once the server answers, the store equals it in every index, and so does what handlers heard."""
        self.server.list_faults.clear()
        self.server.watch_faults.clear()
        self.pass_time(SETTLED_SECONDS)
        expected = {item.metadata.key: item for item in self.server.objects.values()}
        assert {item.metadata.key: item for item in self.informer.store.items()} == expected
        assert self.mirror == expected

    @invariant()
    def handlers_hear_of_every_change(self) -> None:
        if hasattr(self, "loop"):
            assert self.mirror == {item.metadata.key: item for item in self.informer.store.items()}

    @invariant()
    def indexes_find_what_is_stored(self) -> None:
        if not hasattr(self, "loop"):
            return
        items, store = self.informer.store.items(), self.informer.store
        for colour in ("red", "green", "blue", ""):
            expected = {item.metadata.key for item in items if item.colour == colour}
            assert {item.metadata.key for item in store.by("colour", colour)} == expected
            assert {item.metadata.key for item in store.by("twice", colour)} == expected
        assert len(store.by("twice", "all")) == len(items) == len(store)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.settle()
            self.loop.cancel_pending()
            self.loop.close()
            assert self.loop.failures == []


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)

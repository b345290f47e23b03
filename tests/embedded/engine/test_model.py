"""The engine against a model: whatever is asked in whatever order, lists, versions and watches agree.

The model is a dictionary. Watches begin at random moments; at every step each of them, replayed onto the list that it
began with, must give exactly what is listed now.
"""

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lanloom.runtime.https.errors import AlreadyExists, Conflict, NotFound
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import ListOptions, Selection
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.engine.watching import Watch
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.patches import merge_patch
from tests.embedded.engine.running import NOW
from tests.harness.examples import examples

NAMES = st.sampled_from(["a", "b", "c", "d"])
PLACES = st.sampled_from(["default", "kube-public"])
VALUES = st.sampled_from(["1", "2", "3"])
COLOURS = st.sampled_from([None, "red", "blue"])
HOLD = "example.com/hold"
RED = Selection(labels="colour=red")


class Follower:
    """A watch, and what its events make of the list that it began with."""

    def __init__(self, engine: Engine, kind: ServedKind, selection: Selection) -> None:
        page = engine.list_page(kind, selection)
        self.selection = selection
        self.seen = {state.key: state.version for state in page.items}
        self._watch: Watch = engine.watch(kind, selection, str(page.version))

    def replay(self) -> None:
        """Take in what happened."""
        for event in self._watch.take():
            key = event.state.key
            if event.type == "DELETED":
                assert key in self.seen
                del self.seen[key]
            else:
                assert (key in self.seen) is (event.type == "MODIFIED")
                assert event.state.version > self.seen.get(key, 0)
                self.seen[key] = event.state.version


class EngineAgainstModel(RuleBasedStateMachine):
    """Creates, patches, replaces and deletes config maps in two namespaces."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.storage = MemoryStorage()
        self.model: dict[tuple[str, str], Raw] = {}
        self.followers: list[Follower] = []
        self.stale: tuple[str, str, Raw] | None = None
        self._open()

    def _open(self) -> None:
        self.engine = Engine(self.storage, now=lambda: NOW, rng=Random(1), history=10_000)
        self.runner.run(self.engine.start())
        kind = self.engine.registry.find("", "v1", "configmaps")
        assert kind is not None
        self.kind = kind

    def teardown(self) -> None:
        """End the engine."""
        self.runner.run(self.engine.close())
        self.runner.close()

    def _ask(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    @rule(place=PLACES, name=NAMES, value=VALUES, colour=COLOURS, held=st.booleans())
    def create(self, place: str, name: str, value: str, colour: str | None, held: bool) -> None:
        """A name can be created once."""
        meta: Raw = {"name": name, "labels": {"colour": colour} if colour else {}}
        if held:
            meta["finalizers"] = [HOLD]
        try:
            self._ask(self.engine.create(self.kind, place, {"metadata": meta, "data": {"v": value}}, Call()))
        except AlreadyExists:
            assert (place, name) in self.model
        else:
            assert (place, name) not in self.model
            self.model[place, name] = {"value": value, "colour": colour, "held": held, "going": False}

    @rule(place=PLACES, name=NAMES, value=VALUES, colour=COLOURS)
    def patch(self, place: str, name: str, value: str, colour: str | None) -> None:
        """A patch changes what it names."""
        change = {"data": {"v": value}, "metadata": {"labels": {"colour": colour}}}
        coroutine = self.engine.patch(self.kind, place, name, lambda old: merge_patch(old, change), Call())
        try:
            self._ask(coroutine)
        except NotFound:
            assert (place, name) not in self.model
        else:
            self.model[place, name] |= {"value": value, "colour": colour}

    @rule(place=PLACES, name=NAMES)
    def let_go(self, place: str, name: str) -> None:
        """Without its finalizer an object that is being deleted goes."""
        if (place, name) not in self.model:
            return
        change = {"metadata": {"finalizers": None}}
        self._ask(self.engine.patch(self.kind, place, name, lambda old: merge_patch(old, change), Call()))
        entry = self.model[place, name]
        entry["held"] = False
        if entry["going"]:
            del self.model[place, name]

    @rule(place=PLACES, name=NAMES)
    def delete(self, place: str, name: str) -> None:
        """A deletion removes an object, or marks it while it is held back."""
        try:
            deleted = self._ask(self.engine.delete(self.kind, place, name, DeleteOptions(), Call()))
        except NotFound:
            assert (place, name) not in self.model
            return
        entry = self.model[place, name]
        assert deleted.gone is not entry["held"]
        if deleted.gone:
            del self.model[place, name]
        else:
            entry["going"] = True

    @rule(place=PLACES, name=NAMES)
    def remember(self, place: str, name: str) -> None:
        """Read an object, to write it back later."""
        if (place, name) in self.model:
            self.stale = (place, name, self.engine.get(self.kind, place, name).raw())

    @precondition(lambda self: self.stale is not None)
    @rule(value=VALUES)
    def replace_what_was_read(self, value: str) -> None:
        """A replacement holds only if no other write came in between."""
        assert self.stale is not None
        place, name, raw = self.stale
        current = self.engine.ledger.table(self.kind.key).objects.get((place, name))  # type: ignore[call-overload]
        body = {**raw, "data": {"v": value}}
        try:
            self._ask(self.engine.update(self.kind, place, name, body, Call()))
        except NotFound:
            assert current is None
        except Conflict:
            assert current is not None
            assert str(current.version) != raw["metadata"]["resourceVersion"]
        else:
            assert current is not None
            assert str(current.version) == raw["metadata"]["resourceVersion"]
            self.model[place, name]["value"] = value

    @rule(selection=st.sampled_from([Selection(), Selection("default"), RED]))
    def follow(self, selection: Selection) -> None:
        """Begin a watch."""
        self.followers.append(Follower(self.engine, self.kind, selection))

    @rule()
    def restart(self) -> None:
        """The server ends and starts again on the same data."""
        version = self.engine.ledger.version
        self.runner.run(self.engine.close())
        self._open()
        assert self.engine.ledger.version >= version
        self.followers = [_followed_again(self.engine, self.kind, each) for each in self.followers]

    @rule(limit=st.integers(1, 3))
    def read_in_pages(self, limit: int) -> None:
        """Pages put together are the list of one version."""
        whole = self.engine.list_page(self.kind, Selection())
        found: list[Any] = []
        token = ""
        while True:
            page = self.engine.list_page(
                self.kind, Selection(), ListOptions(limit=limit, continue_token=token)
            )
            found += page.items
            token = page.continue_token
            if not token:
                break
            assert page.remaining == len(whole.items) - len(found)
        assert found == list(whole.items)

    @invariant()
    def lists_agree_with_the_model(self) -> None:
        """What is listed is what the model has."""
        listed = {
            (state.key.namespace, state.key.name): state.raw()
            for state in self.engine.list_page(self.kind, Selection()).items
        }
        assert listed.keys() == self.model.keys()
        for key, entry in self.model.items():
            assert listed[key]["data"]["v"] == entry["value"]
            assert listed[key]["metadata"].get("labels", {}).get("colour") == entry["colour"]
            assert ("deletionTimestamp" in listed[key]["metadata"]) is entry["going"]

    @invariant()
    def watches_agree_with_lists(self) -> None:
        """A watch that is replayed gives what is listed."""
        for follower in self.followers:
            follower.replay()
            page = self.engine.list_page(self.kind, follower.selection)
            assert follower.seen == {state.key: state.version for state in page.items}


def _followed_again(engine: Engine, kind: ServedKind, former: Follower) -> Follower:
    follower = Follower(engine, kind, former.selection)
    assert follower.seen == former.seen
    return follower


TestEngineAgainstModel = pytest.mark.slow(EngineAgainstModel.TestCase)
TestEngineAgainstModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


class _Briefly(EngineAgainstModel):
    """The same in a few seconds."""


TestEngineAgainstModelBriefly = _Briefly.TestCase
TestEngineAgainstModelBriefly.settings = settings(
    max_examples=examples(15), stateful_step_count=30, deadline=None
)

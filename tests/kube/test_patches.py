"""Merge patches, and statuses written by them, with a status subresource and without."""

import copy
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec import Struct, convert
from msgspec.structs import replace

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.patches import StatusWriter, merge, merge_diff
from lanloom_embedded.patches import merge_patch


class State(Struct, frozen=True, omit_defaults=True):
    """A status."""

    phase: str = ""
    reason: str = ""


class Gadget(Object, frozen=True, kw_only=True):
    """An object with a status."""

    status: State = State()


GADGETS = Resource(
    group="example.org",
    version="v1",
    kind="Gadget",
    plural="gadgets",
    type=Gadget,
    namespaced=False,
    status=True,
)
PLAIN = replace(GADGETS, status=False)
"""The same, of a definition that has no subresource."""


class Server:
    """A kube-apiserver with one Gadget, whose definition has a status subresource or not."""

    def __init__(self, *, subresource: bool, fields: frozenset[str] = frozenset({"phase", "reason"})) -> None:
        self.subresource = subresource
        self.fields = fields
        self.raw: dict[str, Any] | None = {"metadata": {"name": "a", "resourceVersion": "1"}, "status": {}}
        self.calls: list[str] = []

    async def get(self, _resource: Any, name: str, _namespace: str = "") -> Gadget:
        """The object."""
        self.calls.append("get")
        return self._answer(name)

    async def patch(
        self,
        _resource: Any,
        name: str,
        patch: Mapping[str, Any],
        _namespace: str = "",
        *,
        subresource: str = "",
    ) -> Gadget:
        """As a kube-apiserver does it."""
        self.calls.append(f"patch{'/' * bool(subresource)}{subresource}")
        if subresource and not self.subresource:
            raise self._missing(name)
        before = self._answer(name)
        if subresource or not self.subresource:
            assert self.raw is not None
            status = merge(self.raw["status"], patch["status"])
            self.raw["status"] = {key: value for key, value in status.items() if key in self.fields}
        return self._answer(before.metadata.name)

    def _answer(self, name: str) -> Gadget:
        if self.raw is None:
            raise self._missing(name)
        return convert(self.raw, Gadget)

    def _missing(self, name: str) -> NotFound:
        message = f'gadgets.example.org "{name}" not found'
        return NotFound(404, "NotFound", message, {"details": {"name": name}})


def writer(server: Server) -> StatusWriter:
    """What is tried."""
    return StatusWriter(server)  # type: ignore[arg-type]


async def test_a_subresource_is_written_at_once() -> None:
    """Where there is a subresource, a status is one request."""
    server = Server(subresource=True)
    assert (await writer(server).patch(GADGETS, "a", {"status": {"phase": "x"}})).status.phase == "x"
    assert server.calls == ["patch/status"]


async def test_without_a_subresource_the_object_is_patched() -> None:
    """Where there is none, the object itself is patched, and from then on without asking."""
    server = Server(subresource=False)
    statuses = writer(server)
    for phase in "xyz":
        assert (await statuses.patch(GADGETS, "a", {"status": {"phase": phase}})).status.phase == phase
    assert server.calls == ["patch/status", "get", "patch", "patch", "patch"]


async def test_a_definition_without_a_subresource_is_not_asked_for_one() -> None:
    """Where our own definition has none either, a status is one request; where the server's has, it is found."""
    for subresource, calls in (
        (False, ["patch", "patch"]),
        (True, ["patch", "patch/status", "patch/status"]),
    ):
        server = Server(subresource=subresource)
        statuses = writer(server)
        for phase in "xy":
            answer = await statuses.patch(PLAIN, "a", {"status": {"phase": phase}})
            assert answer.status.phase == phase
        assert server.calls == calls


async def test_a_definition_that_changes_is_noticed() -> None:
    """A subresource that comes later is found as soon as a status is not taken any more."""
    server = Server(subresource=False)
    statuses = writer(server)
    await statuses.patch(GADGETS, "a", {"status": {"phase": "x"}})
    server.subresource = True
    for phase in "yz":
        assert (await statuses.patch(GADGETS, "a", {"status": {"phase": phase}})).status.phase == phase
    assert server.calls[3:] == ["patch", "patch/status", "patch/status"]


async def test_a_field_without_a_place_is_no_endless_story() -> None:
    """What a schema drops is dropped; the answer says so, and the next status is written as before."""
    server = Server(subresource=False, fields=frozenset({"phase"}))
    answer = await writer(server).patch(GADGETS, "a", {"status": {"phase": "x", "reason": "dropped"}})
    assert answer.status == State(phase="x")


@pytest.mark.parametrize("subresource", [True, False])
async def test_an_object_that_is_gone(subresource: bool) -> None:
    """Only an object that is not there is reported as gone."""
    server = Server(subresource=subresource)
    server.raw = None
    with pytest.raises(NotFound):
        await writer(server).patch(GADGETS, "a", {"status": {"phase": "x"}})


def test_merging() -> None:
    """A merge patch changes members at any depth, and null takes one away."""
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}, "d": [5]}) == {
        "a": {"c": 2, "e": 4},
        "d": [5],
    }
    assert merge(5, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}


leaves = st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers() | st.none(), max_size=3)
members = st.sampled_from("abc")
values = st.recursive(leaves, lambda inner: st.dictionaries(members, inner, max_size=3), max_leaves=12)
mappings = st.dictionaries(members, values, max_size=3)


@given(old=mappings, new=mappings)
def test_the_patch_leads_to_the_new_value(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Applying the difference of two values to the old one gives the new one."""
    before = copy.deepcopy((old, new))
    assert merge_patch(old, merge_diff(old, new)) == new
    assert (old, new) == before


@given(value=mappings)
def test_nothing_to_patch(value: dict[str, Any]) -> None:
    """Equal values differ by nothing."""
    assert merge_diff(value, copy.deepcopy(value)) == {}


@given(old=mappings, new=mappings, foreign=mappings)
def test_members_of_others_survive(old: dict[str, Any], new: dict[str, Any], foreign: dict[str, Any]) -> None:
    """What the patch does not know of, such as fields of a newer version, stays in the object."""
    kept = {f"x-{name}": value for name, value in foreign.items()}
    assert merge_patch(old | kept, merge_diff(old, new)) == new | kept


def test_only_what_differs() -> None:
    """A patch names what changed and nothing else, with null for what goes."""
    old = {"same": 1, "gone": 2, "deep": {"same": [1], "list": [1, 2], "gone": {}}}
    new = {"same": 1, "deep": {"same": [1], "list": [2]}, "new": {"a": 1}}
    assert merge_diff(old, new) == {
        "gone": None,
        "deep": {"gone": None, "list": [2]},
        "new": {"a": 1},
    }

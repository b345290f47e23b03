"""Server-side apply as rules: fields of values, owners, and what is merged and taken away."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.runtime.https.errors import Conflict, StatusError
from lanloom_embedded.apply.managers import (
    Managers,
    Owner,
    apply,
    entries,
    fields_of,
    first,
    managers_of,
    updated,
)
from lanloom_embedded.apply.paths import from_wire, shown, to_wire
from lanloom_embedded.apply.typed import check_declared, merged, of_object, without
from tests.embedded.cases.kit.objects import WIDGET_SCHEMA, widget
from tests.harness.examples import examples

ONE, TWO, HAND = Owner("one", "Apply", "v1"), Owner("two", "Apply", "v1"), Owner("hand", "Update", "v1")
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
Raw = dict[str, Any]


def stored(obj: Raw, managers: Managers) -> Raw:
    """The object with its owners."""
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries(managers)}}


def made(spec: Raw, owner: Owner = ONE) -> Raw:
    """A widget that an apply created."""
    return stored(widget("a", spec), first(WIDGET_SCHEMA, widget("a", spec), owner, NOW))


def applied(live: Raw, spec: Raw, owner: Owner = ONE, *, force: bool = False) -> Raw:
    """The widget after an apply."""
    done = apply(WIDGET_SCHEMA, live, widget("a", spec), owner, force=force, now=LATER)
    return stored(done.object, done.managers)


def owned(obj: Raw, owner: Owner) -> set[str]:
    """What a manager owns, as messages show it."""
    found = managers_of(obj).get(owner)
    return set(map(shown, found.fields)) if found is not None else set()


PORTS = [{"port": 80, "name": "web"}, {"port": 443}]


def test_items_are_fields_of_their_own() -> None:
    """A list that is a map is divided by its keys, a set by its members, any other list is one field."""
    found = set(
        map(shown, fields_of(WIDGET_SCHEMA, widget("a", {"ports": PORTS, "tags": ["x"], "raw": {"l": [1]}})))
    )
    assert found == {
        ".spec.ports[port=80]",
        ".spec.ports[port=80].port",
        ".spec.ports[port=80].name",
        ".spec.ports[port=443]",
        ".spec.ports[port=443].port",
        '.spec.tags[="x"]',
        ".spec.raw.l",
    }


@pytest.mark.parametrize(
    ("live", "second", "both", "left"),
    [
        (PORTS, [{"port": 8080}, {"port": 80}], [8080, 80, 443], [8080, 80]),
        (PORTS, [{"port": 443}, {"port": 8080}], [80, 443, 8080], [443, 8080]),
        ([], [{"port": 80}], [80], [80]),
    ],
)
def test_items_of_two(live: list[Raw], second: list[Raw], both: list[int], left: list[int]) -> None:
    """Two managers have items of one list; those of one go when it no longer applies them."""
    there = applied(made({"ports": live}), {"ports": second}, TWO)
    assert [item["port"] for item in there["spec"]["ports"]] == both
    alone = applied(there, {})
    assert [item["port"] for item in alone["spec"]["ports"]] == left
    assert applied(alone, {}, TWO)["spec"] == {}


def test_members_of_two() -> None:
    """Two managers may apply one member of a set, which stays until both have let it go."""
    there = applied(made({"tags": ["x", "y"]}), {"tags": ["y", "z"]}, TWO)
    assert there["spec"]["tags"] == ["x", "y", "z"]
    there = applied(there, {"tags": ["x"]})
    assert there["spec"]["tags"] == ["x", "y", "z"]
    assert applied(there, {"tags": ["z"]}, TWO)["spec"]["tags"] == ["x", "z"]


def test_a_conflict_inside_an_item() -> None:
    """Only the field of an item that differs is a conflict; who takes it by force has it alone."""
    there = made({"ports": PORTS})
    with pytest.raises(Conflict, match=r'1 conflict: conflict with "one": .spec.ports\[port=80\].name'):
        applied(there, {"ports": [{"port": 80, "name": "w"}]}, TWO)
    forced = applied(there, {"ports": [{"port": 80, "name": "w"}]}, TWO, force=True)
    assert forced["spec"]["ports"][0] == {"port": 80, "name": "w"}
    assert ".spec.ports[port=80].name" not in owned(forced, ONE)
    assert {".spec.ports[port=80]", ".spec.ports[port=80].name"} <= owned(forced, TWO)
    again = applied(forced, {"ports": [{"port": 443}]})
    assert [item["port"] for item in again["spec"]["ports"]] == [80, 443]


def test_an_item_goes_with_what_nobody_owns() -> None:
    """An item that its only manager no longer applies goes with its defaults."""
    there = made({"ports": [{"port": 80}]})
    there["spec"]["ports"][0]["protocol"] = "TCP"
    assert applied(there, {})["spec"] == {}


def test_two_conflicts_are_told_by_manager() -> None:
    """Conflicts are listed below the manager whose fields they are."""
    there = applied(made({"size": 2, "plain": "x"}), {"code": "abc"}, TWO)
    with pytest.raises(Conflict) as refused:
        applied(there, {"size": 3, "plain": "y", "code": "d"}, Owner("three", "Apply", "v1"))
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.plain\n- .spec.size\n'
        'conflicts with "two":\n- .spec.code'
    )


def test_other_writes_own_what_they_change() -> None:
    """Another write than an apply takes what it changes from all others, and what it removes too."""
    old = made({"size": 2, "plain": "x", "code": "abc"})
    new = {**old, "spec": {"size": 5, "plain": "x"}}
    there = stored(new, updated(WIDGET_SCHEMA, old, new, HAND, LATER))
    assert owned(there, HAND) == {".spec.size"}
    assert owned(there, ONE) == {".spec.plain"}
    with pytest.raises(Conflict, match=f'"hand" using v1 at {LATER}: .spec.size'):
        applied(there, {"size": 2, "plain": "x"})
    same = updated(WIDGET_SCHEMA, there, there, HAND, "2030-01-01T00:00:00Z")
    assert entries(same) == there["metadata"]["managedFields"]


def test_the_first_apply_of_an_object() -> None:
    """What an object had before is owned by before-first-apply, and stays when the configuration lacks it."""
    live = widget("a", {"size": 2, "plain": "x"}, creationTimestamp=NOW)
    there = applied(live, {"size": 2})
    assert there["spec"] == {"size": 2, "plain": "x"}
    with pytest.raises(Conflict, match='"before-first-apply" using v1'):
        applied(live, {"size": 3})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"sizes": 1}, ".spec.sizes: field not declared in schema"),
        ({"ports": [{"port": 1}, {"port": 1}]}, r".spec.ports: duplicate entries for key \[port=1\]"),
        ({"ports": [{"port": 1, "x": 1}]}, r".spec.ports\[port=1\].x: field not declared"),
    ],
)
def test_what_no_schema_knows(spec: Raw, why: str) -> None:
    """A field that the schema lacks, and an item that comes twice, are refused by name."""
    with pytest.raises(StatusError, match=why):
        check_declared(of_object(WIDGET_SCHEMA), {"spec": spec}, "failed")
    check_declared(of_object(WIDGET_SCHEMA), {"spec": {"raw": {"any": 1}, "limits": {"a": 1}}}, "failed")


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(1, 3),
        "plain": st.sampled_from(["x", "y"]),
        "tags": st.lists(st.sampled_from("abc"), unique=True, min_size=1),
        "limits": st.dictionaries(st.sampled_from("kl"), st.integers(1, 2), min_size=1),
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": st.sampled_from("mn")}),
            unique_by=lambda item: item["port"],
            min_size=1,
        ),
    },
)


@settings(max_examples=examples(100))
@given(SPECS, SPECS, SPECS)
def test_applies_converge(spec: Raw, other: Raw, last: Raw) -> None:
    """After an apply the object has what is asked for and nothing of the past; a second one changes nothing."""
    there = applied(applied(made(spec), other, TWO, force=True), last, force=True)
    wanted = fields_of(WIDGET_SCHEMA, widget("a", last))
    has = fields_of(WIDGET_SCHEMA, there)
    empty = {("f:spec",)}
    assert {path: has[path] for path in wanted.keys() - empty} == {
        path: wanted[path] for path in wanted.keys() - empty
    }
    assert applied(there, last) == there
    assert has.keys() - empty <= wanted.keys() | fields_of(WIDGET_SCHEMA, widget("a", other)).keys()
    emptied = applied(applied(there, {}), {}, TWO)
    assert emptied["spec"] == {}


@settings(max_examples=examples(100))
@given(SPECS)
def test_sets_survive_the_wire(spec: Raw) -> None:
    """A set of fields is the same after it was written and read."""
    fields = frozenset(fields_of(WIDGET_SCHEMA, widget("a", spec, labels={"l": "1"})))
    assert from_wire(to_wire(fields)) == fields


@settings(max_examples=examples(100))
@given(SPECS, SPECS)
def test_a_merge_keeps_both(live: Raw, config: Raw) -> None:
    """A merge has every field of the configuration, and those of the live object that it does not set."""
    schema = of_object(WIDGET_SCHEMA)
    both = fields_of(WIDGET_SCHEMA, merged(schema, widget("a", live), widget("a", config)))
    before, wanted = (
        fields_of(WIDGET_SCHEMA, widget("a", live)),
        fields_of(WIDGET_SCHEMA, widget("a", config)),
    )
    empty = {("f:spec",)}
    assert both.keys() - empty == (before.keys() | wanted.keys()) - empty
    assert wanted.keys() - empty <= both.keys()
    everything = without(schema, widget("a", live), before.keys(), ())
    assert not everything.get("spec")

"""Patches change what they say and nothing else, whatever they are."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.patches import json_patch, merge_patch, strategic_merge_patch

GOLDEN = Path(__file__).parents[2] / "golden/apiserver"
PORTS = {
    "type": "array",
    "x-kubernetes-patch-strategy": "merge",
    "x-kubernetes-patch-merge-key": "port",
    "items": {"type": "object"},
}
PODS = {
    "type": "array",
    "x-kubernetes-patch-strategy": "merge,retainKeys",
    "x-kubernetes-patch-merge-key": "name",
    "items": {"type": "object", "properties": {"ports": PORTS}},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "set": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
        "pods": PODS,
        "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys"},
        "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
    },
}
KEYS = st.sampled_from(["a", "set", "pods", "map"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("xy", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, VALUES)
DIRECTIVES = st.sampled_from(["$patch", "$retainKeys", "$setElementOrder/set"])
NAMED = st.lists(st.sampled_from("abcde"), unique=True).map(lambda names: [{"name": each} for each in names])


def without_nulls(value: Any) -> Any:
    """A value as a server holds it: objects have no null fields."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "case",
    yaml.load((GOLDEN / "strategic_patches.yaml").read_text(), yaml.CSafeLoader),
    ids=lambda case: case["name"],
)
def test_strategic_merge_patches(case: dict[str, Any]) -> None:
    """A strategic merge patch makes the object of its case, or is refused with its message."""
    before = copy.deepcopy(case["before"])
    if "error" in case:
        with pytest.raises(StatusError) as caught:
            strategic_merge_patch(case["before"], case["patch"], SCHEMA)
        assert caught.value.message == case["error"]
    else:
        assert strategic_merge_patch(case["before"], case["patch"], SCHEMA) == case["after"]
    assert case["before"] == before


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once(current: dict[str, Any], patch: dict[str, Any]) -> None:
    """A merge patch that is applied again changes nothing more."""
    once = merge_patch(current, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS, OBJECTS)
def test_merging_leaves_its_arguments_alone(current: dict[str, Any], patch: dict[str, Any]) -> None:
    """Neither the current object nor the patch is changed."""
    before = copy.deepcopy((current, patch))
    merge_patch(current, patch)
    assert (current, patch) == before


@given(OBJECTS, OBJECTS)
def test_an_object_merged_into_nothing_is_itself(current: dict[str, Any], patch: dict[str, Any]) -> None:
    """An empty patch changes nothing, and a patch without lists onto nothing makes itself less its nulls."""
    assert merge_patch(current, {}) == current
    plain = {key: value for key, value in patch.items() if not isinstance(value, list)}
    merged = merge_patch({}, plain)
    assert merge_patch(merged, plain) == merged
    assert merged.keys() == {key for key, value in plain.items() if value is not None}


@given(OBJECTS, OBJECTS)
def test_strategic_patches_without_schema_are_merge_patches(
    current: dict[str, Any], patch: dict[str, Any]
) -> None:
    """Where no schema gives a list a strategy, both formats do the same, but for nulls inside lists' objects."""
    merged = without_nulls(merge_patch(current, patch))
    assert without_nulls(strategic_merge_patch(current, patch, {})) == merged


@given(NAMED, NAMED)
def test_keyed_lists_merge_to_their_union(current: list[Any], patch: list[Any]) -> None:
    """Every item of both lists is there once, and the patch's items keep their order."""
    merged = strategic_merge_patch({"pods": current}, {"pods": patch}, SCHEMA)["pods"]
    assert sorted(each["name"] for each in merged) == sorted({each["name"] for each in current + patch})
    assert [each for each in merged if each in patch] == patch


@given(OBJECTS, st.dictionaries(KEYS | DIRECTIVES, VALUES))
def test_malformed_strategic_patches_are_refused(current: dict[str, Any], patch: dict[str, Any]) -> None:
    """Whatever the patch, the answer is an object or a refusal, and the current object is unchanged."""
    before = copy.deepcopy(current)
    try:
        assert isinstance(strategic_merge_patch(current, patch, SCHEMA), dict)
    except StatusError as error:
        assert error.message
    assert current == before


def test_json_patches() -> None:
    """Operations apply in order to a copy."""
    current = {"a": {"b": [1, 2]}, "c": "x"}
    operations = [
        {"op": "test", "path": "/c", "value": "x"},
        {"op": "add", "path": "/a/b/-", "value": 3},
        {"op": "remove", "path": "/a/b/0"},
        {"op": "replace", "path": "/c", "value": "y"},
        {"op": "copy", "from": "/c", "path": "/d"},
        {"op": "move", "from": "/d", "path": "/e~1f"},
    ]
    assert json_patch(current, operations) == {"a": {"b": [2, 3]}, "c": "y", "e/f": "y"}
    assert current == {"a": {"b": [1, 2]}, "c": "x"}


def test_a_json_patch_replaces_what_is_not_there() -> None:
    """To replace a field that an object lacks adds it, as in Kubernetes and other than RFC 6902 says."""
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({}, 400),
        ([1], 400),
        ([{"op": "remove", "path": "/missing"}], 422),
        ([{"op": "replace", "path": "/missing/below", "value": 1}], 422),
        ([{"op": "replace", "path": "/list/1", "value": 1}], 422),
        ([{"op": "add", "path": "/missing/below", "value": 1}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "shuffle", "path": "/a"}], 422),
        ([{"op": "add", "path": "a", "value": 1}], 422),
        ([{"op": "replace", "path": "", "value": []}], 422),
        ([{"op": "add", "path": "/a/0", "value": 1}], 422),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
    ],
)
def test_json_patches_refused(operations: Any, code: int) -> None:
    """An operation that can't be applied refuses the whole patch."""
    with pytest.raises(StatusError) as caught:
        json_patch({"a": 1, "list": [1]}, operations)
    assert caught.value.code == code


def doubling(copies: int) -> list[dict[str, Any]]:
    """A patch whose every copy doubles what is there."""
    first = {"op": "add", "path": "/zz", "value": {"a": {"b": 1}}}
    return [first, *({"op": "copy", "from": "/zz/a", "path": f"/zz/a/c{i}"} for i in range(copies))]


@pytest.mark.slow
@pytest.mark.parametrize("copies", [28, 9_999])
def test_copies_are_bounded_together(copies: int) -> None:
    """A patch whose copies double the object is refused at the copy that exceeds the bound, and names it."""
    with pytest.raises(StatusError) as refusal:
        json_patch({}, doubling(copies))
    (cause,) = (refusal.value.details or {})["causes"]
    assert refusal.value.code == 422
    assert re.fullmatch(
        r"operation 1\d of the patch \(copy /zz/a/c1\d\) is refused: all copies of a patch may add \d+ values",
        cause["message"],
    )


def test_bytes_of_copies_are_bounded() -> None:
    """The JSON of all copies takes at most as much as a body; so much is allowed."""
    text = {"a": "x" * 1_048_574}
    copies = [{"op": "copy", "from": "/a", "path": f"/b{i}"} for i in range(4)]
    assert len(json_patch(text, copies[:3])) == 4
    with pytest.raises(StatusError) as refusal:
        json_patch(text, copies)
    (cause,) = (refusal.value.details or {})["causes"]
    assert cause["message"].endswith("(copy /b3) is refused: all copies of a patch may add 3145728 bytes")


def test_the_number_of_operations_is_bounded() -> None:
    """A patch has at most 10,000 operations."""
    step = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, [step] * 10_000) == {"a": 1}
    with pytest.raises(
        StatusError, match=r"The allowed maximum operations .* is 10000, got 10001"
    ) as refusal:
        json_patch({"a": 1}, [step] * 10_001)
    assert refusal.value.code == 413

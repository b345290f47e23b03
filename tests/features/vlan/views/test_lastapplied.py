"""What `kubectl apply` leaves, foreseen; tests/embedded/kubectl/test_embedded.py holds it against kubectl itself."""

import copy
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lanloom.features.vlan.views.apply import (
    LAST_APPLIED,
    applied,
    last_applied,
    three_way,
)

Raw = dict[str, Any]

leaves = st.none() | st.text("xyz", max_size=1) | st.lists(st.integers(0, 2), max_size=2)
members = st.sampled_from("abc")
values = st.recursive(leaves, lambda inner: st.dictionaries(members, inner, max_size=3), max_leaves=12)
files = st.dictionaries(members, values, max_size=3)


CASES: dict[str, tuple[Raw, Raw, Raw, Raw]] = {
    "a key that goes from the file": ({"m": {"a": 1, "b": 2}}, {"m": {}}, {"m": {"a": 1}}, {"m": {"b": 2}}),
    "a key of another": ({"m": {"a": 1, "b": 2}}, {"m": {"a": 3}}, {"m": {"a": 1}}, {"m": {"a": 3, "b": 2}}),
    "a map that goes from the file": ({"m": {"a": 1, "b": 2}}, {}, {"m": {"a": 1}}, {}),
    "a map that was empty and goes": ({"m": {"b": 2}}, {}, {"m": {}}, {}),
    "a map that was empty and stays": ({"m": {"b": 2}}, {"m": {}}, {"m": {}}, {"m": {"b": 2}}),
    "a map that was null": ({"m": {"b": 2}}, {"m": {"a": 1}}, {"m": None}, {"m": {"a": 1, "b": 2}}),
    "a map that the file never had": ({"m": {"b": 2}}, {}, {}, {"m": {"b": 2}}),
    "null for what others set": ({"a": 1}, {"a": None}, {}, {}),
    "null for what the file set": ({"m": {"a": 1}}, {"m": {"a": None}}, {"m": {"a": 1}}, {"m": {}}),
    "null that was there before": ({"a": 1}, {"a": None}, {"a": None}, {"a": 1}),
    "null for what is not there": ({}, {"m": {"a": None}}, {}, {"m": {}}),
    "lists": ({"l": [1, 2]}, {"l": [3]}, {"l": [1, 2]}, {"l": [3]}),
    "a list of maps": ({"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1}]}, {"l": [{"a": 1}]}, {"l": [{"a": 1}]}),
    "a value becomes a map": ({"m": 1}, {"m": {"a": 1}}, {"m": 1}, {"m": {"a": 1}}),
    "a value becomes an empty map": ({"m": 1}, {"m": {}}, {"m": 1}, {"m": {}}),
    "a map becomes a value": ({"m": {"a": 1, "b": 2}}, {"m": 1}, {"m": {"a": 1}}, {"m": 1}),
    "nothing known before": ({"m": {"a": 1}}, {"m": {"b": 2}}, {}, {"m": {"a": 1, "b": 2}}),
    "deep maps": (
        {"m": {"n": {"a": 1, "b": 2}, "o": 1}},
        {"m": {"n": {"c": 3}}},
        {"m": {"n": {"a": 1}}},
        {"m": {"n": {"b": 2, "c": 3}, "o": 1}},
    ),
}
"""What is there, the file, the file before, and what there is then."""


@pytest.mark.parametrize(("live", "manifest", "last", "expected"), CASES.values(), ids=CASES)
def test_merge(live: Raw, manifest: Raw, last: Raw, expected: Raw) -> None:
    """Maps merge key by key, and what the file before had and this one has not goes."""
    assert three_way(live, manifest, last) == expected


def remembering(manifest: object, **annotations: str) -> Raw:
    """An object with a manifest in kubectl's annotation."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    return {"metadata": {"name": "a", "annotations": {LAST_APPLIED: text, **annotations}}, "spec": {"a": 1}}


def test_annotations_of_others_stay() -> None:
    """kubectl's note that a file has no annotations takes away no other annotations."""
    live = remembering({"metadata": {"annotations": {}, "name": "a"}, "spec": {"a": 1}}, theirs="kept")
    assert applied(live, {"metadata": {"name": "a"}, "spec": {"a": 1}}) == live


@pytest.mark.parametrize("metadata", [{}, {"annotations": None}, {"annotations": {}}], ids=str)
def test_annotations_that_the_file_had(metadata: Raw) -> None:
    """Annotations go one by one, also when the file names none any more."""
    live = remembering(
        {"metadata": {"annotations": {"mine": "old"}}, "spec": {"a": 1}}, mine="old", theirs="kept"
    )
    found = applied(live, {"metadata": {"name": "a", **metadata}, "spec": {"a": 1}})
    assert found["metadata"]["annotations"].keys() == {LAST_APPLIED, "theirs"}


def test_labels_and_finalizers_that_the_file_had() -> None:
    """Labels go as a whole when the file names none any more, as do finalizers."""
    live = remembering({"metadata": {"labels": {"mine": "old"}, "finalizers": ["a/b"]}, "spec": {"a": 1}})
    live["metadata"] |= {"labels": {"mine": "old", "theirs": "too"}, "finalizers": ["a/b"]}
    found = applied(live, {"metadata": {"name": "a"}, "spec": {"a": 1}})
    assert found["metadata"].keys() == {"name", "annotations"}


def test_what_no_file_sets() -> None:
    """Neither the status nor what the server keeps in the metadata is a file's to set or to remove."""
    last = {"metadata": {"uid": "1", "creationTimestamp": None}, "spec": {"a": 1}, "status": {"ready": True}}
    live = remembering(last) | {"status": {"ready": False}}
    live["metadata"] |= {"uid": "2", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert applied(live, {"metadata": {"name": "a", "uid": "3"}, "spec": {"a": 1}, "status": {}}) == live


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"metadata": []}', "[" * 100_000], ids=len)
def test_an_annotation_that_is_rubbish(text: str) -> None:
    """What can't be read as an object says of nothing that it was applied."""
    assert last_applied(remembering(text))["metadata"] == {"annotations": {}}


def test_objects_without_metadata() -> None:
    """Objects that lack metadata, or hold something else in its place, are merged like any other."""
    odds: list[Raw] = [{}, {"metadata": None}, {"metadata": []}]
    for odd in odds:
        assert applied(odd, {"spec": {"a": 1}}) == {"metadata": {"annotations": {}}, "spec": {"a": 1}}


@given(live=files, manifest=files, last=files)
def test_applying_twice(live: Raw, manifest: Raw, last: Raw) -> None:
    """A file that was just applied changes nothing when it is applied again; nothing that is given is changed."""
    given_before = copy.deepcopy((live, manifest, last))
    once = three_way(live, manifest, last)
    assert three_way(once, manifest, manifest) == once
    assert (live, manifest, last) == given_before


@given(live=files, manifest=files, last=files)
def test_what_the_file_says_is_there(live: Raw, manifest: Raw, last: Raw) -> None:
    """All that the file holds, but for its nulls, is in the object."""
    assert _holds(three_way(live, manifest, last), manifest)


@given(live=files, manifest=files, last=files, foreign=files)
def test_keys_of_others_survive(live: Raw, manifest: Raw, last: Raw, foreign: Raw) -> None:
    """Keys that neither file names stay, next to the files' own at every depth of the maps that the file has."""
    theirs = {f"x-{key}": value for key, value in foreign.items()}
    assert three_way(live | theirs, manifest, last) == three_way(live, manifest, last) | theirs
    wrapped = three_way({"m": live | theirs}, {"m": manifest}, {"m": last})
    assert wrapped == {"m": three_way(live, manifest, last) | theirs}


@given(live=files, manifest=files, last=files)
def test_keys_that_go_from_the_file(live: Raw, manifest: Raw, last: Raw) -> None:
    """What the file before had and this one lacks is not in the object, at every depth of the maps that both have."""
    assert not _left(three_way(live, manifest, last), manifest, last)


def _holds(found: Raw, manifest: Raw) -> bool:
    return all(
        _holds(found[key], value) if isinstance(value, dict) and value else found[key] == value or value == {}
        for key, value in manifest.items()
        if value is not None and not _is_hollow(value)
    )


def _is_hollow(value: object) -> bool:
    """Whether a value holds nothing but nulls, so that nothing need be there for it."""
    return value is None or (isinstance(value, dict) and bool(value) and all(map(_is_hollow, value.values())))


def _left(found: Raw, manifest: Raw, last: Raw) -> set[str]:
    gone = {key for key in last.keys() - manifest.keys() if key in found}
    for key in last.keys() & manifest.keys():
        triple = (found.get(key), manifest[key], last[key])
        if all(isinstance(each, dict) for each in triple):
            gone |= _left(*triple)  # type: ignore[arg-type]
    return gone

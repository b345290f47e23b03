"""The patch between two values, held against an implementation of RFC 7386 that knows nothing of it."""

import copy
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from lanloom.apiserver.patches import merge_patch
from lanloom.kube.mergediff import merge_diff

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

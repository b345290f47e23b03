"""What is to stand in an object that others write to as well."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lanloom.apiserver.patches import merge_patch
from lanloom.dummy.rules.standing import standing
from lanloom.kube.mergediff import merge_diff

KEYS = st.sampled_from(["a", "b", "restartPolicy", "timeoutSeconds", "hostPID", "securityContext"])
LEAVES = st.sampled_from([0, 1, 3, "Always", "x", "", True, False])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=9
)
OBJECTS = st.dictionaries(KEYS, VALUES)


def says(found: Any, want: Any) -> bool:
    """Whether everything that is wanted is there, and lists hold nothing more."""
    if isinstance(want, dict):
        return isinstance(found, dict) and all(key in found and says(found[key], want[key]) for key in want)
    if isinstance(want, list):
        same = isinstance(found, list) and len(found) == len(want)
        return same and all(says(one, other) for one, other in zip(found, want, strict=True))
    return bool(found == want)


@given(OBJECTS, OBJECTS)
def test_what_is_wanted_stands(have: dict[str, Any], want: dict[str, Any]) -> None:
    """Whatever is there, everything that is wanted stands afterwards, and nothing is left to do."""
    once = standing(have, want)
    assert says(once, want)
    assert standing(once, want) == once


@given(OBJECTS, OBJECTS)
def test_a_patch_brings_it_about(have: dict[str, Any], want: dict[str, Any]) -> None:
    """The merge patch of the difference makes an object as it is to stand; there is none where it stands so."""
    wanted = standing(have, want)
    patch = merge_diff(have, wanted)
    assert standing(merge_patch(have, patch), want) == wanted
    assert (patch == {}) == (have == wanted)


@given(OBJECTS)
def test_nothing_that_gains_something_stays(have: dict[str, Any]) -> None:
    """Of what nobody wants, only what says nothing and what servers fill in stays."""
    for key, value in standing(have, {}).items():
        assert not value or (key, value) in (("restartPolicy", "Always"), ("timeoutSeconds", 1))

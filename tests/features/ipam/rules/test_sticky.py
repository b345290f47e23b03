"""Addresses that belong to a name: periods, kinds, and lists by ordinal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.agent.nics import resolved
from lanloom.features.ipam.rules.shares import (
    KINDS,
    LONGEST,
    Ordinal,
    check_kind,
    check_sticky,
    kept_for,
    ordinal_of,
    parse_period,
)
from lanloom.refusals import Malformed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800), ("366d", LONGEST)],
)
def test_periods(text: str, seconds: int) -> None:
    """A period is a number with one unit."""
    assert parse_period("x", text) == seconds


@given(st.text() | st.from_regex(r"-?[0-9]{1,12}[smhdw]?"))
def test_any_other_text_is_no_period(text: str) -> None:
    """What is no period within the limit is refused with the field, and nothing else is raised."""
    try:
        assert 0 <= parse_period("spec.stickyFor.Pod", text) <= LONGEST
    except Malformed as error:
        assert str(error).startswith("spec.stickyFor.Pod: ")


@pytest.mark.parametrize(
    "text", ["", "12", "h", "1.5h", "1h30m", "-1h", "367d", "01h", "1 h", "١h", "forever"]
)
def test_periods_that_are_refused(text: str) -> None:
    """A period without a unit, with several, or longer than a year and a day is refused."""
    with pytest.raises(Malformed, match="is not a period"):
        parse_period("x", text)


def test_kinds_that_are_refused() -> None:
    """A kind whose names do not come again is refused with those that do."""
    with pytest.raises(
        Malformed, match=r'"ReplicaSet" has no names that come again; choose from StatefulSet, Pod'
    ):
        check_kind("spec.stickyFor", "ReplicaSet")
    with pytest.raises(Malformed, match=r"^spec.stickyFor.Pod: "):
        check_sticky({"StatefulSet": "1h", "Pod": "soon"})


@pytest.mark.parametrize(
    ("network", "asked", "kind", "period"),
    [
        ({}, None, "StatefulSet", ""),
        ({"StatefulSet": "1h"}, None, "StatefulSet", "1h"),
        ({"StatefulSet": "1h"}, None, "Pod", ""),
        ({"StatefulSet": "1h"}, "5m", "StatefulSet", "5m"),
        ({"StatefulSet": "1h"}, "0s", "StatefulSet", ""),
        ({"StatefulSet": "0s"}, None, "StatefulSet", ""),
        ({}, "5m", "Pod", "5m"),
        ({}, "5m", "VirtualMachine", "5m"),
        ({}, "5m", "ReplicaSet", ""),
        ({}, "soon", "ReplicaSet", ""),
    ],
)
def test_whose_addresses_are_kept(network: dict[str, str], asked: str | None, kind: str, period: str) -> None:
    """The annotation goes before the network's option, 0s means no, and only names that come again count."""
    assert kept_for(network, asked, kind) == period


def test_an_annotation_that_can_t_be_read() -> None:
    """A pod that asks for a period that is none is refused."""
    for kind in KINDS:
        with pytest.raises(Malformed):
            kept_for({}, "soon", kind)


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [
        ("web-0", Ordinal("web", 0)),
        ("a-b-12", Ordinal("a-b", 12)),
        ("web", None),
        ("web-01", None),
        ("web-7d9f8-x2x", None),
        ("-3", None),
    ],
)
def test_ordinals(name: str, ordinal: Ordinal | None) -> None:
    """The number at the end of a pod's name is its ordinal, as StatefulSets write it."""
    assert ordinal_of(name) == ordinal


@pytest.mark.parametrize(
    ("wanted", "pod", "got"),
    [
        (("10.0.0.10-10.0.0.19",), "web-0", ("10.0.0.10",)),
        (("10.0.0.10-10.0.0.19",), "web-9", ("10.0.0.19",)),
        (("10.0.0.10-10.0.0.19", "pool6"), "web-3", ("10.0.0.13", "pool6")),
        (("2001:db8::a-2001:db8::1f",), "web-6", ("2001:db8::10",)),
        (("a-b", "10.0.0.1"), "web", ("a-b", "10.0.0.1")),
    ],
)
def test_lists_by_ordinal(wanted: tuple[str, ...], pod: str, got: tuple[str, ...]) -> None:
    """Ordinal i gets the address at place i of a range; other requests stay."""
    assert resolved(wanted, pod) == got


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ("web-10", "has no address for ordinal 10 of web; add more addresses"),
        ("web", "pod web has none; use it in the template of a StatefulSet"),
    ],
)
def test_lists_that_have_no_address(pod: str, words: str) -> None:
    """A pod beyond the list, or without an ordinal, is refused with the remedy."""
    with pytest.raises(Malformed, match=words):
        resolved(("10.0.0.10-10.0.0.19",), pod)

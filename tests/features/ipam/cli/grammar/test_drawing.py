"""Bars, percentages and maps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.cli.grammar.drawing import (
    LETTERS,
    bar,
    map_text,
    percent,
    warning,
)
from lanloom.features.ipam.rules.model import Usage
from lanloom.features.ipam.rules.ranges import IPRange, merge


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Pools of any size, with any part used and reserved."""
    size = draw(st.one_of(st.integers(1, 20), st.integers(1, 2**128)))
    used = draw(st.integers(0, size))
    return Usage(size=size, used=used, reserved=draw(st.integers(0, size - used)))


@given(usages(), st.integers(3, 200))
def test_bars_are_as_wide_as_asked_and_show_whatever_there_is(usage: Usage, width: int) -> None:
    """A bar has exactly its width; whatever is used, reserved or free can be seen, and nothing else."""
    drawn = bar(usage, width, LETTERS)
    assert len(drawn) == width
    for glyph, amount in zip(LETTERS, (usage.used, usage.reserved, usage.free), strict=True):
        assert (glyph in drawn) == bool(amount)
    assert drawn == "".join(sorted(drawn, key=LETTERS.index))


@given(usages())
def test_percentages_round_towards_neither_end(usage: Usage) -> None:
    """0 % means nothing, 100 % means everything; what is full is said to be."""
    assert (percent(usage) == "0 %") == (usage.free == usage.size)
    assert (percent(usage) == "100 %") == (usage.free == 0)
    assert (warning(usage) == "full") == (usage.free == 0)


@pytest.mark.parametrize(
    ("size", "used", "reserved", "expected"),
    [
        (10, 7, 0, ""),
        (10, 7, 1, "nearly full"),
        (10, 8, 0, "nearly full"),
        (10, 10, 0, "full"),
        (1, 0, 0, ""),
    ],
)
def test_pools_are_nearly_full_from_80_per_cent_on(
    size: int, used: int, reserved: int, expected: str
) -> None:
    """Used and reserved addresses count together."""
    assert warning(Usage(size=size, used=used, reserved=reserved)) == expected


@given(st.sets(st.integers(0, 200)), st.integers(0, 100), st.integers(0, 100))
def test_maps_have_an_x_for_each_reserved_address(taken: set[int], start: int, length: int) -> None:
    """Each address of the range has its own character."""
    over = IPRange(start, start + length)
    inside = {address for address in taken if address in over}
    drawn = map_text(over, merge(IPRange(address, address) for address in inside))
    assert drawn == "".join("X" if start + index in inside else "." for index in range(length + 1))

"""Bits of pools, dense and sparse, against sets of numbers; and bit strings as text."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from bitarray import bitarray
from hypothesis import example, given, settings

from lanloom.ipam.rules.addresses import IPV6
from lanloom.ipam.rules.bits import BLOCK, Bits
from lanloom.ipam.rules.bits_sparse import SparseBits
from lanloom.ipam.rules.bits_text import bits_of, format_bits, parse_bits, runs_of
from lanloom.ipam.rules.errors import Malformed
from lanloom.ipam.rules.ranges import IPRange, merge

SIZES = (1, 2, 255, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17)

offsets = st.integers(0, 4 * BLOCK) | st.sampled_from([k * BLOCK + d for k in range(4) for d in (-1, 0, 1)])
"""Positions in a pool; edges of blocks are tried often. They are brought into a pool by `%`."""

steps = st.lists(
    st.tuples(st.sampled_from(("take", "free", "run", "lowest")), offsets, st.integers(1, 2 * BLOCK)),
    min_size=8,
    max_size=25,
)


def lowest(size: int, taken: set[int]) -> int:
    """By walking."""
    return next((offset for offset in range(size) if offset not in taken), -1)


@settings(max_examples=60)
@given(st.sampled_from(SIZES), st.sampled_from((0, 7, IPV6 + 5)), steps)
@example(3 * BLOCK, 0, [("run", 0, 3 * BLOCK), ("free", 0, 1), ("free", 3 * BLOCK - 1, 1), ("lowest", 0, 3)])
def test_bits_are_a_set_with_a_lowest_free_number(
    size: int, first: int, steps: Sequence[tuple[str, int, int]]
) -> None:
    """Whatever is taken and freed, the same is taken as in a set, and the lowest free number is found."""
    bits, taken = Bits(first, size), set[int]()
    for action, place, count in steps:
        offset = place % size
        last = min(offset + count, size) - 1
        if action == "take":
            bits.take(first + offset)
            taken.add(offset)
        elif action == "free":
            bits.free(first + offset)
            taken.discard(offset)
        elif action == "run":
            bits.take_run(first + offset, first + last)
            taken.update(range(offset, last + 1))
        else:
            for _ in range(min(count, 3)):
                expected = lowest(size, taken)
                assert bits.take_lowest() == (first + expected if expected >= 0 else -1)
                taken.add(expected)
                taken.discard(-1)
    flat = bitarray(size)
    flat.setall(False)
    for offset in taken:
        flat[offset] = True
    assert bits.dump() == flat
    assert [IPRange(*run) for run in bits.runs()] == list(runs_of(flat, first))


@settings(max_examples=40)
@given(st.sampled_from(SIZES), st.lists(st.tuples(offsets, st.integers(1, BLOCK + 2)), max_size=6))
def test_bits_are_loaded_as_they_were_dumped(size: int, runs: Sequence[tuple[int, int]]) -> None:
    """Loading makes exactly those numbers taken that are set, full and free blocks included."""
    bits = Bits(0, size)
    for place, count in runs:
        bits.take_run(place % size, min(place % size + count, size) - 1)
    loaded = Bits(0, size)
    loaded.take_run(0, size - 1)
    loaded.load(bits.dump())
    assert loaded.dump() == bits.dump()
    assert list(loaded.runs()) == list(bits.runs())
    assert loaded.take_lowest() == bits.take_lowest()


@settings(max_examples=60)
@given(
    st.sampled_from(SIZES[2:]),
    st.lists(st.tuples(offsets, st.integers(1, BLOCK)), max_size=5),
    st.lists(
        st.tuples(st.sampled_from(("take", "free", "lowest", "many")), offsets, st.integers(1, BLOCK)),
        min_size=15,
        max_size=40,
    ),
)
def test_sparse_bits_answer_as_dense_ones(
    size: int, cuts: Sequence[tuple[int, int]], steps: Sequence[tuple[str, int, int]]
) -> None:
    """A pool without a bit for each address gives out the same addresses in the same order."""
    whole = IPRange(IPV6, IPV6 + size - 1)
    external = merge(
        IPRange(IPV6 + place % size, min(IPV6 + place % size + count, whole.last)) for place, count in cuts
    )
    taken = set[int]()
    dense = Bits(whole.first, size)
    for cut in external:
        dense.take_run(cut.first, cut.last)
    sparse = SparseBits(whole, external, lambda part: [item for item in sorted(taken) if item in part])
    for action, place, count in steps:
        address = IPV6 + place % size
        if action in ("lowest", "many"):
            for _ in range(count if action == "many" else 1):
                found = dense.take_lowest()
                assert sparse.take_lowest() == found
                if found < 0:
                    break
                taken.add(found)
        elif any(address in cut for cut in external):
            continue
        elif action == "take":
            dense.take(address)
            sparse.take(address)
            taken.add(address)
        else:
            dense.free(address)
            sparse.free(address)
            taken.discard(address)


def test_the_window_of_a_sparse_pool_asks_only_for_what_it_needs() -> None:
    """To find the lowest free address of a /64, nobody is asked about more than a block at a time, in order."""
    asked: list[IPRange] = []
    whole = IPRange(IPV6, IPV6 + (1 << 64) - 1)
    external = (IPRange(IPV6, IPV6 + (1 << 63) - 1),)

    def taken(part: IPRange) -> list[int]:
        asked.append(part)
        return []

    sparse = SparseBits(whole, external, taken)
    assert sparse.take_lowest() == IPV6 + (1 << 63)
    assert asked == [IPRange(IPV6 + (1 << 63), IPV6 + (1 << 63) + BLOCK - 1)]


@given(st.text("01", max_size=300))
def test_text_is_the_same_after_a_round(text: str) -> None:
    """A bit string is read and written without a change; its runs say the same."""
    bits = parse_bits(text)
    assert format_bits(bits) == text
    runs = tuple(runs_of(bits, IPV6))
    assert sum(run.size for run in runs) == text.count("1")
    assert runs == merge(runs)
    if text:
        assert bits_of(IPRange(IPV6, IPV6 + len(text) - 1), runs) == bits


@given(st.text(max_size=20) | st.text("01 _\n", max_size=20))
def test_nothing_else_is_a_bit_string(text: str) -> None:
    """A text with anything but 0 and 1 is malformed, blanks and underscores too."""
    if set(text) <= {"0", "1"}:
        assert parse_bits(text).to01() == text
    else:
        with pytest.raises(Malformed, match="is not a bit string"):
            parse_bits(text)


def test_bits_of_a_range_leave_out_what_is_beyond_it() -> None:
    """Runs that stick out are cut."""
    assert bits_of(IPRange(10, 14), (IPRange(0, 10), IPRange(13, 99))).to01() == "10011"

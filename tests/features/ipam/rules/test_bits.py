"""Bits of pools, dense and sparse, against sets of numbers."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import hypothesis.strategies as st
from bitarray import bitarray
from bitarray.util import zeros
from hypothesis import example, given, settings

from lanloom.features.ipam.rules.addresses import IPV6, IPRange, merge
from lanloom.features.ipam.rules.bits import BLOCK, Bits, SparseBits
from tests.harness.examples import examples

SIZES = (1, 2, 255, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17)

offsets = st.integers(0, 4 * BLOCK) | st.sampled_from([k * BLOCK + d for k in range(4) for d in (-1, 0, 1)])
"""Positions in a pool; edges of blocks are tried often. They are brought into a pool by `%`."""

steps = st.lists(
    st.tuples(st.sampled_from(("take", "free", "lowest")), offsets, st.sampled_from((1, 1, 9, 2 * BLOCK))),
    min_size=8,
    max_size=25,
)


def each(place: int, count: int, size: int) -> range:
    """The numbers of a run that is cut where the pool ends."""
    return range(place, min(place + count, size))


def flat(size: int, taken: Iterable[int]) -> bitarray:
    """A bit for each number."""
    bits = zeros(size)
    for number in taken:
        bits[number] = 1
    return bits


def members(bits: Bits) -> set[int]:
    """What is taken. Runs must be in order and apart from each other."""
    runs = list(bits.runs())
    assert all(one[1] + 1 < other[0] for one, other in pairwise(runs))
    return {number for first, last in runs for number in range(first, last + 1)}


def lowest(size: int, taken: set[int]) -> int:
    """By walking."""
    return next((offset for offset in range(size) if offset not in taken), -1)


@settings(max_examples=examples(60))
@given(st.sampled_from(SIZES), st.sampled_from((0, 7, IPV6 + 5)), steps)
@example(3 * BLOCK, 0, [("take", 0, 3 * BLOCK), ("free", 0, 1), ("free", 3 * BLOCK - 1, 1), ("lowest", 0, 3)])
def test_bits_are_a_set_with_a_lowest_free_number(
    size: int, first: int, steps: Sequence[tuple[str, int, int]]
) -> None:
    """Whatever is taken and freed, the same is taken as in a set, and the lowest free number is found."""
    bits, taken = Bits(first, size), set[int]()
    for action, place, count in steps:
        run = each(place % size, count if action in ("take", "free") else 1, size)
        if action == "take":
            for offset in run:
                bits.take(first + offset)
            taken.update(run)
        elif action == "free":
            for offset in run:
                bits.free(first + offset)
            taken.difference_update(run)
        else:
            for _ in range(min(count, 3)):
                expected = lowest(size, taken)
                assert bits.take_lowest() == (first + expected if expected >= 0 else -1)
                taken.add(expected)
                taken.discard(-1)
    assert members(bits) == {first + offset for offset in taken}


@settings(max_examples=examples(40))
@given(st.sampled_from(SIZES), st.lists(st.tuples(offsets, st.integers(1, BLOCK + 2)), max_size=6))
def test_bits_are_loaded(size: int, runs: Sequence[tuple[int, int]]) -> None:
    """Loading makes exactly those numbers taken whose bit is set, in full, partly taken and free blocks."""
    taken = {number for place, count in runs for number in each(place % size, count, size)}
    bits = Bits(0, size)
    bits.load(flat(size, range(size)))
    bits.load(flat(size, taken))
    assert members(bits) == taken
    assert bits.take_lowest() == lowest(size, taken)


@settings(max_examples=examples(60))
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
        for address in range(cut.first, cut.last + 1):
            dense.take(address)
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
    """To find the lowest free address of a /64, no more than a block at a time is looked at, in order."""
    asked: list[IPRange] = []
    whole = IPRange(IPV6, IPV6 + (1 << 64) - 1)
    external = (IPRange(IPV6, IPV6 + (1 << 63) - 1),)

    def taken(part: IPRange) -> list[int]:
        asked.append(part)
        return []

    sparse = SparseBits(whole, external, taken)
    assert sparse.take_lowest() == IPV6 + (1 << 63)
    assert asked == [IPRange(IPV6 + (1 << 63), IPV6 + (1 << 63) + BLOCK - 1)]

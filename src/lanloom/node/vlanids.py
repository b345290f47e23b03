"""Sets of VLAN ids as sorted, disjoint, inclusive ranges: what the kernel takes and what `bridge vlan` prints.

A range costs the kernel one message however long it is; 4,093 single ids cost thirty times as much.
"""

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

Range = tuple[int, int]
VlanIds = tuple[Range, ...]
"""Sorted, disjoint, non-adjacent inclusive ranges within 1–4094."""


class VlanEntry(Struct, frozen=True, order=True):
    """Ids from `first` to `last` of a port. Frames without a tag are of the id that is the `pvid`."""

    first: int
    last: int
    pvid: bool = False
    untagged: bool = False


def vlan_ids(ids: Iterable[int]) -> VlanIds:
    """Return the ranges that hold exactly `ids`."""
    return merge((i, i) for i in ids)


def merge(ranges: Iterable[Range]) -> VlanIds:
    """Return the union of ranges, in normal form."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def subtract(left: VlanIds, right: VlanIds) -> VlanIds:
    """Return the ids of `left` that are not in `right`."""
    result: list[Range] = []
    for first, last in left:
        start = first
        for cut_first, cut_last in right:
            if cut_last < start or cut_first > last:
                continue
            if cut_first > start:
                result.append((start, cut_first - 1))
            start = cut_last + 1
        if start <= last:
            result.append((start, last))
    return tuple(result)


def contains(ids: VlanIds, vid: int) -> bool:
    """Return whether `vid` is in the set."""
    return any(first <= vid <= last for first, last in ids)


@lru_cache(maxsize=1024)
def parse(text: str) -> VlanIds:
    """Return the ids of a report, as `render` writes them; what is no range in it counts for nothing."""
    ranges = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            ranges.append((int(first), int(last or first)))
    return merge(ranges)


def render(ids: VlanIds) -> str:
    """`1,2012-2014`, as an operator reads it; empty for no ids."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ids)

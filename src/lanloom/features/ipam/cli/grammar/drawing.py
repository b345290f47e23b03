"""How full something is, as text: Ganeti's maps of X and dots, bars and percentages.

Nothing here walks over addresses: a pool over an IPv6 /64 is drawn as fast as a small one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from lanloom.features.ipam.rules.model import NEARLY_FULL, Usage
from lanloom.features.ipam.rules.ranges import IPRange

LARGEST_MAP = 65_536
"""Addresses of a map that is rendered as text: the largest network that Ganeti had."""


class Glyphs(NamedTuple):
    """What a bar is made of."""

    used: str
    reserved: str
    free: str


BLOCKS = Glyphs("█", "▒", "·")
LETTERS = Glyphs("#", "x", ".")
"""For terminals that have nothing but ASCII."""


def map_text(over: IPRange, reserved: Iterable[IPRange]) -> str:
    """A character for each address: X where it is in `reserved`, which must be ordered and disjoint, else a dot."""
    parts, next_ = [], over.first
    for run in reserved:
        parts += ["." * (run.first - next_), "X" * run.size]
        next_ = run.last + 1
    parts.append("." * (over.last + 1 - next_))
    return "".join(parts)


def percent(usage: Usage) -> str:
    """The share that can't be given away any more: `0 %` only where that is nothing, `100 %` only where it is all."""
    return "<1 %" if usage.taken and not usage.percent else f"{usage.percent} %"


def warning(usage: Usage) -> str:
    """What an operator should know of a pool: `full`, `nearly full`, or nothing."""
    if usage.size and not usage.free:
        return "full"
    return "nearly full" if usage.percent >= NEARLY_FULL else ""


def bar(usage: Usage, width: int, glyphs: Glyphs = BLOCKS) -> str:
    """A bar of `width` characters: what is used, what is reserved, what is free.

    Whatever there is gets a character at least, as far as the width goes; only what is full has no free one.
    """
    amounts = (usage.used, usage.reserved, usage.free)
    lengths = [0 if not amount else max(1, amount * width // usage.size) for amount in amounts]
    while sum(lengths) > width:
        lengths[lengths.index(max(lengths))] -= 1
    spare = width - sum(lengths)
    if usage.size:
        lengths[max(range(3), key=lambda index: amounts[index])] += spare
    return "".join(glyph * length for glyph, length in zip(glyphs, lengths, strict=True))

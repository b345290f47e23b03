"""How full a pool is, or several together, in numbers of addresses."""

from collections.abc import Iterable

from msgspec import Struct

NEARLY_FULL = 80
"""Per cent of a pool from which on it is nearly full."""


class Usage(Struct, frozen=True, kw_only=True):
    """How full a pool is. `used` are owned by NICs; `reserved` are externally reserved and not used."""

    size: int
    used: int
    reserved: int

    @property
    def taken(self) -> int:
        """What can't be given away any more."""
        return self.used + self.reserved

    @property
    def free(self) -> int:
        """What can still be given away."""
        return self.size - self.taken

    @property
    def percent(self) -> int:
        """The share that can't be given away any more, rounded down; 0 where there is nothing at all."""
        return self.taken * 100 // self.size if self.size else 0


def total(each: Iterable[Usage]) -> Usage:
    """How full several pools are together."""
    known = tuple(each)
    return Usage(
        size=sum(item.size for item in known),
        used=sum(item.used for item in known),
        reserved=sum(item.reserved for item in known),
    )

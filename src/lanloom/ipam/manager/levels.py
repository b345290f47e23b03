"""How full a pool is, as three levels, and what is told when it gets from one to another.

A level that was reached is left only when there is clearly room again, so that a pool at its limit from which addresses
come and go is not told of each time.
"""

from typing import Literal

from msgspec import Struct

from lanloom.ipam.rules.usage import NEARLY_FULL, Usage

Level = Literal["room", "nearly", "full"]

_ROOM_PERCENT, _NOT_FULL_PERCENT = 75, 95


class PoolNews(Struct, frozen=True):
    """What is told of a pool, in the form of an Event."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def level_of(usage: Usage, before: Level = "room") -> Level:
    """The level of a pool that was at `before`."""
    taken = usage.taken * 100
    if usage.free <= 0 or (before == "full" and taken > _NOT_FULL_PERCENT * usage.size):
        return "full"
    floor = NEARLY_FULL if before == "room" else _ROOM_PERCENT
    return "nearly" if taken >= floor * usage.size else "room"


def pool_news(title: str, usage: Usage, before: Level, now: Level) -> PoolNews | None:
    """What is told of a pool that got from one level to another."""
    if before == now:
        return None
    if now == "full":
        return PoolNews("Warning", "PoolFull", f"{title} is full; add a pool, or release addresses")
    left = f"{usage.free} of {usage.size} addresses are free"
    if now == "nearly" and before == "room":
        return PoolNews("Warning", "PoolNearlyFull", f"{title} is nearly full: {left}")
    return PoolNews("Normal", "PoolHasRoom", f"{title} has room again: {left}")

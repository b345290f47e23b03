"""Who owns which address, both ways, in few bytes: a million addresses are the size to think of.

A dict from address to owner takes over 100 bytes for each. So where addresses lie close together (1,024 or more in a
block of 4,096), a list of the block's owners stands for them, with 8 bytes an address; only lonely ones are in a dict.
When that dict has doubled, it is looked through for blocks that have become worth a list.

The other way, an owner has one address, a tuple of some or a list of many, in order: as small as can be, and not slow
for an owner of a million. Keys of owners are the caller's strings, not copies.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from lanloom.features.ipam.rules.addresses import Address, IPRange

T = TypeVar("T")

_SHIFT = 12
_BLOCK = 1 << _SHIFT
_INSIDE = _BLOCK - 1

_LIST_FROM = _BLOCK // 4
"""So many addresses of a block are kept in a list: it takes as much as a dict does for 800 of them."""

_LIST_DOWN_TO = _BLOCK // 16
"""With fewer, a list is given up. Much less than what makes one, or a block could change at every turn."""

_COMPACT_FROM = 2 * _BLOCK
"""With fewer lonely addresses than that, there is nothing to gain."""

_SOME = 8
"""An owner of more has a list: only that can grow in place, but it takes half as much again for two."""

_Held = Address | tuple[Address, ...] | list[Address]


class Owners:
    """Addresses with their owners: each address has one at the most, an owner has any number."""

    __slots__ = ("_close", "_compact_at", "_counts", "_lonely", "_owned")

    def __init__(self) -> None:
        # An address is either in _lonely, or its block is in _close and _counts.
        self._lonely: dict[Address, str] = {}
        self._close: dict[int, list[str]] = {}
        self._counts: dict[int, int] = {}
        self._owned: dict[str, _Held] = {}
        self._compact_at = _COMPACT_FROM

    def get(self, address: Address) -> str:
        """Return the owner of an address; empty for none."""
        block = self._close.get(address >> _SHIFT)
        if block is None:
            return self._lonely.get(address, "")
        return block[address & _INSIDE]

    def of(self, owner: str) -> tuple[Address, ...]:
        """Return the addresses of an owner, in order."""
        held = self._owned.get(owner)
        if held is None:
            return ()
        return (held,) if isinstance(held, int) else tuple(held)

    def add(self, address: Address, owner: str) -> None:
        """Give an address without an owner to one."""
        held = self._owned.get(owner)
        if held is None:
            self._owned[owner] = address
        else:
            # Callers make keys again each time: go on with the one that is there, so that it is there once.
            owner = self.get(held if isinstance(held, int) else held[0])
            self._join(owner, held, address)
        block = self._close.get(address >> _SHIFT)
        if block is None:
            self._lonely[address] = owner
            if len(self._lonely) >= self._compact_at:
                self._compact()
        else:
            block[address & _INSIDE] = owner
            self._counts[address >> _SHIFT] += 1

    def remove(self, address: Address) -> None:
        """Take an address from its owner; it must have one."""
        number = address >> _SHIFT
        block = self._close.get(number)
        if block is None:
            owner = self._lonely.pop(address)
        else:
            owner, block[address & _INSIDE] = block[address & _INSIDE], ""
            self._counts[number] -= 1
            if self._counts[number] < _LIST_DOWN_TO:
                self._give_up(number)
        self._forget(owner, address)

    def counts(self) -> Iterator[tuple[str, int]]:
        """Return each owner with the number of its addresses."""
        return ((owner, 1 if isinstance(held, int) else len(held)) for owner, held in self._owned.items())

    def addresses(self) -> Iterator[Address]:
        """Return every owned address."""
        return (
            address
            for held in self._owned.values()
            for address in ((held,) if isinstance(held, int) else held)
        )

    def within(self, range_: IPRange) -> list[tuple[Address, str]]:
        """Return the owned addresses of a range with their owners, in order. Never walks over what has no owner."""
        found = within(self._lonely, range_)
        for number in self._numbers_within(range_):
            base = number << _SHIFT
            start, stop = max(range_.first - base, 0), min(range_.last - base + 1, _BLOCK)
            owners = self._close[number][start:stop]
            found += [(base + inside, owner) for inside, owner in enumerate(owners, start) if owner]
        found.sort()
        return found

    def _numbers_within(self, range_: IPRange) -> Iterator[int]:
        first, last = range_.first >> _SHIFT, range_.last >> _SHIFT
        if last - first < len(self._close):
            return (number for number in range(first, last + 1) if number in self._close)
        return (number for number in self._close if first <= number <= last)

    def _compact(self) -> None:
        counts = Counter(address >> _SHIFT for address in self._lonely)
        close = {number for number, count in counts.items() if count >= _LIST_FROM}
        for number in close:
            self._close[number] = [""] * _BLOCK
            self._counts[number] = counts[number]
        rest: dict[Address, str] = {}
        for address, owner in self._lonely.items():
            if address >> _SHIFT in close:
                self._close[address >> _SHIFT][address & _INSIDE] = owner
            else:
                rest[address] = owner
        # A dict never gets smaller, so a new one is made.
        self._lonely = rest
        self._compact_at = max(_COMPACT_FROM, 2 * len(rest))

    def _give_up(self, number: int) -> None:
        base = number << _SHIFT
        for inside, owner in enumerate(self._close.pop(number)):
            if owner:
                self._lonely[base + inside] = owner
        del self._counts[number]

    def _join(self, owner: str, held: _Held, address: Address) -> None:
        if isinstance(held, list):
            insort(held, address)
            return
        all_ = sorted((held, address) if isinstance(held, int) else (*held, address))
        self._owned[owner] = all_ if len(all_) > _SOME else tuple(all_)

    def _forget(self, owner: str, address: Address) -> None:
        held = self._owned[owner]
        if isinstance(held, int):
            del self._owned[owner]
        elif isinstance(held, list):
            del held[bisect_left(held, address)]
            if len(held) <= _SOME:
                self._owned[owner] = tuple(held)
        else:
            left = tuple(item for item in held if item != address)
            self._owned[owner] = left if len(left) > 1 else left[0]


def within(owners: Mapping[Address, T], range_: IPRange) -> list[tuple[Address, T]]:
    """Return the entries of a mapping that lie in a range. Walks over whichever of both is smaller."""
    if range_.size < len(owners):
        every = range(range_.first, range_.last + 1)
        return [(address, owners[address]) for address in every if address in owners]
    return [item for item in owners.items() if range_.first <= item[0] <= range_.last]

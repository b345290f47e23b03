"""The bits of a pool that is too large to have one for each address, such as an IPv6 /64.

Addresses are given out from the low end, so bits are kept only up to where that has come: the window. Behind it nothing
is kept at all; when the window is full it grows by a block, and whoever knows the owners is asked what is taken there.
Externally reserved ranges, which may be huge, are left out of the numbering, so the window never has to cross them.

Rejected: blocks in a dict (600 bytes for each lonely address), and runs of taken addresses in a sorted list (each
change moves half of it, once every second address is released).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from lanloom.ipam.rules.addresses import Address
from lanloom.ipam.rules.bits import BLOCK, Bits
from lanloom.ipam.rules.ranges import IPRange, subtract

Taken = Callable[[IPRange], Iterable[Address]]
"""Which addresses of a range are owned or about to be."""


class SparseBits:
    """The addresses of a range, each taken or free, without `cuts` (ordered, apart), which are not asked about.

    `taken` knows what is taken now.
    """

    __slots__ = ("_firsts", "_gaps", "_numbers", "_size", "_taken", "_window")

    def __init__(self, range_: IPRange, cuts: Iterable[IPRange], taken: Taken) -> None:
        self._taken = taken
        self._gaps = subtract((range_,), cuts)
        self._firsts = [gap.first for gap in self._gaps]
        # The number of each gap's first address, when all addresses of the gaps are counted through.
        self._numbers: list[int] = []
        self._size = 0
        for gap in self._gaps:
            self._numbers.append(self._size)
            self._size += gap.size
        self._window = Bits(0, 0)

    def take(self, address: Address) -> None:
        """Marks an address of the gaps as taken."""
        number = self._number(address)
        if number < self._window.size:
            self._window.take(number)

    def free(self, address: Address) -> None:
        """Marks an address of the gaps as free."""
        number = self._number(address)
        if number < self._window.size:
            self._window.free(number)

    def take_lowest(self) -> Address:
        """Takes the lowest free address and returns it; -1 if there is none."""
        while (number := self._window.take_lowest()) < 0:
            if self._window.size == self._size:
                return -1
            self._grow()
        at = bisect_right(self._numbers, number) - 1
        return self._firsts[at] + number - self._numbers[at]

    def _number(self, address: Address) -> int:
        at = bisect_right(self._firsts, address) - 1
        return self._numbers[at] + address - self._firsts[at]

    def _grow(self) -> None:
        old = self._window.size
        new = min(self._size, old + BLOCK)
        self._window.extend(new - old)
        for part in self._parts(old, new):
            for address in self._taken(part):
                self._window.take(self._number(address))

    def _parts(self, start: int, stop: int) -> Iterator[IPRange]:
        """The addresses with the numbers from `start` to before `stop`."""
        at = bisect_right(self._numbers, start) - 1
        while start < stop:
            gap, number = self._gaps[at], self._numbers[at]
            upto = min(stop, number + gap.size)
            yield IPRange(gap.first + start - number, gap.first + upto - number - 1)
            start, at = upto, at + 1

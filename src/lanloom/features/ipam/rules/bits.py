"""A pool's addresses as bits: which are taken, and the lowest that is not, at one speed whatever is taken.

Two levels: blocks of 4,096 bits, made when something in them is taken, and above them a bit for each block that is
full. The lowest free address is then two searches, of at most 512 bytes each as long as a pool has no more than 2^24
addresses. A flat bit string with a hint is slower by two orders of magnitude as soon as a low address of a full pool is
released.

A bit says "taken" for whatever reason (owned, about to be owned, externally reserved), so that there is one search and
nothing to combine. The owner of the bits remembers the reasons.

A pool that is too large for a bit of each address, such as an IPv6 /64, has `SparseBits`. Addresses are given out from
the low end, so bits are kept only up to where that has come: the window. Behind it nothing is kept at all; when the
window is full it grows by a block, and the owner of the bits is asked what is taken there. Externally reserved ranges,
which may be huge, are left out of the numbering, so the window never has to cross them.

Rejected: blocks in a dict (600 bytes for each lonely address), and runs of taken addresses in a sorted list (each
change moves half of it, once every second address is released).

`Layout` finds the subnet and the pool of an address. It is made from a network as configured; the ledger keeps one, and
makes another when the configuration changes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bitarray import bitarray
from bitarray.util import zeros

from lanloom.features.ipam.rules.addresses import Address, IPRange, merge, overlapping, subtract
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.others import Others

_SHIFT = 12
BLOCK = 1 << _SHIFT
"""So many addresses are in a block."""
_INSIDE = BLOCK - 1


class Bits:
    """The `size` numbers from `first` on, each taken or free; all are free at first.

    Numbers that are passed in must be among them: this is not checked, it is the innermost loop.
    """

    __slots__ = ("_blocks", "_full", "_low", "first", "size")

    def __init__(self, first: int, size: int) -> None:
        count = (size + _INSIDE) >> _SHIFT
        self.first = first
        self.size = size
        self._blocks: list[bitarray | None] = [None] * count
        self._full = zeros(count)
        # No block before this one has a free address.
        self._low = 0

    def take(self, number: int) -> None:
        """Mark a number as taken."""
        offset = number - self.first
        index = offset >> _SHIFT
        block = self._blocks[index]
        if block is None:
            block = self._make(index)
        block[offset & _INSIDE] = 1
        if block.all():
            self._full[index] = 1

    def free(self, number: int) -> None:
        """Mark a number as free."""
        offset = number - self.first
        index = offset >> _SHIFT
        block = self._blocks[index]
        if block is None:
            return
        block[offset & _INSIDE] = 0
        self._full[index] = 0
        self._low = min(self._low, index)

    def take_lowest(self) -> int:
        """Take the lowest free number and return it; -1 if there is none."""
        index = self._full.find(0, self._low)
        if index < 0:
            self._low = len(self._full)
            return -1
        self._low = index
        block = self._blocks[index]
        if block is None:
            block = self._make(index)
        inside = block.find(0)
        block[inside] = 1
        # All before it are taken, so the block is full if none after it is free; mostly the next one is.
        if block.find(0, inside + 1) < 0:
            self._full[index] = 1
        return self.first + (index << _SHIFT) + inside

    def extend(self, count: int) -> None:
        """Add `count` free numbers behind the last. What there was must be whole blocks."""
        added = (count + _INSIDE) >> _SHIFT
        self._blocks.extend([None] * added)
        self._full.extend(zeros(added))
        self.size += count

    def load(self, taken: bitarray) -> None:
        """Make exactly those numbers taken whose bit is set; there is one for each number."""
        for index in range(len(self._blocks)):
            block = taken[index << _SHIFT : (index + 1) << _SHIFT]
            self._blocks[index] = block if block.any() else None
            self._full[index] = block.all()
        self._low = 0

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield first and last number of each run of taken ones, in order. Reads only blocks that are partly taken."""
        begun = -1
        for index, block in enumerate(self._blocks):
            base = self.first + (index << _SHIFT)
            if block is None:
                if begun >= 0:
                    yield begun, base - 1
                begun = -1
            elif not self._full[index]:
                inside = 0
                while (turn := block.find(begun < 0, inside)) >= 0:
                    if begun >= 0:
                        yield begun, base + turn - 1
                    begun = base + turn if begun < 0 else -1
                    inside = turn
            elif begun < 0:
                begun = base
        if begun >= 0:
            yield begun, self.first + self.size - 1

    def _length(self, index: int) -> int:
        return min(BLOCK, self.size - (index << _SHIFT))

    def _make(self, index: int) -> bitarray:
        block = self._blocks[index] = zeros(self._length(index))
        return block


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
        """Mark an address of the gaps as taken."""
        number = self._number(address)
        if number < self._window.size:
            self._window.take(number)

    def free(self, address: Address) -> None:
        """Mark an address of the gaps as free."""
        number = self._number(address)
        if number < self._window.size:
            self._window.free(number)

    def take_lowest(self) -> Address:
        """Take the lowest free address and return it; -1 if there is none."""
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
        """Yield the addresses with the numbers from `start` to before `stop`."""
        at = bisect_right(self._numbers, start) - 1
        while start < stop:
            gap, number = self._gaps[at], self._numbers[at]
            upto = min(stop, number + gap.size)
            yield IPRange(gap.first + start - number, gap.first + upto - number - 1)
            start, at = upto, at + 1


class Ranges:
    """Ranges that have no address in common, to be searched."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ordered: Iterable[IPRange]) -> None:
        self._firsts: list[Address] = []
        self._lasts: list[Address] = []
        for item in ordered:
            self._firsts.append(item.first)
            self._lasts.append(item.last)

    def find(self, address: Address) -> int:
        """Return which of them contains an address; -1 for none."""
        at = bisect_right(self._firsts, address) - 1
        return at if at >= 0 and address <= self._lasts[at] else -1

    def within(self, range_: IPRange) -> Iterator[IPRange]:
        """Return the parts of a range that they contain, in order."""
        for at in range(bisect_left(self._lasts, range_.first), len(self._firsts)):
            if self._firsts[at] > range_.last:
                return
            yield IPRange(max(self._firsts[at], range_.first), min(self._lasts[at], range_.last))


class PoolBits:
    """A pool's bits and counts. `used` are owned or about to be; `reserved` are not used, but not to be given either.

    These are the externally reserved ones (`cuts`), and single addresses that `others` have.
    """

    __slots__ = ("_cuts", "_external", "_held", "_others", "bits", "reserved", "used")

    def __init__(
        self, range_: IPRange, cuts: tuple[IPRange, ...], taken: Taken, dense_limit: int, others: Others
    ) -> None:
        used = frozenset(taken(range_))
        self._cuts = cuts
        self._external = Ranges(cuts)
        self._others = others
        self._held = others.held
        self.used = len(used)
        self.reserved = sum(cut.size for cut in cuts) - sum(self._external.find(item) >= 0 for item in used)
        kept = [item for item in others.within(range_) if item not in used and self._external.find(item) < 0]
        self.reserved += len(kept)
        self.bits: Bits | SparseBits
        if range_.size <= dense_limit:
            self.bits = Bits(range_.first, range_.size)
            self.bits.load(_flat(range_, cuts, (*used, *kept)))
        else:
            self.bits = SparseBits(range_, cuts, lambda part: (*taken(part), *others.within(part)))

    def runs(self) -> list[tuple[Address, Address]] | None:
        """Return the taken runs as first and last address, in order; None where the bits do not record them."""
        return list(self.bits.runs()) if isinstance(self.bits, Bits) else None

    def same(self, cuts: tuple[IPRange, ...]) -> bool:
        """Return whether just that is externally reserved."""
        return cuts == self._cuts

    def take(self, address: Address) -> None:
        """Mark an address as used, a free one or one that is kept back."""
        self.used += 1
        kept = address in self._held or (self._others.peers and self._others.has(address))
        if kept or self._external.find(address) >= 0:
            self.reserved -= 1
        else:
            self.bits.take(address)

    def take_lowest(self) -> Address:
        """Take the lowest free address, and return it; -1 if there is none."""
        address = self.bits.take_lowest()
        if address >= 0:
            self.used += 1
        return address

    def free(self, address: Address) -> None:
        """Mark an address as used no more; what is kept back stays so."""
        self.used -= 1
        kept = address in self._held or (self._others.peers and self._others.has(address))
        if kept or self._external.find(address) >= 0:
            self.reserved += 1
        else:
            self.bits.free(address)

    def keep(self, address: Address, kept: bool) -> None:
        """Record that another owner has an address that is not used here, or no longer has it."""
        if self._external.find(address) >= 0:
            return
        self.reserved += 1 if kept else -1
        (self.bits.take if kept else self.bits.free)(address)


def _flat(range_: IPRange, runs: Iterable[IPRange], single: Iterable[Address]) -> bitarray:
    """Return a bit for each address of a range, set for those of `runs` and `single`."""
    bits, first = zeros(range_.size), range_.first
    for run in runs:
        bits[run.first - first : run.last - first + 1] = 1
    for address in single:
        bits[address - first] = 1
    return bits


class Layout:
    """A network, and where in it what lies.

    `reserved` is what it reserves itself, `cuts` that and what other networks on the wire reserve.
    """

    __slots__ = (
        "_apart",
        "_choices",
        "_ordered",
        "_pools",
        "_ranges",
        "_states",
        "_subnets",
        "cuts",
        "reserved",
    )

    def __init__(
        self,
        network: Network,
        taken: Taken,
        dense_limit: int,
        others: Others,
        before: "Layout | None" = None,
    ) -> None:
        self._subnets = sorted(network.subnets, key=lambda subnet: subnet.cidr.range)
        self._ranges = Ranges(subnet.cidr.range for subnet in self._subnets)
        reserved = merge(item for subnet in network.subnets for item in subnet.reserved)
        self.reserved = Ranges(reserved)
        self.cuts = Ranges(merge((*reserved, *others.ranges))) if others.ranges else self.reserved
        self._apart: bool = not any(overlapping(pool.range for pool in network.pools()))
        # Making bits takes time for each owned address, so those that would be the same are kept; but not where pools
        # overlapped, which is forbidden: an address that was given back was then marked as free in one of them only.
        known = before._states if before and before._apart else {}
        self._states: dict[IPRange, PoolBits] = {}
        for pool in sorted(network.pools(), key=lambda pool: pool.range):
            cuts = tuple(self.cuts.within(pool.range))
            old = known.get(pool.range)
            kept = old if old and old.same(cuts) else None
            self._states[pool.range] = kept or PoolBits(pool.range, cuts, taken, dense_limit, others)
        self._pools = Ranges(self._states)
        self._ordered = tuple(self._states.values())
        self._choices = _choices(network, self._states)

    def subnet_of(self, address: Address) -> Subnet | None:
        """Return the subnet that contains an address."""
        at = self._ranges.find(address)
        return None if at < 0 else self._subnets[at]

    def pool_of(self, address: Address) -> PoolBits | None:
        """Return the bits of the pool that contains an address."""
        at = self._pools.find(address)
        return None if at < 0 else self._ordered[at]

    def bits(self, range_: IPRange) -> PoolBits | None:
        """Return the bits of the pool that has exactly that range."""
        return self._states.get(range_)

    def choices(self, request: str) -> Sequence[PoolBits]:
        """Return the pools that `pool`, `pool4`, `pool6` or a name stands for, in the order in which they are tried."""
        return self._choices.get(request, ())


def _choices(network: Network, states: Mapping[IPRange, PoolBits]) -> dict[str, list[PoolBits]]:
    """Return pools by request, without disabled ones. No pool has the name of the automatic ones."""
    choices: dict[str, list[PoolBits]] = {}
    for pool in network.pools():
        if not pool.disabled:
            for request in {"pool", f"pool{pool.range.version}", pool.name} - {""}:
                choices.setdefault(request, []).append(states[pool.range])
    return choices

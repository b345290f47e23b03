"""Where everything of a network lies, ready to be looked up: subnets, what is externally reserved, and pools' bits.

Made from a network as configured. The ledger keeps one and makes another when the configuration changes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bitarray import bitarray
from bitarray.util import zeros

from lanloom.features.ipam.rules.addresses import Address
from lanloom.features.ipam.rules.bits import Bits, SparseBits, Taken
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.ranges import IPRange, merge, overlapping


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
        """Which of them contains an address; -1 for none."""
        at = bisect_right(self._firsts, address) - 1
        return at if at >= 0 and address <= self._lasts[at] else -1

    def within(self, range_: IPRange) -> Iterator[IPRange]:
        """What they have of a range, in order."""
        for at in range(bisect_left(self._lasts, range_.first), len(self._firsts)):
            if self._firsts[at] > range_.last:
                return
            yield IPRange(max(self._firsts[at], range_.first), min(self._lasts[at], range_.last))


class PoolBits:
    """A pool's bits and counts. `used` are owned or about to be; `reserved` are externally reserved and not used."""

    __slots__ = ("_cuts", "_external", "bits", "reserved", "used")

    def __init__(self, range_: IPRange, cuts: tuple[IPRange, ...], taken: Taken, dense_limit: int) -> None:
        used = tuple(taken(range_))
        self._cuts = cuts
        self._external = Ranges(cuts)
        self.used = len(used)
        self.reserved = sum(cut.size for cut in cuts) - sum(self._external.find(item) >= 0 for item in used)
        self.bits: Bits | SparseBits
        if range_.size <= dense_limit:
            self.bits = Bits(range_.first, range_.size)
            self.bits.load(_flat(range_, cuts, used))
        else:
            self.bits = SparseBits(range_, cuts, taken)

    def runs(self) -> list[tuple[Address, Address]] | None:
        """What is taken, as first and last address of each run, in order; None where the bits do not tell."""
        return list(self.bits.runs()) if isinstance(self.bits, Bits) else None

    def same(self, cuts: tuple[IPRange, ...]) -> bool:
        """Whether just that is externally reserved."""
        return cuts == self._cuts

    def take(self, address: Address) -> None:
        """A free or an externally reserved address gets used."""
        self.used += 1
        if self._external.find(address) < 0:
            self.bits.take(address)
        else:
            self.reserved -= 1

    def take_lowest(self) -> Address:
        """The lowest free address gets used; -1 if there is none."""
        address = self.bits.take_lowest()
        if address >= 0:
            self.used += 1
        return address

    def free(self, address: Address) -> None:
        """A used address is used no more; what is externally reserved stays so."""
        self.used -= 1
        if self._external.find(address) < 0:
            self.bits.free(address)
        else:
            self.reserved += 1


def _flat(range_: IPRange, runs: Iterable[IPRange], single: Iterable[Address]) -> bitarray:
    """A bit for each address of a range, set for those of `runs` and `single`."""
    bits, first = zeros(range_.size), range_.first
    for run in runs:
        bits[run.first - first : run.last - first + 1] = 1
    for address in single:
        bits[address - first] = 1
    return bits


class Layout:
    """A network, and where in it what lies."""

    __slots__ = ("_apart", "_choices", "_ordered", "_pools", "_ranges", "_states", "_subnets", "reserved")

    def __init__(
        self, network: Network, taken: Taken, dense_limit: int, before: "Layout | None" = None
    ) -> None:
        self._subnets = sorted(network.subnets, key=lambda subnet: subnet.cidr.range)
        self._ranges = Ranges(subnet.cidr.range for subnet in self._subnets)
        self.reserved = Ranges(merge(item for subnet in network.subnets for item in subnet.reserved))
        self._apart: bool = not any(overlapping(pool.range for pool in network.pools()))
        # Making bits takes time for each owned address, so those that would be the same are kept; but not where pools
        # overlapped, which is forbidden: an address that was given back was then marked as free in one of them only.
        known = before._states if before and before._apart else {}
        self._states: dict[IPRange, PoolBits] = {}
        for pool in sorted(network.pools(), key=lambda pool: pool.range):
            cuts = tuple(self.reserved.within(pool.range))
            old = known.get(pool.range)
            kept = old if old and old.same(cuts) else None
            self._states[pool.range] = kept or PoolBits(pool.range, cuts, taken, dense_limit)
        self._pools = Ranges(self._states)
        self._ordered = tuple(self._states.values())
        self._choices = _choices(network, self._states)

    def subnet_of(self, address: Address) -> Subnet | None:
        """The subnet that contains an address."""
        at = self._ranges.find(address)
        return None if at < 0 else self._subnets[at]

    def pool_of(self, address: Address) -> PoolBits | None:
        """The bits of the pool that contains an address."""
        at = self._pools.find(address)
        return None if at < 0 else self._ordered[at]

    def bits(self, range_: IPRange) -> PoolBits | None:
        """The bits of the pool that has exactly that range."""
        return self._states.get(range_)

    def choices(self, request: str) -> Sequence[PoolBits]:
        """The pools that `pool`, `pool4`, `pool6` or a name stands for, in the order in which they are tried."""
        return self._choices.get(request, ())


def _choices(network: Network, states: Mapping[IPRange, PoolBits]) -> dict[str, list[PoolBits]]:
    """Disabled pools are no choice. No pool is named as the automatic ones are."""
    choices: dict[str, list[PoolBits]] = {}
    for pool in network.pools():
        if not pool.disabled:
            for request in {"pool", f"pool{pool.range.version}", pool.name} - {""}:
                choices.setdefault(request, []).append(states[pool.range])
    return choices

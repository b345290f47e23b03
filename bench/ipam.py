"""How fast addresses are found and given out, against other ways in the same run; `ipammemory` is about their size.

Nothing waits here, so all is measured as CPU time: other work on the machine shows less in it. Each figure is the best
of some rounds, except for the million.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from ipaddress import IPv4Network
from random import Random

from bitarray import bitarray
from bitarray.util import ones, zeros

from bench.ipambaselines import FlatBits, StringPool, plain_allocations, scan
from bench.report import Row
from lanloom.features.ipam.rules.addresses import IPRange, format_address, parse_cidr
from lanloom.features.ipam.rules.bits import Bits
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pool, Subnet

MILLION = 1_000_000
BIG = 24
"""The largest dense pool has 2 to the power of that many addresses."""

SIZES = (8, 12, 16, 20, BIG)
FILLS = ("empty", "half", "but 1 in 1,000", "any second one")
PICKS = 200
"""So many addresses are taken in a round, as far as there are as many."""

ROUNDS = 7

NEXT_FREE = 4.5
"""Times a flat bitarray with a hint that is taken in turn, the fastest way there is: 0.5 µs where that takes 110 ns."""

ALLOCATION_4, ALLOCATION_6 = 5.0, 1.3
"""Times a dict and `ipaddress`: 3 µs on a quiet machine, where those take 0.6 µs for IPv4 and 2.3 µs for IPv6."""

AGAINST = "against a dict and ipaddress"


def rows() -> Iterator[Row]:
    """Every figure."""
    yield from _next_free()
    yield from _whole_allocation()
    yield from _whole_network()
    yield from _million()
    yield from _creation()
    yield from _loading()


def _next_free() -> Iterator[Row]:
    fills = {f"2^{power} {fill}": _filled(1 << power, fill) for power in SIZES for fill in FILLS}
    flats = [FlatBits(1 << power) for power in SIZES]
    best = _best([*fills.values(), *flats])
    figures, in_turn = dict(zip(fills, best, strict=False)), min(best[len(fills) :])
    half = figures["2^16 half"]
    full, flat = Bits(0, 1 << BIG), FlatBits(1 << BIG, full=True)
    full.load(ones(1 << BIG))
    ours = figures[f"2^{BIG} adversarial"] = min(_adversarial(full) for _ in range(ROUNDS))
    theirs = min(_adversarial(flat) for _ in range(ROUNDS))
    slowest = max(figures, key=lambda name: figures[name])
    yield Row(
        name="next free address, the slowest of 21 fills, /24 to 2^24 addresses, against a flat bitarray in turn",
        measured=figures[slowest] / in_turn,
        limit=NEXT_FREE,
        unit="×",
        note=f"{figures[slowest]:.0f} ns ({slowest}) against {in_turn:.0f} ns; "
        f"all from {min(figures.values()):.0f} ns on; best of {ROUNDS}",
    )
    yield Row(
        name="next free address of a full pool of 2^24 after its first and last are freed: "
        "how much faster than a flat bitarray with a hint",
        measured=theirs / ours,
        limit=20,
        unit="×",
        at_least=True,
        note=f"{ours:.0f} ns against {theirs:,.0f} ns",
    )
    network = IPv4Network("10.0.0.0/16")
    used = set(list(network)[: 1 << 15])
    scanned = min(_seconds(lambda: scan(network, used)) for _ in range(3)) * 1e9
    yield Row(
        name="next free address of a /16 that is half full: how much faster than a scan with ipaddress",
        measured=scanned / half,
        limit=10_000,
        unit="×",
        at_least=True,
        note=f"the scan takes {scanned / 1e6:.1f} ms",
    )


def _filled(size: int, fill: str) -> Bits:
    bits, random = Bits(0, size), Random(size)
    if fill == "half":
        bits.load(ones(size // 2) + zeros(size // 2))
    elif fill == "any second one":
        taken = bitarray()
        taken.frombytes(random.randbytes(size // 8))
        bits.load(taken)
    elif fill == "but 1 in 1,000":
        bits.load(ones(size))
        for number in random.sample(range(size), max(1, size // 1000)):
            bits.free(number)
    return bits


def _best(pools: Sequence[Bits | FlatBits]) -> list[float]:
    """Return the best round of each; by turns, so that a burst of load meets one round of many."""
    rounds = [[_takes(bits, PICKS) for bits in pools] for _ in range(ROUNDS)]
    return list(map(min, zip(*rounds, strict=True)))


def _takes(bits: Bits | FlatBits, count: int) -> float:
    """Nanoseconds for each of some next free addresses; they are given back afterwards."""
    taken, take = [0] * count, bits.take_lowest
    started = time.process_time_ns()
    for at in range(count):
        taken[at] = take()
    spent = time.process_time_ns() - started - _compact()
    for number in taken:
        if number >= 0:
            bits.free(number)
    return spent / count


def _adversarial(bits: Bits | FlatBits) -> float:
    """Nanoseconds for each of two addresses: the first and the last of a pool that was full."""
    spent = 0
    for _ in range(20):
        bits.free(0)
        bits.free((1 << BIG) - 1)
        started = time.process_time_ns()
        bits.take_lowest()
        bits.take_lowest()
        spent += time.process_time_ns() - started
    return (spent - 20 * _compact()) / 40


@cache
def _compact() -> int:
    """Nanoseconds that a look at the clock takes by itself, which is more than a free address does."""
    clock = time.process_time_ns
    return min(-clock() + clock() for _ in range(1000))


def _whole_allocation() -> Iterator[Row]:
    count = 20_000
    keys = nics(count)
    for cidr, version, limit in (
        ("10.0.0.0/16", "IPv4", ALLOCATION_4),
        ("2001:db8::/64", "IPv6", ALLOCATION_6),
    ):
        network = one_pool(cidr, external=16)
        rounds = [(_allocations(Ledger(network), keys), _plain(cidr, keys)) for _ in range(ROUNDS)]
        ours, plain = map(min, zip(*rounds, strict=True))
        yield Row(
            name=f"whole allocation, {version}: begun, taken for an owner, committed, as text; {AGAINST}",
            measured=ours / plain,
            limit=limit,
            unit="×",
            note=f"{ours:.2f} µs against {plain:.2f} µs; {count:,} in turn, "
            f"each 16th address is externally reserved; best of {ROUNDS}",
        )


def _whole_network() -> Iterator[Row]:
    network = one_pool("10.0.0.0/16")
    keys = nics((1 << 16) - 2)
    strings = StringPool("10.0.0.0/16")
    each, plain, of_strings = [], [], []
    for _ in range(3):  # in turns, so that a busy machine is busy for all
        each.append(_allocations(Ledger(network), keys))
        plain.append(_plain("10.0.0.0/16", keys))
        fills = (0, 1 << 15, (1 << 16) - 100)
        of_strings.append(sum(_string_allocations(strings, filled) for filled in fills) / len(fills))
    yield Row(
        name=f"all of a /16, an operation for each address, {AGAINST}",
        measured=min(each) / min(plain),
        limit=ALLOCATION_4,
        unit="×",
        note=f"{min(each) * len(keys) / 1e6:.2f} s for {len(keys):,} addresses with owners and texts; best of 3",
    )
    yield Row(
        name="all of a /16: how much faster than with bit strings as Ganeti has them",
        measured=min(of_strings) * 1e6 / min(each),
        limit=100,
        unit="×",
        at_least=True,
        note=f"{min(of_strings) * 1e6:,.0f} µs each for strings, at three fills, best of 3; they record no owner",
    )


def _string_allocations(pool: StringPool, filled: int) -> float:
    pool.fill(filled)
    return _seconds(lambda: [pool.allocate() for _ in range(20)]) / 20


def _million() -> Iterator[Row]:
    keys = nics(MILLION)
    for cidr, version, limit in (
        ("10.0.0.0/8", "IPv4", ALLOCATION_4),
        ("2001:db8::/64", "IPv6", ALLOCATION_6),
    ):
        network = one_pool(cidr)
        given = _allocations(Ledger(network), keys)
        known = _seconds(partial(recorded, network, keys))
        plain = _plain(cidr, keys)
        yield Row(
            name=f"a million reservations, {version}, {AGAINST}",
            measured=max(given, known) / plain,
            limit=limit,
            unit="×",
            note=f"{given:.2f} s as operations, {known:.2f} s when they are read, against {plain:.2f} s; once",
        )


def _creation() -> Iterator[Row]:
    network = one_pool("2001:db8::/64")
    yield Row(
        name="a ledger with a pool over a /64",
        measured=min(_seconds(lambda: Ledger(network)) for _ in range(50)) * 1000,
        limit=1,
        unit="ms",
        note="best of 50",
    )


def _loading() -> Iterator[Row]:
    size = 1 << 20
    text = "".join(Random(size).choices("01", k=size))

    def load() -> Bits:
        bits = Bits(0, size)
        bits.load(bitarray(text))
        return bits

    def walk() -> Bits:
        bits = Bits(0, size)
        for number, bit in enumerate(text):
            if bit == "1":
                bits.take(number)
        return bits

    loaded = min(_seconds(load) for _ in range(20))
    yield Row(
        name="a pool of 2^20 from a bit string",
        measured=loaded * 1000,
        limit=10,
        unit="ms",
        note=f"{min(_seconds(walk) for _ in range(2)) / loaded:.0f} × faster than bit by bit; best of 20",
    )


def one_pool(cidr: str, external: int = 0) -> Network:
    """One subnet, one pool over all of it; each `external`th of the first 65,536 addresses is externally reserved."""
    block = parse_cidr(cidr)[0]
    reserved = range(block.first, block.first + (1 << 16), external) if external else ()
    subnet = Subnet(
        uuid="",
        cidr=block,
        pools=(Pool(range=block.range),),
        external=tuple(IPRange(address, address) for address in reserved),
    )
    return Network(id="bench", name="bench", subnets=(subnet,))


def nics(count: int) -> list[str]:
    """Keys of NICs."""
    return [f"default/instance-{number}-0" for number in range(count)]


def _allocations(ledger: Ledger, keys: list[str]) -> float:
    """Microseconds for an address for each key."""
    texts = [""] * len(keys)
    gc.collect()
    started = time.process_time()
    for at, key in enumerate(keys):
        operation = ledger.begin()
        texts[at] = format_address(operation.take_next(key, "pool"))
        operation.commit()
    return (time.process_time() - started) / len(keys) * 1e6


def _plain(cidr: str, keys: list[str]) -> float:
    """Microseconds for an address for each key where nothing is looked for, and nothing can be given back."""
    gc.collect()
    return _seconds(lambda: plain_allocations(cidr, keys)) / len(keys) * 1e6


def recorded(network: Network, keys: list[str]) -> Ledger:
    """Return a ledger that knows an address for each key."""
    ledger, first = Ledger(network), network.subnets[0].cidr.first + 1
    for number, key in enumerate(keys):
        ledger.record(key, (first + number,))
    return ledger


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started

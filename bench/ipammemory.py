"""What addresses cost in memory: free ones, used ones with their owners, and a pool with more than can be counted.

Figures are bytes that Python's allocator has given out, so what it keeps back for itself (some 5 %) is not in them.
"""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from sys import getsizeof

from bench.ipam import BIG, MILLION, nics, one_pool, recorded
from bench.report import Row
from lanloom.features.ipam.rules.bits import BLOCK, Bits
from lanloom.features.ipam.rules.ledger import Ledger

NETWORKS = {"IPv4": "10.0.0.0/8", "IPv6": "2001:db8::/64"}


def rows() -> Iterator[Row]:
    """Yield rows of used, free, and merely possible addresses."""
    keys = nics(MILLION)
    for version, cidr in NETWORKS.items():
        yield Row(
            name=f"memory of a reservation with its owner, {version}",
            measured=_bytes(partial(recorded, one_pool(cidr), keys)) / MILLION,
            limit=100,
            unit="bytes",
            note="a million owners with an address each; their keys are the caller's strings, of "
            f"{sum(map(getsizeof, keys)) / MILLION:.0f} bytes here",
        )
    yield Row(
        name="memory of a reservation with its owner, IPv6, two of each owner",
        measured=_bytes(partial(_pairs, keys)) / MILLION,
        limit=100,
        unit="bytes",
        note="what costs most: with more of an owner, or one of each version, it is less",
    )
    yield Row(
        name="memory of a free address in a pool of 2^24 with something taken in each block",
        measured=_bytes(_touched) / (1 << BIG),
        limit=0.2,
        unit="bytes",
        note=f"{_bytes(partial(Bits, 0, 1 << BIG)) / (1 << BIG):.4f} bytes where nothing was ever taken",
    )
    yield Row(
        name="memory of a ledger with a pool over a /64",
        measured=_bytes(partial(Ledger, one_pool(NETWORKS["IPv6"]))) / 1000,
        limit=10,
        unit="KB",
    )


def _pairs(keys: list[str]) -> Ledger:
    ledger = Ledger(one_pool(NETWORKS["IPv6"]))
    first = ledger.network.subnets[0].cidr.first + 1
    for number in range(0, MILLION, 2):
        ledger.record(keys[number], (first + number, first + number + 1))
    return ledger


def _touched() -> Bits:
    bits = Bits(0, 1 << BIG)
    for number in range(0, 1 << BIG, BLOCK):
        bits.take(number)
    return bits


def _bytes(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    made = make()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del made
    return size

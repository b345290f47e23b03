"""Strings of bits as Ganeti stores reservations: the first character is the first address; 1 is reserved."""

import re
from collections.abc import Iterable

from lanloom.ipam.rules.addresses import Address
from lanloom.ipam.rules.ranges import IPRange

LARGEST = 1 << 16
"""Pools of more addresses have no string: their reservations follow from the NICs."""

_ONES = re.compile("1+")


def are_bits(text: str) -> bool:
    """Whether a text holds nothing but bits."""
    return not text.strip("01")


def runs(text: str, first: Address) -> tuple[IPRange, ...]:
    """The ranges that are reserved, in order; `first` is the address of the first bit."""
    return tuple(IPRange(first + found.start(), first + found.end() - 1) for found in _ONES.finditer(text))


def bits_of_addresses(around: IPRange, addresses: Iterable[Address]) -> str:
    """The bits of a range in which those of `addresses` that are in it are reserved."""
    found = bytearray(b"0") * around.size
    for address in addresses:
        if address in around:
            found[address - around.first] = 0x31
    return found.decode()


def bits_of_ranges(around: IPRange, ranges: Iterable[IPRange]) -> str:
    """The bits of a range in which `ranges` are reserved."""
    found = bytearray(b"0") * around.size
    for item in ranges:
        if common := item.common(around):
            at = common.first - around.first
            found[at : at + common.size] = b"1" * common.size
    return found.decode()


def difference(one: str, other: str, first: Address) -> tuple[tuple[Address, ...], tuple[Address, ...]]:
    """The addresses that only the one string reserves, and those that only the other does. Both have one length."""
    if one == other:
        return (), ()
    pairs = list(enumerate(zip(one, other, strict=True)))
    only = tuple(first + at for at, (a, b) in pairs if a > b)
    return only, tuple(first + at for at, (a, b) in pairs if a < b)

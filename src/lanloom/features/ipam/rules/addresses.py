"""Addresses, ranges and CIDRs as values, and the only way from text to them and back.

An address is an int: an IPv4 address is its 32-bit value, an IPv6 address its 128-bit value plus 2**128. So one number
says version and value, numbers sort by version first, and a range never has to carry its version along.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Literal

from msgspec import Struct

from lanloom.hostbits import host_bits
from lanloom.refusals import Malformed
from lanloom.text import quote

Address = int
Version = Literal[4, 6]

IPV6 = 1 << 128
"""The offset of an IPv6 address's value."""

LIMITS: dict[Version, tuple[Address, Address]] = {4: (0, (1 << 32) - 1), 6: (IPV6, (IPV6 << 1) - 1)}
"""First and last address of a version."""

_LONGEST = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")


def version_of(address: Address) -> Version:
    """Return the IP version of an address."""
    return 6 if address >= IPV6 else 4


def parse_address(text: str) -> Address:
    """Return an address in its standard form: four decimal numbers without leading zeros, or RFC 4291.

    Raises Malformed.
    """
    address = find_address(text)
    if address is None:
        raise Malformed(f"{quote(text)} is not an IP address; write one such as 192.0.2.10 or 2001:db8::10")
    return address


def find_address(text: str) -> Address | None:
    """Return the address that a text is, or None."""
    if not text.isascii() or len(text) > _LONGEST or "\0" in text:
        return None
    try:
        if ":" in text:
            return IPV6 + int.from_bytes(inet_pton(AF_INET6, text), "big")
        return int.from_bytes(inet_pton(AF_INET, text), "big")
    except OSError:
        return None


def find_addresses(texts: Iterable[str]) -> tuple[Address, ...]:
    """Return those of some texts that are addresses, in order."""
    return tuple(address for text in texts if (address := find_address(text)) is not None)


def format_address(address: Address) -> str:
    """Return the canonical text of an address (RFC 5952 for IPv6)."""
    if address < IPV6:
        return inet_ntop(AF_INET, address.to_bytes(4, "big"))
    return inet_ntop(AF_INET6, (address - IPV6).to_bytes(16, "big"))


class IPRange(Struct, frozen=True, order=True):
    """Sequential addresses of one version, both ends included. Sorts by its first address."""

    first: Address
    last: Address

    @property
    def version(self) -> Version:
        """The IP version."""
        return version_of(self.first)

    @property
    def size(self) -> int:
        """The number of addresses."""
        return self.last - self.first + 1

    def __contains__(self, address: Address) -> bool:
        return self.first <= address <= self.last

    def __str__(self) -> str:
        if self.first == self.last:
            return format_address(self.first)
        return f"{format_address(self.first)}-{format_address(self.last)}"

    def covers(self, other: "IPRange") -> bool:
        """Return whether the whole of another range is in this one."""
        return self.first <= other.first and other.last <= self.last

    def overlaps(self, other: "IPRange") -> bool:
        """Return whether the two have an address in common."""
        return self.first <= other.last and other.first <= self.last

    def common(self, other: "IPRange") -> "IPRange | None":
        """Return the intersection."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        return IPRange(first, last) if first <= last else None

    def without(self, other: "IPRange") -> "tuple[IPRange, ...]":
        """Return the remainder after another range is cut out: none, one or two ranges."""
        if not self.overlaps(other):
            return (self,)
        parts = []
        if self.first < other.first:
            parts.append(IPRange(self.first, other.first - 1))
        if other.last < self.last:
            parts.append(IPRange(other.last + 1, self.last))
        return tuple(parts)


class Cidr(Struct, frozen=True, order=True):
    """A subnet's addresses: the first one, and how many leading bits all have in common."""

    first: Address
    length: int

    @property
    def version(self) -> Version:
        """The IP version."""
        return version_of(self.first)

    @property
    def bits(self) -> int:
        """How many bits an address has: 32 or 128."""
        return 128 if self.first >= IPV6 else 32

    @property
    def range(self) -> IPRange:
        """All of its addresses."""
        return IPRange(self.first, self.first + (1 << (self.bits - self.length)) - 1)

    def __str__(self) -> str:
        return f"{format_address(self.first)}/{self.length}"


def parse_cidr(text: str) -> tuple[Cidr, bool]:
    """Return a CIDR, and whether host bits had to be cleared for it (192.0.2.0/22 becomes 192.0.0.0/22).

    Raises Malformed.
    """
    head, slash, tail = text.partition("/")
    address = find_address(head)
    bits = 0 if address is None else 128 if address >= IPV6 else 32
    digits = tail.isascii() and tail.isdigit() and len(tail) <= 3 and (tail == "0" or tail[0] != "0")
    if address is None or not slash or not digits or int(tail) > bits:
        raise Malformed(f"{quote(text)} is not a CIDR; write one such as 192.0.2.0/24 or 2001:db8::/64")
    length = int(tail)
    first = address >> (bits - length) << (bits - length)
    return Cidr(first, length), first != address


def text_of_cidr(text: str) -> str:
    """Return a CIDR as it is meant, without host bits; what can't be read stays as it is."""
    try:
        return str(parse_cidr(text)[0])
    except Malformed:
        return text


def parse_range(text: str) -> IPRange:
    """Return a range in any of its forms: `first-last`, one address, or a CIDR without host bits. Raises Malformed."""
    if "/" in text and parse_cidr(text)[1]:
        raise Malformed(host_bits(text))
    return stored_range(text)


def stored_range(text: str) -> IPRange:
    """Return a range that was stored, maybe by a version that ignored host bits of a CIDR. Raises Malformed."""
    if "/" in text:
        return parse_cidr(text)[0].range
    head, dash, tail = text.partition("-")
    if not dash:
        address = parse_address(head)
        return IPRange(address, address)
    first, last = parse_address(head), parse_address(tail)
    if version_of(first) != version_of(last):
        raise Malformed(f"{quote(text)} begins and ends with addresses of different IP versions")
    if last < first:
        raise Malformed(f"{quote(text)} ends before it begins; write the lower address first")
    return IPRange(first, last)


def merge(ranges: Iterable[IPRange]) -> tuple[IPRange, ...]:
    """Return the same addresses as few ranges in order: what overlaps or touches becomes one."""
    merged: list[IPRange] = []
    for item in sorted(ranges):
        if merged and _touch(merged[-1], item):
            merged[-1] = IPRange(merged[-1].first, max(merged[-1].last, item.last))
        else:
            merged.append(item)
    return tuple(merged)


def subtract(ranges: Iterable[IPRange], cut: Iterable[IPRange]) -> tuple[IPRange, ...]:
    """Return the ranges, in order, with every address of `cut` taken out."""
    # Only the cuts that a range meets are looked at: a webhook does this with thousands of each.
    cuts = merge(cut)
    return tuple(sorted(part for range_ in ranges for part in _gaps(range_, cuts)))


def _gaps(range_: IPRange, cuts: Sequence[IPRange]) -> Iterator[IPRange]:
    """Return the gaps of a range between cuts, which are in order and apart from each other."""
    first = range_.first
    for index in range(bisect_left(cuts, first, key=lambda item: item.last), len(cuts)):
        if cuts[index].first > range_.last:
            break
        if first < cuts[index].first:
            yield IPRange(first, cuts[index].first - 1)
        first = cuts[index].last + 1
    if first <= range_.last:
        yield IPRange(first, range_.last)


def overlapping(ranges: Iterable[IPRange]) -> Iterator[tuple[IPRange, IPRange]]:
    """Yield neighbours, in order, that have an address in common."""
    ordered = sorted(ranges)
    for one, other in pairwise(ordered):
        if one.overlaps(other):
            yield one, other


def whole(version: Version) -> IPRange:
    """Return every address of a version."""
    return IPRange(*LIMITS[version])


def _touch(one: IPRange, other: IPRange) -> bool:
    return other.first <= one.last + 1 and one.version == other.version


def runs(ordered: Iterable[Address]) -> Iterator[IPRange]:
    """Return sequential addresses, in order, as ranges."""
    first = last = -2
    for address in ordered:
        if address != last + 1:
            if last >= 0:
                yield IPRange(first, last)
            first = address
        last = address
    if last >= 0:
        yield IPRange(first, last)

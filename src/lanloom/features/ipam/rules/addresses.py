"""Addresses as numbers, and the only way from text to them and back.

An address is an int: an IPv4 address is its 32-bit value, an IPv6 address its 128-bit value plus 2**128. So one number
says version and value, numbers sort by version first, and a range never has to carry its version along.
"""

from collections.abc import Iterable
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Literal

from lanloom.refusals import Malformed
from lanloom.text import quote

Address = int
Version = Literal[4, 6]

IPV6 = 1 << 128
"""What an IPv6 address's value is raised by."""

LIMITS: dict[Version, tuple[Address, Address]] = {4: (0, (1 << 32) - 1), 6: (IPV6, (IPV6 << 1) - 1)}
"""First and last address of a version."""

_LONGEST = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")


def version_of(address: Address) -> Version:
    """The IP version of an address."""
    return 6 if address >= IPV6 else 4


def parse_address(text: str) -> Address:
    """An address in its standard form: four decimal numbers without leading zeros, or RFC 4291. Raises Malformed."""
    address = find_address(text)
    if address is None:
        raise Malformed(f"{quote(text)} is not an IP address; write one such as 192.0.2.10 or 2001:db8::10")
    return address


def find_address(text: str) -> Address | None:
    """The address that a text is, or None."""
    if not text.isascii() or len(text) > _LONGEST or "\0" in text:
        return None
    try:
        if ":" in text:
            return IPV6 + int.from_bytes(inet_pton(AF_INET6, text), "big")
        return int.from_bytes(inet_pton(AF_INET, text), "big")
    except OSError:
        return None


def find_addresses(texts: Iterable[str]) -> tuple[Address, ...]:
    """Those of some texts that are addresses, in order."""
    return tuple(address for text in texts if (address := find_address(text)) is not None)


def format_address(address: Address) -> str:
    """The canonical text of an address (RFC 5952 for IPv6)."""
    if address < IPV6:
        return inet_ntop(AF_INET, address.to_bytes(4, "big"))
    return inet_ntop(AF_INET6, (address - IPV6).to_bytes(16, "big"))

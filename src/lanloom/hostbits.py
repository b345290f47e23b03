"""Sets of addresses that are written with host bits, such as 192.168.14.1/23: one address was meant, or 512.

Readers of a set, for a reservation, a pool, a removal or a route, refuse it and name both spellings. The subnet
itself may be written by any of its addresses, as in Ganeti: the reply says how it was read.
"""

from ipaddress import ip_interface

_COUNTED = 32
"""Bits: a larger subnet has more addresses than a reader counts digits."""


def host_bits(text: str) -> str:
    """Return what is wrong with a set of addresses that has host bits; empty for any other text."""
    try:
        found = ip_interface(text)
    except ValueError:
        return ""
    if "/" not in text or found.ip == found.network.network_address:
        return ""
    free = found.max_prefixlen - found.network.prefixlen
    size = str(1 << free) if free <= _COUNTED else f"2^{free}"
    return f"{text} has host bits; did you mean {found.network} ({size} addresses) or {found.ip}/{found.max_prefixlen}?"

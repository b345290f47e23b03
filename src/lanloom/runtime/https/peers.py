"""Who is at the other end of a connection, and which of them has the most.

A client has as many IPv6 addresses as it likes, all in one /64: so its network is counted in addition to the address.
"""

import ipaddress
from functools import lru_cache
from typing import Any

_IPV6_NETWORK = 64
_KNOWN = 4096


def peer_of(address: Any) -> str:
    """Return the peer of a socket address, by which its connections are counted: the host's address."""
    if not isinstance(address, tuple):
        return ""
    host = str(address[0]).partition("%")[0]
    mapped = ipaddress.IPv6Address(host).ipv4_mapped if ":" in host else None
    return host if mapped is None else str(mapped)


@lru_cache(_KNOWN)
def network_of(peer: str) -> str:
    """Return the network of a peer, by which its connections are counted too: its /64 of IPv6; of IPv4, itself."""
    if ":" not in peer:
        return peer
    return str(ipaddress.IPv6Network((peer, _IPV6_NETWORK), strict=False))


class Ranking:
    """Names by a number of each, which changes by one at a time. The first one is found at once, however many are."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ranks: list[dict[str, None]] = []

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def change(self, name: str, by: int) -> None:
        """Add 1 or -1 to a number. A name that has 0 is none of the ranking."""
        old = self._numbers.pop(name, 0)
        if old:
            del self._ranks[old - 1][name]
        if new := old + by:
            self._numbers[name] = new
            if new > len(self._ranks):
                self._ranks.append({})
            self._ranks[new - 1][name] = None
        if not self._ranks[-1]:
            self._ranks.pop()

    def first(self) -> str:
        """Return a name with the highest number, of several the one that has it longest; empty without any."""
        return next(iter(self._ranks[-1])) if self._ranks else ""

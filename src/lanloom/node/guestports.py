"""What a port of ours must be like, so that a bridge that others made stays as it is.

A bridge whose MTU was not set takes the least of its ports'. VLAN links on it follow, stay small when the port has
gone, and lose their IPv6 addresses below 1280 bytes. A bridge whose hardware address was not set takes the lowest of
its ports', by which stations, leases and neighbours know the node. The kernel does not report whether they were set, so
a port is never the least of all.
"""

from collections.abc import Iterable

_HIGHEST = "fe:ff"
"""How the highest addresses of single stations begin. No maker of NICs has them: they are administered locally."""


def fitting_mtu(bridge: int, others: Iterable[int]) -> int:
    """Return the MTU of a port: the bridge's, or the largest of its other ports', so that the bridge may follow them.

    All in bytes. A port of ours must not be among the others: two of them would keep each other small.
    """
    return max((bridge, *others))


def highest_mac(digest: bytes) -> str:
    """Return a hardware address above those of all NICs, with the last four octets of a digest."""
    return f"{_HIGHEST}:{digest[:4].hex(':')}"


def yielding_mac(mac: str, bridge: str) -> str:
    """Return the hardware address for a port that joins a bridge: its own, unless the bridge might take it over."""
    return mac if mac > bridge else _HIGHEST + mac[len(_HIGHEST) :]

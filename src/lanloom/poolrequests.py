"""Requests for addresses of a network: of any pool, of a pool, or an address; what meets them, and what is full."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Literal

IPAddress = IPv4Address | IPv6Address

Pools = Sequence[tuple[str, str]]
"""Name and range of each pool; the range is `first-last`, one address, or a CIDR."""

ANY = "pool"
"""The request where there is no other."""

AUTOMATIC: Mapping[str, Literal[4, 6] | None] = {ANY: None, "pool4": 4, "pool6": 6}
"""Requests for the lowest free address of any pool, and its IP version; None for either. Others name a pool."""


def full_message(request: str, network: str, disabled: int) -> str:
    """Return that nothing is left of a request, and a remedy; `disabled` pools of it have so many free addresses."""
    what = f"network {network}"
    if version := AUTOMATIC.get(request):
        what = f"every IPv{version} pool of {what}"
    elif request not in AUTOMATIC:
        what = f"pool {request} of {what}"
    if not disabled:
        return f"{what} is full; add a pool, or release addresses"
    free = f"{disabled} free address{'es' * (disabled > 1)}"
    return f"{what} is full, but for {free} in disabled pools; enable a pool, add one, or release addresses"


def satisfies(pools: Pools, ips: Sequence[str], requests: Sequence[str]) -> bool:
    """Return whether a NIC with these addresses of a network has what it would get there by such requests.

    Each request needs an address of its own. A named pool must have it in its range now; `pools` are the network's.
    """
    addresses = [ip_address(text) for text in ips]
    taken: dict[int, str] = {}

    def take(request: str, tried: set[int]) -> bool:
        """Give a request an address, for which others may have to take another one."""
        for place, address in enumerate(addresses):
            if place in tried or not _answers(pools, address, request):
                continue
            tried.add(place)
            if place not in taken or take(taken[place], tried):
                taken[place] = request
                return True
        return False

    return all(take(request, set()) for request in requests)


def _answers(pools: Pools, address: IPAddress, request: str) -> bool:
    if request in AUTOMATIC:
        return AUTOMATIC[request] in (None, address.version)
    if wanted := _address(request):
        return address == wanted
    return any(_contains(range_, address) for name, range_ in pools if name == request)


def _address(text: str) -> IPAddress | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _contains(text: str, address: IPAddress) -> bool:
    """Return whether a range has an address: `first-last`, one address, or a CIDR."""
    first, _, last = text.partition("-")
    with suppress(ValueError):
        if "/" in text:
            return address in ip_network(text, strict=False)
        low, high = ip_address(first), ip_address(last or first)
        return low.version == high.version == address.version and int(low) <= int(address) <= int(high)
    return False

"""Parsers of one route and one DNS server of IPv6, next to those of IPv4 in the same annotations (`routing`).

`check_hop` and `refuse_own` are the rules of both.
"""

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Network, IPv6Address, IPv6Network
from typing import TypeVar

from lanloom.api.dualstack import PREFIX_MIN, UNICAST
from lanloom.api.l3 import AnnotationError, Route
from lanloom.text import quote

Network = TypeVar("Network", IPv4Network, IPv6Network)

LOCAL, LOCAL_PREFIX_MIN = UNICAST[1], 8
"""Unique local addresses, and their shortest prefix: all of a site's, and nothing of the internet.

Elsewhere `PREFIX_MIN` holds. So the routes of all networks together are far from half of the internet.
"""

_ADDRESS = re.compile(r"[0-9a-f:]{2,39}", re.ASCII)
_CIDR = re.compile(_ADDRESS.pattern + r"/(?:0|[1-9][0-9]{0,2})", re.ASCII)


def is_route6(item: object) -> bool:
    """Return whether a route of the annotation is one of IPv6, by its destination."""
    to = item.get("to") if isinstance(item, dict) else None
    return isinstance(to, str) and ":" in to


def check_hop(field: str, to: Network, via: object, subnet: Network, *, is_host: bool) -> None:
    """Raise AnnotationError for a next hop outside of the VLAN's subnet, or a destination inside of it.

    `is_host` tells whether the next hop `via` is a host address of the subnet.
    """
    if not is_host:
        raise AnnotationError(
            f"{field}.via",
            f"is {via}, which is not a host address of the subnet {subnet}; name a router on the VLAN",
        )
    if to.subnet_of(subnet):
        raise AnnotationError(
            f"{field}.to",
            f"is {to}, which the VLAN's own subnet {subnet} covers without a route; remove the route",
        )


def refuse_own(field: str, address: object, addresses: Mapping[str, str]) -> None:
    """Raise AnnotationError for a router that is a node's own address: it can't reach anything through itself."""
    for node, cidr in addresses.items():
        if cidr.startswith(f"{address}/"):
            raise AnnotationError(
                field, f"is {address}, which is the address of node {quote(node)}; name a router"
            )


def parse_route6(
    field: str, item: Mapping[str, object], addresses6: Mapping[str, str], subnet: IPv6Network | None
) -> tuple[IPv6Network, Route]:
    """Return a route of IPv6 with its destination. Without a `subnet` any host is a next hop."""
    to, hop = _destination(f"{field}.to", item["to"]), f"{field}.via"
    via = parse_address6(hop, item["via"])
    if subnet is not None:
        check_hop(field, to, via, subnet, is_host=via in subnet and via != subnet.network_address)
    refuse_own(hop, via, addresses6)
    return to, Route(str(to), str(via))


def _destination(field: str, text: object) -> IPv6Network:
    """Return a subnet to route to, without host bits."""
    wrong = f"is {quote(text)}; it must be a subnet, such as fd00:20::/48"
    if not (isinstance(text, str) and _CIDR.fullmatch(text.lower())):
        raise AnnotationError(field, wrong)
    try:
        to = IPv6Network(text, strict=False)
        host = IPv6Address(text.partition("/")[0])
    except ValueError:
        raise AnnotationError(field, wrong) from None
    if to.prefixlen < (LOCAL_PREFIX_MIN if to.subnet_of(LOCAL) else PREFIX_MIN):
        raise AnnotationError(
            field,
            f"is {quote(text)}; its prefix length must be from {PREFIX_MIN} to 128, or from {LOCAL_PREFIX_MIN} in "
            f"{LOCAL}: a larger part of the internet is a default route, which belongs to the management network; "
            "use the gateway annotation",
        )
    if to.network_address != host:
        raise AnnotationError(field, f"is {quote(text)}, the address of a host; write {to}, or {host}/128")
    if not any(to.subnet_of(known) for known in UNICAST):
        raise AnnotationError(field, f"is {quote(text)}, which is not routable; choose a subnet of hosts")
    return to


def parse_address6(field: str, text: object) -> IPv6Address:
    """Return the global or unique local address of one host, such as fd00:1::1."""
    wrong = f"is {quote(text)}; it must be an IPv6 address, such as fd00:1::1"
    if not (isinstance(text, str) and _ADDRESS.fullmatch(text.lower())):
        raise AnnotationError(field, wrong)
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise AnnotationError(field, wrong) from None
    if not any(address in known for known in UNICAST):
        raise AnnotationError(
            field,
            f"is {quote(text)}, which can't be the address of a host; choose a global or unique local address",
        )
    return address

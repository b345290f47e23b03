"""Parsers of one route and one DNS server of IPv6, beside those of IPv4 in the same annotations (`routing`)."""

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Address, IPv6Network

from lanloom.api.dualstack import PREFIX_MIN, UNICAST
from lanloom.api.l3 import AnnotationError, Route
from lanloom.text import quote

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


def parse_route6(
    field: str, item: Mapping[str, object], addresses6: Mapping[str, str], subnet: IPv6Network | None
) -> tuple[IPv6Network, Route]:
    """Return a route of IPv6 with its destination. Without a `subnet` any host is a next hop."""
    to, hop = _destination(f"{field}.to", item["to"]), f"{field}.via"
    via = parse_address6(hop, item["via"])
    if subnet is not None and (via not in subnet or via == subnet.network_address):
        raise AnnotationError(
            hop, f"is {via}, which is not a host address of the subnet {subnet}; name a router on the VLAN"
        )
    if subnet is not None and to.subnet_of(subnet):
        raise AnnotationError(
            f"{field}.to",
            f"is {to}, which the VLAN's own subnet {subnet} covers without a route; remove the route",
        )
    for node, cidr in addresses6.items():
        if cidr.startswith(f"{via}/"):
            raise AnnotationError(hop, f"is {via}, which is the address of node {quote(node)}; name a router")
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

"""Parsers of what a VLAN adds to its nodes' routing: the annotations `gateway`, `routes` and `dns`.

They end up in root-owned profiles, so the same holds as for `l3`: typed values in canonical form, or AnnotationError.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Network, collapse_addresses
from typing import NamedTuple

from lanloom.api import names
from lanloom.api.dualstack import parse_gateway6, split_gateways, subnet6_of
from lanloom.api.l3 import THIS_NETWORK, AnnotationError, Mode, Route, Routing, parse_cidr
from lanloom.api.routing6 import check_hop, is_route6, parse_address6, parse_route6, refuse_own
from lanloom.text import quote

ROUTES_MAX = 64
"""Most routes of one network: they are for a site's few subnets; more is the job of a routing daemon."""

ROUTES_TEXT_MAX = 16 * 1024
"""Longest `routes` in characters."""

DNS_MAX = 3
"""Most DNS servers of one network: a resolver reads no more (MAXNS of resolv.conf(5))."""

COVERED_MAX = 2**31
"""Addresses that the routes of one network, and of all on a cluster network, must stay below."""

_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", re.ASCII)
_CIDR = re.compile(_ADDRESS.pattern + r"/(?:0|[1-9][0-9]?)", re.ASCII)
_ROUTE = '{"to": "10.20.0.0/16", "via": "192.168.1.254"}'
_ROUTES = f"[{_ROUTE}]"


class RoutingFields(NamedTuple):
    """The annotations that hold the three parts; they differ between a NAD and a ClusterNetwork."""

    gateway: str
    routes: str
    dns: str


def parse_routing(
    annotations: Mapping[str, str],
    fields: RoutingFields,
    mode: Mode,
    addresses: Mapping[str, str],
    addresses6: Mapping[str, str] = {},
    subnet6: str = "",
) -> Routing:
    """Parse the routing of a network of that mode with those static addresses; empty without annotations.

    `subnet6` is the subnet of IPv6 addresses that no map gives.
    """
    four, six = split_gateways(fields.gateway, annotations.get(fields.gateway))
    gateway = parse_gateway(fields.gateway, four, mode, addresses)
    routes = parse_routes(fields.routes, annotations.get(fields.routes), addresses, gateway)
    _refuse_default_in_parts(fields.routes, routes)
    pooled = mode == "pool" and not subnet6
    gateway6 = parse_gateway6(fields.gateway, six, addresses6, pooled=pooled, subnet6=subnet6)
    routes6 = parse_routes6(fields.routes, annotations.get(fields.routes), addresses6, subnet6 or gateway6)
    dns6 = parse_dns6(fields.dns, annotations.get(fields.dns))
    if not (pooled or addresses6 or subnet6):
        _refuse_six(fields, routes6, dns6)
    return Routing(
        gateway=gateway,
        gateway6=gateway6,
        routes=routes,
        dns=parse_dns(fields.dns, annotations.get(fields.dns)),
        routes6=routes6,
        dns6=dns6,
    )


def _refuse_six(fields: RoutingFields, routes6: tuple[Route, ...], dns6: tuple[str, ...]) -> None:
    """Refuse what needs IPv6 addresses that nodes have not."""
    for field, asked in ((fields.routes, [route.to for route in routes6]), (fields.dns, dns6)):
        if asked:
            raise AnnotationError(
                field, f"has {asked[0]}, but nodes have no IPv6 addresses; add them to {names.NODE_IP_MAP}"
            )


def subnet_of(addresses: Mapping[str, str], gateway: str = "") -> IPv4Network | None:
    """Return the subnet of a network: of its static addresses, else of its gateway, else unknown."""
    cidr = next(iter(addresses.values()), gateway)
    return IPv4Interface(cidr).network if cidr else None


def parse_gateway(field: str, text: str | None, mode: Mode, addresses: Mapping[str, str]) -> str:
    """Return the router's address with the prefix length of the subnet; empty for none.

    With static addresses the prefix length is theirs and may be left out. With the other modes nothing else tells it.
    """
    if not text:
        return ""
    subnet = subnet_of(addresses)
    if subnet is not None and _ADDRESS.fullmatch(text):
        text = f"{text}/{subnet.prefixlen}"
    if not _CIDR.fullmatch(text):
        need = "an IPv4 address, such as 192.168.1.1"
        if mode != "static":
            need = "an IPv4 address with the prefix length of its subnet, such as 192.168.1.1/24, because mode is "
            need += mode
        raise AnnotationError(field, f"is {quote(text)}; it must be {need}")
    gateway = parse_cidr(field, text)
    if gateway.network.prefixlen == 32:
        raise AnnotationError(
            field, f"is {quote(text)}, a subnet without room for a node; correct its prefix length"
        )
    if subnet is not None and gateway.network != subnet:
        raise AnnotationError(
            field,
            f"is {quote(text)}, which is not in the subnet {subnet} of the nodes' addresses; "
            "choose an address of that subnet",
        )
    refuse_own(field, gateway.ip, addresses)
    return str(gateway)


def parse_routes(
    field: str, text: str | None, addresses: Mapping[str, str], gateway: str = ""
) -> tuple[Route, ...]:
    """Return the IPv4 routes of a JSON list of destinations and next hops, ordered by destination.

    Next hops must be in the network's subnet. With mode dhcp or pool and no gateway a NAD does not tell it, and
    any host's address passes.
    """
    subnet = subnet_of(addresses, gateway)
    routes: dict[IPv4Network, Route] = {}
    for where, item in _items(field, text):
        if not is_route6(item):
            to, route = _route(where, item, addresses, subnet)
            _refuse_twice(field, to, routes)
            routes[to] = route
    return tuple(routes[to] for to in sorted(routes))


def parse_routes6(
    field: str, text: str | None, addresses6: Mapping[str, str], subnet6: str = ""
) -> tuple[Route, ...]:
    """Return the IPv6 routes of the same list. `subnet6` or a gateway in it tells the subnet without addresses."""
    subnet = subnet6_of(addresses6, subnet6)
    routes: dict[IPv6Network, Route] = {}
    for where, item in _items(field, text):
        if is_route6(item):
            to, route = parse_route6(where, _as_route(where, item), addresses6, subnet)
            _refuse_twice(field, to, routes)
            routes[to] = route
    return tuple(routes[to] for to in sorted(routes))


def _refuse_twice(field: str, to: IPv4Network | IPv6Network, routes: Container[object]) -> None:
    if to in routes:
        raise AnnotationError(field, f"has two routes to {to}; keep one")


def _items(field: str, text: str | None) -> Iterator[tuple[str, object]]:
    """Yield the items of a JSON list of routes, each after the name of its place."""
    if text is None or not text.strip():
        return
    if len(text) > ROUTES_TEXT_MAX:
        raise AnnotationError(field, f"has {len(text)} characters; at most {ROUTES_TEXT_MAX} are allowed")
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        raise AnnotationError(field, f"is not valid JSON; it must be a list such as {_ROUTES}") from None
    if not isinstance(items, list):
        raise AnnotationError(field, f"must be a JSON list of routes, such as {_ROUTES}")
    if len(items) > ROUTES_MAX:
        raise AnnotationError(field, f"has {len(items)} routes; at most {ROUTES_MAX} are allowed")
    yield from ((f"{field}[{index}]", item) for index, item in enumerate(items))


def addresses_covered(routes: Iterable[Route]) -> int:
    """Count the addresses that routes lead to, each once."""
    return sum(
        subnet.num_addresses for subnet in collapse_addresses(IPv4Network(route.to) for route in routes)
    )


def _refuse_default_in_parts(field: str, routes: tuple[Route, ...]) -> None:
    """Refuse a route to half of all addresses or more: that is a default route, whatever it is called."""
    found = addresses_covered(routes)
    if found >= COVERED_MAX:
        raise AnnotationError(
            field,
            f"cover {found} addresses, which is half of IPv4 or more: a default route, which belongs to the "
            "management network; use the gateway annotation, or name the subnets that are behind the VLAN",
        )


def _route(
    field: str, item: object, addresses: Mapping[str, str], subnet: IPv4Network | None
) -> tuple[IPv4Network, Route]:
    ends = _as_route(field, item)
    to = _destination(f"{field}.to", ends["to"])
    hop = f"{field}.via"
    via = parse_address(hop, ends["via"])
    if subnet is not None:
        check_hop(field, to, via, subnet, is_host=_is_host(via, subnet))
    refuse_own(hop, via, addresses)
    return to, Route(str(to), str(via))


def _as_route(field: str, item: object) -> Mapping[str, object]:
    if not isinstance(item, dict) or item.keys() != {"to", "via"}:
        raise AnnotationError(
            field, f'is {quote(item)}; it must be an object of "to" and "via", such as {_ROUTE}'
        )
    return item


def _destination(field: str, text: object) -> IPv4Network:
    """Return a subnet to route to, without host bits."""
    wrong = f"is {quote(text)}; it must be a subnet, such as 10.20.0.0/16"
    if not (isinstance(text, str) and _CIDR.fullmatch(text)):
        raise AnnotationError(field, wrong)
    try:
        to = IPv4Network(text, strict=False)
    except ValueError:
        raise AnnotationError(field, wrong) from None
    if not to.prefixlen:
        raise AnnotationError(
            field,
            f"is {quote(text)}, a default route, which belongs to the management network; use the gateway annotation",
        )
    if str(to) != text:
        raise AnnotationError(
            field, f"is {quote(text)}, the address of a host; write {to}, or {text.split('/')[0]}/32"
        )
    if not _is_routable(to.network_address) or not _is_routable(to.broadcast_address):
        raise AnnotationError(field, f"is {quote(text)}, which is not routable; choose a subnet of hosts")
    return to


def parse_dns(field: str, text: str | None) -> tuple[str, ...]:
    """Parse DNS servers of IPv4: distinct addresses with commas between them, in the order of queries."""
    return tuple(server for server in _servers(field, text) if ":" not in server)


def parse_dns6(field: str, text: str | None) -> tuple[str, ...]:
    """Return the servers of IPv6 among the same addresses."""
    return tuple(server for server in _servers(field, text) if ":" in server)


def _servers(field: str, text: str | None) -> tuple[str, ...]:
    if text is None or not text.strip(" "):
        return ()
    items = [item.strip(" ") for item in text.split(",", DNS_MAX + 1)]
    servers = [
        str(parse_address6(field, item) if ":" in item else parse_address(field, item)) for item in items
    ]
    if len(servers) > DNS_MAX:
        raise AnnotationError(field, f"names more than {DNS_MAX} servers; keep the first {DNS_MAX}")
    for server in servers:
        if servers.count(server) > 1:
            raise AnnotationError(field, f"names {server} twice; keep one")
    return tuple(servers)


def parse_address(field: str, text: object) -> IPv4Address:
    """Return the address of one host, such as 192.168.1.1."""
    wrong = f"is {quote(text)}; it must be an IPv4 address, such as 192.168.1.1"
    if not (isinstance(text, str) and _ADDRESS.fullmatch(text)):
        raise AnnotationError(field, wrong)
    try:
        address = IPv4Address(text)
    except ValueError:
        raise AnnotationError(field, wrong) from None
    if not _is_routable(address):
        raise AnnotationError(field, f"is {quote(text)}, which can't be the address of a host")
    return address


def _is_routable(address: IPv4Address) -> bool:
    return (
        not (address.is_multicast or address.is_loopback or address.is_unspecified or address.is_reserved)
        and address not in THIS_NETWORK
    )


def _is_host(address: IPv4Address, subnet: IPv4Network) -> bool:
    ends = (subnet.network_address, subnet.broadcast_address) if subnet.prefixlen < 31 else ()
    return address in subnet and address not in ends

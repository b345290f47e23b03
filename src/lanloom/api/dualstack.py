"""IPv6 addresses of nodes next to their IPv4 ones: a `node-ip-map` with one address of each family for each node.

    {"node1": ["192.168.1.10/24", "fd00:1::10/64"]}

What is said in `l3` holds here: typed values, or AnnotationError. Maps with IPv4 addresses alone are read there.
"""

import json
import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Interface, IPv6Network, NetmaskValueError
from typing import NamedTuple

from lanloom.api import names
from lanloom.api.l3 import (
    AnnotationError,
    Mode6,
    Pairs,
    addresses_of,
    node_pairs,
    parse_cidr,
    parse_node_ip_map,
)
from lanloom.text import quote

UNICAST = (IPv6Network("2000::/3"), IPv6Network("fc00::/7"))
"""Addresses that nodes may have: global and unique local ones (RFC 4291, RFC 4193)."""

PREFIX_MIN = 32
"""Shortest prefix of a subnet: what a provider has, so a shorter one would be a part of the internet."""

PREFIX_MAX = 126
"""Longest prefix of a subnet that has a router and a node."""

SLAAC_PREFIX = 64
"""The prefix in which a host makes an address of its own (RFC 4862, RFC 7421)."""

_CIDR6 = re.compile(r"[0-9a-f:]{2,39}/[1-9][0-9]{0,2}", re.ASCII)
_SOURCES6: Mapping[Mode6, str] = {
    "slaac": "that the router of the VLAN advertises",
    "dhcp6": "of which the DHCPv6 server of the VLAN gives addresses",
}
_WAYS6: Mapping[Mode6, str] = {
    "slaac": "make theirs themselves",
    "dhcp6": "get theirs of a DHCPv6 server",
}
_PAIR = '["192.168.1.10/24", "fd00:1::10/64"]'


class NodeAddresses(NamedTuple):
    """The addresses of a map by family, as CIDRs by node. `six` is empty, or has the nodes of `four`.

    A node whose address of IPv6 a pool has still to give has an empty one.
    """

    four: dict[str, str]
    six: dict[str, str]


NO_ADDRESSES = NodeAddresses({}, {})


def parse_node_addresses(field: str, text: str | None, *, pooled: bool = False) -> NodeAddresses:
    """Return the addresses of a `node-ip-map`: one of IPv4 for each node, or a list of one of each family.

    With `pooled` the one of IPv6 may be empty: a pool has still to give it.
    """
    if text is None or "[" not in text:
        return NodeAddresses(parse_node_ip_map(field, text), {})
    four, six = Pairs(), Pairs()
    waiting: dict[str, str] = {}
    for node, value in node_pairs(field, text):
        if pooled and isinstance(value, list) and value[1:] == [""]:
            value, waiting[node] = value[0], ""
        one, other = _families(f"{field}[{quote(node)}]", value)
        four.append((node, one))
        if other:
            six.append((node, other))
    found = addresses_of(field, four, parse_cidr)
    present = dict(six) | waiting
    if present and (lacking := sorted(found.keys() - present.keys())):
        raise AnnotationError(
            field,
            f"has an IPv6 address for some nodes and none for {quote(lacking[0])}; add it, or remove the others",
        )
    return NodeAddresses(found, addresses_of(field, six, parse_cidr6) | waiting)


def _families(field: str, value: object) -> tuple[object, object]:
    """Return what should be the addresses of IPv4 and IPv6, in whatever order they are written."""
    if not isinstance(value, list):
        return value, None
    ordered = sorted(value, key=lambda item: ":" in item if isinstance(item, str) else True)
    if len(ordered) == 2 and isinstance(ordered[1], str) and ":" in ordered[1]:
        return ordered[0], ordered[1]
    raise AnnotationError(
        field, f"must be an IPv4 address, or a list of one IPv4 and one IPv6 address, such as {_PAIR}"
    )


def parse_subnet6(field: str, text: str | None, mode6: Mode6 = "") -> str:
    """Return the subnet of the IPv6 addresses of nodes.

    Those that make theirs themselves need 64 bits for it. A subnet that is not in use has no `mode6`.
    """
    example = "such as fd00:1::/64"
    if text is None:
        raise AnnotationError(
            field,
            f"is missing; mode {mode6} needs the subnet {_SOURCES6[mode6]}, {example}",
        )
    address = _interface6(text)
    shortest, longest = (SLAAC_PREFIX, SLAAC_PREFIX) if mode6 == "slaac" else (PREFIX_MIN, PREFIX_MAX)
    if address is None or not shortest <= address.network.prefixlen <= longest:
        bits = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
        raise AnnotationError(
            field, f"is {quote(text)}; it must be an IPv6 subnet with a prefix of {bits} bits, {example}"
        )
    network = address.network
    if address.ip != network.network_address:
        raise AnnotationError(field, f"is {quote(text)}, the address of a host; write {network}")
    if not any(network.subnet_of(known) for known in UNICAST):
        raise AnnotationError(
            field, f"is {quote(text)}, which nodes can't have; choose a global or unique local subnet"
        )
    return str(network)


def refuse_addresses6(field: str, mode6: Mode6, addresses6: Mapping[str, str]) -> None:
    """Raise AnnotationError for IPv6 addresses of nodes that get theirs by `mode6`."""
    if mode6 and addresses6:
        raise AnnotationError(
            field,
            f"has IPv6 addresses, but with mode {mode6} nodes {_WAYS6[mode6]}; remove the IPv6 addresses, or {mode6} "
            f"from {names.MODE}",
        )


def parse_cidr6(field: str, text: object) -> IPv6Interface:
    """Return a host's IPv6 address with its prefix length, such as fd00:1::10/64."""
    address = _interface6(text)
    if address is None:
        raise AnnotationError(
            field, f"is {quote(text)}; it must be an IPv6 address with a prefix length, such as fd00:1::10/64"
        )
    network = address.network
    if not any(address.ip in known for known in UNICAST):
        raise AnnotationError(
            field,
            f"is {quote(text)}, which can't be the address of a node; choose a global or unique local address",
        )
    if network.prefixlen < PREFIX_MIN:
        raise AnnotationError(field, f"is {quote(text)}; its prefix length must be from {PREFIX_MIN} to 128")
    if network.prefixlen < 127 and address.ip == network.network_address:
        raise AnnotationError(
            field, f"is {quote(text)}, the address of all routers of its subnet; choose a host address"
        )
    return address


def _interface6(text: object) -> IPv6Interface | None:
    try:
        return IPv6Interface(text) if isinstance(text, str) and _CIDR6.fullmatch(text.lower()) else None
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def join_addresses(four: Mapping[str, str], six: Mapping[str, str]) -> str:
    """Return the map that is read as these addresses."""
    values = {node: [cidr, six[node]] if node in six else cidr for node, cidr in four.items()}
    return json.dumps(values, sort_keys=True)


def subnet6_of(addresses6: Mapping[str, str], other: str = "") -> IPv6Network | None:
    """Return the IPv6 subnet of a network: of its addresses, else of its gateway or as it is named; None for none."""
    cidr = next(filter(None, addresses6.values()), other)
    return IPv6Interface(cidr).network if cidr else None


def split_gateways(field: str, text: str | None) -> tuple[str, str]:
    """Return what should be the gateways of IPv4 and IPv6: one of each, with a comma between both."""
    if text is None or not {",", ":"} & set(text):
        return text or "", ""
    four: list[str] = []
    six: list[str] = []
    for item in text.split(",", 2):
        if trimmed := item.strip(" "):
            (six if ":" in trimmed else four).append(trimmed)
    if len(four) > 1 or len(six) > 1:
        raise AnnotationError(
            field,
            f"is {quote(text)}; it must be at most one IPv4 and one IPv6 address, such as 192.168.1.1,fd00:1::1",
        )
    return "".join(four), "".join(six)


def parse_gateway6(
    field: str, text: str, addresses6: Mapping[str, str], *, pooled: bool = False, subnet6: str = ""
) -> str:
    """Return the IPv6 router with the prefix length of the nodes' subnet; empty for none.

    With `pooled` the nodes may have no addresses yet, and nothing but the text tells the length. `subnet6` is the
    subnet of addresses that no map gives.
    """
    if not text:
        return ""
    subnet = subnet6_of(addresses6, subnet6)
    if subnet is None and not pooled:
        raise AnnotationError(
            field, f"has the IPv6 address {quote(text)}, but nodes have none; add them to {names.NODE_IP_MAP}"
        )
    if subnet is not None and "/" not in text:
        text = f"{text}/{subnet.prefixlen}"
    if "/" not in text:
        raise AnnotationError(
            field,
            f"has {quote(text)}; it must be an IPv6 address with the prefix length of its subnet, such as "
            "fd00:1::1/64, because mode is pool",
        )
    gateway = parse_cidr6(field, text)
    if subnet is not None and gateway.network != subnet:
        raise AnnotationError(
            field,
            f"has the IPv6 address {quote(text)}, which is not in the subnet {subnet} of the nodes' addresses; "
            "choose an address of that subnet",
        )
    if str(gateway) in addresses6.values():
        raise AnnotationError(field, f"has {gateway.ip}, which is the address of a node; name a router")
    return str(gateway)


def join_gateways(four: str, six: str) -> str:
    """Return the text that is read as these gateways."""
    return ",".join(item for item in (four, six) if item)

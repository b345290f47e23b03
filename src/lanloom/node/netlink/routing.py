"""Routing rules of both IP versions, and the IPv6 routes out of one link, as rtnetlink messages.

The numbers are those of linux/fib_rules.h and rtnetlink.h. What reads raises LinkError, what writes OSError with the
kernel's number and words.
"""

import errno
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_network

from lanloom.node.errors import LinkError
from lanloom.node.netlink.messages import (
    FRA_PRIORITY,
    FRA_SRC,
    FRA_TABLE,
    NLM_F_CREATE_NEW,
    ROUTE,
    RTA_DST,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_TABLE,
    RTM_GETROUTE,
    RTM_GETRULE,
    RTM_NEWRULE,
    RTN_LOCAL,
    RTN_UNICAST,
    Attributes,
    attribute,
    attributes,
    dump,
    filtering,
    number,
    request,
    tolerating,
    word,
)
from lanloom.node.ports import MAIN_TABLE, Lack6, Route, Rule

WITHOUT_IPV6 = (errno.EAFNOSUPPORT, errno.EOPNOTSUPP)
"""What a kernel without IPv6 answers."""

NEXT_HOP = struct.Struct("=HBBi")
"""The head of a next hop among several: length, flags, hops, index of the link."""

_FRA_SUPPRESS_PREFIXLEN, _FRA_PROTOCOL = 14, 21
_TO_TABLE, _STATIC = 1, 4
_ADDRESSES = {socket.AF_INET: IPv4Address, socket.AF_INET6: IPv6Address}


def rule_messages(sock: socket.socket, family: int) -> list[bytes] | None:
    """Return the messages about all rules of an IP version; None where the kernel has none of it. Raises LinkError."""
    return _dump_if_there(sock, RTM_GETRULE, ROUTE.pack(family, *(0,) * 8), WITHOUT_IPV6)


def _dump_if_there(sock: socket.socket, kind: int, body: bytes, codes: tuple[int, ...]) -> list[bytes] | None:
    try:
        return dump(sock, kind, body)
    except LinkError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in codes:
            return None
        raise


def read_rules(sock: socket.socket) -> tuple[frozenset[Rule], Lack6]:
    """Return the rules of both IP versions, and what the kernel lacks of IPv6. Raises LinkError."""
    found = {family: rule_messages(sock, family) for family in _ADDRESSES}
    rules = frozenset(_rule(family, body) for family, bodies in found.items() for body in bodies or ())
    if found[socket.AF_INET6] is not None:
        return rules, ""
    return rules, "rules" if _has_ipv6() else "all"


def _rule(family: socket.AddressFamily, body: bytes) -> Rule:
    _, _, length, _, table, *_ = ROUTE.unpack_from(body)
    values = attributes(body, ROUTE.size)
    source = f"{_ADDRESSES[family](values[FRA_SRC])}/{length}" if FRA_SRC in values else ""
    return Rule(number(values.get(FRA_PRIORITY)), source, number(values.get(FRA_TABLE)) or table)


def _has_ipv6() -> bool:
    """Return whether the kernel has IPv6: it answers about rules alike without it and without its routing tables."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError as error:
        return error.errno not in WITHOUT_IPV6
    return True


def add_rule(sock: socket.socket, rule: Rule) -> None:
    """Add a rule with a source, as NetworkManager does, which takes it for its own; one that is there stays.

    A rule for the main table leaves out its default route.
    """
    network = ip_network(rule.source)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    body = ROUTE.pack(family, 0, network.prefixlen, 0, 0, 0, 0, _TO_TABLE, 0)
    body += attribute(FRA_SRC, network.network_address.packed)
    body += word(FRA_PRIORITY, rule.priority) + word(FRA_TABLE, rule.table)
    body += attribute(_FRA_PROTOCOL, bytes([_STATIC]))
    if rule.table == MAIN_TABLE:
        body += word(_FRA_SUPPRESS_PREFIXLEN, 0)
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWRULE, body, flags=NLM_F_CREATE_NEW)


def routes6(sock: socket.socket, index: int) -> frozenset[Route]:
    """Return the IPv6 routes out of one link, without those of its link-local addresses. Raises LinkError.

    The kernel picks them out of all routes. A dump of all is not only slower: between two parts of it, routes come and
    go with pods, and then it leaves out others that are there.
    """
    head = ROUTE.pack(socket.AF_INET6, *(0,) * 8)
    with filtering(sock):
        bodies = _dump_if_there(sock, RTM_GETROUTE, head + word(RTA_OIF, index), (errno.ENODEV,))
    return frozenset(route for body in bodies or () for route in _routes6(body, index))


def _routes6(body: bytes, index: int) -> Iterator[Route]:
    _, length, _, _, table, _, _, kind, _ = ROUTE.unpack_from(body)
    values = attributes(body, ROUTE.size)
    to = IPv6Address(values.get(RTA_DST, bytes(16)))
    if kind not in (RTN_UNICAST, RTN_LOCAL) or to.is_link_local:
        return
    hops = (
        next_hops(values[RTA_MULTIPATH])
        if RTA_MULTIPATH in values
        else [(number(values.get(RTA_OIF)), values)]
    )
    for out, hop in hops:
        if out == index:
            router = hop.get(RTA_GATEWAY)
            via = str(IPv6Address(router)) if router else ""
            yield Route(f"{to}/{length}", number(values.get(RTA_TABLE)) or table, via)


def next_hops(data: bytes) -> Iterator[tuple[int, Attributes]]:
    """Yield the next hops of a route with several: the index of the link of each, and its attributes."""
    offset = 0
    while offset + NEXT_HOP.size <= len(data):
        length, _, _, index = NEXT_HOP.unpack_from(data, offset)
        yield index, attributes(data[offset : offset + length], NEXT_HOP.size)
        offset += max((length + 3) & ~3, NEXT_HOP.size)

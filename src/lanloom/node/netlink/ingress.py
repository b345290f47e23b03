"""Routing rules of IPv6 for packets that come in by a link, as rtnetlink messages.

Two rules keep guests apart from other networks on a host that forwards IPv6, which has no `rp_filter`: one passes their
own sources on to the main table, the other drops what is left. Packets to the host's own addresses meet neither. The
numbers are those of linux/fib_rules.h. Everything raises OSError with the kernel's number and words, unless it says
otherwise.
"""

import errno
import socket
from ipaddress import IPv6Address, IPv6Network

from lanloom.node.netlink.addressing import PROTOCOL
from lanloom.node.netlink.messages import (
    FRA_PRIORITY,
    FRA_SRC,
    NLM_F_CREATE_NEW,
    ROUTE,
    RTM_DELRULE,
    RTM_NEWRULE,
    attribute,
    attributes,
    request,
    text,
    tolerating,
    word,
)
from lanloom.node.netlink.routing import WITHOUT_IPV6, rule_messages
from lanloom.node.ports import IngressRule

_FRA_IIFNAME, _FRA_GOTO, _FRA_PROTOCOL = 3, 4, 21
_GOTO, _BLACKHOLE = 2, 6

_PASS, _DROP = 1000, 1001
"""Priorities. Cilium looks the host's own addresses up at 100, and rules for networks of others come later."""

_MAIN = 32766
"""The kernel's own rule for the main table. Without it nothing is passed."""


def read(sock: socket.socket) -> frozenset[IngressRule] | None:
    """Return the rules that Lanloom made; None where the kernel has no rules of IPv6. Raises LinkError."""
    bodies = rule_messages(sock, socket.AF_INET6)
    if bodies is None:
        return None
    found = set()
    for body in bodies:
        values = attributes(body, ROUTE.size)
        if values.get(_FRA_PROTOCOL) == bytes([PROTOCOL]) and _FRA_IIFNAME in values:
            source = (
                f"{IPv6Address(values[FRA_SRC])}/{ROUTE.unpack_from(body)[2]}" if FRA_SRC in values else ""
            )
            found.add(IngressRule(text(values[_FRA_IIFNAME]), source))
    return frozenset(found)


def add(sock: socket.socket, rule: IngressRule) -> None:
    """Add a rule; one that is there stays, and none is added where the kernel has none of IPv6."""
    with tolerating(errno.EEXIST, *WITHOUT_IPV6):
        request(sock, RTM_NEWRULE, _encoded(rule), flags=NLM_F_CREATE_NEW)


def remove(sock: socket.socket, rule: IngressRule) -> None:
    """Remove a rule; one that is gone is no error."""
    with tolerating(errno.ENOENT, *WITHOUT_IPV6):
        request(sock, RTM_DELRULE, _encoded(rule))


def _encoded(rule: IngressRule) -> bytes:
    network = IPv6Network(rule.source) if rule.source else None
    length, action = (network.prefixlen, _GOTO) if network else (0, _BLACKHOLE)
    body = ROUTE.pack(socket.AF_INET6, 0, length, 0, 0, 0, 0, action, 0)
    body += attribute(_FRA_IIFNAME, rule.link.encode() + b"\0") + attribute(_FRA_PROTOCOL, bytes([PROTOCOL]))
    body += word(FRA_PRIORITY, _PASS if network else _DROP)
    if network:
        body += attribute(FRA_SRC, network.network_address.packed) + word(_FRA_GOTO, _MAIN)
    return body

"""IP addresses and routes of one link, as rtnetlink messages.

The numbers are those of linux/if_addr.h and rtnetlink.h. A function takes the socket of the namespace in which it acts.
Everything raises OSError with the kernel's number and words.
"""

import errno
import socket
import struct
from ipaddress import IPv4Interface, ip_address, ip_interface, ip_network

from lanloom.node.netlink.messages import (
    IFA_ADDRESS,
    IFA_LOCAL,
    RTA_DST,
    RTA_GATEWAY,
    RTA_OIF,
    RTA_TABLE,
    RTM_GETADDR,
    RTM_GETROUTE,
    RTN_UNICAST,
    attribute,
    attributes,
    dump,
    filtering,
    nested,
    request,
    tolerating,
    word,
)

RTM_NEWADDR, RTM_NEWROUTE = 20, 24
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
IFA_BROADCAST, IFA_F_NODAD = 4, 2
RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS, RTAX_MTU, RTAX_ADVMSS = 6, 7, 8, 2, 8
RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 254, 4, 0, 253

_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=8BI")
_LARGEST_SHORT_TABLE = 255
_WITHOUT_BROADCAST = 31


def add_address(sock: socket.socket, index: int, cidr: str) -> None:
    """Add an address to a link, at once usable: its giver has checked that it is in no other use. One that is there
    stays.
    """
    found = ip_interface(cidr)
    four = isinstance(found, IPv4Interface)
    family, flags = (socket.AF_INET, 0) if four else (socket.AF_INET6, IFA_F_NODAD)
    length = found.network.prefixlen
    body = _ADDRESS.pack(family, length, flags, RT_SCOPE_UNIVERSE, index)
    body += attribute(IFA_LOCAL, found.ip.packed) + attribute(IFA_ADDRESS, found.ip.packed)
    if four and length < _WITHOUT_BROADCAST:
        body += attribute(IFA_BROADCAST, found.network.broadcast_address.packed)
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWADDR, body, flags=NLM_F_CREATE | NLM_F_EXCL)


def addresses_of(sock: socket.socket, index: int) -> frozenset[str]:
    """Return the addresses of a link as CIDRs. Raises LinkError."""
    found = set()
    with filtering(sock):
        bodies = dump(sock, RTM_GETADDR, _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, index))
    for body in bodies:
        family, length, _, _, each = _ADDRESS.unpack_from(body)
        if each == index and family in (socket.AF_INET, socket.AF_INET6):
            values = attributes(body, _ADDRESS.size)
            payload = values.get(IFA_LOCAL) or values[IFA_ADDRESS]
            found.add(f"{ip_address(payload)}/{length}")
    return frozenset(found)


def add_route(
    sock: socket.socket,
    index: int,
    dst: str,
    gw: str = "",
    *,
    mtu: int = 0,
    advmss: int = 0,
    priority: int = 0,
    table: int = 0,
    scope: int = -1,
    source: str = "",
) -> None:
    """Add a route over a link; one to that place that is there already, over whatever link, stays.

    `source` is the preferred source address.
    """
    network = ip_network(dst)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    if scope < 0:
        scope = RT_SCOPE_UNIVERSE if gw or network.version != 4 else RT_SCOPE_LINK
    table = table or RT_TABLE_MAIN
    short = table if table <= _LARGEST_SHORT_TABLE else 0
    body = _ROUTE.pack(family, network.prefixlen, 0, 0, short, RTPROT_STATIC, scope, RTN_UNICAST, 0)
    body += word(RTA_OIF, index) + word(RTA_TABLE, table)
    if network.prefixlen:
        body += attribute(RTA_DST, network.network_address.packed)
    if gw:
        body += attribute(RTA_GATEWAY, ip_address(gw).packed)
    if source:
        body += attribute(RTA_PREFSRC, ip_address(source).packed)
    if priority:
        body += word(RTA_PRIORITY, priority)
    metrics = (word(RTAX_MTU, mtu) if mtu else b"") + (word(RTAX_ADVMSS, advmss) if advmss else b"")
    if metrics:
        body += nested(RTA_METRICS, metrics)
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWROUTE, body, flags=NLM_F_CREATE | NLM_F_EXCL)


def destinations(sock: socket.socket) -> frozenset[str]:
    """Return the networks to which the namespace has routes, in whatever table. Raises LinkError."""
    found = set()
    for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for body in dump(sock, RTM_GETROUTE, _ROUTE.pack(family, *bytes(7), 0)):
            head = _ROUTE.unpack_from(body)
            if head[0] == family and head[7] == RTN_UNICAST:
                payload = attributes(body, _ROUTE.size).get(RTA_DST)
                found.add(f"{ip_address(payload) if payload else anywhere}/{head[1]}")
    return frozenset(found)

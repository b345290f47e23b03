"""IP addresses and routes, as rtnetlink messages.

The numbers are those of linux/if_addr.h and rtnetlink.h. A function takes the socket of the namespace in which it acts.
Everything raises OSError with the kernel's number and words.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
    ip_network,
)

from msgspec import Struct

from lanloom.node.errors import LinkError
from lanloom.node.netlink.changes import change
from lanloom.node.netlink.messages import (
    ADDRESS,
    DEVCONF_PROMOTE_SECONDARIES,
    IFA_ADDRESS,
    IFA_LOCAL,
    IFA_PROTO,
    IFLA_AF_SPEC,
    IFLA_INET_CONF,
    NETCONFA_FORWARDING,
    NETCONFA_IFINDEX,
    NETCONFA_IFINDEX_ALL,
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_CREATE_NEW,
    ROUTE,
    RTA_DST,
    RTA_GATEWAY,
    RTA_OIF,
    RTA_TABLE,
    RTM_DELADDR,
    RTM_GETADDR,
    RTM_GETNETCONF,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWROUTE,
    RTN_UNICAST,
    SIGNED,
    attribute,
    attributes,
    dump,
    filtering,
    get,
    nested,
    number,
    request,
    tolerating,
    word,
)

IFA_BROADCAST, IFA_TARGET_NETNSID, IFA_F_NODAD = 4, 10, 2

IFA_F_TEMPORARY = 0x01
"""Flag of an IPv6 address: it is for some hours, so that the host is not known by it. IPv4 has another one there."""
IFA_F_DADFAILED = 0x08
"""Flag: another host has the address."""
IFA_F_DEPRECATED = 0x20
"""Flag: no new connection is to use the address, which ends soon."""
IFA_F_TENTATIVE = 0x40
"""Flag: the kernel does not know yet whether another host has it."""
IFA_F_PERMANENT = 0x80
"""Flag: a user or program gave the address for good. One that a router's advertisement made ends some time."""

RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS, RTAX_MTU, RTAX_ADVMSS = 6, 7, 8, 2, 8
RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 254, 4, 0, 253

_LARGEST_SHORT_TABLE = 255
_WITHOUT_BROADCAST = 31


def add_address(sock: socket.socket, index: int, cidr: str, protocol: int = 0) -> None:
    """Add an address to a link, without a search for duplicates: its giver has made sure. One that is there stays.

    `protocol` is the kernel's note of its origin.
    """
    found = ip_interface(cidr)
    four = isinstance(found, IPv4Interface)
    family, flags = (socket.AF_INET, 0) if four else (socket.AF_INET6, IFA_F_NODAD)
    length = found.network.prefixlen
    body = ADDRESS.pack(family, length, flags, RT_SCOPE_UNIVERSE, index)
    body += attribute(IFA_LOCAL, found.ip.packed) + attribute(IFA_ADDRESS, found.ip.packed)
    if four and length < _WITHOUT_BROADCAST:
        body += attribute(IFA_BROADCAST, found.network.broadcast_address.packed)
    if protocol:
        body += attribute(IFA_PROTO, bytes([protocol]))
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWADDR, body, flags=NLM_F_CREATE_NEW)


class Address(Struct, frozen=True):
    """An address of the link with this index, with its prefix length, and the kernel's flags and origin of it."""

    index: int
    cidr: IPv4Interface | IPv6Interface
    flags: int
    protocol: int = 0


def addresses(
    sock: socket.socket, family: int = socket.AF_UNSPEC, wanted: bytes = b"", *, index: int = 0
) -> Iterator[Address]:
    """Yield the IP addresses of all links, or of one; the attributes `wanted` choose the namespace. Raises LinkError.

    A kernel without a family answers with the addresses of the others.
    """
    families = (family,) if family else (socket.AF_INET, socket.AF_INET6)
    for body in dump(sock, RTM_GETADDR, ADDRESS.pack(family, 0, 0, 0, index) + wanted):
        found, length, flags, _, each = ADDRESS.unpack_from(body)
        if found in families and index in (0, each):
            values = attributes(body, ADDRESS.size)
            payload = values.get(IFA_LOCAL) or values[IFA_ADDRESS]
            cidr = (IPv4Interface if found == socket.AF_INET else IPv6Interface)((payload, length))
            yield Address(each, cidr, flags, int.from_bytes(values.get(IFA_PROTO, b"")))


def addresses_with_origin(sock: socket.socket, index: int) -> list[Address]:
    """Return what the kernel knows of the addresses of one link; others cost nothing. Raises LinkError."""
    with filtering(sock):
        return list(addresses(sock, index=index))


def addresses_of(sock: socket.socket, index: int) -> list[IPv4Interface | IPv6Interface]:
    """Return the addresses of one link; others cost nothing. Raises LinkError."""
    return [each.cidr for each in addresses_with_origin(sock, index)]


def steadiest_first(found: Iterable[Address]) -> list[IPv4Address | IPv6Address]:
    """Return the addresses of a link by which others may know the host, in the order in which to choose one.

    `found` is in the order of the kernel, which lists addresses of IPv4 oldest first, and those of IPv6 newest first.
    A virtual address of the control plane or one for some hours (RFC 8981) comes later than the host's own, and must
    not take its place. IPv4 is before IPv6, and link-local addresses are last.
    """
    every = list(found)
    oldest_first = [each for each in every if each.cidr.version == 4] + [
        each for each in reversed(every) if each.cidr.version == 6 and not each.flags & IFA_F_DADFAILED
    ]
    return [each.cidr.ip for each in sorted(oldest_first, key=_unsteadiness)]


_PASSING = IFA_F_TEMPORARY | IFA_F_DEPRECATED | IFA_F_TENTATIVE


def _unsteadiness(address: Address) -> tuple[bool, int, bool]:
    version = address.cidr.version
    return address.cidr.is_link_local, version, version == 6 and bool(address.flags & _PASSING)


PROTOCOL = 76
"""The origin of addresses (IFA_PROTO) and rules (FRA_PROTOCOL) of Lanloom. It is none of the kernel's or iproute2's."""


def forwarded_versions(sock: socket.socket) -> frozenset[int]:
    """Return the IP versions, 4 and 6, that the namespace forwards as a whole. Raises LinkError."""
    return frozenset(version for version, family in _FAMILIES.items() if _forwards(sock, family))


_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def _forwards(sock: socket.socket, family: int) -> bool:
    body = struct.pack("=Bxxx", family) + attribute(NETCONFA_IFINDEX, SIGNED.pack(NETCONFA_IFINDEX_ALL))
    try:
        found = get(sock, RTM_GETNETCONF, body)
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EOPNOTSUPP):  # a kernel without the family
            return False
        raise LinkError(f"can't read whether the host forwards: {error.strerror}") from error
    return bool(number(attributes(found, 4).get(NETCONFA_FORWARDING)))


def ip_addresses(sock: socket.socket, nsid: int | None = None) -> frozenset[str]:
    """Return all IP addresses of the namespace, or of the one that it knows by a number. Raises LinkError."""
    if nsid is None:
        return frozenset(str(each.cidr.ip) for each in addresses(sock))
    wanted = attribute(IFA_TARGET_NETNSID, SIGNED.pack(nsid))
    with filtering(sock):
        found = [
            each for family in (socket.AF_INET, socket.AF_INET6) for each in addresses(sock, family, wanted)
        ]
    return frozenset(str(each.cidr.ip) for each in found)


def remove_address(sock: socket.socket, index: int, address: IPv4Interface | IPv6Interface) -> None:
    """Take an address from a link; one that is gone is no error.

    The addresses of others stay, as those of IPv4 do not by themselves.
    """
    if address.version == 4:
        promote_secondaries(sock, index)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    head = ADDRESS.pack(family, address.network.prefixlen, 0, 0, index)
    with tolerating(errno.EADDRNOTAVAIL):
        request(sock, RTM_DELADDR, head + attribute(IFA_LOCAL, address.packed))


def promote_secondaries(sock: socket.socket, index: int) -> None:
    """Let the next IPv4 address of a subnet take the place of the first on a link, from now on.

    Otherwise the kernel takes all addresses of a subnet away with the first. To add them again would lose their
    lifetimes, and packets meanwhile.
    """
    promote = nested(IFLA_INET_CONF, word(DEVCONF_PROMOTE_SECONDARIES, 1))
    change(sock, index, nested(IFLA_AF_SPEC, nested(socket.AF_INET, promote)))


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
    beside: bool = False,
) -> None:
    """Add a route over a link; one to that place that is there already, over whatever link, stays.

    `source` is the preferred source address. A route of IPv6 is put `beside` those over other links, if asked for.
    """
    network = ip_network(dst)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    if scope < 0:
        scope = RT_SCOPE_UNIVERSE if gw or network.version != 4 else RT_SCOPE_LINK
    table = table or RT_TABLE_MAIN
    short = table if table <= _LARGEST_SHORT_TABLE else 0
    body = ROUTE.pack(family, network.prefixlen, 0, 0, short, RTPROT_STATIC, scope, RTN_UNICAST, 0)
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
    flags = NLM_F_CREATE | NLM_F_APPEND if beside and family == socket.AF_INET6 else NLM_F_CREATE_NEW
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWROUTE, body, flags=flags)


def destinations(sock: socket.socket) -> frozenset[str]:
    """Return the networks to which the namespace has routes, in whatever table. Raises LinkError."""
    found = set()
    for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for body in dump(sock, RTM_GETROUTE, ROUTE.pack(family, *bytes(7), 0)):
            head = ROUTE.unpack_from(body)
            if head[0] == family and head[7] == RTN_UNICAST:
                payload = attributes(body, ROUTE.size).get(RTA_DST)
                found.add(f"{ip_address(payload) if payload else anywhere}/{head[1]}")
    return frozenset(found)

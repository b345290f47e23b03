"""Messages of rtnetlink: dumps, requests without an answer, and their attributes.

The numbers are those of linux/if_link.h, if_bridge.h, if_addr.h and rtnetlink.h. Messages are packed here and by no
library: one takes ten times as long for a dump, with which every observation of the host begins, and longer to pack
half of all VLAN ids than the kernel to apply them.

A dump that the kernel says was changed while it was read is read again, so that a link never appears twice or not at
all.
"""

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lanloom.node.errors import LinkError

Attributes = dict[int, bytes]
"""Attribute type (flags stripped) → payload; where a type repeats, the last."""

NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_DUMP_REQUEST = 0x301
NLM_F_ACK_REQUEST = 0x5
NLM_F_DUMP_INTR = 0x10
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
NLM_F_CREATE_NEW = NLM_F_CREATE | NLM_F_EXCL
NLM_F_ACK_TLVS = 0x200
NLA_F_NESTED = 1 << 15
TYPE_MASK = 0x3FFF
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK = 270, 10, 11, 12
NLMSGERR_ATTR_MSG = 1
ATTEMPTS = 10

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_GETROUTE, RTM_GETNETCONF, RTM_NEWNSID, RTM_GETNSID = 24, 26, 82, 88, 90
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
AF_BRIDGE = 7

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 3, 4, 5, 10
IFLA_TXQLEN, IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_IFALIAS, IFLA_STATS64, IFLA_AF_SPEC = 13, 16, 18, 20, 23, 26
IFLA_GROUP, IFLA_NET_NS_FD, IFLA_EXT_MASK, IFLA_LINK_NETNSID = 27, 28, 29, 37
IFLA_PROTO_DOWN, IFLA_TARGET_NETNSID = 39, 46
IFLA_INFO_KIND, IFLA_INFO_DATA, IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 1, 2, 4, 5
IFLA_VLAN_ID, IFLA_VLAN_PROTOCOL = 1, 5
IFLA_BR_STP_STATE, IFLA_BR_VLAN_FILTERING, IFLA_BR_MCAST_SNOOPING, IFLA_BR_VLAN_DEFAULT_PVID = 5, 7, 23, 39
IFLA_BR_FDB_N_LEARNED, IFLA_BR_FDB_MAX_LEARNED = 48, 49
IFLA_BRPORT_STATE, IFLA_BRPORT_MODE, IFLA_BRPORT_LEARNING, IFLA_BRPORT_FLUSH = 1, 4, 8, 24
IFLA_BRPORT_GROUP_FWD_MASK, IFLA_BRPORT_ISOLATED, IFLA_BRPORT_LOCKED = 31, 33, 39
IFLA_VXLAN_ID, IFLA_VXLAN_GROUP, IFLA_VXLAN_LINK, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LEARNING = 1, 2, 3, 4, 7
IFLA_VXLAN_LIMIT, IFLA_VXLAN_PORT, IFLA_VXLAN_GROUP6, IFLA_VXLAN_LOCAL6, IFLA_VXLAN_GBP = 9, 15, 16, 17, 23
IFLA_VXLAN_ZERO_CSUM6_RX, IFLA_VXLAN_REMCSUM_RX, IFLA_VXLAN_COLLECT_METADATA = 20, 22, 25
IFLA_VXLAN_GPE, IFLA_VXLAN_VNIFILTER = 27, 30
IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU = 1, 8
VETH_INFO_PEER = 1
IFLA_INET_CONF, DEVCONF_FORWARDING, DEVCONF_RP_FILTER, DEVCONF_ARP_IGNORE = 1, 1, 8, 19
DEVCONF_PROMOTE_SECONDARIES = 20
DEVCONF_DISABLE_IPV6 = 26
IFLA_INET6_CONF, IFLA_INET6_ADDR_GEN_MODE, DEVCONF_ACCEPT_RA = 2, 8, 3
NO_ADDRESS = 1
"""IN6_ADDR_GEN_MODE_NONE: the kernel gives a link no link-local address."""
NETCONFA_IFINDEX, NETCONFA_FORWARDING, NETCONFA_IFINDEX_ALL = 1, 2, -1
IFLA_BRIDGE_FLAGS, IFLA_BRIDGE_VLAN_INFO = 0, 2
NETNSA_NSID, NETNSA_FD = 1, 3
IFA_ADDRESS, IFA_LOCAL, IFA_PROTO = 1, 2, 11
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_MULTIPATH, RTA_TABLE = 1, 4, 5, 9, 15
RTN_UNICAST, RTN_LOCAL = 1, 2
FRA_SRC, FRA_PRIORITY, FRA_TABLE = 2, 6, 15

SKIP_STATISTICS = 1 << 3
VLANS_AS_RANGES = 1 << 2
RANGE_BEGIN = 1 << 3
RANGE_END = 1 << 4
IFF_UP = 1
IFF_RUNNING = 0x40
"""Of a link that is up: its operational state is UP, or UNKNOWN where it has none."""
IFF_ALLMULTI = 0x200
IFF_DYNAMIC = 0x8000
"""A mark that a link can have from the moment on that it is there, and that means nothing to the kernel."""

LINK = struct.Struct("=BxHiII")
"""The head of each message about a link: family, type, index, flags, and which of these are to change."""
ADDRESS = struct.Struct("=BBBBI")
"""That of an address: family, length of the prefix, flags, scope, index of the link."""
ROUTE = struct.Struct("=8BI")
"""That of a route or rule: family, lengths of destination and source, TOS, table, origin, scope, type, flags."""
SIGNED = struct.Struct("=i")
ANY_FAMILY = struct.pack("=Bxxx", socket.AF_UNSPEC)
"""The head of each message about the number of a namespace."""

_MESSAGE = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR = struct.Struct("=i")
_WORD = struct.Struct("=I")


@contextmanager
def tolerating(*codes: int) -> Iterator[None]:
    """Take answers of the kernel with these numbers of errors for none."""
    try:
        yield
    except OSError as error:
        if error.errno not in codes:
            raise


@contextmanager
def dump_socket() -> Iterator[socket.socket]:
    """Provide a netlink socket for dumps and requests. Raises LinkError where the kernel gives none."""
    with open_socket() as opened:
        yield opened


SO_NETNS_COOKIE = 71
_COOKIE = struct.Struct("=Q")


def cookie_of(sock: socket.socket) -> int:
    """Return the kernel's number of the network namespace of a socket: no other gets it until the machine reboots.

    An inode number is given again once its namespace is gone. 0 where the kernel gives no such numbers.
    """
    try:
        return int(_COOKIE.unpack(sock.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, _COOKIE.size))[0])
    except OSError:
        return 0


def open_socket() -> socket.socket:
    """Return the same, to be closed by the caller; it stays in the network namespace in which it is opened."""
    try:
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    except OSError as error:
        raise LinkError(
            f"can't open a netlink socket: {error.strerror}; allow the agent AF_NETLINK"
        ) from error
    # Errors come with the kernel's own words, and without a copy of the request.
    opened.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    opened.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
    return opened


def dump(sock: socket.socket, kind: int, body: bytes) -> list[bytes]:
    """Return the bodies of all messages that answer a dump request of this type. Raises LinkError."""
    request = _MESSAGE.pack(_MESSAGE.size + len(body), kind, NLM_F_DUMP_REQUEST, 1, 0) + body
    try:
        for _ in range(ATTEMPTS):
            sock.send(request)
            bodies, whole = _answer(sock)
            if whole:
                return bodies
    except OSError as error:
        raise LinkError(f"can't read the kernel's links: {error.strerror}") from error
    raise LinkError("can't read the kernel's links: they change all the time; try again")


@contextmanager
def filtering(sock: socket.socket) -> Iterator[None]:
    """Let the kernel pick out of a dump what the head of the request names; one older than 4.20 shows everything."""
    with tolerating(errno.ENOPROTOOPT):
        sock.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
    try:
        yield
    finally:
        with tolerating(errno.ENOPROTOOPT):
            sock.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 0)


def request(sock: socket.socket, kind: int, body: bytes, *, flags: int = 0) -> None:
    """Send a request and wait for its acknowledgement.

    Raises OSError with the kernel's number, and with its words where it has any, such as "NLA_F_NESTED is missing".
    """
    sock.send(_MESSAGE.pack(_MESSAGE.size + len(body), kind, NLM_F_ACK_REQUEST | flags, 1, 0) + body)
    _answer(sock)


def batch(sock: socket.socket, messages: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """Send requests in one go and wait for all acknowledgements: the kernel takes them one after the other.

    Return the bodies of messages that answer those for one object. Raises OSError as `request` does for the first that
    was refused; those after it were tried all the same.
    """
    if not messages:
        return []
    parts = [
        _MESSAGE.pack(_MESSAGE.size + len(body), kind, NLM_F_ACK_REQUEST, number, 0) + body
        for number, (kind, body) in enumerate(messages, 1)
    ]
    sock.send(b"".join(part + bytes(_aligned(len(part)) - len(part)) for part in parts))
    found: list[bytes] = []
    refused: OSError | None = None
    for _ in parts:
        try:
            bodies, _ = _answer(sock)
            found += bodies
        except OSError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return found


def get(sock: socket.socket, kind: int, body: bytes) -> bytes:
    """Return the body of the message that answers a request for one object.

    Raises OSError, ENODEV for a missing link.
    """
    sock.send(_MESSAGE.pack(_MESSAGE.size + len(body), kind, NLM_F_ACK_REQUEST, 1, 0) + body)
    bodies, _ = _answer(sock)
    return bodies[0]


def packed(kind: int, flags: int, body: bytes) -> bytes:
    """Return one message, for a batch."""
    length = _MESSAGE.size + len(body)
    return _MESSAGE.pack(length, kind, flags, 1, 0) + body + bytes(_aligned(length) - length)


def acknowledged(sock: socket.socket, count: int) -> None:
    """Wait for so many acknowledgements of a batch. Raises OSError for the first that is none, and leaves the rest."""
    while count > 0:
        data = sock.recv(1 << 17)
        offset = 0
        while offset < len(data):
            length, kind, flags, _, _ = _MESSAGE.unpack_from(data, offset)
            _check(kind, flags, data[offset + _MESSAGE.size : offset + length])
            offset += _aligned(length)
            count -= 1


def _answer(sock: socket.socket) -> tuple[list[bytes], bool]:
    bodies: list[bytes] = []
    whole = True
    while True:
        data = sock.recv(1 << 17)
        offset = 0
        while offset < len(data):
            length, kind, flags, _, _ = _MESSAGE.unpack_from(data, offset)
            body = data[offset + _MESSAGE.size : offset + length]
            whole = whole and not flags & NLM_F_DUMP_INTR
            if kind in (NLMSG_DONE, NLMSG_ERROR):
                _check(kind, flags, body)
                return bodies, whole
            bodies.append(body)
            offset += _aligned(length)


def _check(kind: int, flags: int, body: bytes) -> None:
    code = -_ERROR.unpack_from(body)[0] if len(body) >= _ERROR.size else 0
    if code:
        # The acknowledgement of a request repeats the head of that request; the end of a dump does not.
        head = _ERROR.size + (_MESSAGE.size if kind == NLMSG_ERROR else 0)
        words = text(attributes(body, head).get(NLMSGERR_ATTR_MSG)) if flags & NLM_F_ACK_TLVS else ""
        raise OSError(code, words or os.strerror(code))


def attributes(data: bytes, offset: int = 0) -> Attributes:
    """Return the attributes from `offset` to the end; the last one of each type.

    A link has dozens, and a look reads them of hundreds of links: a generator would take twice the time.
    """
    found: Attributes = {}
    unpack, last = _ATTRIBUTE.unpack_from, len(data) - _ATTRIBUTE.size
    while offset <= last:
        length, kind = unpack(data, offset)
        if length < 4:
            break
        found[kind & TYPE_MASK] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def walk(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of each attribute, in order."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size:
            return
        yield kind & TYPE_MASK, data[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)


def attribute(kind: int, payload: bytes) -> bytes:
    """Return one attribute, for a request."""
    length = _ATTRIBUTE.size + len(payload)
    return _ATTRIBUTE.pack(length, kind) + payload + bytes(_aligned(length) - length)


def nested(kind: int, payload: bytes) -> bytes:
    """Return one attribute whose payload is attributes. Newer kernels refuse some of these without the flag."""
    return attribute(kind | NLA_F_NESTED, payload)


def word(kind: int, value: int) -> bytes:
    """Return one attribute of 32 bits."""
    return attribute(kind, _WORD.pack(value))


def number(payload: bytes | None) -> int:
    """Return an unsigned integer in the machine's byte order; 0 for none."""
    return int.from_bytes(payload, sys.byteorder) if payload else 0


def text(payload: bytes | None) -> str:
    """Return a string up to its final NUL; empty for none."""
    return payload.rstrip(b"\0").decode(errors="replace") if payload else ""


def _aligned(length: int) -> int:
    return (length + 3) & ~3

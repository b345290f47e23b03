"""Isolated bridges: made, marked, set up and deleted by messages packed by hand, without pyroute2 (see `route`)."""

import errno
import socket
import struct
from binascii import crc32

from lanloom.node.isolated import alias_of, unfinished_name
from lanloom.node.netlink.addresses import ipv6_addresses, remove_ipv6_address
from lanloom.node.netlink.dump import (
    DEVCONF_ARP_IGNORE,
    DEVCONF_FORWARDING,
    DEVCONF_RP_FILTER,
    IFF_UP,
    IFLA_ADDRESS,
    IFLA_AF_SPEC,
    IFLA_BR_STP_STATE,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INET_CONF,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    IFLA_MASTER,
)
from lanloom.node.netlink.messages import NLM_F_CREATE_NEW, attribute, nested, request, tolerating
from lanloom.node.ports import Link

RTM_NEWLINK, RTM_DELLINK = 16, 17
IFLA_INET6_ADDR_GEN_MODE = 8
NO_ADDRESS = 1

_LINK = struct.Struct("=BxHiII")
_WORD = struct.Struct("=I")

LOST_RACE = (errno.EEXIST, errno.EBUSY, errno.ENODEV)
"""The answers to one who finishes a bridge that another one has finished, or taken away, a moment before."""


def make(sock: socket.socket, name: str) -> None:
    """Makes a bridge, down, without a mark, unless a link of that name is there. Raises OSError.

    Its hardware address is its own: otherwise it takes the least of its ports', and none when the last has gone, which
    breaks a gateway; CNI's plugin fails at a bridge without one.
    """
    data = attribute(IFLA_BR_STP_STATE, _WORD.pack(0))
    info = attribute(IFLA_INFO_KIND, b"bridge") + nested(IFLA_INFO_DATA, data)
    body = _LINK.pack(0, 0, 0, 0, 0) + _text(IFLA_IFNAME, name) + nested(IFLA_LINKINFO, info)
    body += attribute(IFLA_ADDRESS, hardware_address(name))
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWLINK, body, flags=NLM_F_CREATE_NEW)


def hardware_address(name: str) -> bytes:
    """A locally administered address for the bridge that is made under this name.

    A checksum does: what two bridges of a host are on never meets, and `hashlib` would take 4 MB of each process.
    """
    return b"\x02\x00" + crc32(name.encode()).to_bytes(4, "big")


def finish(sock: socket.socket, index: int, name: str, owner: str) -> None:
    """Gives the half-made bridge with this index its name and mark. Raises OSError unless another one was quicker."""
    with tolerating(*LOST_RACE):
        _take_no_address(sock, index)
        _change(sock, index, _text(IFLA_IFNAME, name) + _mark(owner))


def adopt(sock: socket.socket, link: Link, owner: str) -> None:
    """Marks a bridge that CNI's plugin made, and takes its link-local addresses away. Raises OSError.

    The plugin fixes the hardware address of a gateway, which pods know by then; any other bridge gets one as if it were
    made here. The mark comes last: whoever comes after a process that died begins anew.
    """
    index = link.index
    _take_no_address(sock, index)
    for address in ipv6_addresses(sock, index):
        if address.is_link_local:
            with tolerating(errno.EADDRNOTAVAIL):  # another keeper was quicker
                remove_ipv6_address(sock, index, address)
    if not link.addresses:
        _change(sock, index, attribute(IFLA_ADDRESS, hardware_address(unfinished_name(owner))))
    _change(sock, index, _mark(owner))


def mark(sock: socket.socket, index: int, owner: str) -> None:
    """Gives a bridge its owner's mark. Raises OSError."""
    _change(sock, index, _mark(owner))


def seclude(sock: socket.socket, index: int, *, forwarding: bool) -> None:
    """Keeps the host out of a bridge's IPv4 but for that bridge's own addresses. Raises OSError.

    The kernel answers requests for every address of the host on every link, and takes and passes on packets that come
    in by one without an address: whoever is on an isolated network would reach the node, and through it the outside,
    and could not use an address that the node has. With `forwarding` the bridge is a gateway.
    """
    settings = {DEVCONF_RP_FILTER: 1, DEVCONF_ARP_IGNORE: 1, DEVCONF_FORWARDING: int(forwarding)}
    wanted = b"".join(attribute(kind, _WORD.pack(value)) for kind, value in settings.items())
    family = nested(socket.AF_INET, nested(IFLA_INET_CONF, wanted))
    _change(sock, index, nested(IFLA_AF_SPEC, family))


def attach(sock: socket.socket, port: int, bridge: int) -> None:
    """Puts a link under a bridge; one that is gone is no error. Raises OSError."""
    try:
        _change(sock, port, attribute(IFLA_MASTER, _WORD.pack(bridge)))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def set_up(sock: socket.socket, index: int) -> None:
    """Sets a link up. Raises OSError."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, IFF_UP, IFF_UP))


def delete(sock: socket.socket, index: int) -> None:
    """Deletes a link; one that is gone is no error. Raises OSError."""
    with tolerating(errno.ENODEV):
        request(sock, RTM_DELLINK, _LINK.pack(0, 0, index, 0, 0))


def _mark(owner: str) -> bytes:
    return attribute(IFLA_IFALIAS, alias_of(owner).encode())


def _take_no_address(sock: socket.socket, index: int) -> None:
    family = nested(socket.AF_INET6, attribute(IFLA_INET6_ADDR_GEN_MODE, bytes([NO_ADDRESS])))
    with tolerating(errno.EAFNOSUPPORT):  # a kernel with ipv6.disable=1 gives no such addresses anyway
        _change(sock, index, nested(IFLA_AF_SPEC, family))


def _change(sock: socket.socket, index: int, attributes: bytes) -> None:
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + attributes)


def _text(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")

"""Changes of one link by its index, in any network namespace, and the attributes that say them.

A function takes the socket of the namespace in which it acts; another one is named by an open descriptor. Everything
raises OSError with the kernel's number and words.
"""

import errno
import socket
from collections.abc import Iterable

from lanloom.node.netlink.messages import (
    ANY_FAMILY,
    IFF_DYNAMIC,
    IFF_UP,
    IFLA_ADDRESS,
    IFLA_GROUP,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_INFO_SLAVE_DATA,
    IFLA_INFO_SLAVE_KIND,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    IFLA_NET_NS_FD,
    IFLA_TARGET_NETNSID,
    LINK,
    NETNSA_FD,
    NETNSA_NSID,
    NLM_F_CREATE_NEW,
    RTM_DELLINK,
    RTM_NEWLINK,
    RTM_NEWNSID,
    SIGNED,
    attribute,
    nested,
    request,
    tolerating,
    word,
)

_GOING = 0x1A40
"""A group of links that are being deleted; links are in the group 0 unless they are put into another."""


def add(sock: socket.socket, attributes: bytes, *, index: int = 0, flags: int = 0) -> None:
    """Make a link that these attributes describe, with this index, 0 for any, and these flags."""
    request(sock, RTM_NEWLINK, LINK.pack(0, 0, index, flags, flags) + attributes, flags=NLM_F_CREATE_NEW)


def change(sock: socket.socket, index: int, attributes: bytes) -> None:
    """Change attributes of a link."""
    request(sock, RTM_NEWLINK, LINK.pack(0, 0, index, 0, 0) + attributes)


def set_up(sock: socket.socket, index: int, *, up: bool = True) -> None:
    """Set a link up or down."""
    request(sock, RTM_NEWLINK, LINK.pack(0, 0, index, IFF_UP if up else 0, IFF_UP))


def finish(sock: socket.socket, index: int) -> None:
    """Take the mark of an unfinished link away."""
    request(sock, RTM_NEWLINK, LINK.pack(0, 0, index, 0, IFF_DYNAMIC))


def set_master(sock: socket.socket, index: int, bridge: int, *, up: bool = True) -> None:
    """Make a link a port of a bridge, up unless that is left as it is."""
    flags = IFF_UP if up else 0
    request(sock, RTM_NEWLINK, LINK.pack(0, 0, index, flags, flags) + master(bridge))


def set_mtu(sock: socket.socket, index: int, mtu: int) -> None:
    """Set the MTU of a link in bytes."""
    change(sock, index, word(IFLA_MTU, mtu))


def move(sock: socket.socket, index: int, namespace: int, to: str) -> None:
    """Move a link that is down into another namespace under a name, out of its bridge.

    There it appears under its old name first, unless that is the same.
    """
    change(sock, index, word(IFLA_NET_NS_FD, namespace) + name(to))


def delete(sock: socket.socket, index: int) -> None:
    """Delete a link; one that is gone is no error."""
    with tolerating(errno.ENODEV):
        request(sock, RTM_DELLINK, LINK.pack(0, 0, index, 0, 0))


def delete_abroad(sock: socket.socket, nsid: int, indices: Iterable[int]) -> None:
    """Delete links of a namespace that the socket's knows by a number; those that are gone are no error."""
    where = attribute(IFLA_TARGET_NETNSID, SIGNED.pack(nsid))
    for index in indices:
        with tolerating(errno.ENODEV, errno.EINVAL):
            request(sock, RTM_DELLINK, LINK.pack(0, 0, index, 0, 0) + where)


def number_namespace(sock: socket.socket, descriptor: int) -> None:
    """Give a namespace a number by which the socket's knows it, unless it has one."""
    body = (
        ANY_FAMILY + attribute(NETNSA_NSID, SIGNED.pack(-1)) + attribute(NETNSA_FD, SIGNED.pack(descriptor))
    )
    with tolerating(errno.EEXIST):
        request(sock, RTM_NEWNSID, body)


def delete_together(sock: socket.socket, indices: Iterable[int]) -> None:
    """Delete links, with their other ends and what stands on them, in one go.

    One by one each waits until no processor uses it any more, which is most of the time that a deletion takes.
    """
    for index in indices:
        with tolerating(errno.ENODEV):
            change(sock, index, word(IFLA_GROUP, _GOING))
    with tolerating(errno.ENODEV):
        request(sock, RTM_DELLINK, LINK.pack(0, 0, 0, 0, 0) + word(IFLA_GROUP, _GOING))


def info(kind: str, data: bytes) -> bytes:
    """Return the attribute for what only links of one kind have."""
    return nested(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind.encode()) + nested(IFLA_INFO_DATA, data))


def port_info(data: bytes) -> bytes:
    """Return the attribute for what only ports of a bridge have."""
    slave = attribute(IFLA_INFO_SLAVE_KIND, b"bridge") + nested(IFLA_INFO_SLAVE_DATA, data)
    return nested(IFLA_LINKINFO, slave)


def name(text: str) -> bytes:
    """Return the attribute for a link's name."""
    return attribute(IFLA_IFNAME, text.encode() + b"\0")


def alias(text: str) -> bytes:
    """Return the attribute for a link's ifalias."""
    return attribute(IFLA_IFALIAS, text.encode())


def address(mac: str) -> bytes:
    """Return the attribute for a link's hardware address; none leaves the choice to the kernel."""
    return attribute(IFLA_ADDRESS, bytes.fromhex(mac.replace(":", ""))) if mac else b""


def master(index: int) -> bytes:
    """Return the attribute for a link's master; with 0 it is released."""
    return word(IFLA_MASTER, index)

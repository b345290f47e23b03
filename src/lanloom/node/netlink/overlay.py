"""Bridges, VXLAN, veth and macvtap links across network namespaces.

A function takes the socket of the namespace in which it acts; another one is named by an open descriptor. Everything
raises OSError with the kernel's number and words.
"""

import socket
import struct
from ipaddress import ip_address

from lanloom.node.links import Vtep
from lanloom.node.netlink import changes
from lanloom.node.netlink.messages import (
    IFF_ALLMULTI,
    IFF_DYNAMIC,
    IFF_UP,
    IFLA_BR_FDB_MAX_LEARNED,
    IFLA_BR_MCAST_SNOOPING,
    IFLA_BR_STP_STATE,
    IFLA_LINK,
    IFLA_MACVLAN_MODE,
    IFLA_MTU,
    IFLA_NET_NS_FD,
    IFLA_VXLAN_GBP,
    IFLA_VXLAN_GROUP,
    IFLA_VXLAN_GROUP6,
    IFLA_VXLAN_ID,
    IFLA_VXLAN_LIMIT,
    IFLA_VXLAN_LINK,
    IFLA_VXLAN_LOCAL,
    IFLA_VXLAN_LOCAL6,
    IFLA_VXLAN_PORT,
    LINK,
    MACVLAN_MODE_PASSTHRU,
    VETH_INFO_PEER,
    attribute,
    nested,
    word,
)

_PORT = struct.Struct(">H")
_HALF = struct.Struct("=H")


def add_bridge(sock: socket.socket, name: str, *, learned_limit: int = 0, index: int = 0) -> None:
    """Add a bridge that is up, without spanning tree and snooping of multicast, with this index, 0 for any.

    A kernel that knows no limit of learned addresses ignores it.
    """
    data = word(IFLA_BR_STP_STATE, 0) + attribute(IFLA_BR_MCAST_SNOOPING, b"\0")
    if learned_limit:
        data += word(IFLA_BR_FDB_MAX_LEARNED, learned_limit)
    changes.add(sock, changes.name(name) + changes.info("bridge", data), index=index, flags=IFF_UP)


def limit_learned(sock: socket.socket, index: int, limit: int) -> None:
    """Set how many MAC addresses a bridge learns, 0 for any number."""
    changes.change(sock, index, changes.info("bridge", word(IFLA_BR_FDB_MAX_LEARNED, limit)))


def add_vxlan(
    underlay: socket.socket,
    target: int,
    name: str,
    vtep: Vtep,
    *,
    mtu: int,
    master: int,
    policy: bool,
    limit: int = 0,
) -> None:
    """Add a VXLAN link in the namespace `target`, up, whose socket and device are in the namespace of `underlay`.

    With `policy` it sends the mark of a frame along. Links with it and without it can't share a port: EADDRINUSE.
    It has at most `limit` forwarding entries, 0 for any number, which the kernel changes of no link that is there.
    """
    data = word(IFLA_VXLAN_ID, vtep.vni) + word(IFLA_VXLAN_LINK, vtep.device)
    data += attribute(IFLA_VXLAN_PORT, _PORT.pack(vtep.port))
    data += _endpoint(vtep.group, IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6)
    data += _endpoint(vtep.local, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6)
    if limit:
        data += word(IFLA_VXLAN_LIMIT, limit)
    if policy:
        data += attribute(IFLA_VXLAN_GBP, b"")
    body = changes.name(name) + word(IFLA_NET_NS_FD, target) + word(IFLA_MTU, mtu) + changes.master(master)
    changes.add(underlay, body + changes.info("vxlan", data), flags=IFF_UP)


def add_veth(
    sock: socket.socket,
    name: str,
    peer: str,
    *,
    master: int,
    mtu: int,
    peer_mac: str,
    peer_mtu: int = 0,
    peer_namespace: int = -1,
    unfinished: bool = False,
) -> None:
    """Add a veth pair: `name` under the master, up, and `peer` here or in another namespace, down.

    The kernel can't set up an end while the pair is made. With `unfinished` the near end has that mark.
    """
    far = (
        LINK.pack(0, 0, 0, 0, 0)
        + changes.name(peer)
        + word(IFLA_MTU, peer_mtu or mtu)
        + changes.address(peer_mac)
    )
    if peer_namespace >= 0:
        far += word(IFLA_NET_NS_FD, peer_namespace)
    body = (
        changes.name(name)
        + word(IFLA_MTU, mtu)
        + changes.master(master)
        + changes.info("veth", nested(VETH_INFO_PEER, far))
    )
    changes.add(sock, body, flags=IFF_UP | (IFF_DYNAMIC if unfinished else 0))


def add_macvtap(sock: socket.socket, target: int, name: str, *, lower: int, index: int, mtu: int) -> None:
    """Add a macvtap in the mode passthru on a link of this namespace, in the namespace `target`, up.

    It takes frames for every group. The kernel makes it there: to move one takes much longer.
    """
    body = changes.name(name) + word(IFLA_LINK, lower) + word(IFLA_MTU, mtu) + word(IFLA_NET_NS_FD, target)
    body += changes.info("macvtap", word(IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU))
    changes.add(sock, body, index=index, flags=IFF_UP | IFF_ALLMULTI)


def _endpoint(address: str, four: int, six: int) -> bytes:
    if not address:
        return b""
    packed = ip_address(address).packed
    return attribute(four if len(packed) == 4 else six, packed)

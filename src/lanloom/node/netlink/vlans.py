"""VLAN ids onto and off bridge ports as one message each, packed by hand.

Half of the 4,093 ids, every second one, are 2,047 attributes: pyroute2 takes longer to pack them than the kernel to
apply them.
"""

import socket
import struct

from lanloom.node.netlink.dump import AF_BRIDGE, IFLA_AF_SPEC, IFLA_BRIDGE_VLAN_INFO, RANGE_BEGIN, RANGE_END
from lanloom.node.netlink.messages import attribute, nested, request
from lanloom.node.vlanids import VlanIds

RTM_SETLINK, RTM_DELLINK = 19, 17
IFLA_BRIDGE_FLAGS = 0
BRIDGE_FLAGS_SELF = 2
"""The ids are meant for the bridge itself, not for it as a port of another."""

_LINK = struct.Struct("=BxHiII")
_ENTRY = struct.Struct("=HHHH")


def add_vlans(sock: socket.socket, index: int, ids: VlanIds, *, on_bridge: bool) -> None:
    """Adds tagged ids to the link with this index. Raises OSError with the kernel's number."""
    _send(sock, RTM_SETLINK, index, ids, on_bridge)


def remove_vlans(sock: socket.socket, index: int, ids: VlanIds, *, on_bridge: bool) -> None:
    """Removes ids; those that are not there are no error. Raises OSError with the kernel's number."""
    _send(sock, RTM_DELLINK, index, ids, on_bridge)


def _send(sock: socket.socket, kind: int, index: int, ids: VlanIds, on_bridge: bool) -> None:
    if ids:
        flags = attribute(IFLA_BRIDGE_FLAGS, struct.pack("=H", BRIDGE_FLAGS_SELF)) if on_bridge else b""
        spec = nested(IFLA_AF_SPEC, flags + b"".join(_entries(first, last) for first, last in ids))
        request(sock, kind, _LINK.pack(AF_BRIDGE, 0, index, 0, 0) + spec)


def _entries(first: int, last: int) -> bytes:
    if first == last:
        return _entry(0, first)
    return _entry(RANGE_BEGIN, first) + _entry(RANGE_END, last)


def _entry(flags: int, vid: int) -> bytes:
    return _ENTRY.pack(_ENTRY.size, IFLA_BRIDGE_VLAN_INFO, flags, vid)

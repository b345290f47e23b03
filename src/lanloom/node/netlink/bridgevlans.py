"""VLAN ids of bridges and their ports: read, added and removed, in any network namespace.

A function takes the socket of the namespace in which it acts. Changes raise OSError with the kernel's number and words,
dumps LinkError.
"""

import socket
import struct
from collections.abc import Iterable, Iterator

from lanloom.node.netlink import reader
from lanloom.node.netlink.messages import (
    AF_BRIDGE,
    IFLA_AF_SPEC,
    IFLA_BRIDGE_FLAGS,
    IFLA_BRIDGE_VLAN_INFO,
    LINK,
    RANGE_BEGIN,
    RANGE_END,
    RTM_DELLINK,
    RTM_SETLINK,
    VLANS_AS_RANGES,
    attribute,
    attributes,
    nested,
    request,
    walk,
)
from lanloom.node.vlanids import VlanEntry

PVID, UNTAGGED = 1 << 1, 1 << 2
BRIDGE_FLAGS_SELF = 2
"""The ids are meant for the bridge itself, not for it as a port of another."""

_VLAN = struct.Struct("=HH")
_ATTRIBUTE = struct.Struct("=HHHH")


def vlans(sock: socket.socket) -> dict[int, tuple[VlanEntry, ...]]:
    """Return the VLAN ids of bridges and ports by the link's index, in order; none on a kernel without them."""
    found = {}
    for body in reader.bodies(sock, mask=VLANS_AS_RANGES, family=AF_BRIDGE):
        spec = attributes(body, LINK.size).get(IFLA_AF_SPEC, b"")
        found[LINK.unpack_from(body)[2]] = tuple(_decoded(spec))
    return found


def _decoded(spec: bytes) -> Iterator[VlanEntry]:
    first = 0
    for kind, payload in walk(spec):
        if kind != IFLA_BRIDGE_VLAN_INFO:
            continue
        flags, vid = _VLAN.unpack_from(payload)
        if flags & RANGE_BEGIN:
            first = vid
            continue
        begin = first if flags & RANGE_END else vid
        yield VlanEntry(begin, vid, pvid=bool(flags & PVID), untagged=bool(flags & UNTAGGED))


def change_vlans(
    sock: socket.socket, index: int, entries: Iterable[VlanEntry], *, add: bool, on_bridge: bool = False
) -> None:
    """Add ids to a port, or to the bridge itself, or remove them, as one message."""
    request(sock, *vlans_message(index, entries, add=add, on_bridge=on_bridge))


def vlans_message(
    index: int, entries: Iterable[VlanEntry], *, add: bool, on_bridge: bool = False
) -> tuple[int, bytes]:
    """Return type and body of that message, for a batch."""
    flags = attribute(IFLA_BRIDGE_FLAGS, struct.pack("=H", BRIDGE_FLAGS_SELF)) if on_bridge else b""
    spec = nested(IFLA_AF_SPEC, flags + b"".join(_encoded(each) for each in entries))
    return RTM_SETLINK if add else RTM_DELLINK, LINK.pack(AF_BRIDGE, 0, index, 0, 0) + spec


def _encoded(entry: VlanEntry) -> bytes:
    flags = (PVID if entry.pvid else 0) | (UNTAGGED if entry.untagged else 0)
    if entry.first == entry.last:
        return _attribute(flags, entry.first)
    return _attribute(flags | RANGE_BEGIN, entry.first) + _attribute(flags | RANGE_END, entry.last)


def _attribute(flags: int, vid: int) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size, IFLA_BRIDGE_VLAN_INFO, flags, vid)


def only_vlan(sock: socket.socket, index: int, vid: int) -> None:
    """Put a port into one VLAN alone, untagged."""
    ids = {each for entry in vlans(sock).get(index, ()) for each in range(entry.first, entry.last + 1)}
    for other in sorted(ids - {vid}):
        change_vlans(sock, index, [VlanEntry(other, other)], add=False)
    change_vlans(sock, index, [VlanEntry(vid, vid, pvid=True, untagged=True)], add=True)

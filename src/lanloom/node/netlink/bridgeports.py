"""Ports of bridges, in any network namespace: their VLAN ids, their settings, and the way to another bridge.

A function takes the socket of the namespace in which it acts. Changes raise OSError with the kernel's number and words,
dumps LinkError. Bridges themselves have VLAN ids, too.
"""

import socket
import struct
from collections.abc import Iterable, Iterator

from lanloom.node.links import KernelLink
from lanloom.node.netlink import changes, reader
from lanloom.node.netlink.messages import (
    AF_BRIDGE,
    IFF_UP,
    IFLA_AF_SPEC,
    IFLA_BRIDGE_FLAGS,
    IFLA_BRIDGE_VLAN_INFO,
    IFLA_BRPORT_FLUSH,
    IFLA_BRPORT_GROUP_FWD_MASK,
    IFLA_BRPORT_ISOLATED,
    IFLA_BRPORT_LEARNING,
    IFLA_BRPORT_LOCKED,
    IFLA_BRPORT_MODE,
    IFLA_BRPORT_STATE,
    IFLA_GROUP,
    IFLA_MTU,
    LINK,
    RANGE_BEGIN,
    RANGE_END,
    RTM_DELLINK,
    RTM_NEWLINK,
    RTM_SETLINK,
    VLANS_AS_RANGES,
    attribute,
    attributes,
    batch,
    nested,
    request,
    walk,
    word,
)
from lanloom.node.vlanids import VlanEntry

PVID, UNTAGGED = 1 << 1, 1 << 2
BRIDGE_FLAGS_SELF = 2
"""The ids are meant for the bridge itself, not for it as a port of another."""

_VLAN = struct.Struct("=HH")
_ATTRIBUTE = struct.Struct("=HHHH")
_HALF = struct.Struct("=H")


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


def set_forwarding(sock: socket.socket, index: int, mask: int) -> None:
    """Set the mask of reserved addresses whose frames a port lets pass."""
    changes.change(sock, index, _forwarding(mask))


def open_pair(sock: socket.socket, port: str, inner: str, mask: int) -> KernelLink:
    """Set up `inner`, the other end of a port's pair in this namespace, and that mask of the port. Return `inner`.

    Links go by their names, so that no look at what was just made comes between.
    """
    forwarding = LINK.pack(0, 0, 0, 0, 0) + changes.name(port) + _forwarding(mask)
    up = LINK.pack(0, 0, 0, IFF_UP, IFF_UP) + changes.name(inner)
    [found] = batch(sock, [(RTM_NEWLINK, forwarding), (RTM_NEWLINK, up), reader.question(name=inner)])
    return reader.decoded(found)


def _forwarding(mask: int) -> bytes:
    return changes.port_info(attribute(IFLA_BRPORT_GROUP_FWD_MASK, _HALF.pack(mask)))


def stop_learning(sock: socket.socket, index: int) -> None:
    """Keep the bridge from learning addresses behind a port."""
    changes.change(sock, index, changes.port_info(attribute(IFLA_BRPORT_LEARNING, b"\0")))


def forget_learned(sock: socket.socket, index: int) -> None:
    """Make the bridge forget the addresses that it learned behind a port."""
    changes.change(sock, index, changes.port_info(attribute(IFLA_BRPORT_FLUSH, b"")))


def set_port_flags(sock: socket.socket, index: int, *, locked: bool, isolated: bool, group: int) -> None:
    """Set the flags of a port, and the group of its link. A locked port neither learns nor keeps what it learned."""
    values = (
        (IFLA_BRPORT_LEARNING, not locked),
        (IFLA_BRPORT_LOCKED, locked),
        (IFLA_BRPORT_ISOLATED, isolated),
    )
    data = b"".join(attribute(kind, bytes([value])) for kind, value in values)
    if locked:
        data += attribute(IFLA_BRPORT_FLUSH, b"")
    changes.change(sock, index, word(IFLA_GROUP, group) + changes.port_info(data))


def join(
    sock: socket.socket,
    link: KernelLink,
    master: int,
    entries: Iterable[VlanEntry],
    unwanted: Iterable[VlanEntry],
    *,
    hairpin: bool,
    isolated: bool,
    group_forwarding: int,
    mtu: int,
    mac: str,
) -> None:
    """Make a link a port of a bridge: with these VLAN ids and without the unwanted, its flags and its MTU.

    No frame may pass it before all of this holds; that is the caller's part, unless nothing but VLAN ids changes: the
    unwanted ones go first. What `link` tells to be so already is not sent: each request may take the kernel a while.
    Bridges follow the MTU and the hardware address of their ports, so one of these that changes does so after the link
    has left its bridge, and before it joins the next.
    """
    stays = link.master == master
    own = changes.address(mac) if mac != link.mac else b""
    own += word(IFLA_MTU, mtu) if mtu not in (0, link.mtu) else b""
    head = LINK.pack(0, 0, link.index, 0, 0)
    messages = [(RTM_NEWLINK, head + changes.master(0))] if own and link.master and not stays else []
    messages += [(RTM_NEWLINK, head + own)] if own else []
    messages += [(RTM_NEWLINK, head + changes.master(master))] if not stays else []
    if (hairpin, isolated, group_forwarding) != _flags_of(link if stays else None):
        flags = attribute(IFLA_BRPORT_MODE, bytes([hairpin]))
        flags += attribute(IFLA_BRPORT_ISOLATED, bytes([isolated]))
        flags += attribute(IFLA_BRPORT_GROUP_FWD_MASK, _HALF.pack(group_forwarding))
        messages += [(RTM_NEWLINK, head + changes.port_info(flags))]
    for changed, add in ((tuple(unwanted), False), (tuple(entries), True)):
        messages += [vlans_message(link.index, changed, add=add)] if changed else []
    batch(sock, messages)


def _flags_of(link: KernelLink | None) -> tuple[bool, bool, int]:
    """Return hairpin mode, isolation and the mask of reserved addresses; the kernel's own for a port that is new."""
    return (link.hairpin, link.isolated, link.group_forwarding) if link is not None else (False, False, 0)


def set_state(sock: socket.socket, index: int, state: int) -> None:
    """Set the state of spanning tree of a port, which the kernel refuses where its own spanning tree runs (EBUSY).

    Frames pass a port that is FORWARDING. A port that is LISTENING has its carrier and passes none, until it is set to
    FORWARDING again: without spanning tree, the kernel itself leaves this state alone.
    """
    changes.change(sock, index, changes.port_info(attribute(IFLA_BRPORT_STATE, bytes([state]))))

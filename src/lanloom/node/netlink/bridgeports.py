"""One port of a bridge, closely: its flags, VLAN ids, other end by namespace, and the way to another bridge.

The numbers are those of linux/if_link.h, if_bridge.h and net_namespace.h. A function takes the socket of the namespace
in which it acts. Everything raises OSError with the kernel's number and words, dumps LinkError.
"""

import socket
import struct
from collections.abc import Iterable, Iterator

from msgspec import Struct

from lanloom.node.netlink.dump import bridge_vlans
from lanloom.node.netlink.messages import (
    AF_BRIDGE,
    IFF_UP,
    IFLA_ADDRESS,
    IFLA_AF_SPEC,
    IFLA_BR_STP_STATE,
    IFLA_BR_VLAN_FILTERING,
    IFLA_BRIDGE_VLAN_INFO,
    IFLA_EXT_MASK,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINK,
    IFLA_LINK_NETNSID,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    RANGE_BEGIN,
    RANGE_END,
    RTM_DELLINK,
    RTM_GETLINK,
    RTM_NEWLINK,
    RTM_SETLINK,
    SKIP_STATISTICS,
    VLANS_AS_RANGES,
    attribute,
    attributes,
    batch,
    dump,
    get,
    nested,
    number,
    request,
    text,
    walk,
    word,
)
from lanloom.node.vlanids import VlanEntry, VlanIds

RTM_NEWNSID, RTM_GETNSID = 88, 90
NETNSA_NSID, NETNSA_FD = 1, 3
IFLA_NET_NS_FD, IFLA_TARGET_NETNSID = 28, 46
IFLA_PROTINFO = 12
IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 4, 5
IFLA_BRPORT_STATE, IFLA_BRPORT_MODE, IFLA_BRPORT_ISOLATED, IFLA_BRPORT_GROUP_FWD_MASK = 1, 4, 33, 31
IFLA_BR_VLAN_DEFAULT_PVID = 39
PVID, UNTAGGED = 1 << 1, 1 << 2
LISTENING, FORWARDING = 1, 3

_LINK = struct.Struct("=BxHiII")
_VLAN = struct.Struct("=HH")
_ENTRY = struct.Struct("=HH")
_SIGNED = struct.Struct("=i")
_HALF = struct.Struct("=H")


class PortLink(Struct, frozen=True, kw_only=True):
    """A link, with what a bridge knows of it. `nsid` tells the namespace of its other end; None for the same one.

    `default_pvid`, `filtering` and `spanning` (the kernel runs a spanning tree) are of bridges. `state` is the one of
    spanning tree: FORWARDING where frames pass.
    """

    index: int
    name: str
    kind: str = ""
    mac: str = ""
    mtu: int = 0
    up: bool = False
    alias: str = ""
    master: int = 0
    lower: int = 0
    nsid: int | None = None
    state: int = 0
    hairpin: bool = False
    isolated: bool = False
    group_forwarding: int = 0
    filtering: bool = False
    spanning: bool = False
    default_pvid: int = 0


def port_links(sock: socket.socket, nsid: int | None = None) -> list[PortLink]:
    """Return all links of the namespace, or of the one that it knows by a number, which need not be entered for it."""
    body = _LINK.pack(0, 0, 0, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    if nsid is not None:
        body += attribute(IFLA_TARGET_NETNSID, _SIGNED.pack(nsid))
    return [_decoded(each) for each in dump(sock, RTM_GETLINK, body)]


def port_link(sock: socket.socket, *, index: int = 0, name: str = "") -> PortLink:
    """Return one link. OSError has the number ENODEV where there is none."""
    body = _LINK.pack(0, 0, index, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return _decoded(get(sock, RTM_GETLINK, body + (_name(name) if name else b"")))


def vlan_entries(sock: socket.socket, index: int) -> tuple[VlanEntry, ...]:
    """Return the VLAN ids of a port, none on a kernel without them."""
    body = _LINK.pack(AF_BRIDGE, 0, 0, 0, 0) + word(IFLA_EXT_MASK, VLANS_AS_RANGES)
    for each in dump(sock, RTM_GETLINK, body):
        if _LINK.unpack_from(each)[2] == index:
            spec = attributes(each, _LINK.size).get(IFLA_AF_SPEC, b"")
            return tuple(sorted(_entries(spec)))
    return ()


def namespace_id(sock: socket.socket, descriptor: int) -> int:
    """Return the number by which the socket's namespace knows another one; -1 where it does not know it."""
    body = struct.pack("=Bxxx", socket.AF_UNSPEC) + attribute(NETNSA_FD, _SIGNED.pack(descriptor))
    found = attributes(get(sock, RTM_GETNSID, body), 4)
    number_ = found.get(NETNSA_NSID)
    return int(_SIGNED.unpack(number_)[0]) if number_ is not None else -1


def take_down(sock: socket.socket, index: int) -> None:
    """Set a link down."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, IFF_UP))


def join(
    sock: socket.socket,
    link: PortLink,
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

    No frame may pass it before all of this holds; that is the caller's part. What `link` tells to be so already is not
    sent: each request may take the kernel a while. Bridges follow the MTU and the hardware address of their ports, so
    one of these that changes does so after the link has left its bridge, and before it joins the next.
    """
    stays = link.master == master
    own = attribute(IFLA_ADDRESS, bytes.fromhex(mac.replace(":", ""))) if mac != link.mac else b""
    own += word(IFLA_MTU, mtu) if mtu not in (0, link.mtu) else b""
    head = _LINK.pack(0, 0, link.index, 0, 0)
    messages = [(RTM_NEWLINK, head + word(IFLA_MASTER, 0))] if own and link.master and not stays else []
    messages += [(RTM_NEWLINK, head + own)] if own else []
    messages += [(RTM_NEWLINK, head + word(IFLA_MASTER, master))] if not stays else []
    if (hairpin, isolated, group_forwarding) != _flags_of(link if stays else None):
        flags = attribute(IFLA_BRPORT_MODE, bytes([hairpin])) + attribute(
            IFLA_BRPORT_ISOLATED, bytes([isolated])
        )
        flags += attribute(IFLA_BRPORT_GROUP_FWD_MASK, _HALF.pack(group_forwarding))
        messages += [(RTM_NEWLINK, head + _slave(flags))]
    messages += [(RTM_DELLINK, _vlans(link.index, entry)) for entry in unwanted]
    messages += [(RTM_SETLINK, _vlans(link.index, entry)) for entry in entries]
    batch(sock, messages)


def _flags_of(link: PortLink | None) -> tuple[bool, bool, int]:
    """Return hairpin mode, isolation and the mask of reserved addresses; the kernel's own for a port that is new."""
    return (link.hairpin, link.isolated, link.group_forwarding) if link is not None else (False, False, 0)


def set_state(sock: socket.socket, index: int, state: int) -> None:
    """Set the state of spanning tree of a port, which the kernel refuses where its own spanning tree runs (EBUSY).

    Frames pass a port that is FORWARDING. A port that is LISTENING has its carrier and passes none, until it is set to
    FORWARDING again: without spanning tree, the kernel itself leaves this state alone.
    """
    body = _LINK.pack(0, 0, index, 0, 0) + _slave(attribute(IFLA_BRPORT_STATE, bytes([state])))
    request(sock, RTM_NEWLINK, body)


def _slave(data: bytes) -> bytes:
    slave = attribute(IFLA_INFO_SLAVE_KIND, b"bridge") + nested(IFLA_INFO_SLAVE_DATA, data)
    return nested(IFLA_LINKINFO, slave)


def bring_up(sock: socket.socket, index: int) -> None:
    """Set a link up."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, IFF_UP, IFF_UP))


def set_port_mtu(sock: socket.socket, index: int, mtu: int) -> None:
    """Set the MTU of a link in bytes."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + word(IFLA_MTU, mtu))


def rename(sock: socket.socket, index: int, name: str) -> None:
    """Give a link that is down another name."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + _name(name))


def move_to(sock: socket.socket, index: int, namespace: int, name: str) -> None:
    """Move a link that is down into another namespace under a name, out of its bridge.

    There it appears under its old name first, unless that is the same.
    """
    body = _LINK.pack(0, 0, index, 0, 0) + word(IFLA_NET_NS_FD, namespace) + _name(name)
    request(sock, RTM_NEWLINK, body)


def _vlans(index: int, entry: VlanEntry) -> bytes:
    flags = (PVID if entry.pvid else 0) | (UNTAGGED if entry.untagged else 0)
    if entry.first == entry.last:
        found = _entry(flags, entry.first)
    else:
        found = _entry(flags | RANGE_BEGIN, entry.first) + _entry(flags | RANGE_END, entry.last)
    return _LINK.pack(AF_BRIDGE, 0, index, 0, 0) + nested(IFLA_AF_SPEC, found)


def _entry(flags: int, vid: int) -> bytes:
    return attribute(IFLA_BRIDGE_VLAN_INFO, _ENTRY.pack(flags, vid))


def _entries(spec: bytes) -> Iterator[VlanEntry]:
    first = 0
    for kind, payload in walk(spec):
        if kind != IFLA_BRIDGE_VLAN_INFO:
            continue
        flags, vid = _ENTRY.unpack_from(payload)
        if flags & RANGE_BEGIN:
            first = vid
            continue
        begin = first if flags & RANGE_END else vid
        yield VlanEntry(begin, vid, pvid=bool(flags & PVID), untagged=bool(flags & UNTAGGED))


def _name(name: str) -> bytes:
    return attribute(IFLA_IFNAME, name.encode() + b"\0")


def _decoded(body: bytes) -> PortLink:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    found = attributes(body, _LINK.size)
    info = attributes(found.get(IFLA_LINKINFO, b""))
    kind = text(info.get(IFLA_INFO_KIND))
    data = attributes(info.get(IFLA_INFO_DATA, b"")) if kind == "bridge" else {}
    slave = attributes(info[IFLA_INFO_SLAVE_DATA]) if text(info.get(IFLA_INFO_SLAVE_KIND)) == "bridge" else {}
    nsid = found.get(IFLA_LINK_NETNSID)
    return PortLink(
        index=index,
        name=text(found[IFLA_IFNAME]),
        kind=kind,
        mac=found.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=number(found.get(IFLA_MTU)),
        up=bool(flags & IFF_UP),
        alias=text(found.get(IFLA_IFALIAS)),
        master=number(found.get(IFLA_MASTER)),
        lower=number(found.get(IFLA_LINK)),
        nsid=int(_SIGNED.unpack(nsid)[0]) if nsid is not None else None,
        state=number(slave.get(IFLA_BRPORT_STATE)),
        hairpin=bool(number(slave.get(IFLA_BRPORT_MODE))),
        isolated=bool(number(slave.get(IFLA_BRPORT_ISOLATED))),
        group_forwarding=number(slave.get(IFLA_BRPORT_GROUP_FWD_MASK)),
        filtering=bool(number(data.get(IFLA_BR_VLAN_FILTERING))),
        spanning=bool(number(data.get(IFLA_BR_STP_STATE))),
        default_pvid=number(data.get(IFLA_BR_VLAN_DEFAULT_PVID)),
    )


def vlans_of(sock: socket.socket, *, pvid: bool = False) -> dict[int, VlanIds]:
    """Return the VLAN ids of each port by the port's index; with `pvid`, only those that are untagged at the port.

    Raises LinkError.
    """
    return dict(bridge_vlans(sock, PVID | UNTAGGED if pvid else 0))


def only_vlan(sock: socket.socket, index: int, vid: int) -> None:
    """Put a port into one VLAN alone, untagged. Raises OSError."""
    for other in [each for first, last in vlans_of(sock).get(index, ()) for each in range(first, last + 1)]:
        if other != vid:
            _change(sock, RTM_DELLINK, index, 0, other)
    _change(sock, RTM_SETLINK, index, PVID | UNTAGGED, vid)


def _change(sock: socket.socket, kind: int, index: int, flags: int, vid: int) -> None:
    entry = attribute(IFLA_BRIDGE_VLAN_INFO, _VLAN.pack(flags, vid))
    request(sock, kind, _LINK.pack(AF_BRIDGE, 0, index, 0, 0) + nested(IFLA_AF_SPEC, entry))

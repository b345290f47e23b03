"""Links across network namespaces: VXLAN, veth, macvtap, and the forwarding entries of VXLAN, as rtnetlink messages.

The numbers are those of linux/if_link.h and neighbour.h. A function takes the socket of the namespace in which it acts;
another namespace is named by an open descriptor. Everything raises OSError with the kernel's number and words.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from lanloom.node.netlink.messages import (
    AF_BRIDGE,
    IFA_ADDRESS,
    IFA_LOCAL,
    IFF_UP,
    IFLA_ADDRESS,
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
    NLM_F_CREATE_NEW,
    RTM_DELLINK,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_NEWLINK,
    SKIP_STATISTICS,
    attribute,
    attributes,
    dump,
    get,
    nested,
    number,
    request,
    text,
    tolerating,
    word,
)

RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
NLM_F_CREATE, NLM_F_APPEND = 0x400, 0x800
IFLA_STATS64, IFLA_GROUP, IFLA_NET_NS_FD = 23, 27, 28
IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 4, 5
IFLA_VXLAN_ID, IFLA_VXLAN_GROUP, IFLA_VXLAN_LINK, IFLA_VXLAN_LOCAL = 1, 2, 3, 4
IFLA_VXLAN_PORT, IFLA_VXLAN_GROUP6, IFLA_VXLAN_LOCAL6 = 15, 16, 17
IFLA_BR_STP_STATE, IFLA_BR_MCAST_SNOOPING = 5, 23
IFLA_BRPORT_GROUP_FWD_MASK = 31
IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU = 1, 8
VETH_INFO_PEER = 1
NDA_DST, NDA_LLADDR = 1, 2
NTF_SELF = 2
NUD_PERMANENT, NUD_NOARP = 0x80, 0x40
IFF_ALLMULTI = 0x200

_GOING = 0x1A40
"""A group of links that are being deleted; links are in the group 0 unless somebody says otherwise."""

ANYBODY = bytes(6)
"""The hardware address of entries for frames whose receiver is many, or unknown."""

_LINK = struct.Struct("=BxHiII")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_ADDRESS = struct.Struct("=BBBBI")
_PORT = struct.Struct(">H")
_HALF = struct.Struct("=H")
_STATISTICS = struct.Struct("=8Q")


class RawLink(Struct, frozen=True, kw_only=True):
    """A link as its message has it; other links by index. `vtep` is VNI, port, device, local and group of a VXLAN."""

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    alias: str
    master: int
    lower: int
    away: bool
    vtep: tuple[int, int, int, str, str] | None
    forwarding: int
    snooping: bool


def links(sock: socket.socket) -> list[RawLink]:
    """Return all links of the namespace. Raises LinkError."""
    body = _LINK.pack(0, 0, 0, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return [_decoded(each) for each in dump(sock, RTM_GETLINK, body)]


def link(sock: socket.socket, *, index: int = 0, name: str = "") -> RawLink:
    """Return one link. OSError has the number ENODEV where there is none."""
    body = _LINK.pack(0, 0, index, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return _decoded(get(sock, RTM_GETLINK, body + (_name(name) if name else b"")))


def statistics(sock: socket.socket) -> dict[str, tuple[int, ...]]:
    """Frames, bytes, errors and drops of each link by name, each received and sent. Raises LinkError."""
    found = {}
    for body in dump(sock, RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0)):
        values = attributes(body, _LINK.size)
        if IFLA_STATS64 in values:
            found[text(values[IFLA_IFNAME])] = _STATISTICS.unpack_from(values[IFLA_STATS64])
    return found


def add_bridge(sock: socket.socket, name: str) -> None:
    """A bridge that is up, without spanning tree and snooping of multicast."""
    data = word(IFLA_BR_STP_STATE, 0) + attribute(IFLA_BR_MCAST_SNOOPING, b"\0")
    request(sock, RTM_NEWLINK, _UP + _name(name) + _info("bridge", data), flags=NLM_F_CREATE_NEW)


def set_alias(sock: socket.socket, index: int, alias: str) -> None:
    """The ifalias of a link."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + attribute(IFLA_IFALIAS, alias.encode()))


def add_vxlan(
    underlay: socket.socket,
    target: int,
    name: str,
    *,
    vni: int,
    port: int,
    device: int,
    local: str,
    group: str,
    mtu: int,
    master: int,
) -> None:
    """A VXLAN link in the namespace `target`, up, whose socket and device are in the namespace of `underlay`."""
    data = word(IFLA_VXLAN_ID, vni) + word(IFLA_VXLAN_LINK, device)
    data += attribute(IFLA_VXLAN_PORT, _PORT.pack(port))
    data += _endpoint(group, IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6)
    data += _endpoint(local, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6)
    body = _UP + _name(name) + word(IFLA_NET_NS_FD, target) + word(IFLA_MTU, mtu) + word(IFLA_MASTER, master)
    request(underlay, RTM_NEWLINK, body + _info("vxlan", data), flags=NLM_F_CREATE_NEW)


def add_veth(
    sock: socket.socket,
    name: str,
    peer: str,
    *,
    master: int,
    mtu: int,
    peer_mac: str,
    peer_namespace: int = -1,
) -> None:
    """A veth pair: `name` under the master, up, and `peer` here or in another namespace, down.

    The kernel can't set up an end while the pair is made.
    """
    far = _DOWN + _name(peer) + word(IFLA_MTU, mtu) + _hardware(peer_mac)
    if peer_namespace >= 0:
        far += word(IFLA_NET_NS_FD, peer_namespace)
    data = nested(VETH_INFO_PEER, far)
    body = _UP + _name(name) + word(IFLA_MTU, mtu) + word(IFLA_MASTER, master) + _info("veth", data)
    request(sock, RTM_NEWLINK, body, flags=NLM_F_CREATE_NEW)


def add_macvtap(sock: socket.socket, target: int, name: str, *, lower: int, index: int) -> None:
    """A macvtap in the mode passthru on a link of this namespace, down, in the namespace `target`."""
    data = word(IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU)
    body = _LINK.pack(0, 0, index, 0, 0) + _name(name) + word(IFLA_LINK, lower)
    body += word(IFLA_NET_NS_FD, target) + _info("macvtap", data)
    request(sock, RTM_NEWLINK, body, flags=NLM_F_CREATE_NEW)


def move(sock: socket.socket, index: int, target: int, name: str, *, mac: str) -> None:
    """A link into another namespace, under a name and with an address, up, and taking frames for every group."""
    flags = IFF_UP | IFF_ALLMULTI
    body = _LINK.pack(0, 0, index, flags, flags) + word(IFLA_NET_NS_FD, target) + _name(name) + _hardware(mac)
    request(sock, RTM_NEWLINK, body)


def set_port(sock: socket.socket, index: int, *, master: int, forwarding: int) -> None:
    """A link as a port of a bridge, up, with a mask of reserved addresses whose frames pass."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, IFF_UP, IFF_UP) + word(IFLA_MASTER, master))
    set_forwarding(sock, index, forwarding)


def set_forwarding(sock: socket.socket, index: int, mask: int) -> None:
    """The mask of a port that is one already."""
    data = nested(IFLA_INFO_SLAVE_DATA, attribute(IFLA_BRPORT_GROUP_FWD_MASK, _HALF.pack(mask)))
    slave = nested(IFLA_LINKINFO, attribute(IFLA_INFO_SLAVE_KIND, b"bridge") + data)
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + slave)


def set_mtu(sock: socket.socket, index: int, mtu: int) -> None:
    """The MTU of a link in bytes."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + word(IFLA_MTU, mtu))


def set_up(sock: socket.socket, index: int) -> None:
    """A link up."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, IFF_UP, IFF_UP))


def delete(sock: socket.socket, index: int) -> None:
    """Delete a link."""
    request(sock, RTM_DELLINK, _LINK.pack(0, 0, index, 0, 0))


def delete_together(sock: socket.socket, indices: Iterable[int]) -> None:
    """Deletes links, with their other ends and what stands on them, in one go.

    One by one each waits until no processor uses it any more, which is most of the time that a deletion takes.
    """
    for index in indices:
        with tolerating(errno.ENODEV):
            request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + word(IFLA_GROUP, _GOING))
    with tolerating(errno.ENODEV):
        request(sock, RTM_DELLINK, _DOWN + word(IFLA_GROUP, _GOING))


def add_receiver(sock: socket.socket, index: int, peer: str) -> None:
    """One more receiver of a VXLAN's frames for many."""
    request(sock, RTM_NEWNEIGH, _receiver(index, peer), flags=NLM_F_CREATE | NLM_F_APPEND)


def remove_receiver(sock: socket.socket, index: int, peer: str) -> None:
    """One receiver less. The number of the error is ENOENT where there was none."""
    request(sock, RTM_DELNEIGH, _receiver(index, peer))


def receivers(sock: socket.socket, index: int) -> Iterator[str]:
    """Yield the receivers of a VXLAN's frames for many. Raises LinkError."""
    for body in dump(sock, RTM_GETNEIGH, _LINK.pack(AF_BRIDGE, 0, index, 0, 0)):
        found = attributes(body, _NEIGHBOUR.size)
        if (
            _NEIGHBOUR.unpack_from(body)[1] == index
            and found.get(NDA_LLADDR) == ANYBODY
            and (destination := found.get(NDA_DST))
        ):
            yield str(ip_address(destination))


def addresses(sock: socket.socket) -> dict[int, list[IPv4Address | IPv6Address]]:
    """Return the IP addresses of every link by its index. Raises LinkError."""
    found: dict[int, list[IPv4Address | IPv6Address]] = {}
    for body in dump(sock, RTM_GETADDR, _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        values = attributes(body, _ADDRESS.size)
        payload = values.get(IFA_LOCAL) or values.get(IFA_ADDRESS)
        if payload is not None and len(payload) in (4, 16):
            found.setdefault(_ADDRESS.unpack_from(body)[4], []).append(ip_address(payload))
    return found


def _decoded(body: bytes) -> RawLink:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    found = attributes(body, _LINK.size)
    info = attributes(found.get(IFLA_LINKINFO, b""))
    kind = text(info.get(IFLA_INFO_KIND))
    data = attributes(info.get(IFLA_INFO_DATA, b"")) if kind in ("vxlan", "bridge") else {}
    slave = attributes(info[IFLA_INFO_SLAVE_DATA]) if IFLA_INFO_SLAVE_DATA in info else {}
    return RawLink(
        name=text(found[IFLA_IFNAME]),
        index=index,
        kind=kind,
        mac=found.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=number(found.get(IFLA_MTU)),
        up=bool(flags & IFF_UP),
        alias=text(found.get(IFLA_IFALIAS)),
        master=number(found.get(IFLA_MASTER)),
        lower=number(found.get(IFLA_LINK)),
        away=IFLA_LINK_NETNSID in found,
        vtep=_vtep(data) if kind == "vxlan" else None,
        forwarding=number(slave.get(IFLA_BRPORT_GROUP_FWD_MASK)),
        snooping=kind == "bridge" and bool(number(data.get(IFLA_BR_MCAST_SNOOPING))),
    )


def _vtep(data: dict[int, bytes]) -> tuple[int, int, int, str, str]:
    return (
        number(data.get(IFLA_VXLAN_ID)),
        int.from_bytes(data.get(IFLA_VXLAN_PORT, b""), "big"),
        number(data.get(IFLA_VXLAN_LINK)),
        _shown(data.get(IFLA_VXLAN_LOCAL) or data.get(IFLA_VXLAN_LOCAL6)),
        _shown(data.get(IFLA_VXLAN_GROUP) or data.get(IFLA_VXLAN_GROUP6)),
    )


def _shown(payload: bytes | None) -> str:
    return str(ip_address(payload)) if payload else ""


def _endpoint(address: str, four: int, six: int) -> bytes:
    if not address:
        return b""
    packed = ip_address(address).packed
    return attribute(four if len(packed) == 4 else six, packed)


def _receiver(index: int, peer: str) -> bytes:
    head = _NEIGHBOUR.pack(AF_BRIDGE, index, NUD_PERMANENT | NUD_NOARP, NTF_SELF, 0)
    return head + attribute(NDA_DST, ip_address(peer).packed) + attribute(NDA_LLADDR, ANYBODY)


def _name(name: str) -> bytes:
    return attribute(IFLA_IFNAME, name.encode() + b"\0")


def _hardware(mac: str) -> bytes:
    return attribute(IFLA_ADDRESS, bytes.fromhex(mac.replace(":", ""))) if mac else b""


def _info(kind: str, data: bytes) -> bytes:
    return nested(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind.encode()) + nested(IFLA_INFO_DATA, data))


_UP, _DOWN = _LINK.pack(0, 0, 0, IFF_UP, IFF_UP), _LINK.pack(0, 0, 0, 0, 0)

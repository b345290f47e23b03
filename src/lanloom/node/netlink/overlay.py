"""Links across network namespaces: bridges, VXLAN, veth and macvtap, as rtnetlink messages.

The numbers are those of linux/if_link.h. A function takes the socket of the namespace in which it acts;
another namespace is named by an open descriptor. Everything raises OSError with the kernel's number and words.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from lanloom.node.netlink.bridgedrift import link_drift, port_drift
from lanloom.node.netlink.messages import (
    IFA_ADDRESS,
    IFA_LOCAL,
    IFF_RUNNING,
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
    filtering,
    get,
    nested,
    number,
    request,
    text,
    tolerating,
    word,
)

IFLA_STATS64, IFLA_GROUP, IFLA_NET_NS_FD = 23, 27, 28
IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 4, 5
IFLA_VXLAN_ID, IFLA_VXLAN_GROUP, IFLA_VXLAN_LINK, IFLA_VXLAN_LOCAL = 1, 2, 3, 4
IFLA_VXLAN_LIMIT, IFLA_VXLAN_PORT, IFLA_VXLAN_GROUP6, IFLA_VXLAN_LOCAL6, IFLA_VXLAN_GBP = 9, 15, 16, 17, 23
IFLA_BR_STP_STATE, IFLA_BR_MCAST_SNOOPING, IFLA_BR_FDB_N_LEARNED, IFLA_BR_FDB_MAX_LEARNED = 5, 23, 48, 49
IFLA_BRPORT_LEARNING, IFLA_BRPORT_FLUSH, IFLA_BRPORT_GROUP_FWD_MASK = 8, 24, 31
IFLA_BRPORT_ISOLATED, IFLA_BRPORT_LOCKED = 33, 39
IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU = 1, 8
VETH_INFO_PEER = 1
IFF_ALLMULTI = 0x200

_GOING = 0x1A40
"""A group of links that are being deleted; links are in the group 0 unless they are put into another."""

_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_PORT = struct.Struct(">H")
_HALF = struct.Struct("=H")
_STATISTICS = struct.Struct("=8Q")


class RawLink(Struct, frozen=True, kw_only=True):
    """A link as its message has it; other links by index. `vtep` is VNI, port, device, local and group of a VXLAN, and
    `drift` are settings of bridges, ports and VXLAN links that were changed (`bridgedrift`).
    """

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    running: bool
    alias: str
    master: int
    lower: int
    away: bool
    vtep: tuple[int, int, int, str, str] | None
    forwarding: int
    snooping: bool
    learned_limit: int | None
    learned: int | None
    entry_limit: int
    locked: bool
    isolated: bool
    group: int
    policy: bool
    drift: frozenset[str]


def links(sock: socket.socket) -> list[RawLink]:
    """Return all links of the namespace. Raises LinkError."""
    body = _LINK.pack(0, 0, 0, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return [_decoded(each) for each in dump(sock, RTM_GETLINK, body)]


def indices(sock: socket.socket) -> frozenset[int]:
    """Return the indices of all links of the namespace. Raises LinkError."""
    body = _LINK.pack(0, 0, 0, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return frozenset(_LINK.unpack_from(each)[2] for each in dump(sock, RTM_GETLINK, body))


def link(sock: socket.socket, *, index: int = 0, name: str = "") -> RawLink:
    """Return one link. OSError has the number ENODEV where there is none."""
    body = _LINK.pack(0, 0, index, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return _decoded(get(sock, RTM_GETLINK, body + (_name(name) if name else b"")))


class BridgePort(Struct, frozen=True):
    """A port of a bridge as far as the bridge follows it; `mtu` in bytes."""

    index: int
    mtu: int
    alias: str


def ports(sock: socket.socket, bridge: int) -> list[BridgePort]:
    """Return the ports of a bridge, by its index; there may be hundreds, of which no more is read. Raises LinkError."""
    body = _LINK.pack(0, 0, 0, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS) + word(IFLA_MASTER, bridge)
    found = []
    for each in dump(sock, RTM_GETLINK, body):
        values = attributes(each, _LINK.size)
        if number(values.get(IFLA_MASTER)) == bridge:
            index = _LINK.unpack_from(each)[2]
            found.append(BridgePort(index, number(values.get(IFLA_MTU)), text(values.get(IFLA_IFALIAS))))
    return found


def statistics(sock: socket.socket) -> dict[str, tuple[int, ...]]:
    """Return frames, bytes, errors and drops of each link by name, each received and sent. Raises LinkError."""
    found = {}
    for body in dump(sock, RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0)):
        values = attributes(body, _LINK.size)
        if IFLA_STATS64 in values:
            found[text(values[IFLA_IFNAME])] = _STATISTICS.unpack_from(values[IFLA_STATS64])
    return found


def add_bridge(sock: socket.socket, name: str, *, learned_limit: int = 0, index: int = 0) -> None:
    """Add a bridge that is up, without spanning tree and snooping of multicast, with this index, 0 for any.

    A kernel that knows no limit of learned addresses ignores it.
    """
    data = word(IFLA_BR_STP_STATE, 0) + attribute(IFLA_BR_MCAST_SNOOPING, b"\0")
    if learned_limit:
        data += word(IFLA_BR_FDB_MAX_LEARNED, learned_limit)
    head = _LINK.pack(0, 0, index, IFF_UP, IFF_UP)
    request(sock, RTM_NEWLINK, head + _name(name) + _info("bridge", data), flags=NLM_F_CREATE_NEW)


def limit_learned(sock: socket.socket, index: int, limit: int) -> None:
    """Set how many MAC addresses a bridge learns, 0 for any number."""
    body = _LINK.pack(0, 0, index, 0, 0) + _info("bridge", word(IFLA_BR_FDB_MAX_LEARNED, limit))
    request(sock, RTM_NEWLINK, body)


def set_alias(sock: socket.socket, index: int, alias: str) -> None:
    """Set the ifalias of a link."""
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
    policy: bool,
    limit: int = 0,
) -> None:
    """Add a VXLAN link in the namespace `target`, up, whose socket and device are in the namespace of `underlay`.

    With `policy` it sends the mark of a frame along. Links with it and without it can't share a port: EADDRINUSE.
    It has at most `limit` forwarding entries, 0 for any number, which the kernel changes of no link that is there.
    """
    data = word(IFLA_VXLAN_ID, vni) + word(IFLA_VXLAN_LINK, device)
    data += attribute(IFLA_VXLAN_PORT, _PORT.pack(port))
    data += _endpoint(group, IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6)
    data += _endpoint(local, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6)
    if limit:
        data += word(IFLA_VXLAN_LIMIT, limit)
    if policy:
        data += attribute(IFLA_VXLAN_GBP, b"")
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
    peer_mtu: int = 0,
    peer_namespace: int = -1,
) -> None:
    """Add a veth pair: `name` under the master, up, and `peer` here or in another namespace, down.

    The kernel can't set up an end while the pair is made.
    """
    far = _DOWN + _name(peer) + word(IFLA_MTU, peer_mtu or mtu) + _hardware(peer_mac)
    if peer_namespace >= 0:
        far += word(IFLA_NET_NS_FD, peer_namespace)
    data = nested(VETH_INFO_PEER, far)
    body = _UP + _name(name) + word(IFLA_MTU, mtu) + word(IFLA_MASTER, master) + _info("veth", data)
    request(sock, RTM_NEWLINK, body, flags=NLM_F_CREATE_NEW)


def add_macvtap(sock: socket.socket, target: int, name: str, *, lower: int, index: int, mtu: int) -> None:
    """Add a macvtap in the mode passthru on a link of this namespace, in the namespace `target`, up.

    It takes frames for every group. The kernel makes it there: to move one takes much longer.
    """
    data, flags = word(IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU), IFF_UP | IFF_ALLMULTI
    body = _LINK.pack(0, 0, index, flags, flags) + _name(name) + word(IFLA_LINK, lower) + word(IFLA_MTU, mtu)
    body += word(IFLA_NET_NS_FD, target) + _info("macvtap", data)
    request(sock, RTM_NEWLINK, body, flags=NLM_F_CREATE_NEW)


def set_master(sock: socket.socket, index: int, master: int, *, up: bool = True) -> None:
    """Make a link a port of a bridge, up unless that is left as it is."""
    flags = IFF_UP if up else 0
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, flags, flags) + word(IFLA_MASTER, master))


def set_forwarding(sock: socket.socket, index: int, mask: int) -> None:
    """Set the mask of reserved addresses whose frames a port lets pass."""
    _set_port(sock, index, attribute(IFLA_BRPORT_GROUP_FWD_MASK, _HALF.pack(mask)))


def stop_learning(sock: socket.socket, index: int) -> None:
    """Keep the bridge from learning addresses behind a port."""
    _set_port(sock, index, attribute(IFLA_BRPORT_LEARNING, b"\0"))


def forget_learned(sock: socket.socket, index: int) -> None:
    """Make the bridge forget the addresses that it learned behind a port."""
    _set_port(sock, index, attribute(IFLA_BRPORT_FLUSH, b""))


def set_port_flags(sock: socket.socket, index: int, *, locked: bool, isolated: bool, group: int) -> None:
    """Set the flags of a port, and the group of its link. A locked port neither learns nor keeps what it learned."""
    data = attribute(IFLA_BRPORT_LEARNING, bytes([not locked])) + attribute(
        IFLA_BRPORT_LOCKED, bytes([locked])
    )
    data += attribute(IFLA_BRPORT_ISOLATED, bytes([isolated]))
    if locked:
        data += attribute(IFLA_BRPORT_FLUSH, b"")
    _set_port(sock, index, data, word(IFLA_GROUP, group))


def _set_port(sock: socket.socket, index: int, data: bytes, more: bytes = b"") -> None:
    slave = attribute(IFLA_INFO_SLAVE_KIND, b"bridge") + nested(IFLA_INFO_SLAVE_DATA, data)
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + more + nested(IFLA_LINKINFO, slave))


def set_mtu(sock: socket.socket, index: int, mtu: int) -> None:
    """Set the MTU of a link in bytes."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + word(IFLA_MTU, mtu))


def set_mac(sock: socket.socket, index: int, mac: str) -> None:
    """Set the hardware address of a link."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + _hardware(mac))


def set_up(sock: socket.socket, index: int) -> None:
    """Set a link up."""
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, IFF_UP, IFF_UP))


def delete(sock: socket.socket, index: int) -> None:
    """Delete a link."""
    request(sock, RTM_DELLINK, _LINK.pack(0, 0, index, 0, 0))


def delete_together(sock: socket.socket, indices: Iterable[int]) -> None:
    """Delete links, with their other ends and what stands on them, in one go.

    One by one each waits until no processor uses it any more, which is most of the time that a deletion takes.
    """
    for index in indices:
        with tolerating(errno.ENODEV):
            request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + word(IFLA_GROUP, _GOING))
    with tolerating(errno.ENODEV):
        request(sock, RTM_DELLINK, _DOWN + word(IFLA_GROUP, _GOING))


def addresses(sock: socket.socket) -> dict[int, list[IPv4Address | IPv6Address]]:
    """Return the IP addresses of every link by its index. Raises LinkError."""
    found: dict[int, list[IPv4Address | IPv6Address]] = {}
    for index, address in _addresses(sock, 0):
        found.setdefault(index, []).append(address)
    return found


def addresses_of(sock: socket.socket, index: int) -> list[IPv4Address | IPv6Address]:
    """Return the IP addresses of one link; what others there are costs nothing. Raises LinkError."""
    with filtering(sock):
        return [address for each, address in _addresses(sock, index) if each == index]


def _addresses(sock: socket.socket, index: int) -> Iterator[tuple[int, IPv4Address | IPv6Address]]:
    for body in dump(sock, RTM_GETADDR, _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, index)):
        values = attributes(body, _ADDRESS.size)
        payload = values.get(IFA_LOCAL) or values.get(IFA_ADDRESS)
        if payload is not None and len(payload) in (4, 16):
            yield _ADDRESS.unpack_from(body)[4], ip_address(payload)


def _decoded(body: bytes) -> RawLink:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    found = attributes(body, _LINK.size)
    info = attributes(found.get(IFLA_LINKINFO, b""))
    kind = text(info.get(IFLA_INFO_KIND))
    data = attributes(info.get(IFLA_INFO_DATA, b"")) if kind in ("vxlan", "bridge") else {}
    is_port = text(info.get(IFLA_INFO_SLAVE_KIND)) == "bridge"
    slave = attributes(info.get(IFLA_INFO_SLAVE_DATA, b"")) if is_port else {}
    return RawLink(
        name=text(found[IFLA_IFNAME]),
        index=index,
        kind=kind,
        mac=found.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=number(found.get(IFLA_MTU)),
        up=bool(flags & IFF_UP),
        running=bool(flags & IFF_RUNNING),
        alias=text(found.get(IFLA_IFALIAS)),
        master=number(found.get(IFLA_MASTER)),
        lower=number(found.get(IFLA_LINK)),
        away=IFLA_LINK_NETNSID in found,
        vtep=_vtep(data) if kind == "vxlan" else None,
        forwarding=number(slave.get(IFLA_BRPORT_GROUP_FWD_MASK)),
        snooping=kind == "bridge" and bool(number(data.get(IFLA_BR_MCAST_SNOOPING))),
        learned_limit=_counted(kind, data, IFLA_BR_FDB_MAX_LEARNED),
        learned=_counted(kind, data, IFLA_BR_FDB_N_LEARNED),
        entry_limit=number(data.get(IFLA_VXLAN_LIMIT)) if kind == "vxlan" else 0,
        locked=bool(number(slave.get(IFLA_BRPORT_LOCKED))),
        isolated=bool(number(slave.get(IFLA_BRPORT_ISOLATED))),
        group=number(found.get(IFLA_GROUP)),
        policy=kind == "vxlan" and IFLA_VXLAN_GBP in data,
        drift=frozenset((*link_drift(kind, data), *port_drift(slave, found, flags))),
    )


def _counted(kind: str, data: dict[int, bytes], attribute_type: int) -> int | None:
    return number(data[attribute_type]) if kind == "bridge" and attribute_type in data else None


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


def _name(name: str) -> bytes:
    return attribute(IFLA_IFNAME, name.encode() + b"\0")


def _hardware(mac: str) -> bytes:
    return attribute(IFLA_ADDRESS, bytes.fromhex(mac.replace(":", ""))) if mac else b""


def _info(kind: str, data: bytes) -> bytes:
    return nested(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind.encode()) + nested(IFLA_INFO_DATA, data))


_UP, _DOWN = _LINK.pack(0, 0, 0, IFF_UP, IFF_UP), _LINK.pack(0, 0, 0, 0, 0)

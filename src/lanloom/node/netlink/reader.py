"""The one reader of links, in any network namespace: what a message about a link says, decoded.

A function takes the socket of the namespace in which it looks. Dumps raise LinkError; a look at one link, OSError with
the kernel's number.
"""

import errno
import socket
import struct
from collections.abc import Mapping
from ipaddress import ip_address

from msgspec import Struct

from lanloom.node.links import KernelLink, Vtep
from lanloom.node.netlink.bridgedrift import link_drift, port_drift
from lanloom.node.netlink.messages import (
    ANY_FAMILY,
    DEVCONF_ACCEPT_RA,
    IFF_DYNAMIC,
    IFF_RUNNING,
    IFF_UP,
    IFLA_ADDRESS,
    IFLA_AF_SPEC,
    IFLA_BR_FDB_MAX_LEARNED,
    IFLA_BR_FDB_N_LEARNED,
    IFLA_BR_MCAST_SNOOPING,
    IFLA_BR_STP_STATE,
    IFLA_BR_VLAN_DEFAULT_PVID,
    IFLA_BR_VLAN_FILTERING,
    IFLA_BRPORT_GROUP_FWD_MASK,
    IFLA_BRPORT_ISOLATED,
    IFLA_BRPORT_LOCKED,
    IFLA_BRPORT_MODE,
    IFLA_BRPORT_STATE,
    IFLA_EXT_MASK,
    IFLA_GROUP,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INET6_CONF,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_INFO_SLAVE_DATA,
    IFLA_INFO_SLAVE_KIND,
    IFLA_LINK,
    IFLA_LINK_NETNSID,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    IFLA_STATS64,
    IFLA_TARGET_NETNSID,
    IFLA_VXLAN_COLLECT_METADATA,
    IFLA_VXLAN_GBP,
    IFLA_VXLAN_GPE,
    IFLA_VXLAN_GROUP,
    IFLA_VXLAN_GROUP6,
    IFLA_VXLAN_ID,
    IFLA_VXLAN_LIMIT,
    IFLA_VXLAN_LINK,
    IFLA_VXLAN_LOCAL,
    IFLA_VXLAN_LOCAL6,
    IFLA_VXLAN_PORT,
    IFLA_VXLAN_REMCSUM_RX,
    IFLA_VXLAN_VNIFILTER,
    IFLA_VXLAN_ZERO_CSUM6_RX,
    LINK,
    NETNSA_FD,
    NETNSA_NSID,
    RTM_GETLINK,
    RTM_GETNSID,
    SIGNED,
    SKIP_STATISTICS,
    Attributes,
    attribute,
    attributes,
    dump,
    get,
    nested,
    number,
    text,
    word,
)

_STATISTICS = struct.Struct("=8Q")


class LinkMessage(Struct, frozen=True):
    """A message about a link, taken apart: attributes of all links, and those of its kind and of bridge ports."""

    index: int
    flags: int
    found: Attributes
    kind: str
    info: Attributes

    @property
    def data(self) -> Attributes:
        """What only links of its kind have."""
        return attributes(self.info.get(IFLA_INFO_DATA, b""))

    @property
    def port(self) -> Attributes:
        """What it has as a port of a bridge, nothing for any other link."""
        is_port = text(self.info.get(IFLA_INFO_SLAVE_KIND)) == "bridge"
        return attributes(self.info.get(IFLA_INFO_SLAVE_DATA, b"")) if is_port else {}


def parse(body: bytes) -> LinkMessage:
    """Return the parts of the body of a message."""
    _, _, index, flags, _ = LINK.unpack_from(body)
    found = attributes(body, LINK.size)
    info = attributes(found.get(IFLA_LINKINFO, b""))
    return LinkMessage(index, flags, found, text(info.get(IFLA_INFO_KIND)), info)


def bodies(
    sock: socket.socket, wanted: bytes = b"", mask: int = SKIP_STATISTICS, family: int = 0
) -> list[bytes]:
    """Return the bodies of messages about all links, or about those that the attributes `wanted` pick out."""
    return dump(sock, RTM_GETLINK, LINK.pack(family, 0, 0, 0, 0) + word(IFLA_EXT_MASK, mask) + wanted)


def links(sock: socket.socket, nsid: int | None = None) -> list[KernelLink]:
    """Return all links of the namespace, or of the one that it knows by a number, which need not be entered for it."""
    return [decoded(each) for each in bodies(sock, _abroad(nsid))]


def links_of_kind(sock: socket.socket, kind: str, nsid: int | None = None) -> list[KernelLink]:
    """Return the links of a kind, as `links` does.

    The kernel picks them out of all links, of which a node may have thousands.
    """
    wanted = nested(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind.encode()))
    found = (parse(each) for each in bodies(sock, _abroad(nsid) + wanted))
    return [_decoded(each) for each in found if each.kind == kind]


def _abroad(nsid: int | None) -> bytes:
    return attribute(IFLA_TARGET_NETNSID, SIGNED.pack(nsid)) if nsid is not None else b""


def indices(sock: socket.socket) -> frozenset[int]:
    """Return the indices of all links of the namespace."""
    return frozenset(LINK.unpack_from(each)[2] for each in bodies(sock))


def link(sock: socket.socket, *, index: int = 0, name: str = "") -> KernelLink:
    """Return one link. OSError has the number ENODEV where there is none."""
    return decoded(get(sock, *question(index=index, name=name)))


def question(*, index: int = 0, name: str = "") -> tuple[int, bytes]:
    """Return type and body of the message that asks for one link, for a batch."""
    body = LINK.pack(0, 0, index, 0, 0) + word(IFLA_EXT_MASK, SKIP_STATISTICS)
    return RTM_GETLINK, body + (attribute(IFLA_IFNAME, name.encode() + b"\0") if name else b"")


def find(sock: socket.socket, name: str) -> KernelLink | None:
    """Return the link of a name, None where there is none, as of a name that no link can have."""
    try:
        return link(sock, name=name)
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.EINVAL, errno.ERANGE):
            return None
        raise


class BridgePort(Struct, frozen=True):
    """A port of a bridge as far as the bridge follows it; `mtu` in bytes."""

    index: int
    mtu: int
    alias: str


def ports(sock: socket.socket, bridge: int) -> list[BridgePort]:
    """Return the ports of a bridge, by its index; there may be hundreds, of which no more is read."""
    found = []
    for each in bodies(sock, word(IFLA_MASTER, bridge)):
        values = attributes(each, LINK.size)
        if number(values.get(IFLA_MASTER)) == bridge:
            index = LINK.unpack_from(each)[2]
            found.append(BridgePort(index, number(values.get(IFLA_MTU)), text(values.get(IFLA_IFALIAS))))
    return found


def statistics(sock: socket.socket) -> dict[str, tuple[int, ...]]:
    """Return frames, bytes, errors and drops of each link by name, each received and sent."""
    found = {}
    for body in bodies(sock, mask=0):
        values = attributes(body, LINK.size)
        if IFLA_STATS64 in values:
            found[text(values[IFLA_IFNAME])] = _STATISTICS.unpack_from(values[IFLA_STATS64])
    return found


def namespace_id(sock: socket.socket, descriptor: int) -> int:
    """Return the number by which the socket's namespace knows another one; -1 where it does not know it."""
    body = ANY_FAMILY + attribute(NETNSA_FD, SIGNED.pack(descriptor))
    found = attributes(get(sock, RTM_GETNSID, body), 4)
    return _signed(found.get(NETNSA_NSID), -1)


def namespace_ids(sock: socket.socket) -> list[int]:
    """Return the numbers by which the socket's namespace knows others."""
    found = (attributes(body, 4) for body in dump(sock, RTM_GETNSID, ANY_FAMILY))
    return [_signed(each[NETNSA_NSID], -1) for each in found if NETNSA_NSID in each]


def _signed(payload: bytes | None, missing: int) -> int:
    return int(SIGNED.unpack(payload)[0]) if payload is not None else missing


def decoded(body: bytes) -> KernelLink:
    """Return the link that the body of a message is about."""
    return _decoded(parse(body))


def _decoded(message: LinkMessage) -> KernelLink:
    found, kind = message.found, message.kind
    data = message.data if kind in ("vxlan", "bridge") else {}
    bridge, vxlan = (data if kind == each else {} for each in ("bridge", "vxlan"))
    port = message.port
    return KernelLink(
        name=text(found[IFLA_IFNAME]),
        index=message.index,
        kind=kind,
        mac=found.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=number(found.get(IFLA_MTU)),
        up=bool(message.flags & IFF_UP),
        running=bool(message.flags & IFF_RUNNING),
        unfinished=bool(message.flags & IFF_DYNAMIC),
        alias=text(found.get(IFLA_IFALIAS)),
        master=number(found.get(IFLA_MASTER)),
        lower=number(found.get(IFLA_LINK)),
        nsid=_signed(found[IFLA_LINK_NETNSID], 0) if IFLA_LINK_NETNSID in found else None,
        group=number(found.get(IFLA_GROUP)),
        vtep=_vtep(data) if kind == "vxlan" else None,
        policy=IFLA_VXLAN_GBP in vxlan,
        entry_limit=number(vxlan.get(IFLA_VXLAN_LIMIT)),
        external=bool(number(vxlan.get(IFLA_VXLAN_COLLECT_METADATA))),
        exclusive=_is_exclusive(vxlan),
        snooping=bool(number(bridge.get(IFLA_BR_MCAST_SNOOPING))),
        spanning=bool(number(bridge.get(IFLA_BR_STP_STATE))),
        filtering=bool(number(bridge.get(IFLA_BR_VLAN_FILTERING))),
        default_pvid=number(bridge.get(IFLA_BR_VLAN_DEFAULT_PVID)),
        learned_limit=_counted(bridge, IFLA_BR_FDB_MAX_LEARNED),
        learned=_counted(bridge, IFLA_BR_FDB_N_LEARNED),
        accepts_routers=kind == "bridge" and _accepts_routers(found),
        state=number(port.get(IFLA_BRPORT_STATE)),
        hairpin=bool(number(port.get(IFLA_BRPORT_MODE))),
        group_forwarding=number(port.get(IFLA_BRPORT_GROUP_FWD_MASK)),
        locked=bool(number(port.get(IFLA_BRPORT_LOCKED))),
        isolated=bool(number(port.get(IFLA_BRPORT_ISOLATED))),
        drift=frozenset((*link_drift(kind, data), *port_drift(port, found, message.flags))),
    )


_NOT_SHARED = (
    IFLA_VXLAN_COLLECT_METADATA,
    IFLA_VXLAN_VNIFILTER,
    IFLA_VXLAN_ZERO_CSUM6_RX,
    IFLA_VXLAN_REMCSUM_RX,
)
"""How a VXLAN link receives, as numbers: links share a UDP port that receive in one way (`VXLAN_F_RCV_FLAGS`)."""


def _is_exclusive(vxlan: Mapping[int, bytes]) -> bool:
    return IFLA_VXLAN_GPE in vxlan or any(number(vxlan.get(each)) for each in _NOT_SHARED)


def _accepts_routers(found: Attributes) -> bool:
    families = attributes(found.get(IFLA_AF_SPEC, b""))
    six = attributes(families.get(socket.AF_INET6, b"")).get(IFLA_INET6_CONF, b"")
    return bool(number(six[4 * DEVCONF_ACCEPT_RA : 4 * DEVCONF_ACCEPT_RA + 4]))


def _counted(bridge: Mapping[int, bytes], attribute_type: int) -> int | None:
    return number(bridge[attribute_type]) if attribute_type in bridge else None


def _vtep(data: Mapping[int, bytes]) -> Vtep:
    return Vtep(
        number(data.get(IFLA_VXLAN_ID)),
        int.from_bytes(data.get(IFLA_VXLAN_PORT, b""), "big"),
        number(data.get(IFLA_VXLAN_LINK)),
        _shown(data.get(IFLA_VXLAN_LOCAL) or data.get(IFLA_VXLAN_LOCAL6)),
        _shown(data.get(IFLA_VXLAN_GROUP) or data.get(IFLA_VXLAN_GROUP6)),
    )


def _shown(payload: bytes | None) -> str:
    return str(ip_address(payload)) if payload else ""

"""Settings of a bridge and of its ports that Lanloom never changes, and that may stop frames once they are changed.

What is read is what differs from the kernel's own defaults, and only that is written: a setting that a kernel does not
know has no difference. The numbers are those of linux/if_link.h. Functions raise OSError with the kernel's number.
"""

import errno
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from lanloom.node.netlink.messages import (
    IFF_RUNNING,
    IFLA_BR_VLAN_FILTERING,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    RTM_NEWLINK,
    attribute,
    nested,
    number,
    request,
    tolerating,
    word,
)

IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 4, 5
IFLA_PROTO_DOWN, IFLA_VXLAN_LEARNING = 39, 7
FORWARDING = 3

_LINK = struct.Struct("=BxHiII")


class Setting(NamedTuple):
    """A setting of a bridge or port: the number of its attribute, and its value unless it was changed."""

    attribute: int
    value: int
    size: int = 1

    @property
    def payload(self) -> bytes:
        """The attribute with that value."""
        if self.size == 4:
            return word(self.attribute, self.value)
        return attribute(self.attribute, bytes([self.value]))


_PORT: Mapping[str, Setting] = {
    "hairpin": Setting(4, 0),
    "guard": Setting(5, 0),
    "root_block": Setting(6, 0),
    "flood": Setting(9, 1),
    "proxy_arp": Setting(10, 0),
    "proxy_arp_wifi": Setting(12, 0),
    "mcast_flood": Setting(27, 1),
    "mcast_to_unicast": Setting(28, 0),
    "vlan_tunnel": Setting(29, 0),
    "bcast_flood": Setting(30, 1),
    "neigh_suppress": Setting(32, 0),
    "backup_port": Setting(34, 0, 4),
    "neigh_vlan_suppress": Setting(43, 0),
}
"""Of a port, as `bridge -d link` calls them."""

_STATE, _LEARNING, _LOCKED, _ISOLATED, _MAB = Setting(1, FORWARDING), 8, 39, 33, Setting(40, 0)

_BRIDGE: Mapping[str, Setting] = {
    "stp_state": Setting(5, 0, 4),
    "vlan_filtering": Setting(IFLA_BR_VLAN_FILTERING, 0),
    "nf_call_iptables": Setting(36, 0),
    "nf_call_ip6tables": Setting(37, 0),
    "nf_call_arptables": Setting(38, 0),
}
"""Of a bridge, as `ip -d link` calls them."""

STATE, LEARNING, LOCKED, ISOLATED = "state", "learning", "locked", "isolated"
"""Further names: the state of spanning tree, which only a port with a carrier has; flags that ports of others lack."""


def port_drift(slave: Mapping[int, bytes], link: Mapping[int, bytes], flags: int) -> Iterator[str]:
    """Yield the names of what differs at a port of a bridge, which learns unless it is locked.

    There are none for another link.
    """
    if not slave:
        return
    yield from _changed(_PORT, slave)
    if flags & IFF_RUNNING and number(slave.get(_STATE.attribute)) != FORWARDING:
        yield STATE
    if _LEARNING in slave and bool(number(slave[_LEARNING])) == bool(number(slave.get(_LOCKED))):
        yield LEARNING
    if number(slave.get(_MAB.attribute)):
        yield "mab"
    if number(link.get(IFLA_PROTO_DOWN)):
        yield "protodown"


def link_drift(kind: str, data: Mapping[int, bytes]) -> Iterator[str]:
    """Yield the names of what differs at a bridge, or at a VXLAN link."""
    if kind == "bridge":
        yield from _changed(_BRIDGE, data)
    elif kind == "vxlan" and IFLA_VXLAN_LEARNING in data and not number(data[IFLA_VXLAN_LEARNING]):
        yield "vxlan_learning"


def _changed(settings: Mapping[str, Setting], found: Mapping[int, bytes]) -> Iterator[str]:
    for name, setting in settings.items():
        if setting.attribute in found and number(found[setting.attribute]) != setting.value:
            yield name


def mend_bridge(sock: socket.socket, index: int, names: Collection[str]) -> None:
    """Give a bridge the values of these settings."""
    data = b"".join(_BRIDGE[name].payload for name in sorted(names) if name in _BRIDGE)
    _change(sock, index, "bridge", data)


def mend_port(sock: socket.socket, index: int, names: Collection[str], *, locked: bool = False) -> None:
    """Give a port the values of these settings. A port whose carrier went meanwhile has no state to be set."""
    if "protodown" in names:
        request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + attribute(IFLA_PROTO_DOWN, b"\0"))
    if "vxlan_learning" in names:
        _change(sock, index, "vxlan", attribute(IFLA_VXLAN_LEARNING, b"\1"))
    settings = [_PORT[name] for name in sorted(names) if name in _PORT]
    settings += [_MAB] if "mab" in names else []
    settings += [Setting(_LEARNING, not locked)] if LEARNING in names else []
    settings += [
        Setting(each, 0) for name, each in ((LOCKED, _LOCKED), (ISOLATED, _ISOLATED)) if name in names
    ]
    if settings:
        _set(sock, index, settings)
    if STATE in names:
        with tolerating(errno.ENETDOWN, errno.EBUSY):
            _set(sock, index, [_STATE])


def _set(sock: socket.socket, index: int, settings: Collection[Setting]) -> None:
    data = b"".join(each.payload for each in settings)
    slave = attribute(IFLA_INFO_SLAVE_KIND, b"bridge") + nested(IFLA_INFO_SLAVE_DATA, data)
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + nested(IFLA_LINKINFO, slave))


def _change(sock: socket.socket, index: int, kind: str, data: bytes) -> None:
    info = attribute(IFLA_INFO_KIND, kind.encode()) + nested(IFLA_INFO_DATA, data)
    request(sock, RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + nested(IFLA_LINKINFO, info))

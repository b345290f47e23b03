"""Settings of a bridge and of its ports that Lanloom never changes, and that may stop frames once they are changed.

What is read is what differs from the kernel's own defaults, and only that is written: a setting that a kernel does not
know has no difference. The numbers are those of linux/if_link.h. Functions raise OSError with the kernel's number.
"""

import errno
import socket
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from lanloom.node.netlink.changes import change, info, port_info
from lanloom.node.netlink.messages import (
    IFF_RUNNING,
    IFLA_BR_STP_STATE,
    IFLA_BR_VLAN_FILTERING,
    IFLA_BRPORT_ISOLATED,
    IFLA_BRPORT_LEARNING,
    IFLA_BRPORT_LOCKED,
    IFLA_BRPORT_MODE,
    IFLA_BRPORT_STATE,
    IFLA_PROTO_DOWN,
    IFLA_VXLAN_LEARNING,
    attribute,
    number,
    tolerating,
    word,
)

LISTENING, FORWARDING = 1, 3
"""States of a port's spanning tree."""


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
    "hairpin": Setting(IFLA_BRPORT_MODE, 0),
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

_STATE, _MAB = Setting(IFLA_BRPORT_STATE, FORWARDING), Setting(40, 0)

_BRIDGE: Mapping[str, Setting] = {
    "stp_state": Setting(IFLA_BR_STP_STATE, 0, 4),
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
    learns, locked = slave.get(IFLA_BRPORT_LEARNING), slave.get(IFLA_BRPORT_LOCKED)
    if learns is not None and bool(number(learns)) == bool(number(locked)):
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
    for name, (attribute_type, value, _) in settings.items():
        if attribute_type in found and number(found[attribute_type]) != value:
            yield name


def mend_bridge(sock: socket.socket, index: int, names: Collection[str]) -> None:
    """Give a bridge the values of these settings."""
    data = b"".join(_BRIDGE[name].payload for name in sorted(names) if name in _BRIDGE)
    change(sock, index, info("bridge", data))


def mend_port(sock: socket.socket, index: int, names: Collection[str], *, locked: bool = False) -> None:
    """Give a port the values of these settings. A port whose carrier went meanwhile has no state to be set."""
    if "protodown" in names:
        change(sock, index, attribute(IFLA_PROTO_DOWN, b"\0"))
    if "vxlan_learning" in names:
        change(sock, index, info("vxlan", attribute(IFLA_VXLAN_LEARNING, b"\1")))
    settings = [_PORT[name] for name in sorted(names) if name in _PORT]
    settings += [_MAB] if "mab" in names else []
    settings += [Setting(IFLA_BRPORT_LEARNING, not locked)] if LEARNING in names else []
    flags = ((LOCKED, IFLA_BRPORT_LOCKED), (ISOLATED, IFLA_BRPORT_ISOLATED))
    settings += [Setting(each, 0) for name, each in flags if name in names]
    if settings:
        _set(sock, index, settings)
    if STATE in names:
        with tolerating(errno.ENETDOWN, errno.EBUSY):
            _set(sock, index, [_STATE])


def _set(sock: socket.socket, index: int, settings: Collection[Setting]) -> None:
    change(sock, index, port_info(b"".join(each.payload for each in settings)))

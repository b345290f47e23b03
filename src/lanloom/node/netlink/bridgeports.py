"""The way of one port to another bridge, and the state in which no frame passes it.

A function takes the socket of the namespace in which it acts. Everything raises OSError with the kernel's number and
words.
"""

import socket
import struct
from collections.abc import Iterable

from lanloom.node.links import KernelLink
from lanloom.node.netlink import changes
from lanloom.node.netlink.bridgevlans import vlans_message
from lanloom.node.netlink.messages import (
    IFLA_BRPORT_GROUP_FWD_MASK,
    IFLA_BRPORT_ISOLATED,
    IFLA_BRPORT_MODE,
    IFLA_BRPORT_STATE,
    IFLA_MTU,
    LINK,
    RTM_NEWLINK,
    attribute,
    batch,
    word,
)
from lanloom.node.vlanids import VlanEntry

_HALF = struct.Struct("=H")


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

    No frame may pass it before all of this holds; that is the caller's part. What `link` tells to be so already is not
    sent: each request may take the kernel a while. Bridges follow the MTU and the hardware address of their ports, so
    one of these that changes does so after the link has left its bridge, and before it joins the next.
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
    messages += [vlans_message(link.index, [entry], add=False) for entry in unwanted]
    messages += [vlans_message(link.index, [entry], add=True) for entry in entries]
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

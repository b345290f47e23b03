"""Forwarding entries of bridges and VXLAN links, as rtnetlink messages: what they know without learning it.

The numbers are those of linux/neighbour.h. Everything but dumps raises OSError with the kernel's number and words.
"""

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from lanloom.node.netlink import changes, overlay, reader
from lanloom.node.netlink.messages import (
    AF_BRIDGE,
    LINK,
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_REPLACE,
    attribute,
    attributes,
    dump,
    request,
    tolerating,
    word,
)

RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
NDA_DST, NDA_LLADDR, NDA_IFINDEX = 1, 2, 8
NTF_SELF, NTF_MASTER, NTF_STICKY = 2, 4, 0x40
NUD_PERMANENT, NUD_NOARP = 0x80, 0x40

ROOM, ATTEMPTS = 64, 5
"""How many learned entries of a full VXLAN link make room for one that stays, and how often that is tried."""

ANY_MAC = bytes(6)
"""The hardware address of entries for frames whose receiver is many, or unknown."""

_NEIGHBOUR = struct.Struct("=BxxxiHBB")


class Forwarding(NamedTuple):
    """Forwarding entries that no learning changes.

    `receivers` are addresses to which the VXLAN link sends frames for many; `sticky` are indices of bridge ports and
    `remote` peers of the VXLAN link, both by MAC address. `learned` is how many others the VXLAN link has.
    """

    receivers: frozenset[str]
    sticky: dict[str, int]
    remote: dict[str, str]
    learned: int = 0


def add_receiver(sock: socket.socket, index: int, peer: str, device: int) -> None:
    """Add a receiver of a VXLAN's frames for many. `device` is the index of its underlay link."""
    with _known(sock, peer, device) as remote:
        request(sock, RTM_NEWNEIGH, _receiver(index) + remote, flags=NLM_F_CREATE | NLM_F_APPEND)


def remove_receiver(sock: socket.socket, index: int, peer: str, device: int) -> None:
    """Remove a receiver. The number of the error is ENOENT where there was none."""
    with _known(sock, peer, device) as remote:
        request(sock, RTM_DELNEIGH, _receiver(index) + remote)


def add_static(sock: socket.socket, index: int, mac: str, peer: str = "", device: int = 0) -> None:
    """Pin a MAC address behind a port of a bridge for good; with a `peer`, also behind that one for the VXLAN link."""
    flags = NLM_F_CREATE | NLM_F_REPLACE
    if peer:
        with _known(sock, peer, device) as remote:
            request(sock, RTM_NEWNEIGH, _entry(index, NTF_SELF, mac) + remote, flags=flags)
    request(sock, RTM_NEWNEIGH, _entry(index, NTF_MASTER | NTF_STICKY, mac), flags=flags)


def remove_static(sock: socket.socket, index: int, mac: str, *, remote: bool) -> None:
    """Remove such an entry, the VXLAN link's where it is `remote`. The error's number is ENOENT where there is none."""
    request(sock, RTM_DELNEIGH, _entry(index, NTF_SELF if remote else NTF_MASTER, mac))


def _entry(index: int, flags: int, mac: str) -> bytes:
    # The VXLAN link wants permanent entries. A permanent one of a bridge would be the bridge's own address.
    state = NUD_NOARP | (NUD_PERMANENT if flags & NTF_SELF else 0)
    head = _NEIGHBOUR.pack(AF_BRIDGE, index, state, flags, 0)
    return head + attribute(NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))


def fixed(sock: socket.socket, vxlan: int) -> Forwarding:
    """Return the entries of all links of the namespace that no learning changes. Raises LinkError."""
    receivers: set[str] = set()
    sticky: dict[str, int] = {}
    remote: dict[str, str] = {}
    learned = 0
    for body in dump(sock, RTM_GETNEIGH, LINK.pack(AF_BRIDGE, 0, 0, 0, 0)):
        _, index, state, flags, _ = _NEIGHBOUR.unpack_from(body)
        if flags & NTF_STICKY:
            sticky[attributes(body, _NEIGHBOUR.size).get(NDA_LLADDR, b"").hex(":")] = index
        elif index == vxlan and state & (NUD_PERMANENT | NUD_NOARP):
            found = attributes(body, _NEIGHBOUR.size)
            mac, destination = found.get(NDA_LLADDR, b""), _destination(found)
            if destination and mac == ANY_MAC:
                receivers.add(destination)
            elif destination:
                remote[mac.hex(":")] = destination
        elif index == vxlan and flags & NTF_SELF:
            learned += 1
    return Forwarding(frozenset(receivers), sticky, remote, learned)


def learned_at_peers(sock: socket.socket, vxlan: int) -> list[str]:
    """Return the MAC addresses that a VXLAN link has learned to be at peers. Raises LinkError."""
    found = []
    for body in dump(sock, RTM_GETNEIGH, LINK.pack(AF_BRIDGE, 0, 0, 0, 0)):
        _, index, state, flags, _ = _NEIGHBOUR.unpack_from(body)
        if index == vxlan and flags & NTF_SELF and not state & (NUD_PERMANENT | NUD_NOARP):
            values = attributes(body, _NEIGHBOUR.size)
            if NDA_DST in values and NDA_LLADDR in values:
                found.append(values[NDA_LLADDR].hex(":"))
    return found


def with_room(sock: socket.socket, vxlan: int, add: Callable[[], None]) -> None:
    """Add an entry that stays, in the stead of learned ones where the VXLAN link is full.

    A flood may take their place before: then it is tried again, and at last the number of the error is ENOSPC.
    """
    for _ in range(ATTEMPTS):
        try:
            return add()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        for mac in learned_at_peers(sock, vxlan)[:ROOM]:
            with tolerating(errno.ENOENT):
                remove_static(sock, vxlan, mac, remote=True)
    return add()


def _receiver(index: int) -> bytes:
    head = _NEIGHBOUR.pack(AF_BRIDGE, index, NUD_PERMANENT | NUD_NOARP, NTF_SELF, 0)
    return head + attribute(NDA_LLADDR, ANY_MAC)


def _destination(found: dict[int, bytes]) -> str:
    """Return where an entry sends frames; empty for a link-local address without its link, to which nothing comes."""
    payload = found.get(NDA_DST)
    address = ip_address(payload) if payload else None
    if address is None or (_needs_link(address) and NDA_IFINDEX not in found):
        return ""
    return str(address)


def _needs_link(address: IPv4Address | IPv6Address) -> bool:
    return address.version == 6 and address.is_link_local


@contextmanager
def _known(sock: socket.socket, peer: str, device: int) -> Iterator[bytes]:
    """Yield the attributes by which a VXLAN link knows a peer.

    A link-local address is known with the underlay's link.
    The kernel takes the index of that link if the VXLAN's own namespace has a link of that index, whichever it is, and
    looks it up in the underlay's namespace later. So there is one for a moment.
    """
    address = ip_address(peer)
    remote = attribute(NDA_DST, address.packed)
    if not _needs_link(address):
        yield remote
        return
    with _placeholder(sock, device):
        yield remote + word(NDA_IFINDEX, device)


PLACEHOLDER = "lanloom-index-0"
"""The name of a link that is there for its index. It is longer than those that a LAN can name."""


@contextmanager
def _placeholder(sock: socket.socket, index: int) -> Iterator[None]:
    """Keep a link with this index in the namespace meanwhile: the one that has it, or one for that purpose alone.

    One that a dead process left is deleted first.
    """
    with tolerating(errno.ENODEV):
        changes.delete(sock, reader.link(sock, name=PLACEHOLDER).index)
    if index in reader.indices(sock):
        yield
        return
    overlay.add_bridge(sock, PLACEHOLDER, index=index)
    try:
        yield
    finally:
        changes.delete(sock, index)

"""Ports of guests, and packet sockets at them: everything blocks for a moment, in a thread of the pool.

What is behind a port is asked of the port's own namespace, which knows the pod's by a number: no pod's is entered. A
packet socket at a port gets each frame before the bridge does. A filter in the kernel leaves it what guests ask for
their addresses alone, and what the port sends is no matter for it: the other traffic of the port costs a few
instructions a frame.
"""

import asyncio
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from lanloom.features.ipam.dhcp.clients import PortId, SeenPort
from lanloom.node.errors import LinkError, NamespaceMissing
from lanloom.node.links import KernelLink
from lanloom.node.namespaces import OWN, open_namespace
from lanloom.node.netlink import reader
from lanloom.node.netlink.addressing import ip_addresses
from lanloom.node.netlink.bridgeports import vlans

T = TypeVar("T")

ETH_P_ALL = 3
"""Ports of bridges are heard by sockets for all protocols only: the bridge takes the frames before the others."""

SOL_PACKET, PACKET_IGNORE_OUTGOING, SO_ATTACH_FILTER = 263, 23, 26
BUFFER = 64 * 1024
"""Bytes of requests that wait: a guest that sends more than the agent reads loses its own."""

_VLAN_TAG, _PACKET_TYPE = 0xFFFFF000 + 48, 0xFFFFF000 + 4
_OUTGOING = 4
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_HALF_AT, _LOAD_HEADER = 0x20, 0x28, 0x30, 0x48, 0xB1
_IF_EQUAL, _IF_SET, _RETURN, _AND = 0x15, 0x45, 0x06, 0x54

_PROGRAM: tuple[str | tuple[int, int | str, int | str, int], ...] = (
    (_LOAD_WORD, 0, 0, _VLAN_TAG),
    (_IF_EQUAL, 0, "reject", 0),
    (_LOAD_WORD, 0, 0, _PACKET_TYPE),
    (_IF_EQUAL, "reject", 0, _OUTGOING),
    (_LOAD_HALF, 0, 0, 12),
    (_IF_EQUAL, 0, "version 6", 0x0800),
    (_LOAD_BYTE, 0, 0, 23),
    (_IF_EQUAL, 0, "reject", socket.IPPROTO_UDP),
    (_LOAD_HALF, 0, 0, 20),
    (_IF_SET, "reject", 0, 0x3FFF),
    (_LOAD_HEADER, 0, 0, 14),
    (_LOAD_HALF_AT, 0, 0, 16),
    (_IF_EQUAL, "accept", "reject", 67),
    "version 6",
    (_IF_EQUAL, 0, "reject", 0x86DD),
    (_LOAD_BYTE, 0, 0, 20),
    (_IF_EQUAL, 0, "discovery", socket.IPPROTO_UDP),
    (_LOAD_HALF, 0, 0, 56),
    (_IF_EQUAL, "accept", "reject", 547),
    "discovery",
    (_IF_EQUAL, 0, "reject", socket.IPPROTO_ICMPV6),
    (_LOAD_BYTE, 0, 0, 54),
    (_IF_EQUAL, "accept", 0, 133),
    (_IF_EQUAL, 0, "reject", 135),
    *(step for at in (22, 26, 30, 34) for step in ((_LOAD_WORD, 0, 0, at), (_IF_EQUAL, 0, "reject", 0))),
    (_LOAD_HALF, 0, 0, 62),
    (_AND, 0, 0, 0xFFC0),
    (_IF_EQUAL, "reject", "accept", 0xFE80),
    "accept",
    (_RETURN, 0, 0, 2048),
    "reject",
    (_RETURN, 0, 0, 0),
)
"""Untagged frames that came in, and are one of these. A text is the place at which a condition goes on.

IPv4: UDP, whole, to port 67. IPv6, without headers of extensions: UDP to port 547; solicitations of routers; and probes
for an address, which come from no address, unless it is link-local.
"""


class NetlinkGuestPorts:
    """`host` is the path of the node's own namespace."""

    def __init__(self, *, host: Path = OWN) -> None:
        self._host = host

    async def ports(
        self, bridges: Mapping[str, frozenset[str]], known: Mapping[PortId, SeenPort]
    ) -> tuple[SeenPort, ...]:
        """Implement the port."""
        found = await asyncio.to_thread(
            lambda: [self._ports(ns, names, known) for ns, names in bridges.items()]
        )
        return tuple(port for each in found for port in each)

    async def listen(self, port: PortId) -> socket.socket:
        """Implement the port."""
        return await asyncio.to_thread(self._listen, port)

    def _path(self, ns: str) -> Path:
        return Path(ns) if ns else self._host

    def _ports(self, ns: str, bridges: frozenset[str], known: Mapping[PortId, SeenPort]) -> list[SeenPort]:
        try:
            with open_namespace(self._path(ns)) as opened, opened.socket() as sock:
                return list(_seen(ns, sock, bridges, known))
        except NamespaceMissing:
            return []

    def _listen(self, port: PortId) -> socket.socket:
        with open_namespace(self._path(port.ns)) as opened:
            try:
                return opened.call(lambda: _packet_socket(port.index))
            except OSError as error:
                remedy = "; the agent needs the right NET_RAW" if error.errno == errno.EPERM else ""
                raise LinkError(
                    f"can't listen at the link {port.index} of {port.ns or 'the node'}: "
                    f"{os.strerror(error.errno or 0)}{remedy}"
                ) from error


def _seen(
    ns: str, sock: socket.socket, bridges: frozenset[str], known: Mapping[PortId, SeenPort]
) -> Iterator[SeenPort]:
    links = {link.index: link for link in reader.links(sock)}
    masters = {
        link.index: link.name
        for link in links.values()
        if link.kind == "bridge" and (not bridges or link.name in bridges)
    }
    untagged = {
        index: entry.first
        for index, entries in (vlans(sock) if masters else {}).items()
        for entry in entries
        if entry.pvid
    }
    for link in links.values():
        if link.kind != "veth" or link.master not in masters:
            continue
        port = SeenPort(
            id=PortId(ns, link.index),
            name=link.name,
            bridge=masters[link.master],
            vlan=untagged.get(link.index, 0),
            mac=link.mac,
            mtu=link.mtu,
        )
        before = known.get(port.id)
        if before is not None and port == replace(before, peer="", macs={}, addresses=frozenset()):
            yield before
            continue
        behind, addresses = _behind(sock, link, links)
        if (peer := behind.get(link.lower)) is not None:
            macs = {each.name: each.mac for each in behind.values()}
            yield replace(port, peer=peer.name, macs=macs, addresses=addresses)


def _behind(
    sock: socket.socket, link: KernelLink, links: Mapping[int, KernelLink]
) -> tuple[Mapping[int, KernelLink], frozenset[str]]:
    """Return the links and addresses of the namespace of a port's other end; none of one that went meanwhile."""
    if link.nsid is None:
        return {link.lower: links[link.lower]} if link.lower in links else {}, frozenset()
    try:
        found = {each.index: each for each in reader.links(sock, link.nsid)}
        return found, ip_addresses(sock, link.nsid)
    except LinkError:
        return {}, frozenset()


def _packet_socket(index: int) -> socket.socket:
    """Return a socket that hears nothing before its filter is there: it is for no protocol until it is bound."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0)
    try:
        _attach_filter(sock)
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        sock.bind((socket.if_indextoname(index), ETH_P_ALL))
    except OSError:
        sock.close()
        raise
    return sock


def _attach_filter(sock: socket.socket) -> None:
    code = _assembled()
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


_INSTRUCTION = struct.Struct("=HBBI")


def _assembled() -> bytes:
    """Return the program as the kernel takes it: a jump is a number of instructions to leave out."""
    steps: list[tuple[int, int | str, int | str, int]] = []
    places: dict[str, int] = {}
    for item in _PROGRAM:
        if isinstance(item, str):
            places[item] = len(steps)
        else:
            steps.append(item)
    return b"".join(
        _INSTRUCTION.pack(
            operation,
            *(places[jump] - at - 1 if isinstance(jump, str) else jump for jump in (yes, no)),
            value,
        )
        for at, (operation, yes, no, value) in enumerate(steps)
    )

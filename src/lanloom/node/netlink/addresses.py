"""The addresses of links, from the kernel's dumps. The numbers are those of linux/if_addr.h and rtnetlink.h."""

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Interface

from lanloom.node.netlink.messages import Attributes, attribute, attributes, dump, request

RTM_DELADDR, RTM_GETADDR = 21, 22
IFA_ADDRESS, IFA_LOCAL = 1, 2

_ADDRESS = struct.Struct("=BBBBI")


def ipv4_addresses(sock: socket.socket) -> dict[int, list[str]]:
    """The IPv4 addresses of every link as CIDRs, ordered, by the link's index."""
    found: dict[int, list[tuple[IPv4Address, int]]] = {}
    for index, length, values in _dumped(sock, socket.AF_INET):
        address = IPv4Address(values.get(IFA_LOCAL) or values[IFA_ADDRESS])
        found.setdefault(index, []).append((address, length))
    return {
        index: [f"{address}/{length}" for address, length in sorted(each)] for index, each in found.items()
    }


def ipv6_addresses(sock: socket.socket, index: int) -> list[IPv6Interface]:
    """The IPv6 addresses of one link."""
    return [
        IPv6Interface((values.get(IFA_LOCAL) or values[IFA_ADDRESS], length))
        for each, length, values in _dumped(sock, socket.AF_INET6)
        if each == index
    ]


def remove_ipv6_address(sock: socket.socket, index: int, address: IPv6Interface) -> None:
    """Takes an address from a link. Raises OSError."""
    head = _ADDRESS.pack(socket.AF_INET6, address.network.prefixlen, 0, 0, index)
    request(sock, RTM_DELADDR, head + attribute(IFA_LOCAL, address.packed))


def _dumped(sock: socket.socket, wanted: int) -> Iterator[tuple[int, int, Attributes]]:
    """Index, prefix length and attributes; a kernel without a family answers with the addresses of the others."""
    for body in dump(sock, RTM_GETADDR, _ADDRESS.pack(wanted, 0, 0, 0, 0)):
        family, length, _, _, index = _ADDRESS.unpack_from(body)
        if family == wanted:
            yield index, length, attributes(body, _ADDRESS.size)

"""Frames that tell a network where a machine is now, as the machine would send them: RARP, ARP and neighbour discovery.

Switches and bridges learn the place of a hardware address from any frame, so a RARP request, as QEMU sends it after a
migration, is enough for a guest without known addresses. For those that are known a gratuitous ARP request, and for
IPv6 an unsolicited neighbour advertisement, replace what neighbours remember.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import pack

ADDRESSES_MAX = 32
"""Addresses of one NIC that are announced."""

_BROADCAST, _ALL_NODES_MAC, _ALL_NODES = b"\xff" * 6, bytes.fromhex("333300000001"), IPv6Address("ff02::1")
_ARP, _RARP, _IPV6, _ICMPV6 = 0x0806, 0x8035, 0x86DD, 58
_REQUEST, _REVERSE_REQUEST = 1, 3
_ADVERTISEMENT, _OVERRIDE, _TARGET_LINK = 136, 0x2000_0000, 2
_SHORTEST = 60


def frames(mac: str, addresses: Iterable[str]) -> tuple[bytes, ...]:
    """Return the frames for a hardware address and its IP addresses. Texts that are no addresses are left out."""
    source = bytes.fromhex(mac.replace(":", ""))
    found = [_address(text) for text in addresses]
    known = list(dict.fromkeys(item for item in found if item is not None))[:ADDRESSES_MAX]
    return (_reverse(source), *(_announced(source, item) for item in known))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text.partition("/")[0])
    except ValueError:
        return None
    return None if found.is_loopback or found.is_multicast or found.is_unspecified else found


def _announced(source: bytes, address: IPv4Address | IPv6Address) -> bytes:
    return (
        _gratuitous(source, address) if isinstance(address, IPv4Address) else _advertisement(source, address)
    )


def _reverse(source: bytes) -> bytes:
    return _padded(
        _BROADCAST + source + pack(">H", _RARP) + _arp(_REVERSE_REQUEST, source, bytes(4), source, bytes(4))
    )


def _gratuitous(source: bytes, address: IPv4Address) -> bytes:
    packed = address.packed
    return _padded(_BROADCAST + source + pack(">H", _ARP) + _arp(_REQUEST, source, packed, bytes(6), packed))


def _arp(operation: int, source: bytes, sender: bytes, target: bytes, wanted: bytes) -> bytes:
    return pack(">HHBBH", 1, 0x0800, 6, 4, operation) + source + sender + target + wanted


def _advertisement(source: bytes, address: IPv6Address) -> bytes:
    option = bytes([_TARGET_LINK, 1]) + source
    body = pack(">BBHI", _ADVERTISEMENT, 0, 0, _OVERRIDE) + address.packed + option
    pseudo = address.packed + _ALL_NODES.packed + pack(">II", len(body), _ICMPV6)
    body = body[:2] + pack(">H", _checksum(pseudo + body)) + body[4:]
    head = pack(">IHBB", 6 << 28, len(body), _ICMPV6, 255) + address.packed + _ALL_NODES.packed
    return _padded(_ALL_NODES_MAC + source + pack(">H", _IPV6) + head + body)


def _checksum(data: bytes) -> int:
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _padded(frame: bytes) -> bytes:
    return frame + bytes(max(_SHORTEST - len(frame), 0))

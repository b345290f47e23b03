"""DHCPv4 on the wire (RFC 2131, 2132, 3396, 3442): a frame of a client is read, an answer to it is written.

Guests write these frames, so anything may be in them: what is no request of a client is None, and nothing raises.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network

from msgspec import Struct

ANY = IPv4Address(0)
BROADCAST = IPv4Address("255.255.255.255")
SERVER_PORT, CLIENT_PORT = 67, 68
SMALLEST, LARGEST = 576, 1500
"""Bytes of an IP packet that each client takes, and the most that is written for one that takes more."""


class Kind(IntEnum):
    """The type of a message."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    DECLINE = 4
    ACK = 5
    NAK = 6
    RELEASE = 7
    INFORM = 8


class Request(Struct, frozen=True, kw_only=True):
    """What a client sends. `source` and `client` are hardware addresses: that of the frame, and the one it speaks for.

    `to` is where the packet goes, `has` the address that the client uses already, `relay` that of a relay agent; each
    is ANY for none. `wants` and `server` are None where the client does not say. `identifier` is its own name, which an
    answer repeats, and `largest` the size of a packet that it takes.
    """

    kind: Kind
    source: str
    client: str
    transaction: int
    to: IPv4Address = BROADCAST
    broadcast: bool = False
    has: IPv4Address = ANY
    relay: IPv4Address = ANY
    wants: IPv4Address | None = None
    server: IPv4Address | None = None
    identifier: bytes = b""
    largest: int = SMALLEST


class GuestRoute(Struct, frozen=True):
    """A route; `router` is ANY for what is on the link."""

    to: IPv4Network
    router: IPv4Address = ANY


class Answer(Struct, frozen=True, kw_only=True):
    """What a server says. A refusal has no more than `kind` and `server`.

    `address` is ANY for a client that has one by other means, and `seconds` 0: such a client gets no lease. `renew` and
    `rebind` are seconds, too. Empty fields are left out.
    """

    kind: Kind
    server: IPv4Address
    address: IPv4Address = ANY
    mask: IPv4Address = ANY
    router: IPv4Address | None = None
    dns: tuple[IPv4Address, ...] = ()
    domain: str = ""
    search: tuple[str, ...] = ()
    host: str = ""
    mtu: int = 0
    routes: tuple[GuestRoute, ...] = ()
    seconds: int = 0
    renew: int = 0
    rebind: int = 0


_ETHERNET = struct.Struct("!6s6sH")
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_BOOTP = struct.Struct("!BBBBIHH4s4s4s4s16s64x128xI")
_IPV4, _UDP_PROTOCOL, _FRAGMENT = 0x0800, 17, 0x3FFF
_REQUEST, _REPLY, _ON_ETHERNET, _MAC_LENGTH, _BROADCAST = 1, 2, 1, 6, 0x8000
_COOKIE = 0x63825363
_BROADCAST_MAC = "ff:ff:ff:ff:ff:ff"

_PAD, _END = 0, 255
_MASK, _ROUTER, _DNS, _HOST, _DOMAIN, _MTU = 1, 3, 6, 12, 15, 26
_WANTS, _SECONDS, _KIND, _SERVER, _LARGEST, _RENEW, _REBIND = 50, 51, 53, 54, 57, 58, 59
_IDENTIFIER, _SEARCH, _ROUTES = 61, 119, 121
_PART = 255


def read(frame: bytes) -> Request | None:
    """Return the request in an Ethernet frame; None if there is none."""
    try:
        return _read(frame)
    except (struct.error, ValueError):
        return None


def _read(frame: bytes) -> Request | None:
    _, source, protocol = _ETHERNET.unpack_from(frame)
    packet = frame[_ETHERNET.size :]
    first, _, length, _, fragment, _, transport, _, _, to = _IP.unpack_from(packet)
    head = (first & 0x0F) * 4
    if protocol != _IPV4 or first >> 4 != 4 or head < _IP.size or transport != _UDP_PROTOCOL:
        return None
    if fragment & _FRAGMENT or not head + _UDP.size <= length <= len(packet):
        return None
    _, port, size, _ = _UDP.unpack_from(packet, head)
    if port != SERVER_PORT or not _UDP.size + _BOOTP.size <= size <= length - head:
        return None
    return _message(packet[head + _UDP.size : head + size], source.hex(":"), IPv4Address(to))


def _message(body: bytes, source: str, to: IPv4Address) -> Request | None:
    operation, hardware, mac_length, _, transaction, _, flags, has, _, _, relay, client, cookie = (
        _BOOTP.unpack_from(body)
    )
    if (operation, hardware, mac_length, cookie) != (_REQUEST, _ON_ETHERNET, _MAC_LENGTH, _COOKIE):
        return None
    options = _options(body[_BOOTP.size :])
    kind = options.get(_KIND, b"")
    if len(kind) != 1:
        return None
    return Request(
        kind=Kind(kind[0]),
        source=source,
        client=client[:_MAC_LENGTH].hex(":"),
        transaction=transaction,
        to=to,
        broadcast=bool(flags & _BROADCAST),
        has=IPv4Address(has),
        relay=IPv4Address(relay),
        wants=_address(options.get(_WANTS)),
        server=_address(options.get(_SERVER)),
        identifier=options.get(_IDENTIFIER, b"")[:_PART],
        largest=_largest(options.get(_LARGEST, b"")),
    )


def _options(data: bytes) -> dict[int, bytes]:
    """Return what is given in several parts is one option (RFC 3396); one that is cut off ends the list."""
    found: dict[int, bytes] = {}
    offset = 0
    while offset < len(data) and data[offset] != _END:
        if data[offset] == _PAD:
            offset += 1
            continue
        if offset + 2 > len(data) or offset + 2 + data[offset + 1] > len(data):
            break
        end = offset + 2 + data[offset + 1]
        found[data[offset]] = found.get(data[offset], b"") + data[offset + 2 : end]
        offset = end
    return found


def _address(value: bytes | None) -> IPv4Address | None:
    return IPv4Address(value) if value is not None and len(value) == 4 else None


def _largest(value: bytes) -> int:
    return min(max(int.from_bytes(value), SMALLEST), LARGEST) if len(value) == 2 else SMALLEST


def write(answer: Answer, request: Request, mac: str) -> bytes:
    """Return the frame of an answer, from the hardware address `mac`."""
    refused = answer.kind == Kind.NAK
    body = _BOOTP.pack(
        _REPLY,
        _ON_ETHERNET,
        _MAC_LENGTH,
        0,
        request.transaction,
        0,
        _BROADCAST if request.broadcast or refused else 0,
        (ANY if refused else request.has).packed,
        answer.address.packed,
        ANY.packed,
        ANY.packed,
        octets(request.client),
        _COOKIE,
    )
    room = request.largest - _IP.size - _UDP.size - len(body) - 1
    body += b"".join(_fitting(_answered(answer, request), room)) + bytes((_END,))
    far, to = _receiver(answer, request)
    datagram = _datagram(answer.server, to, body)
    return _ETHERNET.pack(octets(far), octets(mac), _IPV4) + _packet(answer.server, to, datagram)


def _receiver(answer: Answer, request: Request) -> tuple[str, IPv4Address]:
    """Return the hardware and IP address to which an answer goes: RFC 2131, 4.1."""
    if answer.kind == Kind.NAK:
        return _BROADCAST_MAC, BROADCAST
    if request.has != ANY:
        return request.client, request.has
    if request.broadcast:
        return _BROADCAST_MAC, BROADCAST
    return request.client, answer.address


def _answered(answer: Answer, request: Request) -> Iterator[tuple[int, bytes]]:
    """Yield the options, the most important ones first, as the last ones may not fit."""
    yield _KIND, bytes((answer.kind,))
    yield _SERVER, answer.server.packed
    yield _IDENTIFIER, request.identifier
    for option, seconds in ((_SECONDS, answer.seconds), (_RENEW, answer.renew), (_REBIND, answer.rebind)):
        yield option, seconds.to_bytes(4) if seconds else b""
    yield _MASK, answer.mask.packed if answer.mask != ANY else b""
    yield _ROUTER, answer.router.packed if answer.router is not None else b""
    yield _ROUTES, b"".join(map(_route, answer.routes))
    yield _DNS, b"".join(server.packed for server in answer.dns)
    yield _MTU, answer.mtu.to_bytes(2) if answer.mtu else b""
    yield _HOST, answer.host.encode()
    yield _DOMAIN, answer.domain.encode()
    yield _SEARCH, b"".join(map(labels, answer.search))


def _fitting(options: Iterable[tuple[int, bytes]], room: int) -> Iterator[bytes]:
    """Yield each option as a whole, or not at all."""
    for option, value in options:
        parts = [value[at : at + _PART] for at in range(0, len(value), _PART)]
        text = b"".join(bytes((option, len(part))) + part for part in parts)
        if len(text) <= room:
            room -= len(text)
            yield text


def _route(route: GuestRoute) -> bytes:
    """Return the length of the prefix, as much of the destination as that needs, and the router: RFC 3442."""
    length = route.to.prefixlen
    return bytes((length,)) + route.to.network_address.packed[: (length + 7) // 8] + route.router.packed


def labels(name: str) -> bytes:
    """Return a domain name as DNS writes it (RFC 1035, 3.1)."""
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"


def _datagram(source: IPv4Address, to: IPv4Address, body: bytes) -> bytes:
    size = _UDP.size + len(body)
    pseudo = source.packed + to.packed + struct.pack("!HH", _UDP_PROTOCOL, size)
    found = checksum(pseudo + _UDP.pack(SERVER_PORT, CLIENT_PORT, size, 0) + body) or 0xFFFF
    return _UDP.pack(SERVER_PORT, CLIENT_PORT, size, found) + body


def _packet(source: IPv4Address, to: IPv4Address, datagram: bytes) -> bytes:
    fields = (0x45, 0xC0, _IP.size + len(datagram), 0, 0x4000, 64, _UDP_PROTOCOL)
    ends = (source.packed, to.packed)
    return _IP.pack(*fields, checksum(_IP.pack(*fields, 0, *ends)), *ends) + datagram


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071); 0 where `data` has its own, and that is right."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def octets(text: str) -> bytes:
    """Return a hardware address as it is on the wire."""
    return bytes.fromhex(text.replace(":", ""))

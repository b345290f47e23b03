"""DHCPv6 and router discovery on the wire (RFC 8415, 4861): a frame of a client is read, answers to it are written.

Guests write these frames, so anything may be in them: what breaks a rule of its RFC is None, and nothing raises. Only
checksums of UDP are not verified, as a guest may leave them to hardware that is not there.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from ipaddress import IPv6Address, IPv6Network
from uuid import UUID

from msgspec import Struct

from lanloom.features.ipam.dhcp.packet import checksum, labels, octets

SERVER = IPv6Address("fe80::a9fe:43")
"""The link-local address of every server of Lanloom: what follows the prefix is 169.254.0.67."""

SERVER_DUID = b"\0\4" + UUID("5d4a86e5-3f0c-5f0b-9d5e-8a2c3f1b6743").bytes
"""The identifier of every server of Lanloom (DUID-UUID): a machine that migrates finds the same one."""

NOWHERE = IPv6Address(0)
EVERY_NODE, EVERY_ROUTER = IPv6Address("ff02::1"), IPv6Address("ff02::2")
EVERY_SERVER = IPv6Address("ff02::1:2")
SERVER_PORT, CLIENT_PORT = 547, 546
LARGEST = 1280
"""Bytes of an IP packet that each link carries."""


class Kind6(IntEnum):
    """The type of a message that clients send, or that a server answers."""

    SOLICIT = 1
    ADVERTISE = 2
    REQUEST = 3
    CONFIRM = 4
    RENEW = 5
    REBIND = 6
    REPLY = 7
    RELEASE = 8
    DECLINE = 9
    INFORMATION_REQUEST = 11


class Status(IntEnum):
    """The result of a message, or of an association."""

    SUCCESS = 0
    NO_ADDRESSES = 2
    NOT_ON_LINK = 4


class Association(Struct, frozen=True):
    """What a client calls a set of addresses (IA_NA): the octets of its number, and the addresses that it names."""

    id: bytes
    addresses: tuple[IPv6Address, ...] = ()


class Message(Struct, frozen=True, kw_only=True):
    """A message of a client. `source` is the hardware address of its frame, `sender` its link-local address.

    `client` and `server` are DUIDs, empty where there is none. With `rapid`, the client takes a lease without an offer.
    """

    kind: Kind6
    source: str
    sender: IPv6Address
    transaction: bytes
    client: bytes = b""
    server: bytes = b""
    associations: tuple[Association, ...] = ()
    rapid: bool = False


class Solicitation(Struct, frozen=True, kw_only=True):
    """A host that asks for routers. `sender` is NOWHERE for one that has no address yet."""

    source: str
    sender: IPv6Address = NOWHERE


class Probe(Struct, frozen=True, kw_only=True):
    """A host that is about to use an address, and asks who has it (RFC 4862, 5.4.2)."""

    source: str
    target: IPv6Address


Heard6 = Message | Solicitation | Probe


class Granted(Struct, frozen=True, kw_only=True):
    """What a client gets for an association, and which addresses it must not use any more."""

    id: bytes
    addresses: tuple[IPv6Address, ...] = ()
    former: tuple[IPv6Address, ...] = ()
    status: Status = Status.SUCCESS


class Answer6(Struct, frozen=True, kw_only=True):
    """What a server says. `seconds`, `renew` and `rebind` are times of a lease; empty fields are left out."""

    kind: Kind6
    status: Status | None = None
    granted: tuple[Granted, ...] = ()
    seconds: int = 0
    renew: int = 0
    rebind: int = 0
    refresh: int = 0
    rapid: bool = False
    dns: tuple[IPv6Address, ...] = ()
    search: tuple[str, ...] = ()


class Advertisement(Struct, frozen=True, kw_only=True):
    """What a server says in place of a router: that there is DHCPv6, and which prefix is on the link for how long.

    It is no router's word on routes: no client gets a default route of it, nor makes an address of the prefix.
    """

    prefix: IPv6Network
    seconds: int
    mtu: int = 0


_ETHERNET = struct.Struct("!6s6sH")
_IP = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_IPV6, _UDP_PROTOCOL, _ICMP, _HOPS = 0x86DD, 17, 58, 255
_SOLICITATION, _ADVERTISEMENT, _NEIGHBOUR = 133, 134, 135
_LINK_ADDRESS, _PREFIX, _MTU = 1, 3, 5
_MANAGED, _ON_LINK = 0xC0, 0x80
_SMALLEST_MTU = 1280

_CLIENT, _SERVER, _IA_NA, _IA_ADDRESS, _PREFERENCE, _STATUS, _RAPID, _DNS, _SEARCH, _REFRESH = (
    1,
    2,
    3,
    5,
    7,
    13,
    14,
    23,
    24,
    32,
)
_ONCE = frozenset({_CLIENT, _SERVER, _RAPID})
_DUID_MIN, _DUID_MAX = 3, 130
_ASSOCIATIONS_MAX, _ADDRESSES_MAX = 4, 8
_SURE = 255


def read6(frame: bytes) -> Heard6 | None:
    """Return what a client says in an Ethernet frame; None for anything else."""
    try:
        return _read(frame)
    except (struct.error, ValueError):
        return None


def _read(frame: bytes) -> Heard6 | None:
    _, mac, protocol = _ETHERNET.unpack_from(frame)
    first, length, transport, hops, source, target = _IP.unpack_from(frame, _ETHERNET.size)
    start = _ETHERNET.size + _IP.size
    body = frame[start : start + length]
    if protocol != _IPV6 or first >> 28 != 6 or len(body) != length:
        return None
    near, sender, to = mac.hex(":"), IPv6Address(source), IPv6Address(target)
    if transport == _UDP_PROTOCOL:
        _, port, size, _ = _UDP.unpack_from(body)
        fits = sender.is_link_local and to == EVERY_SERVER and port == SERVER_PORT and size == length
        return _message(body[_UDP.size :], near, sender) if fits else None
    if transport != _ICMP or hops != _HOPS or checksum(_pseudo(sender, to, _ICMP, length) + body):
        return None
    return _discovery(body, near, sender, to)


def _discovery(body: bytes, near: str, sender: IPv6Address, to: IPv6Address) -> Heard6 | None:
    """Return what RFC 4861 (6.1.1, 7.1.1) finds valid. A probe is asked by a host without an address, of all."""
    kind, code = body[:2]
    if code:
        return None
    if kind == _SOLICITATION and len(body) >= 8:
        named = _LINK_ADDRESS in _kinds(body[8:])
        bare = sender == NOWHERE
        if to != EVERY_ROUTER or not (bare or sender.is_link_local) or (bare and named):
            return None
        return Solicitation(source=near, sender=sender)
    if kind == _NEIGHBOUR and len(body) >= 24 and sender == NOWHERE:
        target = IPv6Address(body[8:24])
        asks_all = to == IPv6Address(b"\xff\2" + bytes(9) + b"\1\xff" + target.packed[13:])
        usable = not (target.is_multicast or target.is_link_local or target == NOWHERE)
        if asks_all and usable and _LINK_ADDRESS not in _kinds(body[24:]):
            return Probe(source=near, target=target)
    return None


def _kinds(data: bytes) -> set[int]:
    """Return the kinds of options of router discovery. Raises ValueError if one is empty or cut off."""
    found, offset = set(), 0
    while offset < len(data):
        kind, size = struct.unpack_from("!BB", data, offset)
        offset += size * 8
        if not size or offset > len(data):
            raise ValueError("an option that has no end")
        found.add(kind)
    return found


def _message(body: bytes, source: str, sender: IPv6Address) -> Message | None:
    if len(body) < 4:
        return None
    options = list(_options(body[4:]))
    single = [code for code, _ in options if code in _ONCE]
    if len(single) != len(set(single)):
        return None
    known = dict(options)
    client, server = known.get(_CLIENT, b""), known.get(_SERVER, b"")
    if not all(_DUID_MIN <= len(each) <= _DUID_MAX for each in (client, server) if each):
        return None
    found = (_association(value) for code, value in options if code == _IA_NA)
    return Message(
        kind=Kind6(body[0]),
        source=source,
        sender=sender,
        transaction=body[1:4],
        client=client,
        server=server,
        associations=tuple(found)[:_ASSOCIATIONS_MAX],
        rapid=_RAPID in known,
    )


def _association(value: bytes) -> Association:
    if len(value) < 12:
        raise ValueError("an association that is cut off")
    found = []
    for code, each in _options(value[12:]):
        if code == _IA_ADDRESS:
            if len(each) < 24:
                raise ValueError("an address that is cut off")
            found.append(IPv6Address(each[:16]))
    return Association(value[:4], tuple(dict.fromkeys(found))[:_ADDRESSES_MAX])


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield codes and values. Raises ValueError or struct.error if one is cut off."""
    offset = 0
    while offset < len(data):
        code, size = struct.unpack_from("!HH", data, offset)
        offset += 4 + size
        if offset > len(data):
            raise ValueError("an option that is cut off")
        yield code, data[offset - size : offset]


def write6(answer: Answer6, message: Message, mac: str) -> bytes:
    """Return the frame of an answer, from the hardware address `mac`."""
    body = bytes((answer.kind,)) + message.transaction
    body += b"".join(_fitting(_answered(answer, message), LARGEST - _IP.size - _UDP.size - len(body)))
    size = _UDP.size + len(body)
    ends = _pseudo(SERVER, message.sender, _UDP_PROTOCOL, size)
    found = checksum(ends + _UDP.pack(SERVER_PORT, CLIENT_PORT, size, 0) + body) or 0xFFFF
    datagram = _UDP.pack(SERVER_PORT, CLIENT_PORT, size, found) + body
    return _frame(message.source, mac, message.sender, _UDP_PROTOCOL, datagram)


def _answered(answer: Answer6, message: Message) -> Iterator[bytes]:
    """Yield the options, the most important ones first, as the last ones may not fit."""
    if message.client:
        yield _option(_CLIENT, message.client)
    yield _option(_SERVER, SERVER_DUID)
    if answer.status is not None:
        yield _option(_STATUS, answer.status.to_bytes(2))
    yield from (_option(_IA_NA, _grant(each, answer)) for each in answer.granted)
    if answer.kind == Kind6.ADVERTISE:
        yield _option(_PREFERENCE, bytes((_SURE,)))
    if answer.rapid:
        yield _option(_RAPID, b"")
    if answer.dns:
        yield _option(_DNS, b"".join(server.packed for server in answer.dns))
    if answer.search:
        yield _option(_SEARCH, b"".join(map(labels, answer.search)))
    if answer.refresh:
        yield _option(_REFRESH, answer.refresh.to_bytes(4))


def _fitting(options: Iterable[bytes], room: int) -> Iterator[bytes]:
    """Yield each option as a whole, or not at all."""
    for option in options:
        if len(option) <= room:
            room -= len(option)
            yield option


def _grant(granted: Granted, answer: Answer6) -> bytes:
    times = (answer.renew, answer.rebind) if granted.addresses else (0, 0)
    value = granted.id + struct.pack("!II", *times)
    for addresses, seconds in ((granted.addresses, answer.seconds), (granted.former, 0)):
        for address in addresses:
            value += _option(_IA_ADDRESS, address.packed + struct.pack("!II", seconds, seconds))
    return value + (_option(_STATUS, granted.status.to_bytes(2)) if granted.status else b"")


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("!HH", code, len(value)) + value


def advertise(said: Advertisement, heard: Message | Solicitation, mac: str) -> bytes:
    """Return the frame of a router advertisement to the sender of `heard`, from the hardware address `mac`.

    A router's lifetime of 0 makes it no default router (RFC 4861, 4.2). It names no hardware address of its own, and
    goes to the guest's alone: a macvtap may drop what goes to many (RFC 6085).
    """
    body = struct.pack("!BBHBBHII", _ADVERTISEMENT, 0, 0, 0, _MANAGED, 0, 0, 0)
    body += struct.pack(
        "!BBBBIII", _PREFIX, 4, said.prefix.prefixlen, _ON_LINK, said.seconds, said.seconds, 0
    )
    body += said.prefix.network_address.packed
    if said.mtu >= _SMALLEST_MTU:
        body += struct.pack("!BBHI", _MTU, 1, 0, said.mtu)
    to = heard.sender if heard.sender != NOWHERE else EVERY_NODE
    found = checksum(_pseudo(SERVER, to, _ICMP, len(body)) + body)
    return _frame(heard.source, mac, to, _ICMP, body[:2] + found.to_bytes(2) + body[4:])


def _frame(far: str, near: str, to: IPv6Address, transport: int, body: bytes) -> bytes:
    ethernet = _ETHERNET.pack(octets(far), octets(near), _IPV6)
    return ethernet + _IP.pack(6 << 28, len(body), transport, _HOPS, SERVER.packed, to.packed) + body


def _pseudo(source: IPv6Address, to: IPv6Address, transport: int, size: int) -> bytes:
    return source.packed + to.packed + struct.pack("!II", size, transport)

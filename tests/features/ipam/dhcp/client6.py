"""An IPv6 host of tests: frames as it sends them, and what it reads of answers, by RFC 8415 and RFC 4861 alone."""

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.features.ipam.dhcp.client import MAC, raw, total

SOLICIT, ADVERTISE, REQUEST, CONFIRM, RENEW, REBIND, REPLY, RELEASE, DECLINE, RECONFIGURE, INFORM = range(
    1, 12
)
ROUTERS, SERVERS, BROADCAST = "ff02::2", "ff02::1:2", "ff02::1"
LINK_LOCAL = "fe80::2"
DUID = bytes.fromhex("000300010200000000aa")
TRANSACTION = b"\1\2\3"
UDP, ICMP = 17, 58

Fields = Mapping[str, Any]


class Heard6(NamedTuple):
    """An answer of a server. `addresses` are those of all associations: their seconds by address."""

    far: str
    near: str
    source: str
    to: str
    kind: int
    transaction: bytes
    options: Mapping[int, bytes]
    associations: Mapping[bytes, Mapping[int, list[bytes]]]

    @property
    def addresses(self) -> dict[str, int]:
        """The valid lifetimes by address."""
        found = [each for options in self.associations.values() for each in options.get(5, [])]
        return {text(each[:16]): int.from_bytes(each[20:24]) for each in found}


class Advertised(NamedTuple):
    """A router advertisement."""

    far: str
    near: str
    source: str
    to: str
    flags: int
    lifetime: int
    options: Mapping[int, bytes]


def message(
    kind: int = SOLICIT,
    *,
    server: bytes = b"",
    client: bytes = DUID,
    addresses: Sequence[str] | None = (),
    associations: Sequence[tuple[bytes, Sequence[str]]] | None = None,
    options: bytes = b"",
    **fields: Any,
) -> bytes:
    """A message to all servers; `addresses` are those of one association, None for no association."""
    groups = (
        associations if associations is not None else [(b"\0\0\0\1", addresses)] * (addresses is not None)
    )
    said = bytes((kind,)) + TRANSACTION
    said += option(1, client) * bool(client) + option(2, server) * bool(server)
    for number, each in groups:
        said += association(number, each)
    return packet(datagram(said + options), **{"to": SERVERS} | fields)


def association(number: bytes, addresses: Sequence[str] | None) -> bytes:
    """An association with these addresses."""
    inner = b"".join(option(5, octets(each) + bytes(8)) for each in addresses or ())
    return option(3, number + bytes(8) + inner)


def datagram(body: bytes, *, port: int = 547) -> bytes:
    """A datagram, whose sum is left to hardware."""
    return struct.pack("!HHHH", 546, port, 8 + len(body), 0xFFFF) + body


def solicitation(*, options: bytes = b"", code: int = 0, **fields: Any) -> bytes:
    """A host that asks for routers."""
    body = bytes((133, code, 0, 0)) + bytes(4) + options
    return discovery(body, **{"to": ROUTERS} | fields)


def probe(target: str, *, options: bytes = b"", code: int = 0, **fields: Any) -> bytes:
    """A host that is about to use an address."""
    body = bytes((135, code, 0, 0)) + bytes(4) + octets(target) + options
    asked = text(b"\xff\2" + bytes(9) + b"\1\xff" + octets(target)[13:])
    return discovery(body, **{"to": asked, "source": "::"} | fields)


def discovery(body: bytes, *, source: str = LINK_LOCAL, to: str, right: bool = True, **fields: Any) -> bytes:
    """A message of router discovery, with its sum, or another one."""
    pseudo = octets(source) + octets(to) + struct.pack("!II", len(body), ICMP)
    check = 0xFFFF - total(pseudo + body) ^ (0 if right else 1)
    return packet(
        body[:2] + check.to_bytes(2) + body[4:], protocol=ICMP, source=source, to=to, **{"hops": 255} | fields
    )


def packet(
    body: bytes,
    *,
    mac: str = MAC,
    source: str = LINK_LOCAL,
    to: str,
    protocol: int = UDP,
    hops: int = 1,
    version: int = 6,
    padding: bytes = b"",
    length: int | None = None,
) -> bytes:
    """A frame with an IPv6 packet."""
    size = len(body) if length is None else length
    head = struct.pack("!IHBB", version << 28, size, protocol, hops) + octets(source) + octets(to)
    return b"\x33\x33" + octets(to)[12:] + raw(mac) + b"\x86\xdd" + head + body + padding


def heard6(data: bytes) -> Heard6:
    """Read an answer, and check its sum. Raises AssertionError for one that is not whole."""
    body = _body(data, UDP)
    assert struct.unpack("!HHH", body[:6]) == (547, 546, len(body))
    said = body[8:]
    options = read_options(said[4:])
    return Heard6(
        *_ends(data),
        kind=said[0],
        transaction=said[1:4],
        options={code: values[0] for code, values in options.items()},
        associations={each[:4]: read_options(each[12:]) for each in options.get(3, [])},
    )


def advertised(data: bytes) -> Advertised:
    """Read a router advertisement, and check its sum. Raises AssertionError for one that is not whole."""
    body = _body(data, ICMP)
    assert (body[0], body[1], data[21]) == (134, 0, 255)
    options, at = {}, 16
    while at < len(body):
        size = body[at + 1] * 8
        assert size and at + size <= len(body)
        options[body[at]] = body[at + 2 : at + size]
        at += size
    return Advertised(*_ends(data), flags=body[5], lifetime=int.from_bytes(body[6:8]), options=options)


def is_advertisement(data: bytes) -> bool:
    """Whether a frame is of router discovery."""
    return (data[12:14], data[20]) == (b"\x86\xdd", ICMP)


def is_message(data: bytes) -> bool:
    """Whether a frame is of DHCPv6."""
    return (data[12:14], data[20]) == (b"\x86\xdd", UDP)


def read_options(data: bytes) -> dict[int, list[bytes]]:
    """Read options: all values by code."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(data):
        code, size = struct.unpack("!HH", data[at : at + 4])
        assert at + 4 + size <= len(data)
        found.setdefault(code, []).append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def option(code: int, value: bytes) -> bytes:
    """An option of DHCPv6."""
    return struct.pack("!HH", code, len(value)) + value


def octets(address: str) -> bytes:
    """An IPv6 address in 16 octets."""
    return socket.inet_pton(socket.AF_INET6, address)


def text(data: bytes) -> str:
    """An IPv6 address as people write it."""
    return socket.inet_ntop(socket.AF_INET6, data)


def _body(data: bytes, protocol: int) -> bytes:
    body = data[54:]
    assert (data[12:14], data[14] >> 4, data[20]) == (b"\x86\xdd", 6, protocol)
    assert int.from_bytes(data[18:20]) == len(body)
    assert total(data[22:54] + struct.pack("!II", len(body), protocol) + body) == 0xFFFF
    return body


def _ends(data: bytes) -> tuple[str, str, str, str]:
    return data[:6].hex(":"), data[6:12].hex(":"), text(data[22:38]), text(data[38:54])

"""A DHCP client of tests: frames as a client sends them, and what it reads of an answer, by RFC 2131 alone."""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

DISCOVER, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE, INFORM = range(1, 9)
COOKIE = b"\x63\x82\x53\x63"
MAC = "02:00:00:00:00:01"
BROADCAST = "255.255.255.255"
TRANSACTION = 0x1234ABCD


class Heard(NamedTuple):
    """An answer: the ends of its frame and packet, the fixed fields, the options."""

    far: str
    near: str
    source: str
    to: str
    transaction: int
    yours: str
    client: str
    kind: int
    options: Mapping[int, bytes]


def frame(
    kind: int | None = DISCOVER,
    *,
    mac: str = MAC,
    client: str = "",
    to: str = BROADCAST,
    port: int = 67,
    operation: int = 1,
    broadcast: bool = False,
    has: str = "0.0.0.0",
    relay: str = "0.0.0.0",
    wants: str = "",
    server: str = "",
    transaction: int = TRANSACTION,
    options: bytes = b"",
    cookie: bytes = COOKIE,
    fragment: int = 0,
    protocol: int = 17,
) -> bytes:
    """What a client sends; the arguments are what may differ."""
    said = b"" if kind is None else bytes((53, 1, kind))
    said += _option(50, wants) + _option(54, server) + options + b"\xff"
    flags = 0x8000 if broadcast else 0
    head = struct.pack("!BBBBIHH", operation, 1, 6, 0, transaction, 0, flags)
    head += packed(has) + bytes(8) + packed(relay) + raw(client or mac) + bytes(10 + 64 + 128)
    body = head + cookie + said
    udp = struct.pack("!HHHH", 68, port, 8 + len(body), 0) + body
    ip = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(udp), 0, fragment, 64, protocol)
    ends = packed(has) + packed(to)
    check = (0xFFFF - total(ip + ends)).to_bytes(2)
    return raw("ff:ff:ff:ff:ff:ff") + raw(mac) + b"\x08\x00" + ip + check + ends + udp


def heard(data: bytes) -> Heard:
    """Read an answer, and check its sums. Raises AssertionError for one that is not whole."""
    ip, udp = data[14:34], data[34:42]
    body = data[42:]
    length, size = struct.unpack("!H", ip[2:4])[0], struct.unpack("!H", udp[4:6])[0]
    assert (length, size) == (len(data) - 14, len(body) + 8)
    assert total(ip) == 0xFFFF
    assert total(ip[12:20] + struct.pack("!HH", 17, size) + udp + body) == 0xFFFF
    assert struct.unpack("!HH", udp[:4]) == (67, 68)
    assert body[0] == 2 and body[236:240] == COOKIE
    options = read_options(body[240:])
    return Heard(
        far=data[:6].hex(":"),
        near=data[6:12].hex(":"),
        source=dotted(ip[12:16]),
        to=dotted(ip[16:20]),
        transaction=struct.unpack("!I", body[4:8])[0],
        yours=dotted(body[16:20]),
        client=body[28:34].hex(":"),
        kind=options[53][0],
        options=options,
    )


def read_options(data: bytes) -> dict[int, bytes]:
    """Read options; parts of one follow each other."""
    found: dict[int, bytes] = {}
    at = 0
    while data[at] != 255:
        code, length = data[at], data[at + 1]
        found[code] = found.get(code, b"") + data[at + 2 : at + 2 + length]
        at += 2 + length
    assert not any(data[at + 1 :])
    return found


def total(data: bytes) -> int:
    """The sum of ones' complement."""
    padded = data + bytes(len(data) % 2)
    found = sum(int.from_bytes(padded[at : at + 2]) for at in range(0, len(padded), 2))
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return found


def packed(text: str) -> bytes:
    """An IPv4 address in four octets."""
    return bytes(map(int, text.split(".")))


def dotted(data: bytes) -> str:
    """An IPv4 address as people write it."""
    return ".".join(map(str, data))


def raw(mac: str) -> bytes:
    """A hardware address in six octets."""
    return bytes.fromhex(mac.replace(":", ""))


def seconds(answer: Heard, option: int) -> int:
    """An option that is a time."""
    return int.from_bytes(answer.options[option])


def _option(code: int, address: str) -> bytes:
    return bytes((code, 4)) + packed(address) if address else b""


Fields = Mapping[str, Any]

"""Request an address of a DHCP server and print it as a CIDR: `python -m lanloom_lab.harvester.dhcp LINK`.

Harvester's agent has a client of its own (pkg/controller/agent/hostnetworkconfig/leasemanager.go), which a server knows
by the link's hardware address. That one renews the lease, too, which no story here lives to see.
"""

import os
import socket
import struct
import sys
import time
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

TRIES, PATIENCE = 5, 2.0

_MAGIC = b"\x63\x82\x53\x63"
_MASK, _REQUESTED, _TYPE, _SERVER, _CLIENT, _END = 1, 50, 53, 54, 61, 255
_DISCOVER, _OFFER, _REQUEST, _ACK = 1, 2, 3, 5


def message(kind: int, transaction: bytes, mac: bytes, options: dict[int, bytes]) -> bytes:
    """Return a client's message that asks for an answer by broadcast."""
    head = struct.pack("!BBBB4sHH16s", 1, 1, 6, 0, transaction, 0, 0x8000, b"")
    fields = {_TYPE: bytes([kind]), _CLIENT: b"\x01" + mac, **options}
    tail = b"".join(bytes([code, len(value)]) + value for code, value in fields.items())
    return head + mac.ljust(16, b"\0") + bytes(192) + _MAGIC + tail + bytes([_END])


def packet(payload: bytes) -> bytes:
    """Return it in UDP and IP, from no address to the broadcast address."""
    length = len(payload) + 8
    head = struct.pack("!BBHHHBBH", 0x45, 0, length + 20, 0, 0, 64, 17, 0) + bytes(4) + b"\xff" * 4
    checksum = _sum(head)
    head = head[:10] + struct.pack("!H", checksum) + head[12:]
    return head + struct.pack("!HHHH", 68, 67, length, 0) + payload


def _sum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def read(data: bytes, transaction: bytes) -> tuple[str, dict[int, bytes]] | None:
    """Return the address and the options of a packet that answers the transaction."""
    if len(data) < 28 or data[9] != 17:
        return None
    body = data[(data[0] & 15) * 4 + 8 :]
    if len(body) < 240 or body[0] != 2 or body[4:8] != transaction or body[236:240] != _MAGIC:
        return None
    options, rest = dict[int, bytes](), body[240:]
    while rest and rest[0] != _END:
        if not rest[0]:
            rest = rest[1:]
            continue
        options[rest[0]], rest = rest[2 : 2 + rest[1]], rest[2 + rest[1] :]
    return str(IPv4Address(body[16:20])), options


def lease(link: str) -> str:
    """Return the address that a server gives. Raises TimeoutError."""
    mac = bytes.fromhex(Path(f"/sys/class/net/{link}/address").read_text().strip().replace(":", ""))
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as port:
        port.bind((link, 0x0800))
        for _ in range(TRIES):
            transaction = os.urandom(4)
            found = _ask(port, link, _DISCOVER, transaction, mac, {})
            if found is None:
                continue
            asked = {_REQUESTED: IPv4Address(found[0]).packed, _SERVER: found[1].get(_SERVER, b"")}
            found = _ask(port, link, _REQUEST, transaction, mac, asked)
            if found is not None:
                mask = IPv4Address(found[1][_MASK])
                return str(IPv4Interface(f"{found[0]}/{mask}"))
    raise TimeoutError(f"no DHCP server answers on {link}")


def _ask(
    port: socket.socket, link: str, kind: int, transaction: bytes, mac: bytes, options: dict[int, bytes]
) -> tuple[str, dict[int, bytes]] | None:
    wanted = _OFFER if kind == _DISCOVER else _ACK
    port.sendto(packet(message(kind, transaction, mac, options)), (link, 0x0800, 0, 0, b"\xff" * 6))
    end = time.monotonic() + PATIENCE
    while (left := end - time.monotonic()) > 0:
        port.settimeout(left)
        try:
            found = read(port.recv(4096), transaction)
        except TimeoutError:
            break
        if found is not None and found[1].get(_TYPE) == bytes([wanted]):
            return found
    return None


if __name__ == "__main__":
    try:
        print(lease(sys.argv[1]))
    except (OSError, KeyError) as error:
        sys.exit(f"no IP address obtained from DHCP server: {error}")

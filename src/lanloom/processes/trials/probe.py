"""The program in a pod of a trial: sends and receives by plain sockets, and leaves its report to the kubelet.

Frames are broadcast with an ethertype for experiments, so that a network without addresses can be tried. The pod needs
NET_RAW, and nothing else.
"""

import ipaddress
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from lanloom.node.netlink import addressing
from lanloom.node.netlink.messages import open_socket
from lanloom.processes.trials.exchange import ETHERTYPE, LINGER, Exchange, is_good
from lanloom.runtime.trials import Ping, Report, Task

TERMINATION_LOG = Path("/dev/termination-log")
LONGEST_REPORT = 4000
"""Bytes that a kubelet keeps, less a few."""

PORT = 17789
"""UDP port at which pods with addresses hear each other."""

PAUSE = 0.2
"""Seconds between two frames."""

ANSWER_SECONDS = 1.0
"""For which an echo is waited for, before another one is sent."""

_ICMP = {
    4: (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    6: (socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
}

_BROADCAST = b"\xff" * 6
_HEADER = 14


def run(task: Task, log: Path = TERMINATION_LOG) -> int:
    """Do a task and leave the report; return the exit code."""
    try:
        report = ping_all(task) if task.pings else converse(task)
    except OSError as error:
        report = Report(error=f"{error.strerror or error}")
    text = json.dumps(msgspec.to_builtins(report))
    with suppress(OSError):
        log.write_text(text[:LONGEST_REPORT])
    print(text, flush=True)
    return 0 if is_good(task, report) else 1


def converse(task: Task, clock: Callable[[], float] = time.monotonic) -> Report:
    """Talk with the peers until all is heard, or the time is over. Raises OSError."""
    addresses = addresses_of(task.interface)
    exchange = Exchange(task, addresses)
    with ExitStack() as stack:
        frames = stack.enter_context(_frame_socket(task.interface))
        datagrams = stack.enter_context(_datagram_socket(addresses)) if task.routed and addresses else None
        for _ in _rounds(exchange, clock):
            _send(exchange, frames, datagrams)
            _receive(exchange, frames, datagrams, clock() + PAUSE, clock)
    return exchange.report()


def _rounds(exchange: Exchange, clock: Callable[[], float]) -> Iterator[None]:
    """Yield for each frame to send: until the peers are paired, the quiet time is over, and a few times more."""
    task, start = exchange.task, clock()
    paired, left = None, LINGER
    while left:
        yield
        late = clock() - start > task.seconds
        if paired is None and exchange.is_paired:
            paired = clock()
        if late or exchange.heard_strangers or (paired is not None and clock() - paired >= task.quiet):
            left -= 1


def _frame_socket(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    opened.bind((interface, ETHERTYPE))
    return opened


def _datagram_socket(addresses: tuple[str, ...]) -> socket.socket:
    address = ipaddress.ip_interface(addresses[0]).ip
    opened = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    opened.bind((str(address), PORT))
    return opened


def _send(exchange: Exchange, frames: socket.socket, datagrams: socket.socket | None) -> None:
    own = frames.getsockname()[4]
    message = exchange.message()
    # A link that is down for a moment, or has no room, is tried again with the next frame.
    with suppress(OSError):
        frames.send(_BROADCAST + own + struct.pack("!H", ETHERTYPE) + message)
    if datagrams is not None:
        for addresses in exchange.peers.values():
            with suppress(OSError, IndexError):
                datagrams.sendto(message, (str(ipaddress.ip_interface(addresses[0]).ip), PORT))


def _receive(
    exchange: Exchange,
    frames: socket.socket,
    datagrams: socket.socket | None,
    until: float,
    clock: Callable[[], float],
) -> None:
    sockets = [frames] if datagrams is None else [frames, datagrams]
    while (left := until - clock()) > 0:
        for ready in select.select(sockets, [], [], left)[0]:
            with suppress(OSError):
                if ready is frames:
                    exchange.receive(ready.recv(2048)[_HEADER:])
                else:
                    exchange.receive_routed(ready.recv(2048))


def addresses_of(interface: str) -> tuple[str, ...]:
    """Return the addresses of an interface with their prefix lengths, IPv4 first. Raises OSError without one."""
    try:
        index = socket.if_nametoindex(interface)
    except OSError as error:
        raise OSError(error.errno, f"there is no interface {interface}: was the pod attached?") from None
    with open_socket() as opened:
        found = map(ipaddress.ip_interface, addressing.addresses_of(opened, index))
        return tuple(str(each) for each in sorted(found, key=_by_version) if not each.ip.is_link_local)


def _by_version(address: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> tuple[int, str]:
    return address.version, str(address)


def ping_all(task: Task, clock: Callable[[], float] = time.monotonic) -> Report:
    """Ping all addresses until each has answered, or the time is over. Raises OSError."""
    answered: dict[str, None] = {}
    end = clock() + task.seconds
    while True:
        for ping in task.pings:
            if ping.title not in answered and _answers(ping, clock):
                answered[ping.title] = None
        if len(answered) == len(task.pings) or clock() > end:
            return Report(answered=tuple(answered))


def _answers(ping: Ping, clock: Callable[[], float]) -> bool:
    """Send one echo by the interface and wait for the answer. Raises OSError where that can't be sent at all."""
    identity, version = os.getpid() & 0xFFFF, ipaddress.ip_address(ping.address).version
    with socket.socket(*_ICMP[version]) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, ping.interface.encode())
        with suppress(OSError):
            opened.sendto(echo(identity, version), (ping.address, 0))
        until = clock() + ANSWER_SECONDS
        while (left := until - clock()) > 0:
            if select.select([opened], [], [], left)[0] and is_answer(opened.recv(2048), identity, version):
                return True
    return False


def echo(identity: int, version: int) -> bytes:
    """Return an ICMP echo request (RFC 792, RFC 4443). The kernel fills in the checksum of IPv6."""
    kind, sums = (128, 0) if version == 6 else (8, checksum(_echo(8, identity, 0)))
    return _echo(kind, identity, sums)


def _echo(kind: int, identity: int, sums: int) -> bytes:
    return struct.pack("!BBHHH", kind, 0, sums, identity, 1)


def checksum(content: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(content) // 2}H", content))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def is_answer(packet: bytes, identity: int, version: int) -> bool:
    """Return whether a packet is the answer to an echo of this identity; one of IPv6 comes without its header."""
    head, kind = (0, 129) if version == 6 else ((packet[0] & 0xF) * 4, 0)
    return (
        len(packet) >= head + 8
        and packet[head] == kind
        and packet[head + 4 : head + 6] == struct.pack("!H", identity)
    )

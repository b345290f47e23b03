"""A peer that asks a guest for its MAC address again and again, on several networks at once: how long it was silent.

`python -m lanloom_lab.guests.prober [--every=SECONDS] MAC ADDRESS LINK…`, in a network namespace with these links.
Questions go to the guest's MAC address alone, as traffic does, and need no address here. Prints a line with the first
answer on each link. Ends with the input and one more answer, and prints what it found.
"""

import argparse
import select
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from itertools import pairwise

import msgspec
from msgspec import Struct

INTERVAL = 0.005
"""Seconds between two questions, by default."""

PATIENCE = 10.0
"""Seconds for the last answer."""

_ARP = 0x0806
_HEADER = struct.Struct("!6s6sH")
_BODY = struct.Struct("!HHBBH6s4s6s4s")
_REQUEST, _REPLY = 1, 2
_ASKER = IPv4Address("0.0.0.0").packed
"""The address of a probe (RFC 5227): the answer goes into no host's table."""


class Findings(Struct, frozen=True):
    """What a peer found. `links` are those with answers, in the order of their first one.

    Silences are in milliseconds between two answers: the `longest` of all, and the last one that began on one link and
    ended on another, when the guest had `moved`; -1 where there is none.
    """

    asked: int
    answered: int
    links: tuple[str, ...]
    longest: float = -1.0
    moved: float = -1.0


def question(mac: bytes, source: bytes, address: bytes) -> bytes:
    """Return the frame that asks a guest for the MAC address of its IP address."""
    header = _HEADER.pack(mac, source, _ARP)
    return header + _BODY.pack(1, 0x0800, 6, 4, _REQUEST, source, _ASKER, bytes(6), address)


def is_answer(frame: bytes, mac: bytes, address: bytes) -> bool:
    """Return whether a frame is the guest's answer."""
    if len(frame) < _HEADER.size + _BODY.size:
        return False
    _, source, kind = _HEADER.unpack_from(frame)
    *_, operation, sender, sender_address, _, _ = _BODY.unpack_from(frame, _HEADER.size)
    return (kind, operation, source, sender, sender_address) == (_ARP, _REPLY, mac, mac, address)


def findings(asked: int, answers: Sequence[tuple[float, str]]) -> Findings:
    """Return what answers at these seconds, on these links, mean."""
    silences = [
        (round((later - earlier) * 1000, 1), before != after)
        for (earlier, before), (later, after) in pairwise(answers)
    ]
    moves = [milliseconds for milliseconds, moved in silences if moved]
    return Findings(
        asked,
        len(answers),
        tuple(dict.fromkeys(link for _, link in answers)),
        max((milliseconds for milliseconds, _ in silences), default=-1.0),
        moves[-1] if moves else -1.0,
    )


class Peer:
    """Asks on these links, and notes the answers."""

    def __init__(self, mac: str, address: str, links: Iterable[str], interval: float = INTERVAL) -> None:
        self._interval = interval
        self._guest = bytes.fromhex(mac.replace(":", ""))
        self._address = IPv4Address(address).packed
        self._sockets = {_open(link): link for link in links}
        self._answers: list[tuple[float, str]] = []
        self._asked = 0
        self._due = time.monotonic()

    def probe(self) -> Findings:
        """Ask until standard input has ended, and the guest has answered after that. Raises OSError."""
        ended = 0.0
        while not ended or (self._last() < ended and time.monotonic() < ended + PATIENCE):
            inputs = [] if ended else [sys.stdin.fileno()]
            wait = max(0.0, self._due - time.monotonic())
            ready, _, _ = select.select([*inputs, *self._sockets], [], [], wait)
            if not ended and sys.stdin.fileno() in ready:
                ended = time.monotonic()
            for sock in self._sockets.keys() & set(ready):
                self._take(sock)
            if time.monotonic() >= self._due:
                self._ask()
        return findings(self._asked, self._answers)

    def _last(self) -> float:
        return self._answers[-1][0] if self._answers else 0.0

    def _take(self, sock: socket.socket) -> None:
        link = self._sockets[sock]
        if is_answer(sock.recv(2048), self._guest, self._address):
            if all(link != other for _, other in self._answers):
                print(f"{link} answers", flush=True)
            self._answers.append((time.monotonic(), link))

    def _ask(self) -> None:
        self._asked += 1
        self._due = max(self._due + self._interval, time.monotonic())
        for sock in self._sockets:
            sock.send(question(self._guest, sock.getsockname()[4], self._address))


def _open(link: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP))
    sock.bind((link, _ARP))
    return sock


def main() -> int:
    """Ask, and print what was found as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=float, default=INTERVAL)
    parser.add_argument("mac")
    parser.add_argument("address")
    parser.add_argument("links", nargs="+")
    given = parser.parse_args()
    found = Peer(given.mac, given.address, given.links, given.every).probe()
    print(msgspec.json.encode(found).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

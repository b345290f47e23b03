"""The limits of an HTTPS port, and its open connections: which one ends when there are too many.

A server that is full must stay reachable. So a new connection takes the place of one that does no work: first of one
that has not finished a request for seconds, then of an idle one, then of any without a finished request, the oldest
first. A request in progress is never cut off; where there is nothing else, the new connection is refused. Refusing
newcomers always would let a thousand silent connections keep all clients out; ending the oldest would end watches.

Before a new connection takes the place of one that came as recently, or is refused, it waits for `patience_seconds`
where it costs a socket alone: a crowd is mostly one client that sends all at once, as an API server sends its reviews.
"""

import asyncio
import ipaddress
import resource
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import structlog
from msgspec import Struct

log = structlog.get_logger(__name__)

_RESERVED_FILES = 256
"""File descriptors that connections never take: the database, listening sockets, calls of webhooks."""

_FEWEST = 16
_MOST_WAITING = 2048
"""Each costs a file descriptor and some kilobytes; TLS would take 290 KB."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of one server.

    `connections` is the number of open connections, `per_peer` that of one peer: an IPv4 address, or the /64 of an
    IPv6 address. `header_bytes` counts the request line, the headers and the trailers of a request. `pipelined` is the
    number of requests that may wait behind the one in progress on a connection.

    While there is no place for a new connection but that of one as recent, it waits up to `patience_seconds`, as one of
    `waiting` at most, half of them of one peer.

    Times are in seconds: for a TLS handshake, for the headers of a request, for its body, and for a client to read
    what the server wrote. An idle connection is closed after `idle_seconds`.
    """

    connections: int = 4096
    per_peer: int = 2048
    header_bytes: int = 64 * 1024
    pipelined: int = 32
    waiting: int = _MOST_WAITING
    patience_seconds: float = 5.0
    handshake_seconds: float = 10.0
    header_seconds: float = 30.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0
    idle_seconds: int = 90


def limits_of_process(most: int) -> Limits:
    """Limit for this process's file descriptors (`ulimit -n`), with at most `most` connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = most + _MOST_WAITING + _RESERVED_FILES
    files = soft - min(_RESERVED_FILES, soft // 2)
    connections = max(_FEWEST, min(most, files))
    waiting = max(0, min(_MOST_WAITING, files - connections))
    return Limits(connections=connections, per_peer=connections // 2, waiting=waiting)


_REPORT_SECONDS = 60.0
"""Least time between two lines in the log."""

_PEERS = 10_000
"""Peers that are distinguished in a report."""

_IPV6_NETWORK = 64


class Stage(IntEnum):
    """The stage of a connection. Lower stages end first."""

    UNFINISHED = 0
    """In its handshake, or in a request that is not complete."""
    IDLE = 1
    """Between two requests."""
    BUSY = 2
    """In a request that the application works on."""


class ClientFaults:
    """What clients did wrong, reported together once a minute: an unknown client must not fill the log."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._peers: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def note(self, kind: str, peer: str) -> None:
        """Count a fault of a peer."""
        self._counts[kind] += 1
        if len(self._peers) < _PEERS:
            self._peers.add(peer)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_REPORT_SECONDS, self.report)

    def report(self) -> None:
        """Report what was noted, if anything."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        log.warning("client-faults", **self._counts, peers=len(self._peers), seconds=_REPORT_SECONDS)
        self._counts.clear()
        self._peers.clear()


class Slot:
    """The place of one connection. Move it along with the connection, and release it in the end."""

    __slots__ = ("_connections", "_end", "peer", "since", "stage")

    def __init__(self, connections: "Connections", peer: str, end: Callable[[], None], since: float) -> None:
        self._connections = connections
        self._end = end
        self.peer = peer
        self.stage = Stage.UNFINISHED
        self.since = since

    def ends_by(self, end: Callable[[], None]) -> None:
        """Set how the connection is ended from now on. `end` must not fail, and may be called twice."""
        self._end = end

    def move(self, stage: Stage) -> None:
        """Record a new stage; the connection becomes the youngest of it."""
        self._connections.move(self, stage)

    def fault(self, kind: str) -> None:
        """Record that the client did something wrong."""
        self._connections.faults.note(kind, self.peer)

    def release(self) -> None:
        """Give the place back. A second time does nothing."""
        self._connections.remove(self)

    def end(self) -> None:
        """End the connection and give its place back."""
        self.release()
        self._end()


class Connections:
    """The connections of one server. `clock` gives monotonic seconds."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._peers: dict[str, tuple[dict[Slot, None], ...]] = {}
        self._count = 0
        self._reported = float("-inf")
        self.faults = ClientFaults()

    def __len__(self) -> int:
        return self._count

    def has_room(self, peer: str) -> bool:
        """Return whether a new connection of a peer needs no place of one that may be about to send a request.

        On a full server, a peer may take a place of one that has more connections.
        """
        own = self.count(peer)
        if own >= self._limits.per_peer:
            return self._has_late(peer)
        if self._count < self._limits.connections:
            return True
        richest = self._richest()
        return self._has_late(richest) or (bool(self._spare(richest)) and self.count(richest) > own + 1)

    def admit(self, peer: str, end: Callable[[], None]) -> Slot | None:
        """Return a place for a new connection of a peer, or None if it must be refused."""
        if self.count(peer) >= self._limits.per_peer and not self._evict(peer):
            self._report("refused", peer)
            return None
        if self._count >= self._limits.connections and not self.relieve():
            self._report("refused", peer)
            return None
        slot = Slot(self, peer, end, self._clock())
        stages = self._peers.setdefault(peer, tuple({} for _ in Stage))
        stages[slot.stage][slot] = None
        self._count += 1
        return slot

    def relieve(self) -> bool:
        """End one connection that does no work, of the peer with the most of them. False if there is none."""
        peer = self._richest()
        return bool(self._spare(peer)) and self._evict(peer)

    def move(self, slot: Slot, stage: Stage) -> None:
        """See Slot.move."""
        stages = self._peers.get(slot.peer)
        if stages is not None and slot in stages[slot.stage]:
            del stages[slot.stage][slot]
            slot.stage, slot.since = stage, self._clock()
            stages[stage][slot] = None

    def remove(self, slot: Slot) -> None:
        """See Slot.release."""
        stages = self._peers.get(slot.peer)
        if stages is None or slot not in stages[slot.stage]:
            return
        del stages[slot.stage][slot]
        self._count -= 1
        if not any(stages):
            del self._peers[slot.peer]

    def count(self, peer: str) -> int:
        """Return how many connections a peer has."""
        return sum(map(len, self._peers.get(peer, ())))

    def _richest(self) -> str:
        """Return the peer with the most connections that do no work; empty without any."""
        spare = {peer: len(stages[0]) + len(stages[1]) for peer, stages in self._peers.items()}
        return max(spare, key=spare.__getitem__, default="")

    def _has_late(self, peer: str) -> bool:
        """Return whether a peer has a connection that has done no work for `patience_seconds`.

        A request may be on its way by one that became idle just now, and would be lost with it.
        """
        spare = next(iter(self._spare(peer)), None)
        return spare is not None and self._is_late(spare)

    def _is_late(self, slot: Slot) -> bool:
        return self._clock() - slot.since >= self._limits.patience_seconds

    def _spare(self, peer: str) -> dict[Slot, None]:
        """Return the connections of a peer that do no work, those of the stage that gives way first."""
        unfinished, idle, *_ = self._peers.get(peer, ({}, {}))
        oldest = next(iter(unfinished), None)
        return unfinished if oldest is not None and (not idle or self._is_late(oldest)) else idle

    def _evict(self, peer: str) -> bool:
        oldest = next(iter(self._spare(peer)), None)
        if oldest is None:
            return False
        self._report("ended", peer)
        oldest.end()
        return True

    def _report(self, outcome: str, peer: str) -> None:
        if self._clock() - self._reported < _REPORT_SECONDS:
            return
        self._reported = self._clock()
        log.warning("connections-limit", outcome=outcome, peer=peer, connections=self._count)


def peer_of(address: Any) -> str:
    """Return the peer of a socket address, by which its connections are counted."""
    if not isinstance(address, tuple):
        return ""
    host = str(address[0]).partition("%")[0]
    if ":" not in host:
        return host
    parsed = ipaddress.IPv6Address(host)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, _IPV6_NETWORK), strict=False))

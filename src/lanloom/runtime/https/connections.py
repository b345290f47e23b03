"""The limits of an HTTPS port, and its open connections: which one ends when there are too many.

A server that is full must stay reachable. So a new connection takes the place of one that does no work: first of one
that has not finished a request for seconds, then of an idle one, then of any without a finished request, the oldest
first. A request that the application works on is never cut off; where there is nothing else, the new connection is
refused. Refusing newcomers always would let a thousand silent connections keep all clients out; ending the oldest would
end watches.

A client has as many IPv6 addresses as it likes, all in one /64; what else is in that /64 must stay served. So
both are counted, and each has a limit: the address, and its network. On a full server the network with the most
connections that do no work loses one, and in a network the address with the most.

Before a new connection takes the place of one that came as recently, or is refused, it waits for `patience_seconds`
where it costs a socket alone: a crowd is mostly one client that sends all at once, as an API server sends its reviews.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from enum import IntEnum

import structlog
from msgspec import Struct

from lanloom.runtime.https.peers import Ranking, network_of

log = structlog.get_logger(__name__)

_RESERVED_FILES = 256
"""File descriptors that connections never take: the database, listening sockets, calls of webhooks."""

_FEWEST = 16
_MOST_WAITING = 2048
"""Each costs a file descriptor and some kilobytes; TLS would take 290 KB."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of one server.

    `connections` is the number of open connections, `per_peer` that of one address, `per_network` that of a /64 of
    IPv6. `header_bytes` counts the request line, the headers and the trailers of a request. `pipelined` is the number
    of requests that may wait behind the one in progress on a connection.

    While there is no place for a new connection but that of one as recent, it waits up to `patience_seconds`, as one of
    `waiting` at most, half of them of one peer, and three quarters of one network.

    Times are in seconds: for a TLS handshake, for the headers of a request, for its body, and for a client to read
    what the server wrote. An idle connection is closed after `idle_seconds`.
    """

    connections: int = 4096
    per_peer: int = 2048
    per_network: int = 3072
    header_bytes: int = 64 * 1024
    pipelined: int = 32
    waiting: int = _MOST_WAITING
    patience_seconds: float = 5.0
    handshake_seconds: float = 10.0
    header_seconds: float = 30.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0
    idle_seconds: int = 90

    def may_wait(self, of_peer: int, of_network: int, of_all: int) -> bool:
        """Return whether a connection may wait where so many wait already."""
        return of_all < self.waiting and of_network < self.waiting * 3 // 4 and of_peer < self.waiting // 2


def limits_of_process(most: int) -> Limits:
    """Limit for this process's file descriptors (`ulimit -n`), with at most `most` connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = most + _MOST_WAITING + _RESERVED_FILES
    files = soft - min(_RESERVED_FILES, soft // 2)
    connections = max(_FEWEST, min(most, files))
    waiting = max(0, min(_MOST_WAITING, files - connections))
    return Limits(
        connections=connections,
        per_peer=connections // 2,
        per_network=connections * 3 // 4,
        waiting=waiting,
    )


_REPORT_SECONDS = 60.0
"""Least time between two lines in the log."""

_PEERS = 10_000
"""Peers that are distinguished in a report."""


class Stage(IntEnum):
    """The stage of a connection. Lower stages end first."""

    UNFINISHED = 0
    """In its handshake, in a request that is not complete, or in a response that the client does not read."""
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
        self._of_networks: Counter[str] = Counter()
        self._networks = Ranking()
        self._peers_in: dict[str, Ranking] = {}
        self._count = 0
        self._reported = float("-inf")
        self.faults = ClientFaults()

    def __len__(self) -> int:
        return self._count

    def has_room(self, peer: str) -> bool:
        """Return whether a new connection of a peer needs no place of one that may be about to send a request.

        It may take such a place of a network with more connections, and in its own network of a peer with more.
        """
        loser = self._loser(peer)
        return (
            loser is None
            or self._has_late(loser)
            or (bool(self._spare(loser)) and self._has_more(loser, peer))
        )

    def admit(self, peer: str, end: Callable[[], None]) -> Slot | None:
        """Return a place for a new connection of a peer, or None if it must be refused."""
        loser = self._loser(peer)
        if loser is not None and not self._evict(loser):
            self._report("refused", peer)
            return None
        slot = Slot(self, peer, end, self._clock())
        stages = self._peers.setdefault(peer, tuple({} for _ in Stage))
        stages[slot.stage][slot] = None
        self._add(slot, 1)
        return slot

    def relieve(self) -> bool:
        """End one connection that does no work, where there are the most of them. False if there is none."""
        return self._evict(self._richest(self._networks.first()))

    def move(self, slot: Slot, stage: Stage) -> None:
        """See Slot.move."""
        stages = self._peers.get(slot.peer)
        if stages is not None and slot in stages[slot.stage]:
            del stages[slot.stage][slot]
            self._rank(slot, -1)
            slot.stage, slot.since = stage, self._clock()
            stages[stage][slot] = None
            self._rank(slot, 1)

    def remove(self, slot: Slot) -> None:
        """See Slot.release."""
        stages = self._peers.get(slot.peer)
        if stages is None or slot not in stages[slot.stage]:
            return
        del stages[slot.stage][slot]
        self._add(slot, -1)
        if not any(stages):
            del self._peers[slot.peer]

    def count(self, peer: str) -> int:
        """Return how many connections a peer has."""
        return sum(map(len, self._peers.get(peer, ())))

    def counts(self, peer: str) -> tuple[int, int]:
        """Return how many connections a peer's network has, and how many the peer."""
        return self._of_networks[network_of(peer)], self.count(peer)

    def _add(self, slot: Slot, by: int) -> None:
        network = network_of(slot.peer)
        self._count += by
        self._of_networks[network] += by
        if not self._of_networks[network]:
            del self._of_networks[network]
        self._rank(slot, by)

    def _rank(self, slot: Slot, by: int) -> None:
        """Count a connection that does no work, or count it no more."""
        if slot.stage is Stage.BUSY:
            return
        network = network_of(slot.peer)
        self._networks.change(network, by)
        peers = self._peers_in.setdefault(network, Ranking())
        peers.change(slot.peer, by)
        if not peers:
            del self._peers_in[network]

    def _loser(self, peer: str) -> str | None:
        """Return the peer that loses a connection to a new one of `peer`: empty if none can, None if none need."""
        of_network, own = self.counts(peer)
        if own >= self._limits.per_peer:
            return peer
        if of_network >= self._limits.per_network:
            return self._richest(network_of(peer))
        if self._count >= self._limits.connections:
            return self._richest(self._networks.first())
        return None

    def _richest(self, network: str) -> str:
        """Return the peer in a network with the most connections that do no work; empty without any."""
        peers = self._peers_in.get(network)
        return peers.first() if peers is not None else ""

    def _has_more(self, one: str, other: str) -> bool:
        """Return whether a peer has more connections than another one with one more; of two networks, whether these."""
        depth = 1 if network_of(one) == network_of(other) else 0
        return self.counts(one)[depth] > self.counts(other)[depth] + 1

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

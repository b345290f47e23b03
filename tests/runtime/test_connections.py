"""Which connections of an HTTPS port make room for others: clients of one address, of one /64, and of many."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.https.connections import Connections, Limits, Slot, Stage
from lanloom.runtime.https.peers import Ranking, network_of, peer_of

LIMITS = Limits(connections=12, per_peer=6, per_network=9, waiting=12)
OTHERS = ("192.0.2.1", "192.0.2.2", "2001:db8:0:1::1", "2001:db8:0:1::2")
NEIGHBOURS = tuple(f"2001:db8::{number:x}" for number in range(1, 17))
VICTIM = "2001:db8::a:1"
SPARE = (Stage.UNFINISHED, Stage.IDLE)


class Port:
    """A port, and who holds its connections; `ended` are those that it ended, with what was there at that time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.connections = Connections(LIMITS, lambda: self.now)
        self.open: list[Slot] = []
        self.ended: list[tuple[Slot, list[Slot]]] = []

    def connect(self, peer: str, stage: Stage = Stage.UNFINISHED) -> Slot | None:
        """Connect a peer; None if it is refused."""
        self.now += 1.0
        made: list[Slot] = []
        slot = self.connections.admit(peer, lambda: self._end(made[0]))
        if slot is not None:
            made.append(slot)
            slot.move(stage)
            self.open.append(slot)
        return slot

    def _end(self, slot: Slot) -> None:
        self.ended.append((slot, list(self.open)))
        self.open.remove(slot)

    def release(self, slot: Slot) -> None:
        """End a connection by its client."""
        slot.release()
        self.open.remove(slot)


def _spare(slots: list[Slot], of: str, *, network: bool = False) -> int:
    return sum(
        slot.stage in SPARE and of == (network_of(slot.peer) if network else slot.peer) for slot in slots
    )


steps = st.lists(
    st.tuples(st.sampled_from(OTHERS + NEIGHBOURS[:4]), st.sampled_from((*Stage, None)), st.integers(0, 30)),
    max_size=80,
)


@given(steps)
def test_limits_hold_and_the_richest_give_way(
    taken: list[tuple[str, Stage | None, int]],
) -> None:
    """No limit is exceeded, no request is cut off, and who loses a connection has the most where room is needed."""
    port = Port()
    for peer, stage, which in taken:
        mine = [slot for slot in port.open if slot.peer == peer]
        before = list(port.open)
        port.ended.clear()
        if which % 3 and mine and stage is None:
            port.release(mine[which % len(mine)])
        elif which % 3 and mine and stage is not None:
            mine[which % len(mine)].move(stage)
        elif port.connect(peer, stage or Stage.IDLE) is None:
            assert _must_refuse(before, peer)
        for slot, there in port.ended:
            _check_loser(slot, there, peer)
        of_peers = Counter(slot.peer for slot in port.open)
        of_networks = Counter(network_of(slot.peer) for slot in port.open)
        assert len(port.connections) == len(port.open) <= LIMITS.connections
        assert max(of_peers.values(), default=0) <= LIMITS.per_peer
        assert max(of_networks.values(), default=0) <= LIMITS.per_network
        for each in OTHERS + NEIGHBOURS:
            assert port.connections.counts(each) == (of_networks[network_of(each)], of_peers[each])


def _must_refuse(there: list[Slot], peer: str) -> bool:
    own = [slot for slot in there if slot.peer == peer]
    near = [slot for slot in there if network_of(slot.peer) == network_of(peer)]
    full = (
        own
        if len(own) >= LIMITS.per_peer
        else near
        if len(near) >= LIMITS.per_network
        else there
        if len(there) >= LIMITS.connections
        else []
    )
    return bool(full) and all(slot.stage is Stage.BUSY for slot in full)


def _check_loser(loser: Slot, there: list[Slot], newcomer: str) -> None:
    assert loser.stage in SPARE
    if sum(slot.peer == newcomer for slot in there) >= LIMITS.per_peer:
        assert loser.peer == newcomer
        return
    network = network_of(loser.peer)
    if sum(network_of(slot.peer) == network_of(newcomer) for slot in there) >= LIMITS.per_network:
        assert network == network_of(newcomer)
    else:
        networks = {network_of(slot.peer) for slot in there}
        assert _spare(there, network, network=True) == max(
            _spare(there, each, network=True) for each in networks
        )
    peers = {slot.peer for slot in there if network_of(slot.peer) == network}
    assert _spare(there, loser.peer) == max(_spare(there, each) for each in peers)


def _floods() -> Iterator[tuple[str, tuple[str, ...], tuple[Stage, ...]]]:
    """Name the attackers that a victim must get past, and how far their connections come."""
    yield "one neighbour", NEIGHBOURS[:1], tuple(Stage)
    yield "its whole /64", NEIGHBOURS, SPARE
    yield "another /64", OTHERS[2:], tuple(Stage)
    yield "an address of IPv4", OTHERS[:1], tuple(Stage)
    yield "everybody", NEIGHBOURS + OTHERS, SPARE


@pytest.mark.parametrize(
    ("attackers", "stages"), [row[1:] for row in _floods()], ids=[row[0] for row in _floods()]
)
@given(data=st.data())
def test_nobody_is_kept_out(
    data: st.DataObject, attackers: tuple[str, ...], stages: tuple[Stage, ...]
) -> None:
    """Neither one other address or /64, nor any number of them that do no work, keep a client out or end it."""
    port = Port()
    flood = st.tuples(st.sampled_from(attackers), st.sampled_from(stages))
    for peer, stage in data.draw(st.lists(flood, min_size=20, max_size=40)):
        port.connect(peer, stage)
    for stage in (Stage.BUSY, Stage.UNFINISHED):
        slot = port.connect(VICTIM, stage)
        assert slot is not None
        for peer, kind in data.draw(st.lists(flood, max_size=3)):
            port.connect(peer, kind)
        assert slot in port.open


def test_a_host_is_not_robbed_by_its_neighbours() -> None:
    """Of hosts in one /64, each of many new ones takes the place of the host with the most, not of one with few."""
    port = Port()
    few = [port.connect(VICTIM, Stage.IDLE) for _ in range(2)]
    for _ in range(100):
        port.connect(NEIGHBOURS[0])
    for neighbour in NEIGHBOURS[:4]:
        port.connect(neighbour)
    assert all(slot in port.open for slot in few)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=60))
def test_the_first_of_a_ranking(changes: list[tuple[str, bool]]) -> None:
    """A ranking's first name is always one with the highest number, and there is none where all have 0."""
    ranking, numbers = Ranking(), Counter[str]()
    for name, more in changes:
        by = 1 if more or not numbers[name] else -1
        ranking.change(name, by)
        numbers[name] += by
        assert bool(ranking) == any(numbers.values())
        assert numbers[ranking.first()] == max(numbers.values())


@pytest.mark.parametrize(
    ("address", "peer", "network"),
    [
        (("192.0.2.1", 4000), "192.0.2.1", "192.0.2.1"),
        (("::ffff:192.0.2.1", 4000, 0, 0), "192.0.2.1", "192.0.2.1"),
        (("2001:db8::1", 4000, 0, 0), "2001:db8::1", "2001:db8::/64"),
        (("fe80::1%eth0", 4000, 0, 2), "fe80::1", "fe80::/64"),
        ("", "", ""),
    ],
)
def test_a_peer_and_its_network(address: object, peer: str, network: str) -> None:
    """Connections are counted by address, and those of IPv6 by /64, in which a client has as many as it likes."""
    assert (peer_of(address), network_of(peer)) == (peer, network)


def test_who_waits_leaves_room_for_others() -> None:
    """Of those that wait, one address is half and one /64 three quarters at most."""
    assert LIMITS.may_wait(5, 8, 11)
    assert not LIMITS.may_wait(6, 8, 11) and not LIMITS.may_wait(5, 9, 11) and not LIMITS.may_wait(5, 8, 12)

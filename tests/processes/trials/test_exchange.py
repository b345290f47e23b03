"""What pods say to each other: they finish when each knows that the other heard it, whatever gets lost."""

import struct
from random import Random

import pytest
from msgspec.structs import replace

from lanloom.processes.trials.exchange import Exchange, is_good
from lanloom.processes.trials.probe import checksum, echo, is_answer, ping_all
from lanloom.runtime.trials import Ping, Report, Task

ONE = Task(run="r1", name="a", seconds=60, peers=("b",))
OTHER = Task(run="r1", name="b", seconds=60, peers=("a",))


@pytest.mark.parametrize("seed", range(30))
def test_pods_pair_whatever_gets_lost(seed: int) -> None:
    """Of frames that are lost, repeated and late, those that arrive suffice: both are paired in the end."""
    rng = Random(seed)
    exchanges = [
        Exchange(replace(task, routed=True), [address])
        for task, address in ((ONE, "10.0.0.1/8"), (OTHER, "10.0.0.2/8"))
    ]
    late: list[tuple[int, bytes]] = []
    for _ in range(400):
        sender = rng.randrange(2)
        late.append((1 - sender, exchanges[sender].message()))
        while late and rng.random() < 0.5:
            receiver, message = late.pop(rng.randrange(len(late)))
            if rng.random() < 0.6:
                rng.choice((exchanges[receiver].receive, exchanges[receiver].receive_routed))(message)
    assert all(exchange.is_paired for exchange in exchanges)
    assert all(is_good(exchange.task, exchange.report()) for exchange in exchanges)


def test_one_way_is_not_enough() -> None:
    """A pod that hears and is not heard goes on."""
    one, other = Exchange(ONE), Exchange(OTHER)
    one.receive(other.message())
    assert not one.is_paired and one.report().heard == ("b",)
    other.receive(one.message())
    assert other.is_paired and not one.is_paired
    one.receive(other.message())
    assert one.is_paired


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 46,
        b"[]",
        b"{}",
        b'{"run": "r1"}',
        b"\xff\xfe",
        Exchange(replace(OTHER, run="r2")).message(),
    ],
)
def test_foreign_frames_say_nothing(message: bytes) -> None:
    """Neither another check nor another program with the same ethertype is taken for a peer."""
    exchange = Exchange(ONE)
    exchange.receive(message)
    exchange.receive_routed(message)
    assert exchange.report() == Report()


def test_frames_are_filled_up() -> None:
    """Zeros behind a short frame are no part of it."""
    exchange = Exchange(ONE)
    exchange.receive(Exchange(OTHER).message() + b"\0" * 20)
    assert exchange.report().heard == ("b",)


def test_strangers_are_reported() -> None:
    """Who must not be heard makes a pod fail."""
    exchange = Exchange(replace(ONE, peers=(), strangers=("b",)))
    assert exchange.is_paired and is_good(exchange.task, exchange.report())
    exchange.receive(Exchange(OTHER).message())
    assert not is_good(exchange.task, exchange.report())


def test_every_ping_counts() -> None:
    """A pod is good when every address has answered."""
    task = replace(ONE, peers=(), pings=(Ping("10.0.0.1", "eth0", "x"), Ping("10.0.0.2", "eth0", "y")))
    assert is_good(task, Report(answered=("x", "y"))) and not is_good(task, Report(answered=("x",)))


def test_echoes() -> None:
    """A request has a right checksum, and only the answer to it is one: not the request, not another's, not a stub."""
    assert checksum(echo(77, 4)) == 0
    head = b"\x45" + bytes(19)
    answer = struct.pack("!BBHHH", 0, 0, 0, 77, 1)
    assert is_answer(head + answer, 77, 4) and is_answer(b"\x46" + bytes(23) + answer, 77, 4)
    for packet in (
        head + echo(77, 4),
        head + struct.pack("!BBHHH", 0, 0, 0, 78, 1),
        head + answer[:4],
        b"\x45",
    ):
        assert not is_answer(packet, 77, 4)
    assert is_answer(struct.pack("!BBHHH", 129, 0, 9, 77, 1), 77, 6)
    for packet in (
        echo(77, 6),
        struct.pack("!BBHHH", 129, 0, 9, 78, 1),
        struct.pack("!BBHHH", 1, 0, 9, 77, 1),
        b"",
    ):
        assert not is_answer(packet, 77, 6)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_addresses_of_both_versions_answer(address: str) -> None:
    """A kernel's answer to an echo of either IP version is heard."""
    task = Task(run="r1", name="a", seconds=60, pings=(Ping(address, "lo", "x"),))
    assert ping_all(task) == Report(answered=("x",))

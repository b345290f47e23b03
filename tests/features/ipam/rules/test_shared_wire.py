"""Networks on one wire, and the other hosts there, through any sequence of events: nothing is given away twice.

Each ledger is compared with what follows from all of them by walking over every address.
"""

from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import Address, IPRange
from lanloom.features.ipam.rules.ledger import AddressReserved, Ledger, Operation
from lanloom.features.ipam.rules.model import Network, Pool, Usage
from lanloom.features.ipam.rules.others import Holder
from lanloom.refusals import Refusal
from tests.features.ipam.rules.plain_ledger import PlainLedger, each
from tests.features.ipam.rules.small_networks import ADDRESSES, networks
from tests.harness.examples import examples

DENSE_LIMITS = (1 << 24, 0, 8)
REQUESTS = ("pool", "pool4", "pool6", "one", "two")
OWNERS = ("default/a-0", "default/b-0", "other/a-0")
OTHER_HOST = Holder(what="another host")

addresses = st.sampled_from(ADDRESSES)
owners = st.sampled_from(OWNERS)
numbers = st.integers(0, len(DENSE_LIMITS) - 1)
known = st.sets(addresses, max_size=5)


class SharedWire(RuleBasedStateMachine):
    """Three networks that come to the wire and leave it, each with an operation under way."""

    @initialize(found=st.tuples(networks(), networks(), networks()))
    def start(self, found: tuple[Network, ...]) -> None:
        named = [replace(item, id=f"net{number}", name=f"net{number}") for number, item in enumerate(found)]
        self.ledgers = [
            Ledger(item, dense_limit=limit) for item, limit in zip(named, DENSE_LIMITS, strict=True)
        ]
        self.held: list[set[Address]] = [set() for _ in named]
        self.peers: list[tuple[int, ...]] = [() for _ in named]
        self.operations: list[Operation | None] = [None for _ in named]

    def others(self, number: int) -> set[Address]:
        """The single addresses that another holder has."""
        peers = [self.ledgers[peer] for peer in self.peers[number]]
        return {
            item for item in ADDRESSES if item in self.held[number] or any(p.owner_of(item) for p in peers)
        }

    def kept(self, number: int) -> set[Address]:
        """Everything that is not to be given away, apart from what is owned."""
        every = [self.ledgers[number], *(self.ledgers[peer] for peer in self.peers[number])]
        ranges = [item for one in every for subnet in one.network.subnets for item in subnet.reserved]
        return self.others(number) | {item for item in ADDRESSES if any(item in one for one in ranges)}

    def operation(self, number: int) -> Operation:
        found = self.operations[number]
        if found is None:
            found = self.operations[number] = self.ledgers[number].begin()
        return found

    @rule(number=numbers, held=known, peers=st.sets(numbers))
    def connect(self, number: int, held: set[Address], peers: set[int]) -> None:
        self.held[number], self.peers[number] = held, tuple(sorted(peers - {number}))
        self.connect_again(number)

    def connect_again(self, number: int) -> None:
        """As the allocator does before each decision."""
        peers = tuple(self.ledgers[peer] for peer in self.peers[number])
        self.ledgers[number].connect(dict.fromkeys(self.held[number], OTHER_HOST), peers)

    @rule(number=numbers, owner=owners, request=st.sampled_from(REQUESTS), times=st.integers(1, 12))
    def take_next(self, number: int, owner: str, request: str, times: int) -> None:
        self.connect_again(number)
        ledger, plain = self.ledgers[number], PlainLedger(self.ledgers[number].network)
        for _ in range(times):
            free = (
                address
                for address in plain.candidates(request)
                if address not in self.kept(number) and not ledger.owner_of(address)
            )
            expected = next(free, None)
            try:
                assert self.operation(number).take_next(owner, request) == expected
            except Refusal:
                assert expected is None

    @rule(number=numbers, owner=owners, address=addresses, force=st.booleans())
    def take(self, number: int, owner: str, address: Address, force: bool) -> None:
        self.connect_again(number)
        ledger = self.ledgers[number]
        inside = ledger.network.subnet_of(address) is not None and not ledger.owner_of(address)
        refused = inside and not force and address in self.kept(number)
        try:
            self.operation(number).take(address, owner, force=force)
        except AddressReserved:
            assert refused
        except Refusal:
            assert not inside
        else:
            assert inside and not refused

    @rule(number=numbers, owner=owners, addresses=known)
    def record(self, number: int, owner: str, addresses: set[Address]) -> None:
        self.ledgers[number].record(owner, addresses)

    @precondition(lambda self: any(self.operations))
    @rule(number=numbers, owner=owners, commit=st.booleans())
    def end(self, number: int, owner: str, commit: bool) -> None:
        operation, self.operations[number] = self.operations[number], None
        if operation is None:
            return
        for address in self.ledgers[number].addresses_of(owner)[:1]:
            operation.release(address, owner)
        try:
            if commit:
                operation.commit()
        except Refusal:
            pass
        operation.abort()

    @rule(number=numbers, network=networks())
    def reconfigure(self, number: int, network: Network) -> None:
        name = f"net{number}"
        self.ledgers[number].reconfigure(replace(network, id=name, name=name))

    @invariant()
    def bits_are_what_follows(self) -> None:
        for number, ledger in enumerate(self.ledgers):
            self.connect_again(number)
            kept = self.kept(number)
            for pool in ledger.network.pools():
                used = {address for address in each(pool.range) if ledger.owner_of(address)}
                rest = {address for address in each(pool.range) if address in kept} - used
                assert ledger.usage(pool) == Usage(size=pool.range.size, used=len(used), reserved=len(rest))
                assert runs_of(ledger, pool) == used | rest

    @invariant()
    def meetings_are_what_follows(self) -> None:
        for number, ledger in enumerate(self.ledgers):
            others = self.others(number)
            assert ledger.meetings == {item for item in others if ledger.owner_of(item)}


def runs_of(ledger: Ledger, pool: Pool) -> set[Address]:
    """Everything of a pool that is not free."""
    ranges: Iterable[IPRange] = ledger.reserved_runs(pool)
    return {address for item in ranges for address in each(item)}


class _AtLength(SharedWire):
    """The same in more steps."""


TestSharedWire = SharedWire.TestCase
TestSharedWire.settings = settings(max_examples=examples(20), stateful_step_count=25)

TestSharedWireAtLength = pytest.mark.slow(_AtLength.TestCase)
TestSharedWireAtLength.settings = settings(max_examples=100, stateful_step_count=50)

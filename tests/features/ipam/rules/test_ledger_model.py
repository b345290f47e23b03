"""Ledgers of every representation against a plain one, through any sequence of operations.

All get the same calls, so they are also compared with each other: one with a bit for each address, one that never has
that, and one with both kinds of pools.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import Address, IPRange
from lanloom.features.ipam.rules.ledger import Ledger, Operation
from lanloom.features.ipam.rules.model import Network
from lanloom.refusals import Refusal
from tests.features.ipam.rules.plain_ledger import PlainLedger, PlainOperation
from tests.features.ipam.rules.small_networks import ADDRESSES, networks
from tests.harness.examples import examples

DENSE_LIMITS = (1 << 24, 0, 8)
REQUESTS = ("pool", "pool4", "pool6", "one", "two", "three")
OWNERS = ("default/a-0", "default/a-1", "default/b-0", "other/a-0")

addresses = st.sampled_from(ADDRESSES)
owners = st.sampled_from(OWNERS)
quotas = st.sampled_from(({}, {"*": 3}))
shared = st.builds(lambda network, quota: replace(network, quota=quota), networks(), quotas)


def outcome(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return call(*arguments, **named)
    except Refusal as error:
        return type(error)


class Bookkeeping(RuleBasedStateMachine):
    """Operations side by side, and the truth that comes in between."""

    @initialize(network=shared)
    def start(self, network: Network) -> None:
        self.plain = PlainLedger(network)
        self.ledgers = [Ledger(network, dense_limit=limit) for limit in DENSE_LIMITS]
        self.open: list[tuple[PlainOperation, list[Operation]]] = []

    def chosen(self, data: st.DataObject) -> tuple[PlainOperation, list[Operation]]:
        return self.open[data.draw(st.integers(0, len(self.open) - 1), label="operation")]

    @precondition(lambda self: len(self.open) < 4)
    @rule()
    def begin(self) -> None:
        self.open.append((self.plain.begin(), [ledger.begin() for ledger in self.ledgers]))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), address=addresses, owner=owners, force=st.booleans())
    def take(self, data: st.DataObject, address: Address, owner: str, force: bool) -> None:
        plain, operations = self.chosen(data)
        expected = outcome(self.plain.take, plain, address, owner, force)
        for operation in operations:
            assert outcome(operation.take, address, owner, force=force) == expected

    @precondition(lambda self: self.open)
    @rule(data=st.data(), owner=owners, request=st.sampled_from(REQUESTS), times=st.integers(1, 20))
    def take_next(self, data: st.DataObject, owner: str, request: str, times: int) -> None:
        plain, operations = self.chosen(data)
        for _ in range(times):
            expected = outcome(self.plain.take_next, plain, owner, request)
            for operation in operations:
                assert outcome(operation.take_next, owner, request) == expected

    @precondition(lambda self: self.open and self.plain.owned)
    @rule(data=st.data(), stranger=st.sampled_from((False, False, True)))
    def release(self, data: st.DataObject, stranger: bool) -> None:
        plain, operations = self.chosen(data)
        address = data.draw(st.sampled_from(sorted(self.plain.owned)), label="address")
        owner = "default/stranger" if stranger else self.plain.owned[address]
        self.plain.release(plain, address, owner)
        for operation in operations:
            operation.release(address, owner)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        plain, operations = chosen = self.chosen(data)
        expected = outcome(self.plain.commit, plain)
        for operation in operations:
            assert outcome(operation.commit) == expected
        if expected is None:
            self.end(chosen)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        plain, operations = chosen = self.chosen(data)
        self.plain.abort(plain)
        for operation in operations:
            operation.abort()
        self.end(chosen)

    def end(self, chosen: tuple[PlainOperation, list[Operation]]) -> None:
        self.open.remove(chosen)
        for operation in chosen[1]:
            operation.abort()
            with pytest.raises(RuntimeError, match="has ended"):
                operation.commit()

    @rule(data=st.data(), owner=owners)
    def record(self, data: st.DataObject, owner: str) -> None:
        held = st.sampled_from(sorted(self.plain.held()) or ADDRESSES)
        known = data.draw(st.sets(held | addresses, max_size=5), label="known")
        expected = self.plain.record(owner, known)
        for ledger in self.ledgers:
            assert ledger.record(owner, known) == expected

    @rule(network=shared)
    def reconfigure(self, network: Network) -> None:
        self.plain.network = network
        for ledger in self.ledgers:
            ledger.reconfigure(network)

    @rule()
    def start_again(self) -> None:
        """A new process knows what is committed, and begins with that."""
        for plain, _ in self.open:
            self.plain.abort(plain)
        self.open = []
        owned = {owner: self.plain.addresses_of(owner) for owner in OWNERS}
        self.ledgers = [Ledger(self.plain.network, owned, dense_limit=limit) for limit in DENSE_LIMITS]

    @invariant()
    def owners_are_the_same(self) -> None:
        held = self.plain.held()
        for ledger in self.ledgers:
            assert {address: owner for address in ADDRESSES if (owner := ledger.owner_of(address))} == held
            for owner in OWNERS:
                assert ledger.addresses_of(owner) == self.plain.addresses_of(owner)
            whole = IPRange(ADDRESSES[0], ADDRESSES[-1])
            assert list(ledger.owned_in(whole)) == list(held.items())

    @invariant()
    def namespaces_are_counted(self) -> None:
        used = Counter(owner.split("/")[0] for owner in self.plain.held().values())
        for ledger in self.ledgers if self.plain.network.quota else ():
            assert {name: ledger.used_by(name) for name in ("default", "other")} == {
                name: used[name] for name in ("default", "other")
            }

    @invariant()
    def pools_are_the_same(self) -> None:
        for pool in self.plain.network.pools():
            usage = self.plain.usage(pool)
            taken = self.plain.taken(pool)
            owned = [item for item in self.plain.held().items() if item[0] in pool.range]
            for ledger in self.ledgers:
                assert ledger.usage(pool) == usage
                assert list(ledger.owned_in(pool.range)) == owned
                assert text_of(ledger.reserved_runs(pool), pool.range) == taken

    @invariant()
    def external_reservations_are_the_same(self) -> None:
        reserved = [self.plain.is_reserved(address) for address in ADDRESSES]
        for ledger in self.ledgers:
            assert [ledger.is_reserved(address) for address in ADDRESSES] == reserved


def text_of(runs: Any, whole: IPRange) -> str:
    """Runs as a text of zeros and ones; they must be in order and apart from each other."""
    text, reached = "", whole.first
    for run in runs:
        assert run.first > reached or (run.first == reached == whole.first)
        text += "0" * (run.first - reached) + "1" * run.size
        reached = run.last + 1
    return text + "0" * (whole.last + 1 - reached)


class _AtLength(Bookkeeping):
    """The same in more steps."""


TestBookkeeping = Bookkeeping.TestCase
TestBookkeeping.settings = settings(max_examples=examples(20), stateful_step_count=40)

TestBookkeepingAtLength = pytest.mark.slow(_AtLength.TestCase)
TestBookkeepingAtLength.settings = settings(max_examples=100, stateful_step_count=50)

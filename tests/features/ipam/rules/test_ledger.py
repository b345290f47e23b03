"""What a ledger promises of owners and operations, one by one; see `test_ledger_model` for all of it together."""

import pytest

from lanloom.features.ipam.rules.addresses import format_address, parse_address, parse_range
from lanloom.features.ipam.rules.ledger import (
    AddressInUse,
    AddressReserved,
    Exhausted,
    Ledger,
    OutsideSubnets,
)
from tests.features.ipam.rules.ledgers import SMALL, A, B, give, next_texts


def test_refusals_name_the_address_and_the_reason() -> None:
    """An explicit address is refused for one of three reasons; each is named."""
    ledger = Ledger(SMALL, {B: [parse_address("192.0.2.3")]})
    operation = ledger.begin()
    with pytest.raises(OutsideSubnets, match=r"net1 does not contain 192\.0\.3\.1"):
        operation.take(parse_address("192.0.3.1"), A, force=True)
    with pytest.raises(
        AddressInUse, match=r"192\.0\.2\.3 is already used by an instance \(NIC default/b-0\)"
    ):
        operation.take(parse_address("192.0.2.3"), A, force=True)
    with pytest.raises(AddressReserved, match=r"192\.0\.2\.1 of network net1 is externally reserved$"):
        operation.take(parse_address("192.0.2.1"), A)
    with pytest.raises(Exhausted, match="pool rack of network net1 is full"):
        operation.take_next(A, "rack")
    operation.commit()
    assert list(ledger.owned_in(parse_range("0.0.0.0/0"))) == [(parse_address("192.0.2.3"), B)]


def test_concurrent_operations_get_different_addresses() -> None:
    """What one operation has taken no other gets, before it commits and whether it commits or not."""
    ledger = Ledger(SMALL)
    one, other = ledger.begin(), ledger.begin()
    first, second = one.take_next(A, "pool"), other.take_next(B, "pool")
    assert (format_address(first), format_address(second)) == ("192.0.2.2", "192.0.2.3")
    with pytest.raises(AddressInUse):
        other.take(first, B)
    one.abort()
    other.commit()
    assert next_texts(ledger, 1) == ["192.0.2.2"]


def test_a_released_address_is_free_after_the_commit_only() -> None:
    """Neither another operation nor the same one gets what is only about to be released."""
    ledger = Ledger(SMALL)
    give(ledger, A, "192.0.2.2")
    address = parse_address("192.0.2.2")
    releasing, taking = ledger.begin(), ledger.begin()
    releasing.release(address, A)
    for operation in (releasing, taking):
        with pytest.raises(AddressInUse):
            operation.take(address, B)
    assert format_address(taking.take_next(B, "pool")) == "192.0.2.3"
    releasing.commit()
    taking.take(address, B)
    taking.commit()
    assert ledger.owner_of(address) == B


def test_an_aborted_release_changes_nothing() -> None:
    """What an operation wanted to release stays owned, and can be released by another one."""
    ledger = Ledger(SMALL)
    give(ledger, A, "192.0.2.2")
    operation = ledger.begin()
    operation.release(parse_address("192.0.2.2"), A)
    operation.abort()
    assert [format_address(address) for address in ledger.addresses_of(A)] == ["192.0.2.2"]
    again = ledger.begin()
    again.release(parse_address("192.0.2.2"), A)
    again.commit()
    assert ledger.addresses_of(A) == ()


def test_a_release_is_of_what_the_nic_had_then() -> None:
    """A NIC that lost an address and got it again keeps it when an older operation releases what it once had."""
    ledger = Ledger(SMALL)
    give(ledger, A, "192.0.2.2")
    address = parse_address("192.0.2.2")
    late = ledger.begin()
    late.release(address, A)
    ledger.record(A, ())
    give(ledger, A, "192.0.2.2")
    late.commit()
    assert ledger.owner_of(address) == A


def test_what_is_known_wins_over_an_operation() -> None:
    """An address that turns out to be another NIC's makes the commit fail as a whole, and nothing is changed."""
    ledger = Ledger(SMALL)
    give(ledger, A, "192.0.2.5")
    operation = ledger.begin()
    taken = [operation.take_next(A, "pool") for _ in range(2)]
    operation.release(parse_address("192.0.2.5"), A)
    assert ledger.record(B, [taken[1]]) == ()
    with pytest.raises(
        AddressInUse, match=r"192\.0\.2\.3 is used by an instance \(NIC default/b-0\), as was found during"
    ):
        operation.commit()
    operation.abort()
    assert [format_address(address) for address in ledger.addresses_of(A)] == ["192.0.2.5"]
    assert ledger.addresses_of(B) == (taken[1],)
    assert next_texts(ledger, 2) == ["192.0.2.2", "192.0.2.4"]


def test_what_is_known_already_can_be_committed_and_not_be_aborted_away() -> None:
    """News that arrive before the end of the operation that caused them change nothing about its end."""
    for ending in ("commit", "abort"):
        ledger = Ledger(SMALL)
        operation = ledger.begin()
        address = operation.take_next(A, "pool")
        ledger.record(A, [address])
        assert list(ledger.owned_in(SMALL.subnets[0].cidr.range)) == [(address, A)]
        getattr(operation, ending)()
        assert ledger.addresses_of(A) == (address,)
        assert ledger.usage(next(SMALL.pools())).used == 1


def test_an_address_that_an_operation_holds_is_not_freed_by_news() -> None:
    """What was known to be another NIC's and is not any more is again the operation's that has taken it before."""
    ledger = Ledger(SMALL)
    operation = ledger.begin()
    address = operation.take_next(A, "pool")
    ledger.record(B, [address])
    ledger.record(B, ())
    assert ledger.usage(next(SMALL.pools())).used == 1
    assert ledger.owner_of(address) == A
    assert next_texts(ledger, 1, owner=B) == [format_address(address + 1)]
    operation.commit()
    assert ledger.addresses_of(A) == (address,)


def test_a_commit_releases_before_it_gives() -> None:
    """An address that an operation has taken, and that came to be known and was then released in it, is given."""
    ledger = Ledger(SMALL)
    operation = ledger.begin()
    address = operation.take_next(A, "pool")
    ledger.record(A, [address])
    operation.release(address, A)
    operation.commit()
    assert ledger.addresses_of(A) == (address,)
    assert ledger.usage(next(SMALL.pools())).used == 1


def test_an_address_that_is_recorded_twice_stays_with_the_first() -> None:
    """Two NICs that claim one address are reported; the one that was known first has it."""
    ledger = Ledger(SMALL)
    addresses = [parse_address("192.0.2.2"), parse_address("192.0.2.3")]
    assert ledger.record(A, addresses[:1]) == ()
    assert ledger.record(B, addresses) == (addresses[0],)
    assert ledger.addresses_of(A) == (addresses[0],)
    assert ledger.addresses_of(B) == (addresses[1],)


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_an_operation_that_has_ended_can_not_be_used(ending: str) -> None:
    """Any use after the end raises, except an abort, which does nothing."""
    ledger = Ledger(SMALL)
    operation = ledger.begin()
    address = operation.take_next(A, "pool")
    getattr(operation, ending)()
    for use in (
        lambda: operation.take(address + 1, A),
        lambda: operation.take_next(A, "pool"),
        lambda: operation.release(address, A),
        operation.commit,
    ):
        with pytest.raises(RuntimeError, match="has ended"):
            use()
    operation.abort()
    assert bool(ledger.owner_of(address)) == (ending == "commit")

"""What a ledger gives out of pools of any kind and size, in which order, and what of them is reserved."""

import tracemalloc
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lanloom.features.ipam.rules.addresses import (
    Address,
    format_address,
    parse_address,
    parse_cidr,
    parse_range,
)
from lanloom.features.ipam.rules.ledger import (
    DENSE_LIMIT,
    Exhausted,
    Ledger,
)
from lanloom.features.ipam.rules.model import Network, Pool, Subnet, Usage
from tests.features.ipam.rules.ledgers import SMALL, A, B, give, network, next_texts, subnet
from tests.harness.examples import examples


def test_network_broadcast_and_gateway_are_not_given_out() -> None:
    """A /28 with the gateway .5 has 13 free addresses, as in Ganeti, and they come lowest first."""
    whole = network(subnet("192.0.2.0/28", "192.0.2.0/28", gateway="192.0.2.5"))
    ledger = Ledger(whole)
    (pool,) = whole.pools()
    assert ledger.usage(pool) == Usage(size=16, used=0, reserved=3)
    assert ledger.usage(pool).free == 13
    runs = [str(run) for run in ledger.reserved_runs(pool)]
    assert runs == ["192.0.2.0", "192.0.2.5", "192.0.2.15"]
    last = [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert next_texts(ledger, 13) == [f"192.0.2.{number}" for number in last]
    with pytest.raises(Exhausted, match="network net1 is full"):
        ledger.begin().take_next(A, "pool")


def test_a_full_network_names_what_disabled_pools_have() -> None:
    """Where only disabled pools have free addresses, the refusal says how many, and that a pool can be enabled."""
    pools = (
        Pool(range=parse_range("192.0.2.10"), name="a"),
        Pool(range=parse_range("192.0.2.20-192.0.2.21"), name="b", disabled=True),
    )
    subnet = Subnet(uuid="u", cidr=parse_cidr("192.0.2.0/24")[0], pools=pools)
    ledger = Ledger(Network(id="q3", name="q3", subnets=(subnet,)), {B: [parse_address("192.0.2.10")]})
    for request, what in (("pool", "network"), ("pool4", "every IPv4 pool of network")):
        with pytest.raises(Exhausted) as caught:
            ledger.begin().take_next(A, request)
        assert str(caught.value) == (
            f"{what} q3 is full, but for 2 free addresses in disabled pools; "
            "enable a pool, add one, or release addresses"
        )
    with pytest.raises(Exhausted, match="pool a of network q3 is full; add a pool, or release addresses"):
        ledger.begin().take_next(A, "a")


def test_external_reservations_and_owners_are_independent() -> None:
    """An address that is reserved while it is used stays both; releasing it leaves the reservation."""
    free = network(subnet("192.0.2.0/29", "192.0.2.0/29"))
    reserved = network(subnet("192.0.2.0/29", "192.0.2.0/29", external=["192.0.2.1-192.0.2.2"]))
    ledger = Ledger(free)
    give(ledger, A, "192.0.2.1")
    ledger.reconfigure(reserved)
    (pool,) = reserved.pools()
    assert ledger.usage(pool) == Usage(size=8, used=1, reserved=3)
    assert [str(run) for run in ledger.reserved_runs(pool)] == ["192.0.2.0-192.0.2.2", "192.0.2.7"]
    ledger.record(A, ())
    assert ledger.usage(pool) == Usage(size=8, used=0, reserved=4)
    assert next_texts(ledger, 1) == ["192.0.2.3"]
    ledger.reconfigure(free)
    assert next_texts(ledger, 3) == ["192.0.2.1", "192.0.2.2", "192.0.2.4"]


def test_addresses_outlive_pools_and_subnets() -> None:
    """What a NIC owns stays its own where the pool or the subnet went, and is reserved again when they are back."""
    ledger = Ledger(SMALL)
    assert next_texts(ledger, 2) == ["192.0.2.2", "192.0.2.3"]
    for bare in (network(subnet("192.0.2.0/29")), network()):
        ledger.reconfigure(bare)
        assert ledger.owner_of(parse_address("192.0.2.3")) == A
        with pytest.raises(Exhausted):
            ledger.begin().take_next(A, "pool")
    ledger.record(A, [parse_address("192.0.2.3")])
    ledger.reconfigure(SMALL)
    assert next_texts(ledger, 2) == ["192.0.2.2", "192.0.2.4"]


@settings(max_examples=examples(60))
@given(
    st.sets(st.integers(0, 31)),
    st.tuples(st.integers(0, 31), st.integers(0, 31)),
    st.booleans(),
    st.sampled_from((0, 1 << 24)),
)
def test_a_pool_that_is_cut_and_mended_gives_out_the_same(
    used: set[int], cut: tuple[int, int], six: bool, limit: int
) -> None:
    """Removing a range of a pool and adding it again brings every address in the same order as before."""
    prefix = "2001:db8::/123" if six else "192.0.2.0/27"
    before = network(subnet(prefix, prefix))
    first = next(before.pools()).range.first
    low, high = sorted(cut)
    hole = parse_range(f"{format_address(first + low)}-{format_address(first + high)}")
    parts = (Pool(range=part) for part in next(before.pools()).range.without(hole))
    split = network(subnet(prefix, *parts))
    mended = network(subnet(prefix, *sorted((*split.pools(), Pool(range=hole)), key=lambda pool: pool.range)))
    owned = {A: [first + number for number in used]}
    changed = Ledger(before, owned, dense_limit=limit)
    changed.reconfigure(split)
    assert all(item not in hole for item in _drained(changed))
    changed.reconfigure(mended)
    assert _drained(changed) == _drained(Ledger(before, owned))


def _drained(ledger: Ledger) -> list[Address]:
    """All that could be given out, in order."""
    operation, found = ledger.begin(), list[Address]()
    try:
        while True:
            found.append(operation.take_next(B, "pool"))
    except Exhausted:
        return found
    finally:
        operation.abort()


def test_pools_are_tried_in_order_and_by_what_was_asked_for() -> None:
    """Subnets as they were added, pools by address; a name stands for all pools of that name that are not disabled."""
    ledger = Ledger(
        network(
            subnet(
                "2001:db8::/64",
                Pool(range=parse_range("2001:db8::5"), name="low"),
                Pool(range=parse_range("2001:db8::9"), name="high"),
            ),
            subnet(
                "192.0.2.0/24",
                Pool(range=parse_range("192.0.2.7"), name="off", disabled=True),
                Pool(range=parse_range("192.0.2.8-192.0.2.9"), name="low"),
            ),
        )
    )
    assert next_texts(ledger, 1, "pool4") == ["192.0.2.8"]
    assert next_texts(ledger, 1, "high") == ["2001:db8::9"]
    assert next_texts(ledger, 2, "low") == ["2001:db8::5", "192.0.2.9"]
    for request in ("pool", "pool6", "high", "off"):
        with pytest.raises(Exhausted):
            ledger.begin().take_next(A, request)


def test_no_address_goes_out_twice_even_if_pools_overlap() -> None:
    """Overlapping pools are forbidden; where they come from elsewhere, still no NIC gets another one's address."""
    overlapping = network(subnet("192.0.2.0/28", "192.0.2.2-192.0.2.4", "192.0.2.3-192.0.2.6"))
    ledger = Ledger(overlapping)
    assert next_texts(ledger, 5) == [f"192.0.2.{number}" for number in (2, 3, 4, 5, 6)]
    with pytest.raises(Exhausted):
        ledger.begin().take_next(A, "pool")
    ledger.record(A, ())
    ledger.reconfigure(network(subnet("192.0.2.0/28", "192.0.2.2-192.0.2.4")))
    assert next_texts(ledger, 3) == [f"192.0.2.{number}" for number in (2, 3, 4)]


def test_a_pool_need_not_be_one_of_the_network() -> None:
    """What a pool would hold can be asked before it is added, and after it was removed."""
    ledger = Ledger(SMALL)
    next_texts(ledger, 2)
    pool = Pool(range=parse_range("192.0.2.1-192.0.2.4"))
    assert ledger.usage(pool) == Usage(size=4, used=2, reserved=1)
    assert [str(run) for run in ledger.reserved_runs(pool)] == ["192.0.2.1-192.0.2.3"]


@pytest.mark.slow
@pytest.mark.parametrize("cidr", ["10.0.0.0/17", "2001:db8::/111", "2001:db8::/64"])
@pytest.mark.parametrize("limit", [0, DENSE_LIMIT], ids=["sparse", "dense"])
def test_large_pools_give_out_the_lowest_address_too(cidr: str, limit: int) -> None:
    """Over many blocks, with any of them full, released in part or untouched, it is the lowest that is free."""
    random = Random(cidr)
    whole = network(subnet(cidr, cidr, external=[f"{cidr.split('/')[0]}-{_later(cidr, 5000)}"]))
    first = next(whole.pools()).range.first
    free = list(range(first + 5001, first + 20_000))
    ledger = Ledger(whole, dense_limit=limit)
    operation = ledger.begin()
    assert [operation.take_next(A, "pool") for _ in free] == free
    operation.commit()
    released = sorted({*random.sample(free, 300), free[0], free[-1], *free[4000:9000]})
    ledger.record(A, set(free).difference(released))
    wanted = [*released, first + 20_000]
    operation = ledger.begin()
    assert [operation.take_next(B, "pool") for _ in wanted] == wanted
    assert ledger.usage(next(whole.pools())).used == len(free) + 1


def _later(cidr: str, count: int) -> str:
    return format_address(parse_cidr(cidr)[0].first + count)


@pytest.mark.parametrize(
    "cidr, lower_half, first_free",
    [
        ("2001:db8::/64", "2001:db8::/65", "2001:db8:0:0:8000::"),
        ("0.0.0.0/0", "0.0.0.0/1", "128.0.0.0"),
        ("::/0", "::/1", "8000::"),
    ],
)
def test_a_huge_pool_costs_nothing(cidr: str, lower_half: str, first_free: str) -> None:
    """A ledger with a pool over a /64 and more, half of it reserved, takes less than 10 KB."""
    huge = network(subnet(cidr, cidr, external=[lower_half]))
    size = 1 << (huge.subnets[0].cidr.bits - huge.subnets[0].cidr.length)
    Ledger(huge)
    tracemalloc.start()
    ledger = Ledger(huge)
    cost, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cost < 10_000
    edges = len(huge.subnets[0].edges) - 1
    assert ledger.usage(next(huge.pools())) == Usage(size=size, used=0, reserved=size // 2 + edges)
    assert next_texts(ledger, 1) == [first_free]
    assert list(ledger.owned_in(huge.subnets[0].cidr.range)) == [(parse_address(first_free), A)]
    assert str(next(ledger.reserved_runs(next(huge.pools())))).endswith(f"-{first_free}")

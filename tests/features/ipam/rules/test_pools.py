"""Pools: where they may lie, how they are split, and what their users keep."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.rules.addresses import format_address, parse_address
from lanloom.features.ipam.rules.ledger import Exhausted
from lanloom.features.ipam.rules.model import Network
from lanloom.refusals import Denied
from tests.features.ipam.rules.network_text import (
    Owned,
    ledger_for,
    lines,
    modified,
    network_with,
)

NET = network_with(
    "cidr=10.0.0.0/24,gateway=10.0.0.1,name=front",
    "cidr=10.0.1.0/24,name=back",
    pools=["10.0.0.10-10.0.0.19,name=a", "10.0.0.30-10.0.0.39,name=b", "10.0.1.10-10.0.1.19,name=a"],
)


def handed_out(network: Network, request: str = "pool", owned: Owned | None = None) -> list[str]:
    """Every address that a request gets, until nothing is left."""
    operation = ledger_for(network, owned).begin()
    found = []
    while True:
        try:
            found.append(format_address(operation.take_next("nic", request)))
        except Exhausted:
            return found


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("add:10.0.0.15", r"overlaps the pool 10.0.0.10-10.0.0.19 \(a\)"),
        ("add:10.0.0.5-10.0.0.10", "overlaps"),
        ("add:10.0.0.0/24", "overlaps"),
        ("add:subnet=front", "overlaps"),
        ("add:subnet=nobody", "has no subnet"),
        (
            "add:10.0.2.1",
            "no subnet contains all of the pool 10.0.2.1; its subnets are: 10.0.0.0/24, 10.0.1.0/24",
        ),
        ("add:10.0.0.200-10.0.1.5", "no subnet contains all"),
        ("add:2001:db8::1-2001:db8::5", "no subnet contains all"),
        ("nobody:modify,name=x", r"has no pool \"nobody\"; its pools are: 10.0.0.10-10.0.0.19 \(a\), "),
        ("10.0.0.10-10.0.0.18:modify,name=x", "has no pool 10.0.0.10-10.0.0.18"),
        ("a:modify,name=x", "2 pools with the name a.*10.0.0.10-10.0.0.19, 10.0.1.10-10.0.1.19"),
        ("a:remove", "2 pools with the name a.*10.0.0.10-10.0.0.19, 10.0.1.10-10.0.1.19"),
        ("remove:a", "2 pools with the name a"),
        ("nobody:remove", "has no pool"),
        ("remove:10.0.0.20-10.0.0.29", "10.0.0.20-10.0.0.29 is in no pool"),
        ("remove:172.16.0.1", "is in no pool"),
    ],
)
def test_what_is_refused(option: str, message: str) -> None:
    """Pools lie in one subnet and never overlap; a shared name lists the ranges; a removal meets a pool."""
    with pytest.raises(Denied, match=message):
        modified(NET, pools=[option])


def test_a_network_without_pools() -> None:
    """Where there is no subnet or pool, the message says so."""
    for option, message in {
        "add:10.0.0.1": "its subnets are: none",
        "remove:10.0.0.1": "its pools are: none",
        "p:modify,disabled": "its pools are: none",
    }.items():
        with pytest.raises(Denied, match=message):
            modified(network_with(), pools=[option])


def test_pools_are_ordered_by_address() -> None:
    """Inside of a subnet pools are ordered by address, whenever they were added."""
    network = modified(NET, pools=["add:10.0.0.25", "add:10.0.0.5", "add:10.0.0.20-10.0.0.24"]).network
    assert [str(pool.range) for pool in network.subnets[0].pools] == [
        "10.0.0.5",
        "10.0.0.10-10.0.0.19",
        "10.0.0.20-10.0.0.24",
        "10.0.0.25",
        "10.0.0.30-10.0.0.39",
    ]


def test_a_removal_cuts_what_it_meets() -> None:
    """A range is cut out of every pool that has some of it; what is left keeps name, order and `disabled`."""
    network = modified(NET, pools=["b:modify,disabled=true"]).network
    network = modified(network, pools=["remove:10.0.0.12-10.0.1.14"]).network
    assert lines(network)[1:] == [
        "  pool 10.0.0.10-10.0.0.11 (a)",
        "10.0.1.0/24 (back)",
        "  pool 10.0.1.15-10.0.1.19 (a)",
    ]
    network = modified(NET, pools=["b:modify,disabled=true", "remove:10.0.0.33-10.0.0.35"]).network
    assert lines(network)[2:4] == [
        "  pool 10.0.0.30-10.0.0.32 (b) disabled",
        "  pool 10.0.0.36-10.0.0.39 (b) disabled",
    ]


def test_a_name_is_a_label_of_several_pools() -> None:
    """A name means the first free address across the pools with that name, in order."""
    network = modified(NET, pools=["remove:10.0.0.12-10.0.0.18"]).network
    expected = ["10.0.0.10", "10.0.0.11", "10.0.0.19", *(f"10.0.1.{number}" for number in range(10, 20))]
    assert handed_out(network, "a") == expected


def test_removing_and_adding_again_restores_allocation() -> None:
    """A range that is removed and added again hands out the same addresses in the same order as before."""
    owned = {"nic1": ["10.0.0.13"]}
    removed = modified(NET, pools=["remove:10.0.0.12-10.0.0.16"], owned=owned).network
    again = modified(removed, pools=["add:10.0.0.12-10.0.0.16,name=a"], owned=owned).network
    assert handed_out(removed, owned=owned) != handed_out(NET, owned=owned)
    for request in ("pool", "a", "b"):
        assert handed_out(again, request, owned) == handed_out(NET, request, owned)


RUNS = st.tuples(st.integers(0, 59), st.integers(0, 20)).map(lambda pair: (pair[0], min(sum(pair), 59)))


def addresses(run: tuple[int, int]) -> str:
    """A run of NET's addresses, as a range."""
    return f"10.0.0.{run[0]}-10.0.0.{run[1]}"


@given(
    pools=st.lists(RUNS, max_size=6),
    cut=RUNS,
    used=st.sets(st.integers(0, 59)),
    name=st.sampled_from(["a", "b"]),
)
def test_what_is_added_again_allocates_as_before(
    pools: list[tuple[int, int]], cut: tuple[int, int], used: set[int], name: str
) -> None:
    """Whatever the pools and their users are: what was removed can be added again, and all is as before."""
    network = network_with("cidr=10.0.0.0/24", pools=[f"{addresses(cut)},name={name}"])
    owned = {f"nic{number}": [f"10.0.0.{number}"] for number in used}
    for run in pools:
        with suppress(Denied):  # overlaps
            network = modified(network, pools=[f"add:{addresses(run)},name={'ab'[run[0] % 2]}"]).network
    middle = (cut[0], cut[0] + (cut[1] - cut[0]) // 2)
    fewer = modified(network, pools=[f"remove:{addresses(middle)}"], owned=owned).network
    again = modified(fewer, pools=[f"add:{addresses(middle)},name={name}"], owned=owned).network
    for request in ("pool", "a", "b"):
        assert handed_out(again, request, owned) == handed_out(network, request, owned)
        assert set(handed_out(fewer, request, owned)) <= set(handed_out(network, request, owned))


def test_owned_addresses_in_a_new_pool_are_reserved() -> None:
    """A pool that is added over addresses in use has them reserved, and says so."""
    owned = {"nic1": ["10.0.0.101"]}
    change = modified(NET, pools=["add:10.0.0.100-10.0.0.102,name=c"], owned=owned)
    assert handed_out(change.network, "c", owned) == ["10.0.0.100", "10.0.0.102"]
    assert change.notes == (
        "NICs own addresses of pool 10.0.0.100-10.0.0.102 (c) already: 10.0.0.101 (NIC nic1)",
    )


def test_a_removed_pool_leaves_addresses_to_their_owners() -> None:
    """A pool can be removed under its users; they keep their addresses, which is reported."""
    owned = {"nic1": ["10.0.0.33"]}
    change = modified(NET, pools=["b:remove"], owned=owned)
    assert change.notes == (
        "NICs keep addresses that are no longer in pool 10.0.0.30-10.0.0.39 (b): 10.0.0.33 (NIC nic1)",
    )
    ledger = ledger_for(change.network, owned)
    assert ledger.owner_of(parse_address("10.0.0.33")) == "nic1"
    again = modified(change.network, pools=["add:10.0.0.30-10.0.0.39,name=b"], owned=owned).network
    assert handed_out(again, "b", owned) == handed_out(NET, "b", owned)


def test_a_pool_over_all_of_a_subnet_gives_no_edge_and_no_gateway() -> None:
    """A pool may have the edges and the gateway in it, which are not handed out."""
    network = network_with("cidr=10.0.0.0/29,gateway=10.0.0.3,pool", "cidr=2001:db8::/125,pool")
    assert handed_out(network, "pool4") == [f"10.0.0.{number}" for number in (1, 2, 4, 5, 6)]
    assert handed_out(network, "pool6") == [f"2001:db8::{number}" for number in range(1, 8)]


def test_a_disabled_pool_hands_out_nothing() -> None:
    """A pool can be disabled and enabled again; what it gave stays given."""
    off = modified(NET, pools=["b:modify,disabled=true"]).network
    assert handed_out(off, "b") == []
    assert "  pool 10.0.0.30-10.0.0.39 (c) disabled" in lines(
        modified(off, pools=["b:modify,name=c"]).network
    )
    on = modified(off, pools=["b:modify,disabled=false"]).network
    assert handed_out(on, "b") == handed_out(NET, "b")


def test_pools_of_one_subnet_come_before_those_of_the_next() -> None:
    """Subnets in the order in which they were added, pools by address, then the lowest free address."""
    assert handed_out(NET)[9:11] == ["10.0.0.19", "10.0.0.30"]
    assert handed_out(NET)[19:21] == ["10.0.0.39", "10.0.1.10"]


def test_a_pool_over_a_64_costs_nothing() -> None:
    """Pools over IPv6 subnets of any size are made, split and removed without walking over their addresses."""
    network = network_with("cidr=2001:db8::/64,name=six,pool", "cidr=fc00::/7,pool")
    network = modified(network, pools=["remove:2001:db8::1:0-2001:db8::1:ffff"]).network
    assert lines(network)[1:3] == [
        "  pool 2001:db8::-2001:db8::ffff",
        "  pool 2001:db8::2:0-2001:db8::ffff:ffff:ffff:ffff",
    ]
    assert lines(modified(network, ["six:modify,cidr=2001:db8::/112"]).network)[:2] == [
        "2001:db8::/112 (six)",
        "  pool 2001:db8::-2001:db8::ffff",
    ]

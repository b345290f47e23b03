"""Which addresses a NIC gets for what it asks for."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.features.ipam.rules.addresses import (
    Address,
    format_address,
    parse_address,
    parse_range,
    version_of,
)
from lanloom.features.ipam.rules.ledger import (
    AddressInUse,
    AddressReserved,
    Exhausted,
    Ledger,
    OutsideSubnets,
)
from lanloom.features.ipam.rules.model import Network, Pool
from lanloom.features.ipam.rules.requests import (
    Claim,
    Request,
    parse_requests,
    settle,
    settle_all,
)
from lanloom.refusals import Denied, Malformed, Refusal
from tests.features.ipam.rules.ledgers import subnet
from tests.harness.examples import examples


def pool(text: str, name: str = "", *, disabled: bool = False) -> Pool:
    """A pool."""
    return Pool(range=parse_range(text), name=name, disabled=disabled)


NETWORK = Network(
    id="net1",
    name="net1",
    subnets=(
        subnet(
            "192.0.2.0/24",
            pool("192.0.2.0-192.0.2.3", "low"),
            pool("192.0.2.10-192.0.2.12", "split"),
            pool("192.0.2.20-192.0.2.21", "split"),
            pool("192.0.2.30-192.0.2.31", "off", disabled=True),
            gateway="192.0.2.1",
            external=("192.0.2.11", "192.0.2.100-192.0.2.110"),
        ),
        subnet("2001:db8::/64", pool("2001:db8::/64", "six"), gateway="2001:db8::1"),
    ),
)
OTHERS = {"default/other-0": ("192.0.2.10", "192.0.2.50")}


def ledger(network: Network = NETWORK, **owned: Sequence[str]) -> Ledger:
    """Who owns what before: another NIC, and the NIC `me`."""
    known = {**(OTHERS if network is NETWORK else {}), **owned}
    return Ledger(network, {key: map(parse_address, ips) for key, ips in known.items()})


def ask(
    *wanted: str,
    held: Sequence[str] = (),
    given_up: Sequence[str] = (),
    force: bool = False,
    network: Network = NETWORK,
) -> list[str]:
    """What the NIC `me` has after it asked, and the operation was committed."""
    books = ledger(network, me=held)
    operation = books.begin()
    found = settle(
        operation,
        network,
        "me",
        tuple(map(parse_address, held)),
        parse_requests(wanted),
        force=force,
        given_up=tuple(map(parse_address, given_up)),
    )
    operation.commit()
    assert books.addresses_of("me") == tuple(sorted(found))
    return list(map(format_address, found))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (("pool",), ["192.0.2.2"]),
        (("pool4", "pool6"), ["192.0.2.2", "2001:db8::2"]),
        (("pool", "pool", "pool"), ["192.0.2.2", "192.0.2.3", "192.0.2.12"]),
        (("low", "low"), ["192.0.2.2", "192.0.2.3"]),
        (("split", "split", "split"), ["192.0.2.12", "192.0.2.20", "192.0.2.21"]),
        (("pool", "192.0.2.2"), ["192.0.2.3", "192.0.2.2"]),
        (("192.0.2.77",), ["192.0.2.77"]),
        (("192.0.2.30",), ["192.0.2.30"]),
        (("2001:DB8:0::00:5",), ["2001:db8::5"]),
        ((), []),
    ],
)
def test_what_is_free_is_given(wanted: tuple[str, ...], found: list[str]) -> None:
    """Explicit addresses first, then the lowest free ones of pools in order; never edges, gateways or external ones."""
    assert ask(*wanted) == found


@pytest.mark.parametrize(
    ("wanted", "held", "given_up", "found"),
    [
        (("pool",), ("192.0.2.3",), (), ["192.0.2.3"]),
        (("pool",), ("192.0.2.3",), ("192.0.2.3",), ["192.0.2.2"]),
        (("pool",), ("192.0.2.2",), ("192.0.2.2",), ["192.0.2.3"]),
        (("pool",), ("192.0.2.3",), ("192.0.2.2", "192.0.2.3"), ["192.0.2.12"]),
        (("pool", "pool"), ("192.0.2.3",), ("192.0.2.2",), ["192.0.2.3", "192.0.2.12"]),
        (("pool", "192.0.2.2"), ("192.0.2.3",), ("192.0.2.2", "192.0.2.3"), ["192.0.2.12", "192.0.2.2"]),
        (("split",), ("192.0.2.3",), (), ["192.0.2.12"]),
        (("off",), ("192.0.2.30",), (), ["192.0.2.30"]),
        (("low",), ("192.0.2.77",), (), ["192.0.2.77"]),
        (("pool6",), ("192.0.2.3",), (), ["2001:db8::2"]),
        (("pool6", "pool4"), ("192.0.2.3", "2001:db8::9"), (), ["2001:db8::9", "192.0.2.3"]),
        (("pool", "192.0.2.2"), ("192.0.2.2",), (), ["192.0.2.3", "192.0.2.2"]),
        (("192.0.2.101",), ("192.0.2.101",), (), ["192.0.2.101"]),
        (("192.0.2.60", "pool"), ("192.0.2.3", "192.0.2.60"), (), ["192.0.2.60", "192.0.2.3"]),
        ((), ("192.0.2.3",), (), []),
    ],
)
def test_what_a_nic_has_it_keeps(
    wanted: tuple[str, ...], held: tuple[str, ...], given_up: tuple[str, ...], found: list[str]
) -> None:
    """An entry keeps a fitting address that the NIC has, or gets one that is not given up; the rest is released."""
    assert ask(*wanted, held=held, given_up=given_up) == found


def test_what_is_given_up_is_not_given_again() -> None:
    """A NIC that gives up all that is left of a pool is refused, told why, and leaves the rest free for others."""
    books = ledger(me=("192.0.2.2",))
    operation = books.begin()
    given_up = tuple(map(parse_address, ("192.0.2.2", "192.0.2.3")))
    with pytest.raises(
        Exhausted, match=r"low of network net1 is full.*spec.release keeps the NIC from 192.0.2.3$"
    ):
        settle(operation, NETWORK, "me", given_up[:1], ("low",), given_up=given_up)
    operation.abort()
    operation = books.begin()
    settle(operation, NETWORK, "me", given_up[:1], ("pool",), given_up=given_up)
    assert settle(operation, NETWORK, "you", (), ("low",)) == given_up[1:]


EMPTY = Network(id="net2", name="net2", subnets=(subnet("192.0.2.0/24"),))
OFF = Network(id="net3", name="net3", subnets=(subnet("192.0.2.0/24", pool("192.0.2.8/29", disabled=True)),))
FULL = Network(
    id="net4",
    name="net4",
    subnets=(subnet("192.0.2.0/24", pool("192.0.2.8", "one"), external=["192.0.2.8"]),),
)


@pytest.mark.parametrize(
    ("wanted", "network", "error", "message"),
    [
        (("192.0.2.10",), NETWORK, AddressInUse, "192.0.2.10 is already used by an instance"),
        (("192.0.2.101",), NETWORK, AddressReserved, "192.0.2.101 .* externally reserved"),
        (("192.0.2.1",), NETWORK, AddressReserved, "--force"),
        (("192.0.2.255",), NETWORK, AddressReserved, "--force"),
        (("10.0.0.1",), NETWORK, OutsideSubnets, "net1 does not contain 10.0.0.1"),
        (("low", "low", "low"), NETWORK, Exhausted, "pool low of network net1 is full"),
        (
            ("low", "low", "low"),
            NETWORK,
            Exhausted,
            "3 addresses wanted, 2 free: pool low of network net1 is full",
        ),
        (("one",), FULL, Exhausted, "pool one of network net4 is full"),
        (("pool",), FULL, Exhausted, "network net4 is full"),
        (("off",), NETWORK, Exhausted, "pool off of network net1 is disabled"),
        (("pool",), OFF, Exhausted, "every pool of network net3 is disabled"),
        (("pool",), EMPTY, Exhausted, "network net2 has no pool;"),
        (("pool6",), FULL, Exhausted, "network net4 has no IPv6 pool"),
        (("nosuch",), NETWORK, Denied, 'has no pool "nosuch"; its pools are: low, off, six, split'),
        (("nosuch",), EMPTY, Denied, "it has no named pool"),
        (("192.0.2.5", "192.0.2.5"), NETWORK, Malformed, "192.0.2.5 is requested twice"),
        (("2001:db8::5", "2001:db8:0::5"), NETWORK, Malformed, "2001:db8::5 is requested twice"),
    ],
)
def test_what_can_not_be_given(
    wanted: tuple[str, ...], network: Network, error: type[Refusal], message: str
) -> None:
    """Each refusal names the address, pool or network; after the operation is aborted nothing is changed."""
    books = ledger(network)
    operation = books.begin()
    with pytest.raises(error, match=message):
        settle(operation, network, "me", (), parse_requests(wanted))
    operation.abort()
    assert [books.owner_of(parse_address(text)) for text in ("192.0.2.2", "192.0.2.5")] == ["", ""]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2.0/24",
        "192.0.2.1 ",
        "a b",
        "2001:db8::g",
        "x=y",
        "pool\n",
        "é",
        "none",
        "auto",
        "192.0.2.300",
        "10.0.0.1-10.0.0.5",
    ],
)
def test_a_request_that_can_not_be_read(text: str) -> None:
    """What is neither an address nor a name is malformed, whatever the network is."""
    with pytest.raises(Malformed, match="neither an IP address nor"):
        parse_requests((text,))


def test_force() -> None:
    """Force takes reserved addresses, gateways and edges, but none that another NIC owns."""
    assert ask("192.0.2.101", "192.0.2.1", "192.0.2.255", force=True) == [
        "192.0.2.101",
        "192.0.2.1",
        "192.0.2.255",
    ]
    with pytest.raises(AddressInUse):
        ask("192.0.2.10", force=True)


def test_what_is_released_is_free_after_the_commit_only() -> None:
    """A NIC that gives its address up does not get it again, and no other does in the same operation."""
    books = ledger(me=["192.0.2.2"])
    operation = books.begin()
    (address,) = parse_requests(("192.0.2.2",))
    assert isinstance(address, int)
    settle(operation, NETWORK, "me", (address,), ())
    with pytest.raises(AddressInUse):
        settle(operation, NETWORK, "you", (), (address,))


def test_explicit_addresses_of_every_nic_come_first() -> None:
    """In one operation no automatic entry takes what another NIC of it asks for by address."""
    operation = ledger().begin()
    claims = [
        Claim(owner="a", wanted=parse_requests(("pool",))),
        Claim(owner="b", wanted=parse_requests(("pool", "192.0.2.2"))),
    ]
    (mine,), yours = settle_all(operation, NETWORK, claims)
    assert [mine, *yours] == [parse_address(text) for text in ("192.0.2.3", "192.0.2.12", "192.0.2.2")]


SMALL = Network(
    id="small",
    name="small",
    subnets=(
        subnet("192.0.2.8/29", pool("192.0.2.12-192.0.2.14", "b"), gateway="192.0.2.9"),
        subnet(
            "192.0.2.0/29", pool("192.0.2.1-192.0.2.3", "a"), pool("192.0.2.5", "b"), external=["192.0.2.2"]
        ),
        subnet("2001:db8::/125", pool("2001:db8::/126", "a")),
    ),
)
EVERY = [
    address for item in SMALL.subnets for address in range(item.cidr.range.first, item.cidr.range.last + 1)
]
requests = st.lists(
    st.one_of(st.sampled_from(EVERY), st.sampled_from(["pool", "pool4", "pool6", "a", "b"])), max_size=6
)


def naive(owners: dict[Address, str], wanted: Sequence[Request], force: bool) -> list[Address] | None:
    """All of `wanted` by the plainest reading of the rules, or None for a refusal."""
    explicit = [item for item in wanted if isinstance(item, int)]
    reserved = {
        address for item in SMALL.subnets for part in item.reserved for address in EVERY if address in part
    }
    if len(set(explicit)) < len(explicit) or any(item in owners for item in explicit):
        return None
    if not force and reserved.intersection(explicit):
        return None
    taken, found = {*owners, *explicit}, list[Address]()
    for item in wanted:
        if isinstance(item, int):
            found.append(item)
            continue
        fits = {"pool": (4, 6), "pool4": (4,), "pool6": (6,)}.get(item, (4, 6))
        candidates = [
            address
            for one in SMALL.subnets
            for part in one.pools
            for address in range(part.range.first, part.range.last + 1)
            if (item.startswith("pool") or part.name == item) and version_of(address) in fits
        ]
        free = [address for address in candidates if address not in taken and address not in reserved]
        if not free:
            return None
        taken.add(free[0])
        found.append(free[0])
    return found


@settings(max_examples=examples(150), deadline=None)
@given(st.dictionaries(st.sampled_from(EVERY), st.just("other"), max_size=10), requests, st.booleans())
def test_as_the_naive_reading(owners: dict[Address, str], wanted: list[Request], force: bool) -> None:
    """Whatever is asked for, a NIC gets what the plainest reading of the rules gives, or nothing is changed."""
    books = Ledger(SMALL, {"other": owners})
    operation = books.begin()
    try:
        found = list(settle(operation, SMALL, "me", (), wanted, force=force))
    except Refusal:
        operation.abort()
        assert naive(owners, wanted, force) is None
        assert all(books.owner_of(address) == owners.get(address, "") for address in EVERY)
    else:
        assert found == naive(owners, wanted, force)


@settings(max_examples=examples(100), deadline=None)
@given(st.sets(st.sampled_from(EVERY), max_size=5), requests, st.sets(st.sampled_from(EVERY), max_size=3))
def test_asking_again_changes_nothing(
    held: set[Address], wanted: list[Request], given_up: set[Address]
) -> None:
    """A NIC that has what it asked for keeps every address when it asks again; what it gave up it has not."""
    books = Ledger(SMALL, {"me": held})
    operation = books.begin()
    try:
        found = settle(
            operation, SMALL, "me", tuple(sorted(held)), wanted, force=True, given_up=tuple(given_up)
        )
    except Refusal:
        return
    operation.commit()
    automatic = {address for address, item in zip(found, wanted, strict=True) if isinstance(item, str)}
    assert not automatic & given_up
    again = books.begin()
    assert settle(again, SMALL, "me", found, wanted, force=False, given_up=tuple(given_up)) == found

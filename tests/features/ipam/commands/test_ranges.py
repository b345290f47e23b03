"""A pool as ranges: what is used, reserved and free of it, and the holders."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.commands.ranges import pool_ranges, squares
from lanloom.features.ipam.rules.addresses import (
    IPRange,
    format_address,
    parse_address,
    parse_cidr,
    parse_range,
)
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pool, Subnet
from lanloom.features.ipam.rules.others import Holder

SIZES = st.integers(0, 63)


def network(pool: str, *, cidr: str, gateway: str, external: tuple[str, ...] = ()) -> Network:
    """A network with one pool."""
    subnet = Subnet(
        uuid="u",
        cidr=parse_cidr(cidr)[0],
        gateway=parse_address(gateway),
        external=tuple(map(parse_range, external)),
        pools=(Pool(range=parse_range(pool)),),
    )
    return Network(id="net", name="net", subnets=(subnet,))


@given(
    used=st.dictionaries(SIZES, st.sampled_from(["a/x", "a/y", "b/z"]), max_size=30),
    external=st.lists(SIZES, max_size=5),
    held=st.lists(SIZES, max_size=5),
)
def test_stretches_are_the_pool(used: dict[int, str], external: list[int], held: list[int]) -> None:
    """Ranges cover each address once, in order, with the state and the counts that the ledger has."""
    first = parse_address("10.0.0.0")
    outside = tuple(format_address(first + number) for number in external)
    net = network("10.0.0.0/26", cidr="10.0.0.0/26", gateway="10.0.0.1", external=outside)
    ledger = Ledger(net)
    for owner in set(used.values()):
        ledger.record(owner, [first + number for number, name in used.items() if name == owner])
    ledger.connect({first + number: Holder(what="a gateway") for number in held})
    (pool,) = net.pools()
    found = pool_ranges(ledger, pool, {})
    assert found[0].range.first == pool.range.first and found[-1].range.last == pool.range.last
    assert all(a.range.last + 1 == b.range.first for a, b in pairwise(found))
    usage = ledger.usage(pool)
    for state, count in (("used", usage.used), ("reserved", usage.reserved), ("free", usage.free)):
        assert sum(item.range.size for item in found if item.state == state) == count
    each = list(squares(ledger, pool, {}))
    assert [address for address, _, _ in each] == list(range(pool.range.first, pool.range.last + 1))
    for address, state, who in each:
        assert (state == "used") == bool(ledger.owner_of(address))
        assert who == (f"NIC {ledger.owner_of(address)}" if state == "used" else who)
        assert bool(who) == (state != "free")


def test_a_large_pool_of_ipv6() -> None:
    """A pool over a /64 has as few ranges as it has owners, each with its holder and why it is not given."""
    net = network("fd00:4::/64", cidr="fd00:4::/64", gateway="fd00:4::1", external=("fd00:4::a-fd00:4::f",))
    ledger = Ledger(net)
    ledger.record("shop/web", [parse_address("fd00:4::100"), parse_address("fd00:4::101")])
    (pool,) = net.pools()
    found = pool_ranges(ledger, pool, {"shop/web": "VirtualMachine shop/web, NIC 0"})
    assert [(str(item.range), item.state, item.who) for item in found] == [
        ("fd00:4::", "reserved", "address of the subnet itself"),
        ("fd00:4::1", "reserved", "gateway"),
        ("fd00:4::2-fd00:4::9", "free", ""),
        ("fd00:4::a-fd00:4::f", "reserved", "externally reserved"),
        ("fd00:4::10-fd00:4::ff", "free", ""),
        ("fd00:4::100-fd00:4::101", "used", "VirtualMachine shop/web, NIC 0"),
        ("fd00:4::102-fd00:4::ffff:ffff:ffff:ffff", "free", ""),
    ]
    assert sum(item.range.size for item in found) == IPRange(pool.range.first, pool.range.last).size

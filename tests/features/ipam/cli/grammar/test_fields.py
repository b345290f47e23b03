"""The query fields of networks against Ganeti's own algorithm where a network has the old shape; bars and maps."""

import ipaddress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.cli.query import Value
from lanloom.features.ipam.cli.grammar.fields import (
    LETTERS,
    NETWORK_FIELDS,
    Described,
    bar,
    map_text,
    percent,
    warning,
)
from lanloom.features.ipam.rules.addresses import (
    IPRange,
    merge,
    parse_address,
    parse_cidr,
    parse_range,
)
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Nic,
    Owner,
    Pool,
    Subnet,
    Usage,
)
from tests.harness.examples import examples

FIELDS = {field.name: field for field in NETWORK_FIELDS.fields}


class OldNetwork:
    """Today's network, as Ganeti's documentation describes it: one bit for each address, twice.

    One kind of bits for what instances have, the other for what is reserved for something outside.
    """

    def __init__(self, cidr: str, gateway: str | None) -> None:
        self.net = ipaddress.IPv4Network(cidr)
        self.gateway = gateway
        self.inside = [False] * self.net.num_addresses
        self.outside = [False] * self.net.num_addresses
        self.outside[0] = self.outside[-1] = True
        if gateway is not None:
            self.outside[self.index(gateway)] = True

    def index(self, address: str) -> int:
        return int(ipaddress.IPv4Address(address)) - int(self.net.network_address)

    def both(self) -> list[bool]:
        return [one or other for one, other in zip(self.inside, self.outside, strict=True)]

    def fields(self) -> dict[str, object]:
        """What `gnt-network list` shows."""
        taken = self.both()
        return {
            "network": str(self.net),
            "gateway": self.gateway,
            "map": "".join("X" if bit else "." for bit in taken),
            "free_count": taken.count(False),
            "reserved_count": taken.count(True),
        }


def described(network: Network, *taken: str) -> Described:
    """A network of whose addresses NICs own some."""
    nics = {f"default/nic{index}": [parse_address(text)] for index, text in enumerate(taken)}
    return Described(network=network, ledger=Ledger(network, nics))


def fields(of: Described, *names: str) -> dict[str, Value]:
    """The values of fields."""
    return {name: FIELDS[name].value(of) for name in names}


def upgraded(old: OldNetwork) -> Described:
    """The same network as it is now: one subnet, with a pool over all of it."""
    cidr, _ = parse_cidr(str(old.net))
    every = [cidr.range.first + index for index, bit in enumerate(old.outside) if bit]
    subnet = Subnet(
        uuid="u",
        cidr=cidr,
        gateway=None if old.gateway is None else parse_address(old.gateway),
        pools=(Pool(range=cidr.range),),
        external=merge(IPRange(address, address) for address in every),
    )
    network = Network(id="old", name="old", subnets=(subnet,))
    return described(network, *(str(old.net[index]) for index, bit in enumerate(old.inside) if bit))


@st.composite
def old_networks(draw: st.DrawFn) -> OldNetwork:
    """Networks between /30 and /22 with any gateway, used and reserved addresses."""
    length = draw(st.integers(22, 30))
    net = ipaddress.IPv4Network((draw(st.integers(0, 2**32 - 1)), length), strict=False)
    rng = Random(draw(st.integers()))
    gateway = str(net[rng.randrange(1, net.num_addresses - 1)]) if draw(st.booleans()) else None
    old = OldNetwork(str(net), gateway)
    for bits, share in ((old.inside, draw(st.floats(0, 1))), (old.outside, draw(st.floats(0, 1)))):
        for index in range(net.num_addresses):
            bits[index] = bits[index] or rng.random() < share
    return old


@given(old_networks())
@settings(max_examples=examples(60), deadline=None)
def test_deprecated_fields_and_counts_equal_ganetis(old: OldNetwork) -> None:
    """For every network of the old shape the deprecated fields and the counts are what Ganeti showed."""
    expected = old.fields()
    assert fields(upgraded(old), *expected) == expected


def test_ganetis_own_example() -> None:
    """A /28 with gateway .5 shows X....X.........X and 13 free."""
    shown = fields(upgraded(OldNetwork("192.0.2.0/28", "192.0.2.5")), "map", "free_count", "reserved_count")
    assert shown == {"map": "X....X.........X", "free_count": 13, "reserved_count": 3}


V4 = Subnet(
    uuid="u4",
    cidr=parse_cidr("192.0.2.0/24")[0],
    gateway=parse_address("192.0.2.1"),
    pools=(
        Pool(range=parse_range("192.0.2.10-192.0.2.19"), name="pool1"),
        Pool(range=parse_range("192.0.2.30"), disabled=True),
    ),
    external=(parse_range("192.0.2.12-192.0.2.13"),),
)
V6 = Subnet(
    uuid="u6",
    cidr=parse_cidr("2001:db8::/64")[0],
    gateway=parse_address("2001:db8::1"),
    dhcp=True,
    name="six",
    pools=(Pool(range=parse_cidr("2001:db8::/64")[0].range, name="huge"),),
)
BOTH = Network(
    id="net1",
    name="Net_1",
    uuid="0f0f",
    mac_prefix="aa:00:01",
    tags=("a", "b"),
    subnets=(V4, V6),
    connections=(Connection(group="default", mode="bridged", link="br0", vlan="100"),),
)


def test_subnets() -> None:
    """The field has CIDR, gateway, DHCP and name of each subnet, and null where there is none."""
    assert fields(described(BOTH), "subnets") == {
        "subnets": [
            {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "dhcp": False, "name": None},
            {"cidr": "2001:db8::/64", "gateway": "2001:db8::1", "dhcp": True, "name": "six"},
        ]
    }


def test_pools_of_each_subnet_have_a_map() -> None:
    """The field has, for each subnet, each pool's ends, and a map with X for used and external addresses."""
    first, _ = FIELDS["pools"].value(described(BOTH, "192.0.2.10", "192.0.2.12", "192.0.2.200"))  # type: ignore[misc]
    assert first == [
        {
            "start": "192.0.2.10",
            "end": "192.0.2.19",
            "map": "X.XX......",
            "name": "pool1",
            "disabled": False,
        },
        {"start": "192.0.2.30", "end": "192.0.2.30", "map": ".", "name": None, "disabled": True},
    ]


def test_large_pools_have_runs_in_place_of_a_map() -> None:
    """A pool with more than 65,536 addresses has no map but counts and runs, and costs nothing."""
    taken = ("2001:db8::2", "2001:db8::3", "2001:db8::ffff:1")
    pools: Any = FIELDS["pools"].value(described(BOTH, *taken))
    _, (pool,) = pools
    assert pool == {
        "start": "2001:db8::",
        "end": "2001:db8::ffff:ffff:ffff:ffff",
        "map": None,
        "name": "huge",
        "disabled": False,
        "size": 2**64,
        "free_count": 2**64 - 5,
        "reserved_count": 5,
        "runs": ["2001:db8::-2001:db8::3", "2001:db8::ffff:1"],
    }


def test_a_map_of_65536_addresses_is_the_largest() -> None:
    """A /16 has a map, a /15 has none."""
    for cidr, expected in (("10.0.0.0/16", 65_536), ("10.0.0.0/15", None)):
        whole = parse_cidr(cidr)[0]
        subnet = Subnet(uuid="u", cidr=whole, pools=(Pool(range=whole.range),))
        value = fields(described(Network(id="n", name="n", subnets=(subnet,))), "map")["map"]
        assert value is None if expected is None else len(str(value)) == expected


def test_counts_are_of_all_pools() -> None:
    """Addresses are counted over all pools, and only there; free ones of disabled pools apart, as no NIC gets them."""
    of = described(BOTH, "192.0.2.10", "192.0.2.12", "192.0.2.200")
    assert fields(of, "free_count", "disabled_free_count", "reserved_count") == {
        "free_count": 7 + 2**64 - 2,
        "disabled_free_count": 1,
        "reserved_count": 3 + 2,
    }


def test_external_reservations_are_ranges() -> None:
    """Every externally reserved range is listed, those that are reserved of themselves included."""
    assert fields(described(BOTH), "external_reservations") == {
        "external_reservations": [
            "192.0.2.0-192.0.2.1",
            "192.0.2.12-192.0.2.13",
            "192.0.2.255",
            "2001:db8::-2001:db8::1",
        ]
    }


def test_groups_and_instances() -> None:
    """Groups are listed with their link; instances by name, each once, pods and nodes not among them."""
    owners = (
        Owner(kind="Instance", namespace="default", name="inst1"),
        Owner(kind="Instance", namespace="default", name="inst1"),
        Owner(kind="VirtualMachine", namespace="shop", name="web"),
        Owner(kind="Pod", namespace="shop", name="front"),
        Owner(kind="Node", namespace="", name="node1"),
    )
    nics = tuple(Nic(key=f"default/{index}", owner=owner) for index, owner in enumerate(owners))
    of = replace(described(BOTH), nics=nics)
    assert fields(of, "group_list", "group_cnt", "inst_list", "inst_cnt") == {
        "group_list": [["default", "bridged", "br0", "100"]],
        "group_cnt": 1,
        "inst_list": ("inst1", "shop/web"),
        "inst_cnt": 2,
    }


def test_a_network_without_subnets() -> None:
    """An L2 network has no addresses: lists are empty, counts 0, and what describes a subnet is null."""
    of = described(Network(id="l2", name="l2"))
    assert fields(of, "subnets", "pools", "free_count", "reserved_count", "external_reservations") == {
        "subnets": [],
        "pools": [],
        "free_count": 0,
        "reserved_count": 0,
        "external_reservations": [],
    }
    deprecated = ("network", "gateway", "network6", "gateway6", "map", "mac_prefix")
    assert set(fields(of, *deprecated).values()) == {None}


def test_texts_for_people() -> None:
    """In a table lists are short: a subnet with its gateway, DHCP and name, a group with its link."""
    of = described(BOTH)
    shown = {name: field.show(field.value(of)) for name, field in FIELDS.items()}
    assert shown["subnets"] == (
        "192.0.2.0/24 (gateway 192.0.2.1), 2001:db8::/64 (gateway 2001:db8::1, dhcp, six)"
    )
    assert shown["group_list"] == "default (bridged, br0, 100)"
    assert shown["tags"] == "a,b"
    assert shown["pools"] == (
        "192.0.2.10-192.0.2.19:..XX......,192.0.2.30-192.0.2.30:.,"
        f"2001:db8::-2001:db8::ffff:ffff:ffff:ffff:2/{2**64}"
    )
    assert shown["ctime"] == "-"


SPECIFIED = {
    "name",
    "uuid",
    "mac_prefix",
    "tags",
    "subnets",
    "pools",
    "free_count",
    "disabled_free_count",
    "reserved_count",
    "group_list",
    "group_cnt",
    "inst_list",
    "inst_cnt",
    "external_reservations",
    "ctime",
    "mtime",
    "serial_no",
    "network",
    "gateway",
    "network6",
    "gateway6",
    "map",
}


def test_every_field_of_the_specification_is_there() -> None:
    """The names are those of the command surface, and each field has a title and a description."""
    assert set(NETWORK_FIELDS.names()) == SPECIFIED
    assert all(field.title and field.description for field in NETWORK_FIELDS.fields)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Pools of any size, with any part used and reserved."""
    size = draw(st.one_of(st.integers(1, 20), st.integers(1, 2**128)))
    used = draw(st.integers(0, size))
    return Usage(size=size, used=used, reserved=draw(st.integers(0, size - used)))


@given(usages(), st.integers(3, 200))
def test_bars_are_as_wide_as_asked_and_show_whatever_there_is(usage: Usage, width: int) -> None:
    """A bar has exactly its width; whatever is used, reserved or free can be seen, and nothing else."""
    drawn = bar(usage, width, LETTERS)
    assert len(drawn) == width
    for glyph, amount in zip(LETTERS, (usage.used, usage.reserved, usage.free), strict=True):
        assert (glyph in drawn) == bool(amount)
    assert drawn == "".join(sorted(drawn, key=LETTERS.index))


@given(usages())
def test_percentages_round_towards_neither_end(usage: Usage) -> None:
    """0 % means nothing, 100 % means everything; what is full is said to be."""
    assert (percent(usage) == "0 %") == (usage.free == usage.size)
    assert (percent(usage) == "100 %") == (usage.free == 0)
    assert (warning(usage) == "full") == (usage.free == 0)


@pytest.mark.parametrize(
    ("size", "used", "reserved", "expected"),
    [
        (10, 7, 0, ""),
        (10, 7, 1, "nearly full"),
        (10, 8, 0, "nearly full"),
        (10, 10, 0, "full"),
        (1, 0, 0, ""),
    ],
)
def test_pools_are_nearly_full_from_80_per_cent_on(
    size: int, used: int, reserved: int, expected: str
) -> None:
    """Used and reserved addresses count together."""
    assert warning(Usage(size=size, used=used, reserved=reserved)) == expected


@given(st.sets(st.integers(0, 200)), st.integers(0, 100), st.integers(0, 100))
def test_maps_have_an_x_for_each_reserved_address(taken: set[int], start: int, length: int) -> None:
    """Each address of the range has its own character."""
    over = IPRange(start, start + length)
    inside = {address for address in taken if address in over}
    drawn = map_text(over, merge(IPRange(address, address) for address in inside))
    assert drawn == "".join("X" if start + index in inside else "." for index in range(length + 1))

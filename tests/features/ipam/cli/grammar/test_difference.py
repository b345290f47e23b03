"""The difference between two forms of a network."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.ipam.cli.grammar.difference import differences
from lanloom.features.ipam.rules.addresses import parse_address, parse_cidr, parse_range
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Pool,
    Subnet,
)

SUBNET = Subnet(
    uuid="u1",
    cidr=parse_cidr("192.0.2.0/24")[0],
    gateway=parse_address("192.0.2.1"),
    pools=(Pool(range=parse_range("192.0.2.10-192.0.2.19"), name="one"),),
    external=(parse_range("192.0.2.30-192.0.2.39"), parse_range("192.0.2.50")),
)
NETWORK = Network(
    id="net1",
    name="net1",
    mac_prefix="aa:00:00",
    tags=("a", "b"),
    subnets=(SUBNET,),
    connections=(Connection(group="default", mode="bridged", link="br0"),),
)


def lines_of(before: Network | None, after: Network | None) -> list[str]:
    """The difference as lines."""
    return [f"{item.sign} {item.text}" for item in differences(before, after)]


def test_a_new_network_and_one_that_is_gone() -> None:
    """Everything of it is new, or gone."""
    lines = [
        "network net1",
        "MAC prefix aa:00:00",
        "tag a",
        "tag b",
        "node group default (mode bridged, link br0)",
        "subnet 192.0.2.0/24 (gateway 192.0.2.1)",
        "subnet 192.0.2.0/24: pool 192.0.2.10-192.0.2.19 (name one)",
        "subnet 192.0.2.0/24: reserved 192.0.2.30-192.0.2.39",
        "subnet 192.0.2.0/24: reserved 192.0.2.50",
    ]
    assert lines_of(None, NETWORK) == [f"+ {line}" for line in lines]
    assert lines_of(NETWORK, None) == [f"- {line}" for line in lines]


def test_general_things() -> None:
    """Name, prefix, tags and groups: what is other, new and gone."""
    after = replace(
        NETWORK,
        name="shop",
        mac_prefix="aa:00:01",
        tags=("b", "c"),
        connections=(Connection(group="default", mode="bridged", link="br1", vlan="7"),),
    )
    assert lines_of(NETWORK, after) == [
        "~ name net1 → shop",
        "~ MAC prefix aa:00:00 → aa:00:01",
        "- tag a",
        "+ tag c",
        "~ node group default: mode bridged, link br0 → mode bridged, link br1, VLAN 7",
    ]


def test_a_subnet_that_changes_keeps_its_line() -> None:
    """A subnet is the same one by its UUID, whatever else it has."""
    after = replace(SUBNET, cidr=parse_cidr("192.0.0.0/22")[0], gateway=None, dhcp=True, name="foo")
    assert lines_of(NETWORK, replace(NETWORK, subnets=(after,))) == [
        "~ subnet 192.0.2.0/24: CIDR 192.0.2.0/24 → 192.0.0.0/22; gateway 192.0.2.1 → none; "
        "dhcp false → true; name none → foo"
    ]


def test_pools_and_reserved_ranges() -> None:
    """Of pools each one is reported, of reserved ranges only the addresses that make the difference."""
    after = replace(
        SUBNET,
        pools=(
            Pool(range=parse_range("192.0.2.10-192.0.2.19"), name="one", disabled=True),
            Pool(range=parse_range("192.0.2.99")),
        ),
        external=(parse_range("192.0.2.35-192.0.2.45"), parse_range("192.0.2.50")),
    )
    assert lines_of(NETWORK, replace(NETWORK, subnets=(after,))) == [
        "~ subnet 192.0.2.0/24: pool 192.0.2.10-192.0.2.19: name one → name one, disabled",
        "+ subnet 192.0.2.0/24: pool 192.0.2.99",
        "- subnet 192.0.2.0/24: reserved 192.0.2.30-192.0.2.34",
        "+ subnet 192.0.2.0/24: reserved 192.0.2.40-192.0.2.45",
    ]


FORMS = st.builds(
    lambda tags, subnets: replace(NETWORK, tags=tuple(tags), subnets=tuple(subnets)),
    st.lists(st.sampled_from("abc"), unique=True),
    st.lists(
        st.sampled_from([SUBNET, replace(SUBNET, uuid="u2", cidr=parse_cidr("10.0.0.0/8")[0], name="ten")]),
        unique_by=lambda item: item.uuid,
    ),
)


@given(FORMS, FORMS)
def test_nothing_differs_only_where_all_is_the_same(before: Network, after: Network) -> None:
    """Two forms without a difference have the same things, in whatever order."""
    same = set(before.tags) == set(after.tags) and set(before.subnets) == set(after.subnets)
    assert (lines_of(before, after) == []) == same

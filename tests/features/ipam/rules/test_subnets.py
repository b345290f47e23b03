"""Subnets: what may be added, resized and removed, and what comes along."""

import pytest

from lanloom.features.ipam.cli.grammar.syntax import modify_steps
from lanloom.features.ipam.rules.addresses import parse_address
from lanloom.features.ipam.rules.change import apply
from lanloom.features.ipam.rules.subnets import SUBNETS_MAX
from lanloom.refusals import Denied
from tests.features.ipam.rules.network_text import (
    Owned,
    ledger_for,
    lines,
    modified,
    network_with,
    uuid,
)

NET = network_with(
    "cidr=192.0.2.0/24,gateway=192.0.2.1,dhcp=true,name=front",
    "cidr=2001:db8::/64,gateway=2001:db8::1,dhcp=true,name=six",
    "cidr=10.0.0.0/24,name=back",
    pools=["192.0.2.10-192.0.2.100,name=p", "192.0.2.200-192.0.2.220,name=q", "10.0.0.0/28"],
    reserved="192.0.2.50-192.0.2.60",
)


def test_host_bits_are_cleared_and_told() -> None:
    """A CIDR with host bits is normalised, and the change reported."""
    change = modified(NET, ["add:cidr=172.16.5.9/12"])
    assert lines(change.network)[-1] == "172.16.0.0/12"
    assert change.notes == ("--subnet: 172.16.5.9/12 has host bits; it means 172.16.0.0/12",)


def test_subnets_are_not_too_many() -> None:
    """A dry run refuses as many subnets as webhooks would."""
    many = [f"add:cidr=10.{number // 256}.{number % 256}.0/24" for number in range(SUBNETS_MAX)]
    network = modified(network_with(), many).network
    assert len(network.subnets) == SUBNETS_MAX
    with pytest.raises(Denied, match="more than 1024 subnets"):
        modified(network, ["add:cidr=192.0.2.0/24"])


def test_subnets_keep_their_order_and_uuid() -> None:
    """Subnets are ordered by insertion, and a change of one moves none and keeps its UUID."""
    network = modified(NET, ["front:modify,cidr=192.0.2.0/23", "add:cidr=9.0.0.0/24"]).network
    assert [str(subnet.cidr) for subnet in network.subnets] == [
        "192.0.2.0/23",
        "2001:db8::/64",
        "10.0.0.0/24",
        "9.0.0.0/24",
    ]
    assert [subnet.uuid for subnet in network.subnets] == [uuid(number) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("add:cidr=192.0.2.128/25", r"overlaps subnet 192.0.2.0/24 \(front\)"),
        ("add:cidr=192.0.0.0/8", "overlaps"),
        ("add:cidr=2001:db8::/48", "overlaps"),
        ("add:cidr=192.0.2.0/24", "overlaps"),
        ("add:cidr=172.16.0.0/24,name=front", "is the name of subnet 192.0.2.0/24"),
        ("back:modify,name=front", "is the name of subnet 192.0.2.0/24"),
        ("add:cidr=172.16.0.0/24,dhcp=true", "only one IPv4 subnet"),
        ("back:modify,dhcp=true", "only one IPv4 subnet"),
        ("add:cidr=2001:db8:1::/64,dhcp=true", "only one IPv6 subnet"),
        ("back:modify,cidr=192.0.0.0/16", "overlaps"),
        ("back:modify,cidr=2001:db8:1::/64", "other IP version"),
        ("nobody:remove", 'has no subnet "nobody"; its subnets are: 192.0.2.0/24 \\(front\\)'),
        ("172.16.0.0/24:remove", "has no subnet"),
        (f"{uuid(9)}:remove", "has no subnet"),
        ("front:modify,gateway=192.0.3.1", "lies outside of 192.0.2.0/24"),
        ("front:modify,gateway=192.0.2.0", "network address"),
        ("front:modify,gateway=192.0.2.255", "broadcast address"),
        ("six:modify,gateway=2001:db8::", "anycast"),
        ("six:modify,gateway=fe80::1", "lies outside of 2001:db8::/64"),
        ("front:modify,gateway=2001:db8::5", "lies outside"),
        ("add:cidr=224.0.0.0/24", "has multicast addresses, which no NIC can have"),
        ("add:cidr=::ffff:10.0.0.0/120", "has IPv4-mapped addresses, which no NIC can have"),
        ("add:cidr=ff05::/64", "has multicast addresses"),
        ("add:cidr=127.1.0.0/16", "has loopback addresses"),
        ("back:modify,cidr=127.0.0.0/8", "has loopback addresses"),
        ("add:cidr=126.0.0.0/7", "has loopback addresses"),
        ("add:cidr=::/96", "has loopback addresses"),
        ("add:cidr=::/64", "has loopback addresses"),
        ("add:cidr=224.0.0.0/3", "has multicast addresses"),
    ],
)
def test_what_no_network_can_be(option: str, message: str) -> None:
    """Subnets never overlap, share a name or both have dhcp in one version; they have hosts, such as a gateway."""
    with pytest.raises(Denied, match=message):
        modified(NET, [option])


@pytest.mark.parametrize(
    "option",
    ["add:cidr=2001:db8:1::/64", "add:cidr=192.0.3.0/24", "add:cidr=240.0.0.0/4", "back:modify,name=back"],
)
def test_what_a_network_can_be(option: str) -> None:
    """Neighbours do not overlap, and a subnet keeps what it has."""
    modified(NET, [option])


def test_dhcp_moves_in_two_steps() -> None:
    """Steps are checked in the order given: dhcp is first taken from one subnet, then given to another."""
    steps = ["front:modify,dhcp=false", "back:modify,dhcp=true"]
    assert "10.0.0.0/24 dhcp (back)" in lines(modified(NET, steps).network)
    with pytest.raises(Denied, match="only one IPv4"):
        modified(NET, list(reversed(steps)))


@pytest.mark.parametrize(
    ("owned", "cidr", "message"),
    [
        ({"a": ["192.0.2.210"]}, "192.0.2.0/25", r"192.0.2.210 \(NIC a\)"),  # in a pool
        ({"a": ["192.0.2.150"]}, "192.0.2.0/25", r"192.0.2.150 \(NIC a\)"),  # in none
        ({}, "192.0.2.0/27", "192.0.2.50-192.0.2.60; release them first"),
        ({}, "192.0.2.32/27", "gateway: 192.0.2.1 lies outside"),
        ({}, "192.0.2.0/31", "gateway|reserved"),
        ({}, "10.9.0.0/24", "gateway: 192.0.2.1 lies outside"),
    ],
)
def test_what_shrinking_must_not_cut_off(owned: Owned, cidr: str, message: str) -> None:
    """A subnet is not shrunk over owned addresses, the administrator's reserved ranges, or the gateway."""
    with pytest.raises(Denied, match=message):
        modified(NET, [f"front:modify,cidr={cidr}"], owned=owned)


def test_a_message_names_a_few_owners() -> None:
    """The owners that hinder are named, but not all."""
    owned = {f"nic{number}": [f"10.0.0.{number + 100}"] for number in range(9)}
    with pytest.raises(Denied, match=r"10.0.0.100 \(NIC nic0\), .*\(NIC nic2\) and others; remove"):
        modified(NET, ["back:remove"], owned=owned)
    few = {nic: owned[nic] for nic in ("nic0", "nic1", "nic2")}
    with pytest.raises(Denied, match=r"\(NIC nic2\); remove"):
        modified(NET, ["back:remove"], owned=few)


def test_shrinking_trims_pools() -> None:
    """Free parts of pools that are cut off are trimmed, pools without any addresses left are dropped, and both
    reported.
    """
    change = modified(NET, ["front:modify,cidr=192.0.2.0/26"], owned={"a": ["192.0.2.12"]})
    assert lines(change.network)[:3] == [
        "192.0.2.0/26 via 192.0.2.1 dhcp (front)",
        "  pool 192.0.2.10-192.0.2.63 (p)",
        "  reserved 192.0.2.50-192.0.2.60",
    ]
    assert change.notes == (
        "pool 192.0.2.10-192.0.2.100 (p) is reduced to 192.0.2.10-192.0.2.63, the part inside 192.0.2.0/26",
        "pool 192.0.2.200-192.0.2.220 (q) lies outside of 192.0.2.0/26 and is dropped",
    )


def test_a_resize_may_change_the_gateway_that_it_cuts_off() -> None:
    """The gateway may be cut off if the same option gives another, or none."""
    bare = network_with("cidr=192.0.2.0/24,gateway=192.0.2.1,name=front")
    for gateway, line in (
        ("192.0.2.33", "192.0.2.32/27 via 192.0.2.33 (front)"),
        ("none", "192.0.2.32/27 (front)"),
    ):
        assert lines(modified(bare, [f"front:modify,cidr=192.0.2.32/27,gateway={gateway}"]).network) == [line]


def test_a_subnet_can_move_elsewhere() -> None:
    """To a disjoint CIDR, if all of the old part may be cut off."""
    bare = network_with("cidr=10.0.0.0/24,gateway=10.0.0.1,name=a,pool")
    option = "a:modify,cidr=10.7.0.0/24,gateway=10.7.0.1"
    assert lines(modified(bare, [option]).network) == ["10.7.0.0/24 via 10.7.0.1 (a)"]
    with pytest.raises(Denied, match="would lose"):
        modified(bare, [option], owned={"a": ["10.0.0.77"]})
    reserved = modified(bare, add="10.0.0.9").network
    with pytest.raises(Denied, match="reserved"):
        modified(reserved, [option])


def test_an_owned_address_may_become_an_edge() -> None:
    """A resize may make an address that a NIC owns the new broadcast address."""
    change = modified(NET, ["back:modify,cidr=10.0.0.0/25"], owned={"a": ["10.0.0.127"]})
    assert parse_address("10.0.0.127") in change.network.subnets[2].edges


def test_automatic_entries_move() -> None:
    """A resize and a change of the gateway swap the reserved addresses; the administrator's ranges stay as given."""
    bare = network_with(
        "cidr=10.0.0.0/25,gateway=10.0.0.1", reserved="10.0.0.1-10.0.0.3,10.0.0.120-10.0.0.127"
    )
    network = modified(bare, ["10.0.0.0/25:modify,cidr=10.0.0.0/24,gateway=10.0.0.9"]).network
    assert [str(item) for item in network.subnets[0].reserved] == [
        "10.0.0.0-10.0.0.3",
        "10.0.0.9",
        "10.0.0.120-10.0.0.127",
        "10.0.0.255",
    ]


def test_an_edge_in_a_reserved_range_does_not_hinder_shrinking() -> None:
    """The broadcast address can't be taken out of a reserved range, so it may be cut off with it."""
    network = network_with("cidr=10.0.0.0/24", reserved="10.0.0.250-10.0.0.255")
    network = modified(network, remove="10.0.0.250-10.0.0.254").network
    assert lines(network) == ["10.0.0.0/24", "  reserved 10.0.0.255"]
    assert lines(modified(network, ["10.0.0.0/24:modify,cidr=10.0.0.0/25"]).network) == ["10.0.0.0/25"]


def test_the_gateway_is_nobody_s_address() -> None:
    """An address that a NIC owns doesn't become the gateway."""
    with pytest.raises(Denied, match="used by NIC a"):
        modified(NET, ["front:modify,gateway=192.0.2.77"], owned={"a": ["192.0.2.77"]})
    with pytest.raises(Denied, match="used by NIC a"):
        modified(NET, ["add:cidr=10.7.0.0/24,gateway=10.7.0.1"], owned={"a": ["10.7.0.1"]})


def test_a_gateway_given_by_force_hinders_only_what_concerns_it() -> None:
    """Where a NIC has the gateway by force, the subnet can be renamed, but not resized with that gateway."""
    owned = {"a": ["192.0.2.1"]}
    modified(NET, ["front:modify,name=other"], owned=owned)
    modified(NET, ["front:modify,gateway=192.0.2.1"], owned=owned)
    modified(NET, ["front:modify,cidr=192.0.2.0/23,gateway=none"], owned=owned)
    with pytest.raises(Denied, match="used by NIC a"):
        modified(NET, ["front:modify,cidr=192.0.2.0/23"], owned=owned)


def test_removing_needs_that_nobody_owns_an_address() -> None:
    """A subnet is removed with its pools, reserved ranges and gateway, unless NICs own addresses in it."""
    assert "192.0.2" not in "".join(lines(modified(NET, ["front:remove"]).network))
    modified(NET, ["front:remove"], owned={"a": ["10.0.0.3"]})
    with pytest.raises(Denied, match=r"192.0.2.150 \(NIC a\)"):
        modified(NET, ["front:remove"], owned={"a": ["192.0.2.150"]})


def test_a_pending_operation_keeps_a_subnet() -> None:
    """An address that an operation is about to give away keeps its subnet too."""
    ledger = ledger_for(NET)
    operation = ledger.begin()
    operation.take(parse_address("2001:db8::7"), "a")
    with pytest.raises(Denied, match="2001:db8::7"):
        apply(NET, modify_steps(["six:remove"]), ledger, lambda: uuid(9))
    operation.abort()
    apply(NET, modify_steps(["six:remove"]), ledger, lambda: uuid(9))


def test_an_identifier_is_a_uuid_then_a_name_then_a_cidr() -> None:
    """A UUID means the same in any case of letters; a CIDR is looked up by what it means."""
    network = network_with("cidr=10.0.0.0/24", "cidr=10.0.1.0/24,name=x")
    for ident in ("x", "10.0.1.0/24", uuid(2), uuid(2).upper()):
        assert lines(modified(network, [f"{ident}:remove"]).network) == ["10.0.0.0/24"]

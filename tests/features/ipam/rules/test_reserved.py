"""Addresses that the administrator reserves."""

import pytest

from lanloom.refusals import Denied
from tests.features.ipam.rules.network_text import lines, modified, network_with

NET = network_with(
    "cidr=10.0.0.0/24,gateway=10.0.0.1",
    "cidr=10.0.1.0/24",
    "cidr=2001:db8::/64",
    pools=["10.0.0.10-10.0.0.99"],
    reserved="10.0.0.20-10.0.0.29",
)


def reserved(network_lines: list[str]) -> list[str]:
    """The reserved ranges among the lines."""
    return [line.removeprefix("  reserved ") for line in network_lines if "reserved" in line]


@pytest.mark.parametrize(
    ("ranges", "expected", "notes"),
    [
        ("10.0.0.40", ["10.0.0.20-10.0.0.29", "10.0.0.40"], ()),
        ("10.0.0.30-10.0.0.35", ["10.0.0.20-10.0.0.35"], ()),
        (
            "10.0.0.25-10.0.0.35",
            ["10.0.0.20-10.0.0.35"],
            ("10.0.0.25-10.0.0.29 of 10.0.0.25-10.0.0.35 was reserved already",),
        ),
        ("10.0.0.22", ["10.0.0.20-10.0.0.29"], ("10.0.0.22 of 10.0.0.22 was reserved already",)),
        (
            "10.0.1.5-10.0.1.6,10.0.1.6-10.0.1.7",
            ["10.0.0.20-10.0.0.29", "10.0.1.5-10.0.1.7"],
            ("10.0.1.6 of 10.0.1.6-10.0.1.7 was reserved already",),
        ),
        (
            "10.0.0.0-10.0.0.2",
            ["10.0.0.0-10.0.0.2", "10.0.0.20-10.0.0.29"],
            ("10.0.0.0-10.0.0.1 of 10.0.0.0-10.0.0.2 was reserved already",),
        ),
        ("10.0.1.8/31", ["10.0.0.20-10.0.0.29", "10.0.1.8-10.0.1.9"], ()),
        ("2001:db8::1:0/112", ["10.0.0.20-10.0.0.29", "2001:db8::1:0-2001:db8::1:ffff"], ()),
    ],
)
def test_adding(ranges: str, expected: list[str], notes: tuple[str, ...]) -> None:
    """What overlaps is merged, with a warning."""
    change = modified(NET, add=ranges)
    assert (reserved(lines(change.network)), change.notes) == (expected, notes)


@pytest.mark.parametrize(
    ("ranges", "expected", "notes"),
    [
        ("10.0.0.22-10.0.0.23", ["10.0.0.20-10.0.0.21", "10.0.0.24-10.0.0.29"], ()),
        ("10.0.0.10-10.0.0.25", ["10.0.0.26-10.0.0.29"], ()),
        ("10.0.0.20-10.0.0.29", [], ()),
        ("10.0.0.22,10.0.0.24", ["10.0.0.20-10.0.0.21", "10.0.0.23", "10.0.0.25-10.0.0.29"], ()),
        ("10.0.0.50", ["10.0.0.20-10.0.0.29"], ("nothing of 10.0.0.50 is reserved; nothing was removed",)),
    ],
)
def test_removing(ranges: str, expected: list[str], notes: tuple[str, ...]) -> None:
    """Ranges are split; a removal of nothing warns."""
    change = modified(NET, remove=ranges)
    assert (reserved(lines(change.network)), change.notes) == (expected, notes)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ("10.0.0.1", "10.0.0.1, the gateway of 10.0.0.0/24"),
        ("10.0.0.0", "the network address"),
        ("10.0.0.255", "the broadcast address"),
        ("2001:db8::", "the subnet-router anycast address"),
        ("10.0.0.0/24", "the network address"),
        ("10.0.0.1-10.0.0.25", "the gateway"),
    ],
)
def test_automatic_entries_stay(ranges: str, message: str) -> None:
    """Gateway, network and broadcast entries can't be removed: a range that holds one is refused whole."""
    with pytest.raises(Denied, match=message):
        modified(NET, remove=ranges)


@pytest.mark.parametrize("ranges", ["10.0.2.1", "10.0.0.200-10.0.1.5", "10.0.0.0/23", "2001:db8:1::1"])
def test_a_range_lies_in_one_subnet(ranges: str) -> None:
    """Ranges outside of every subnet, or in two of them, are refused."""
    for option in ("add", "remove"):
        with pytest.raises(Denied, match="does not lie inside of one subnet"):
            modified(NET, **{option: ranges})  # type: ignore[arg-type]


def test_a_network_without_subnets() -> None:
    """Where there is no subnet, the message says so."""
    with pytest.raises(Denied, match="its subnets are: none"):
        modified(network_with(), add="10.0.0.1")


def test_added_before_removed() -> None:
    """`--add-reserved-ips` is applied before `--remove-reserved-ips` of the same operation."""
    change = modified(NET, add="10.0.0.40-10.0.0.49", remove="10.0.0.45")
    assert reserved(lines(change.network)) == [
        "10.0.0.20-10.0.0.29",
        "10.0.0.40-10.0.0.44",
        "10.0.0.46-10.0.0.49",
    ]


def test_reserving_what_is_in_use() -> None:
    """An address in use can be reserved, and its owner keeps it."""
    assert modified(NET, add="10.0.0.11", owned={"a": ["10.0.0.11"]}).notes == ()


def test_reserved_ranges_overlap_pools() -> None:
    """Reserving over pools changes no pool."""
    assert "  pool 10.0.0.10-10.0.0.99" in lines(modified(NET, add="10.0.0.90-10.0.0.110").network)

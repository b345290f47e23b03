"""Addresses as numbers and as text; ranges and CIDRs, against sets of numbers."""

import ipaddress
from collections.abc import Iterable, Sequence
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lanloom.features.ipam.rules.addresses import (
    IPV6,
    LIMITS,
    Cidr,
    IPRange,
    find_address,
    format_address,
    merge,
    overlapping,
    parse_address,
    parse_cidr,
    parse_range,
    subtract,
    version_of,
    whole,
)
from lanloom.refusals import Malformed
from lanloom.text import quote

four = st.integers(*LIMITS[4])
six = st.integers(*LIMITS[6])
scarce = st.lists(st.sampled_from((0, 0, 1, 0xFFFF)), min_size=8, max_size=8).map(
    lambda groups: IPV6 + sum(group << 16 * place for place, group in enumerate(groups))
)
"""IPv6 addresses with runs of zeros, which their text leaves out."""

nearly = st.text("0123456789abcdefABCDEFx.:/%-+ \0\n٣", max_size=45)
"""What is close to an address."""


@given(four | six | scarce)
def test_what_is_written_is_read_as_the_same_address(address: int) -> None:
    """Text of an address is the one that the standard library writes, and is read as that address."""
    text = format_address(address)
    assert parse_address(text) == address
    assert version_of(address) == (6 if ":" in text else 4)
    if address < IPV6:
        assert text == str(ipaddress.IPv4Address(address))
    else:
        assert ipaddress.IPv6Address(text) == ipaddress.IPv6Address(address - IPV6)


@given(six | scarce)
def test_other_spellings_are_the_same_address(address: int) -> None:
    """Capitals and groups written in full are read, and written in the canonical form."""
    full = ipaddress.IPv6Address(address - IPV6).exploded
    assert parse_address(full) == parse_address(full.upper()) == address
    assert format_address(parse_address(full)) == format_address(address)


@given(nearly | st.text(max_size=60))
def test_a_text_is_an_address_or_malformed(text: str) -> None:
    """No text raises anything but Malformed; what is an address is one for the standard library too."""
    address = find_address(text)
    if address is None:
        with pytest.raises(Malformed) as raised:
            parse_address(text)
        assert "\n" not in str(raised.value)
        with pytest.raises(ValueError):
            ipaddress.ip_address(text if "%" not in text else "")
    else:
        assert int(ipaddress.ip_address(text)) == address % IPV6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.01",
        "192.0.2.1 ",
        " 192.0.2.1",
        "192.0.2.1\0",
        "0x7f.0.0.1",
        "3232235777",
        "٣.0.0.1",
        "fe80::1%eth0",
        "1::2::3",
        ":::",
        "12345::",
        "::ffff:192.0.2.256",
    ],
)
def test_other_forms_are_no_addresses(text: str) -> None:
    """Only the standard forms are read: no zones, no leading zeros, no blanks, no numbers."""
    assert find_address(text) is None


def test_versions_have_limits() -> None:
    """The first and last address of each version are those of the standards."""
    assert [format_address(address) for address in LIMITS[4]] == ["0.0.0.0", "255.255.255.255"]
    assert [format_address(address) for address in LIMITS[6]] == ["::", ":".join(["ffff"] * 8)]


@given(st.lists(four | six))
def test_numbers_sort_by_version_first(addresses: list[int]) -> None:
    """Sorted numbers are sorted addresses, IPv4 before IPv6."""
    named = [(version_of(address), address % IPV6) for address in sorted(addresses)]
    assert named == sorted(named)


@given(st.text(max_size=200), st.integers(1, 80))
def test_a_users_text_is_shown_on_one_line(text: str, limit: int) -> None:
    """Whatever a user wrote, a message shows it in quotes, printable, and not longer than allowed."""
    said = quote(text, limit)
    assert said.isprintable() and said[0] == said[-1] == '"' and len(said) <= limit + 2


EDGES = (0, LIMITS[4][1] - 12, IPV6, IPV6 + (1 << 64) - 6)
"""Small ranges lie about here: at the ends of versions too."""


@st.composite
def small_ranges(draw: st.DrawFn) -> IPRange:
    """A range of up to 13 addresses in one of a few places."""
    first, last = sorted(draw(st.tuples(st.integers(0, 12), st.integers(0, 12))))
    base = draw(st.sampled_from(EDGES))
    return IPRange(base + first, base + last)


@st.composite
def any_ranges(draw: st.DrawFn) -> IPRange:
    """A range anywhere, of any size."""
    limits = draw(st.sampled_from((LIMITS[4], LIMITS[6])))
    return IPRange(*sorted(draw(st.tuples(st.integers(*limits), st.integers(*limits)))))


@st.composite
def cidrs(draw: st.DrawFn) -> Cidr:
    """A CIDR of either version and any length."""
    bits, base = draw(st.sampled_from(((32, 0), (128, IPV6))))
    length = draw(st.integers(0, bits))
    return Cidr(base + (draw(st.integers(0, (1 << length) - 1)) << (bits - length)), length)


small = small_ranges()
several = st.lists(small, max_size=8)


def members(ranges: Iterable[IPRange]) -> set[int]:
    """Every address of the ranges."""
    return {address for item in ranges for address in range(item.first, item.last + 1)}


def apart(ranges: Sequence[IPRange]) -> bool:
    """Whether ranges are in order, with something between each two of them or a change of the version."""
    return all(one.last + 1 < other.first or one.version != other.version for one, other in pairwise(ranges))


@given(any_ranges() | small)
def test_a_range_is_read_as_it_is_written(range_: IPRange) -> None:
    """The text of a range is read as the same range; a single address stands for a range of one."""
    assert parse_range(str(range_)) == range_
    assert ("-" in str(range_)) == (range_.size > 1)
    assert range_.version == version_of(range_.last)


@given(cidrs())
def test_a_cidr_is_read_as_it_is_written(cidr: Cidr) -> None:
    """The text of a CIDR is read as the same CIDR, unchanged, and means what the standard library says."""
    assert parse_cidr(str(cidr)) == (cidr, False)
    known = ipaddress.ip_network(str(cidr))
    assert cidr.range.size == known.num_addresses
    assert format_address(cidr.range.first) == format_address(cidr.first)
    assert ipaddress.ip_address(format_address(cidr.range.last)) == known.broadcast_address
    assert parse_range(str(cidr)) == cidr.range


@given(cidrs(), st.data())
def test_host_bits_are_cleared_and_told(cidr: Cidr, data: st.DataObject) -> None:
    """Any address of a CIDR with its length is the same CIDR; whether that changed something is returned."""
    address = data.draw(st.integers(cidr.range.first, cidr.range.last))
    assert parse_cidr(f"{format_address(address)}/{cidr.length}") == (cidr, address != cidr.first)


@pytest.mark.parametrize(
    "text",
    [
        "192.0.2.0",
        "192.0.2.0/",
        "192.0.2.0/33",
        "192.0.2.0/024",
        "192.0.2.0/-1",
        "192.0.2.0/+8",
        "192.0.2.0/8 ",
        "192.0.2.0/24/24",
        "192.0.2.0/255.255.255.0",
        "::/129",
        "::/0001",
        "::/٣",
        "::/²",
        "/24",
        "net/24",
    ],
)
def test_a_cidr_has_one_form(text: str) -> None:
    """A prefix is a plain number that fits the version; masks and blanks are malformed."""
    with pytest.raises(Malformed, match="is not a CIDR"):
        parse_cidr(text)


@pytest.mark.parametrize(
    "text, why",
    [
        ("192.0.2.9-192.0.2.1", "ends before it begins"),
        ("192.0.2.9-2001:db8::1", "different IP versions"),
        ("192.0.2.1-", "not an IP address"),
        ("-192.0.2.1", "not an IP address"),
        ("192.0.2.1-192.0.2.2-192.0.2.3", "not an IP address"),
        ("192.0.2.0/24-192.0.2.3", "not a CIDR"),
        ("192.0.2.1-9", "not an IP address"),
    ],
)
def test_a_malformed_range_is_explained(text: str, why: str) -> None:
    """The message says what is wrong with a range."""
    with pytest.raises(Malformed, match=why):
        parse_range(text)


@given(st.text("0123456789abcdef.:/- \0²", max_size=50) | st.text(max_size=60))
def test_any_text_is_a_range_or_malformed(text: str) -> None:
    """No text raises anything but Malformed."""
    for parse in (parse_range, parse_cidr):
        try:
            parse(text)
        except Malformed as error:
            assert str(error).isprintable()


@given(small, small)
def test_two_ranges_relate_as_their_members_do(one: IPRange, other: IPRange) -> None:
    """Covering, overlapping, having in common and cutting out are those of sets."""
    mine, others = members([one]), members([other])
    common = one.common(other)
    assert one.covers(other) == (others <= mine)
    assert one.overlaps(other) == bool(mine & others)
    assert members([common] if common else []) == mine & others
    assert members(one.without(other)) == mine - others
    assert all(part.size > 0 for part in one.without(other))
    assert apart(one.without(other))
    assert all((address in one) == (address in mine) for address in mine | others)


@given(several)
def test_merged_ranges_are_the_same_addresses_and_as_few_as_can_be(ranges: list[IPRange]) -> None:
    """Merging keeps every address, in order, with gaps between; merging again changes nothing."""
    merged = merge(ranges)
    assert members(merged) == members(ranges)
    assert apart(merged)
    assert merge(merged) == merged
    assert all(range_.version == version_of(range_.last) for range_ in merged)


@given(several, several)
def test_subtracting_is_that_of_sets(ranges: list[IPRange], cut: list[IPRange]) -> None:
    """What is left are the addresses that were not cut; ranges that nothing was cut from stay as they are."""
    left = subtract(ranges, cut)
    assert members(left) == members(ranges) - members(cut)
    assert list(left) == sorted(left)
    assert subtract(ranges, ()) == tuple(sorted(ranges))


@given(several)
def test_overlaps_are_found(ranges: list[IPRange]) -> None:
    """Neighbours that overlap are found exactly if some two ranges have an address in common."""
    pairs = list(overlapping(ranges))
    assert all(one.overlaps(other) for one, other in pairs)
    assert bool(pairs) == (len(members(ranges)) < sum(range_.size for range_ in ranges))


def test_versions_never_touch() -> None:
    """The last IPv4 address and the first IPv6 address are not merged."""
    both = (whole(4), whole(6))
    assert merge(both) == both
    assert sum(range_.size for range_ in both) == 2**32 + 2**128

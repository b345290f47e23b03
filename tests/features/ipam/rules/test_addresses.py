"""Addresses as numbers and as text."""

import ipaddress

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lanloom.features.ipam.rules.addresses import (
    IPV6,
    LIMITS,
    find_address,
    format_address,
    parse_address,
    version_of,
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
    """The first and last address of each version are what everybody knows."""
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

"""Names: which are allowed, what they refer to, and what is made of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.rules.addresses import parse_range
from lanloom.features.ipam.rules.names import (
    OBJECT_NAME_MAX,
    check_name,
    find_pools,
    imported_name,
    is_name,
    is_range,
    object_name,
)
from lanloom.refusals import Malformed
from lanloom.text import listed
from tests.features.ipam.rules.network_text import network_with

OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    "name",
    [
        "net1",
        "Net_1",
        "a",
        "1",
        "10.1",
        "0.0.0.0.0",
        "web-10.0.0.1",
        "10.0.0.1-web",
        "no",
        "pools",
        "POOL",
        "_x",
        "none1",
    ],
)
def test_allowed_names(name: str) -> None:
    """Letters, digits, dots, dashes and underscores make a name."""
    assert check_name(name, "a network") == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "use letters"),
        ("a b", "use letters"),
        ("a/b", "use letters"),
        ("a:b", "use letters"),
        ("a,b", "use letters"),
        ("a=b", "use letters"),
        ("näme", "use letters"),
        ("a\n", "use letters"),
        ("-a", "begin with no dash"),
        ("x" * 254, "more than 253"),
        *(
            (word, "the word is reserved for options")
            for word in ("pool", "pool4", "pool6", "none", "auto", "add", "remove", "modify")
        ),
        ("0123abcd-0000-4000-8000-0123456789ab", "a UUID"),
        ("0123ABCD-0000-4000-8000-0123456789AB", "a UUID"),
        ("10.0.0.1", "addresses"),
        ("10.0.0.1-10.0.0.9", "addresses"),
        ("10.0.0.9-10.0.0.1", "addresses"),
    ],
)
def test_names_that_mean_something_else(name: str, message: str) -> None:
    """A name is no UUID, word of the options, address, range or CIDR, and has no other characters."""
    with pytest.raises(Malformed, match=message):
        check_name(name, "a network")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("net1", "net1"),
        ("prod.net-1", "prod.net-1"),
        ("Net1", "net1-"),
        ("net_1", "net-1-"),
        ("a..b", "a-b-"),
        ("_", "network-"),
        ("net.", "net-"),
        ("x" * 63, "x" * 63),
        ("x" * 64, "x" * 40 + "-"),
    ],
)
def test_names_of_objects(name: str, expected: str) -> None:
    """An object is named like its network if that is possible, else like it with a hash."""
    found = object_name(name)
    assert OBJECT_NAME.fullmatch(found)
    assert found == name if expected == name else re.fullmatch(expected + "[0-9a-f]{8}", found)


@given(st.text(), st.text())
def test_names_of_objects_are_valid_and_differ(one: str, other: str) -> None:
    """Whatever a network is called, its object has a valid name, and two networks have two."""
    assert OBJECT_NAME.fullmatch(object_name(one)) and len(object_name(one)) <= OBJECT_NAME_MAX
    assert (object_name(one) == object_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ""),
        ("net1", "net1"),
        ("Prod Net!", "Prod-Net"),
        ("10.0.0.0/24", "10.0.0.0-24"),
        ("-x-", "x"),
        ("pool", "pool-[0-9a-f]{8}"),
        ("10.0.0.1", "10-0-0-1-[0-9a-f]{8}"),
        ("ÄÖ", "network-[0-9a-f]{8}"),
        ("taken", "taken-[0-9a-f]{8}"),
    ],
)
def test_imported_names(name: str, expected: str) -> None:
    """A name from elsewhere is changed as little as makes it allowed and unique."""
    assert re.fullmatch(expected, imported_name(name, taken={"taken"}))


@given(st.text(min_size=1) | st.ip_addresses().map(str), st.sets(st.text(max_size=3)))
def test_imported_names_are_allowed(name: str, taken: set[str]) -> None:
    """Whatever something was called, it gets an allowed name that is not taken, and always the same."""
    found = imported_name(name, taken)
    assert is_name(found) and found not in taken
    assert imported_name(found) == found
    assert found == name or not is_name(name) or name in taken


def test_pools_by_name_or_exact_range() -> None:
    """A pool is found by its name, or by its range in any form that means the same addresses."""
    network = network_with("cidr=10.0.0.0/24", pools=["10.0.0.0/28,name=p", "10.0.0.32-10.0.0.40,name=p"])
    assert [str(pool.range) for pool in find_pools(network, "p")] == [
        "10.0.0.0-10.0.0.15",
        "10.0.0.32-10.0.0.40",
    ]
    for ident in ("10.0.0.0/28", "10.0.0.0-10.0.0.15", parse_range("10.0.0.0/28")):
        assert len(find_pools(network, ident)) == 1


def test_lists_in_messages_are_short() -> None:
    """A message lists some of what there is, and says how many more there are."""
    assert (listed([]), listed("ab"), listed("x" * 10)) == ("", "a, b", ", ".join("x" * 10))
    assert listed("x" * 50) == ", ".join("x" * 10) + " and 40 more"


def test_what_stands_for_addresses() -> None:
    """An identifier is a range if it could only be one, rightly written or not."""
    assert all(map(is_range, ["10.0.0.1", "10.0.0.9-10.0.0.1", "10.0.0.0/99", "2001:db8::", "a/b"]))
    assert not any(map(is_range, ["web-10.0.0.1", "10.0.0.1-web", "10.0.0.1-10.0.0.256", "", "x"]))

"""A map with IPv6 addresses, and gateways of both families, are as safe as those of IPv4 alone."""

import json
import re
from ipaddress import IPv6Interface
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.dualstack import (
    join_addresses,
    join_gateways,
    parse_gateway6,
    parse_node_addresses,
    split_gateways,
)
from lanloom.api.l3 import AnnotationError, parse_node_ip_map

FIELD = "node-ip-map"
SIX = {"node1": "fd00:1::10/64", "node2": "fd00:1::11/64"}
FOUR = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24"}
BOTH = {node: [FOUR[node], SIX[node]] for node in FOUR}
SAFE = re.compile(r"[0-9a-f:]+/[0-9]+")
TEXTS = st.sampled_from(
    [
        "192.168.1.10/24",
        "192.168.1.11/24",
        "fd00:1::10/64",
        "FD00:1:0::11/64",
        "fd00:2::1/64",
        "fe80::1/64",
        "::ffff:1.2.3.4/64",
        "fd00::1%eth0/64",
        "fd00::1/64\n[ipv4]",
    ]
)
VALUES = TEXTS | st.lists(TEXTS | st.integers(), max_size=3) | st.none()
MAPS = st.dictionaries(st.sampled_from(["node1", "node2", "N"]), VALUES, max_size=3).map(json.dumps)


def refusal(parse: Any, *arguments: object) -> str:
    """The message with which a parser refuses."""
    with pytest.raises(AnnotationError) as caught:
        parse(*arguments)
    return str(caught.value)


@given(MAPS)
def test_a_map_is_safe_or_refused(text: str) -> None:
    """What is accepted has the same nodes in both families, or in one, and is read as it was meant again."""
    try:
        four, six = parse_node_addresses(FIELD, text)
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    assert four == parse_node_ip_map(FIELD, json.dumps(four))
    assert six.keys() in (four.keys(), set())
    for address in six.values():
        assert SAFE.fullmatch(address)
        assert str(IPv6Interface(address)) == address
    assert len({IPv6Interface(item).network for item in six.values()}) == bool(six)
    assert parse_node_addresses(FIELD, join_addresses(four, six)) == (four, six)


def test_a_map_of_ipv4_alone_is_written_as_ever() -> None:
    """Nothing changes for maps without IPv6, byte by byte."""
    assert join_addresses(FOUR, {}) == json.dumps(FOUR, sort_keys=True)
    assert parse_node_addresses(FIELD, json.dumps(FOUR)) == (FOUR, {})
    assert join_gateways("192.168.1.1/24", "") == "192.168.1.1/24"


def test_addresses_that_a_pool_has_still_to_give() -> None:
    """A map of the manager says so of a node; no map of a user does."""
    four, six = FOUR, {**SIX, "node1": ""}
    text = join_addresses(four, six)
    assert parse_node_addresses(FIELD, text, pooled=True) == (four, six)
    assert PAIR in refusal(parse_node_addresses, FIELD, text)
    none = dict.fromkeys(four, "")
    assert parse_node_addresses(FIELD, join_addresses(four, none), pooled=True) == (four, none)


def test_both_families_in_any_order() -> None:
    """A list has one address of each family, and an address has one spelling."""
    turned = {"node1": ["FD00:0001::10/64", "192.168.1.10/24"], "node2": BOTH["node2"]}
    assert parse_node_addresses(FIELD, json.dumps(turned)) == (FOUR, SIX)


PAIR = 'list of one IPv4 and one IPv6 address, such as ["192.168.1.10/24", "fd00:1::10/64"]'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["192.168.1.10/24"], PAIR),
        (["192.168.1.10/24", "192.168.1.12/24"], PAIR),
        ([FOUR["node1"], SIX["node1"], "fd00:1::12/64"], PAIR),
        (["fd00:1::10/64", "fd00:1::12/64"], 'is "fd00:1::10/64"; it must be an IPv4 address'),
        (
            [FOUR["node1"], "fd00:1::10"],
            "it must be an IPv6 address with a prefix length, such as fd00:1::10/64",
        ),
        ([FOUR["node1"], "fe80::10/64"], "choose a global or unique local address"),
        ([FOUR["node1"], "::1/64"], "choose a global or unique local address"),
        ([FOUR["node1"], "ff02::1/64"], "choose a global or unique local address"),
        ([FOUR["node1"], "fd00::1/16"], "its prefix length must be from 32 to 128"),
        ([FOUR["node1"], "fd00:1::/64"], "the address of all routers of its subnet"),
        ([FOUR["node1"], "fd00:2::10/64"], "has addresses of two subnets (fd00:2::/64 and fd00:1::/64)"),
        ([FOUR["node1"], "fd00:1::11/64"], 'gives fd00:1::11 to both "node1" and "node2"'),
        (FOUR["node1"], 'has an IPv6 address for some nodes and none for "node1"'),
    ],
)
def test_what_is_no_pair_is_named(value: object, message: str) -> None:
    """Each message names the node and what is allowed."""
    assert message in refusal(parse_node_addresses, FIELD, json.dumps({**BOTH, "node1": value}))


@pytest.mark.parametrize(
    ("text", "gateways"),
    [
        (None, ("", "")),
        ("192.168.1.1", ("192.168.1.1", "")),
        (" 192.168.1.1", (" 192.168.1.1", "")),
        ("fd00:1::1", ("", "fd00:1::1")),
        ("192.168.1.1,fd00:1::1", ("192.168.1.1", "fd00:1::1")),
        ("fd00:1::1/64, 192.168.1.1", ("192.168.1.1", "fd00:1::1/64")),
    ],
)
def test_gateways_are_told_apart(text: str | None, gateways: tuple[str, str]) -> None:
    """One of each family, with a comma between both."""
    assert split_gateways("gateway", text) == gateways


def test_a_gateway_is_in_the_subnet_of_the_nodes() -> None:
    """It gets their prefix length, and is none of them."""
    assert parse_gateway6("gateway", "fd00:1::1", SIX) == "fd00:1::1/64"
    assert parse_gateway6("gateway", "", {}) == ""
    for text, addresses, message in (
        ("fd00:1::1", {}, "but nodes have none; add them to"),
        ("fd00:2::1", SIX, "which is not in the subnet fd00:1::/64 of the nodes' addresses"),
        ("fd00:1::10", SIX, "is the address of a node; name a router"),
        ("fd00:1::1/48", SIX, "which is not in the subnet"),
        ("fe80::1", SIX, "which can't be the address of a node"),
    ):
        assert message in refusal(parse_gateway6, "gateway", text, addresses)
    with pytest.raises(AnnotationError, match="with the prefix length of its subnet, such as fd00:1::1/64"):
        parse_gateway6("gateway", "fd00:1::1", {"node1": ""}, pooled=True)
    assert parse_gateway6("gateway", "fd00:1::1/64", {"node1": ""}, pooled=True) == "fd00:1::1/64"
    for text in ("10.0.0.1,10.0.0.2", "fd00::1,fd00::2", "10.0.0.1,fd00::1,fd00::2"):
        assert "at most one IPv4 and one IPv6 address" in refusal(split_gateways, "gateway", text)

"""Routes and DNS servers of IPv6 are as safe as those of IPv4, and stand in the same annotations."""

import json
from ipaddress import IPv6Address, IPv6Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.l3 import AnnotationError, Route, Routing
from lanloom.api.routing import (
    DNS_MAX,
    ROUTES_MAX,
    RoutingFields,
    parse_dns,
    parse_dns6,
    parse_routes,
    parse_routes6,
    parse_routing,
)

FIELD = "the-field"
FIELDS = RoutingFields("gateway", "routes", "dns")
FOUR = {"node1": "192.168.1.10/24"}
SIX = {"node1": "fd00:1::10/64"}
TEXTS = st.sampled_from(
    [
        "fd00:20::/48",
        "FD00:0021:0::/48",
        "2001:db8::/32",
        "2000::/3",
        "fd00::/8",
        "::/0",
        "::/1",
        "fd00:20::1/48",
        "fe80::/64",
        "fd00::%eth0/64",
        "fd00:1::1",
        "fd00:1::1\n[ipv4]",
        "fd00:1::1;method=auto",
        "::ffff:192.168.1.1",
        "::1",
        "fe80::1",
        "10.0.0.0/8",
        "",
    ]
)


def refusal(parse: Any, *arguments: object) -> str:
    """The message with which a parser refuses."""
    with pytest.raises(AnnotationError) as caught:
        parse(*arguments)
    return str(caught.value)


def one(to: object, via: object = "fd00:1::1") -> str:
    """The annotation for one route."""
    return json.dumps([{"to": to, "via": via}])


@given(TEXTS, TEXTS)
def test_a_route_is_safe_or_refused(to: str, via: str) -> None:
    """What is accepted has one spelling, leads neither to everything nor by a scope, and stays what it is."""
    text = one(to, via)
    try:
        routes = parse_routes6(FIELD, text, {})
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    for route in routes:
        assert (route.to, route.via) == (str(IPv6Network(route.to)), str(IPv6Address(route.via)))
        assert IPv6Network(route.to).prefixlen >= 8
        assert parse_routes6(FIELD, one(route.to, route.via), {}) == (route,)


@given(st.lists(TEXTS, max_size=4))
def test_a_server_is_safe_or_refused(items: list[str]) -> None:
    """What is accepted is a host's address in its one spelling."""
    try:
        servers = parse_dns6(FIELD, ",".join(items))
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    assert list(servers) == [str(IPv6Address(item)) for item in servers]


def test_both_families_in_one_annotation() -> None:
    """Routes and servers are read apart, each family in its order, and each is read as before without the other."""
    four, six = {"to": "10.20.0.0/16", "via": "192.168.1.2"}, {"to": "fd00:20::/48", "via": "fd00:1::1"}
    texts = {"routes": json.dumps([six, four]), "dns": "fd00:1::53, 9.9.9.9"}
    assert parse_routing(texts, FIELDS, "static", FOUR, SIX) == Routing(
        routes=(Route("10.20.0.0/16", "192.168.1.2"),),
        dns=("9.9.9.9",),
        routes6=(Route("fd00:20::/48", "fd00:1::1"),),
        dns6=("fd00:1::53",),
    )
    assert parse_routes(FIELD, json.dumps([six]), {}) == ()
    assert parse_dns(FIELD, "fd00:1::53") == ()


@pytest.mark.parametrize(
    ("to", "via", "message"),
    [
        ("::/0", "fd00:1::1", "its prefix length must be from 32 to 128, or from 8 in fc00::/7"),
        ("2000::/3", "fd00:1::1", "a default route, which belongs to the management network"),
        ("fc00::/7", "fd00:1::1", "its prefix length must be from 32 to 128"),
        ("fd00:20::1/48", "fd00:1::1", "the address of a host; write fd00:20::/48, or fd00:20::1/128"),
        ("fe80::/64", "fd00:1::1", "which is not routable"),
        ("ff02::/64", "fd00:1::1", "which is not routable"),
        ("fd00:20::", "fd00:1::1", "it must be a subnet, such as fd00:20::/48"),
        ("fd00:20::/129", "fd00:1::1", "it must be a subnet"),
        ("fd00:1::/80", "fd00:1::1", "the VLAN's own subnet fd00:1::/64 covers without a route"),
        ("fd00:20::/48", "fd00:2::1", "is not a host address of the subnet fd00:1::/64"),
        ("fd00:20::/48", "fd00:1::", "is not a host address of the subnet fd00:1::/64"),
        ("fd00:20::/48", "fd00:1::10", 'is the address of node "node1"; name a router'),
        ("fd00:20::/48", "fe80::1", "choose a global or unique local address"),
        ("fd00:20::/48", "192.168.1.1", "it must be an IPv6 address, such as fd00:1::1"),
        ("fd00:20::/48", 7, "it must be an IPv6 address"),
        ("10.20.0.0/16", "fd00:1::1", "it must be an IPv4 address"),
    ],
)
def test_what_is_no_route_is_named(to: object, via: object, message: str) -> None:
    """Each message names the part of the route and what is allowed."""
    text = refusal(parse_routing, {"routes": one(to, via)}, FIELDS, "static", FOUR, SIX)
    assert text.startswith("routes[0].")
    assert message in text


def test_what_nodes_without_ipv6_can_not_have() -> None:
    """A route or a server of IPv6 needs IPv6 addresses; of mode pool they may still come."""
    for mode, addresses in (("static", FOUR), ("dhcp", {})):
        for texts in ({"routes": one("fd00:20::/48")}, {"dns": "fd00:1::53"}):
            assert "but nodes have no IPv6 addresses; add them to" in refusal(
                parse_routing, texts, FIELDS, mode, addresses
            )
    assert parse_routing({"dns": "fd00:1::53"}, FIELDS, "pool", {}).dns6 == ("fd00:1::53",)


def test_limits_are_those_of_both_together() -> None:
    """A list has no more routes or servers because they are of two families, and none of them twice."""
    many = [{"to": f"fd00:{number:x}::/48", "via": "fd00:1::1"} for number in range(0x20, 0x20 + ROUTES_MAX)]
    assert len(parse_routes6(FIELD, json.dumps(many), SIX)) == ROUTES_MAX
    more = [*many, {"to": "10.20.0.0/16", "via": "192.168.1.2"}]
    assert "routes; at most" in refusal(parse_routes6, FIELD, json.dumps(more), SIX)
    twice = [many[0], {**many[0], "to": "FD00:20:0::/48"}]
    assert "has two routes to fd00:20::/48" in refusal(parse_routes6, FIELD, json.dumps(twice), SIX)
    assert f"more than {DNS_MAX} servers" in refusal(parse_dns6, FIELD, "9.9.9.9,fd00::1,fd00::2,fd00::3")
    assert "names fd00::1 twice" in refusal(parse_dns6, FIELD, "fd00::1,fd00:0::1")

"""The parsers of what a VLAN adds to its nodes' routing."""

import json
import re
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanloom.api.l3 import (
    AnnotationError,
    Mode,
    Route,
    Routing,
)
from lanloom.api.routing import (
    DNS_MAX,
    ROUTES_MAX,
    ROUTES_TEXT_MAX,
    RoutingFields,
    parse_address,
    parse_dns,
    parse_gateway,
    parse_routes,
    parse_routing,
    subnet_of,
)

FIELD = "the-field"
SAFE = re.compile(r"[0-9./]*", re.ASCII)
MAP = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24"}
FIELDS = RoutingFields("gateway", "routes", "dns")

NASTY = st.sampled_from(
    [
        "192.168.1.1\n[ipv4]",
        "192.168.1.1;method=auto",
        "192.168.1.1,8.8.8.8",
        "192.168.1.1/24\n",
        " 192.168.1.1",
        "192.168.1.1/33",
        "192.168.01.1",
        "١٩٢.168.1.1",
        "0.0.0.0/0",
        "fe80::1",
        '"',
        "'",
        "",
    ]
)
NUMBERS = st.integers(0, 300)
ADDRESSES = st.builds(
    "{}.168.{}.{}".format, st.sampled_from([10, 127, 192, 224, 255]), st.integers(0, 3), NUMBERS
)
CIDRS = st.builds("{}/{}".format, ADDRESSES, st.integers(0, 33))
TEXTS = st.text() | NASTY | ADDRESSES | CIDRS
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)
ROUTES = st.lists(
    st.fixed_dictionaries({"to": CIDRS | NASTY | LEAVES, "via": ADDRESSES | NASTY | LEAVES}), max_size=4
)
MODES: st.SearchStrategy[Mode] = st.sampled_from(["static", "dhcp"])


def refusal(parser: Any, *arguments: object) -> str:
    """The message with which a parser refuses."""
    with pytest.raises(AnnotationError) as caught:
        parser(*arguments)
    return str(caught.value)


@given(TEXTS, MODES)
def test_a_gateway_is_safe_or_refused(text: str, mode: Mode) -> None:
    """Whatever is accepted as a gateway is a host of its subnet, written with digits, dots and a slash."""
    addresses = MAP if mode == "static" else {}
    try:
        gateway = parse_gateway(FIELD, text, mode, addresses)
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    assert SAFE.fullmatch(gateway)
    if gateway:
        ends = IPv4Interface(gateway).network
        assert (
            IPv4Interface(gateway).ip not in (ends.network_address, ends.broadcast_address)
            or ends.prefixlen == 31
        )
        assert mode == "dhcp" or ends == IPv4Network("192.168.1.0/24")
        assert gateway not in addresses.values()
    assert parse_gateway(FIELD, gateway, mode, addresses) == gateway


@given(st.text() | JSON.map(json.dumps) | ROUTES.map(json.dumps), MODES)
@example("[" * 100_000, "dhcp")
@example('[{"to": "10.0.0.0/8", "via": ' + "9" * 5_000 + "}]", "dhcp")
@example('[{"to": "\\ud800", "via": "10.0.0.1"}]', "dhcp")
def test_routes_are_safe_or_refused(text: str, mode: Mode) -> None:
    """Whatever is accepted as routes has distinct destinations and next hops of digits, dots and slashes."""
    addresses = MAP if mode == "static" else {}
    try:
        routes = parse_routes(FIELD, text, addresses)
    except AnnotationError as error:
        assert error.field.startswith(FIELD)
        assert str(error).isprintable()
        return
    for route in routes:
        assert SAFE.fullmatch(route.to + route.via)
        assert IPv4Network(route.to).prefixlen
        assert mode == "dhcp" or IPv4Address(route.via) in IPv4Network("192.168.1.0/24")
    assert len({route.to for route in routes}) == len(routes)
    rendered = json.dumps([{"to": route.to, "via": route.via} for route in routes])
    assert parse_routes(FIELD, rendered, addresses) == routes


@given(TEXTS | st.lists(ADDRESSES | NASTY, max_size=5).map(",".join))
def test_servers_are_safe_or_refused(text: str) -> None:
    """Whatever is accepted as DNS servers are at most three distinct addresses."""
    try:
        servers = parse_dns(FIELD, text)
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    assert len(set(servers)) == len(servers) <= DNS_MAX
    assert all(str(IPv4Address(server)) == server for server in servers)
    assert parse_dns(FIELD, ",".join(servers)) == servers


@given(LEAVES)
def test_a_value_of_any_kind_is_a_host_or_refused(value: object) -> None:
    """A value that is no host's address is refused, whatever its type."""
    try:
        address = parse_address(FIELD, value)
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    assert str(address) == value


def test_everything_together() -> None:
    """The three annotations make one value; without them there is nothing to route."""
    texts = {
        "gateway": "192.168.1.1",
        "routes": '[{"to": "10.30.0.0/16", "via": "192.168.1.3"}, {"to": "10.20.0.0/16", "via": "192.168.1.2"}]',
        "dns": "9.9.9.9, 1.1.1.1",
    }
    assert parse_routing(texts, FIELDS, "static", MAP) == Routing(
        gateway="192.168.1.1/24",
        routes=(Route("10.20.0.0/16", "192.168.1.2"), Route("10.30.0.0/16", "192.168.1.3")),
        dns=("9.9.9.9", "1.1.1.1"),
    )
    assert parse_routing({}, FIELDS, "static", MAP) == Routing()
    assert parse_routing({"gateway": "", "routes": " ", "dns": ""}, FIELDS, "dhcp", {}) == Routing()
    assert parse_routes(FIELD, "[]", MAP) == ()


def test_a_gateway_tells_the_subnet_of_dhcp() -> None:
    """With DHCP the subnet is known by the gateway's prefix length, and else not at all."""
    assert subnet_of({}, "10.0.0.1/8") == IPv4Network("10.0.0.0/8")
    assert subnet_of(MAP, "") == IPv4Network("192.168.1.0/24")
    assert subnet_of({}) is None
    elsewhere = '[{"to": "10.20.0.0/16", "via": "192.168.7.1"}]'
    assert parse_routes(FIELD, elsewhere, {}) == (Route("10.20.0.0/16", "192.168.7.1"),)
    assert "is not a host address of the subnet 192.168.1.0/24" in refusal(
        parse_routes, FIELD, elsewhere, {}, "192.168.1.1/24"
    )


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("192.168.1.1", "dhcp", "it must be an IPv4 address with the prefix length of its subnet, such as"),
        ("router", "static", 'the-field is "router"; it must be an IPv4 address, such as 192.168.1.1'),
        ("192.168.1.1/25", "static", "which is not in the subnet 192.168.1.0/24 of the nodes' addresses"),
        ("192.168.2.1", "static", "which is not in the subnet 192.168.1.0/24 of the nodes' addresses"),
        ("192.168.1.0", "static", "the network address of its subnet; choose a host address"),
        ("192.168.1.255", "static", "the broadcast address of its subnet; choose a host address"),
        ("192.168.1.10", "static", 'is 192.168.1.10, which is the address of node "node1"; name a router'),
        ("192.168.1.1/32", "dhcp", "a subnet without room for a node; correct its prefix length"),
        ("0.0.0.0/0", "dhcp", "which can't be the address of a node"),
    ],
)
def test_gateways_that_are_refused(text: str, mode: str, message: str) -> None:
    """Each way to get a gateway wrong has a message."""
    addresses = MAP if mode == "static" else {}
    assert message in refusal(parse_gateway, FIELD, text, mode, addresses)


def route(to: object = "10.20.0.0/16", via: object = "192.168.1.1", **more: object) -> dict[str, object]:
    """A route as users write it."""
    return {"to": to, "via": via, **more}


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ("{", "the-field is not valid JSON; it must be a list such as"),
        (route(), "the-field must be a JSON list of routes, such as"),
        ([5], 'the-field[0] is 5; it must be an object of "to" and "via", such as'),
        ([route(metric=5)], '[0] is {"to": "10.20.0.0/16", "via": "192.168.1.1", "metric": 5}; it must be'),
        (
            [route("0.0.0.0/0")],
            "a default route, which belongs to the management network; use the gateway annotation",
        ),
        ([route("10.20.0.5/16")], "the address of a host; write 10.20.0.0/16, or 10.20.0.5/32"),
        ([route("10.20.0.0")], 'the-field[0].to is "10.20.0.0"; it must be a subnet, such as 10.20.0.0/16'),
        ([route("224.0.0.0/4")], "which is not routable; choose a subnet of hosts"),
        ([route("127.0.0.0/8")], "which is not routable; choose a subnet of hosts"),
        ([route("192.168.1.128/25")], "which the VLAN's own subnet 192.168.1.0/24 covers without a route"),
        (
            [route(via="192.168.2.1")],
            "which is not a host address of the subnet 192.168.1.0/24; name a router on the VLAN",
        ),
        (
            [route(via="192.168.1.255")],
            "which is not a host address of the subnet 192.168.1.0/24; name a router on the VLAN",
        ),
        ([route(via="192.168.1.11")], 'which is the address of node "node2"; name a router'),
        (
            [route(via="router")],
            'the-field[0].via is "router"; it must be an IPv4 address, such as 192.168.1.1',
        ),
        ([route(via=None)], "the-field[0].via is null; it must be an IPv4 address"),
        ([route(), route(via="192.168.1.2")], "the-field has two routes to 10.20.0.0/16; keep one"),
        ([route()] * (ROUTES_MAX + 1), f"the-field has 65 routes; at most {ROUTES_MAX} are allowed"),
        (
            " " * ROUTES_TEXT_MAX + "[]",
            f"the-field has 16386 characters; at most {ROUTES_TEXT_MAX} are allowed",
        ),
    ],
)
def test_routes_that_are_refused(routes: object, message: str) -> None:
    """Each way to get routes wrong has a message with the index and the part of the route."""
    text = routes if isinstance(routes, str) else json.dumps(routes)
    assert message in refusal(parse_routes, FIELD, text, MAP)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "dns.example.org",
            'the-field is "dns.example.org"; it must be an IPv4 address, such as 192.168.1.1',
        ),
        ("9.9.9.9,", 'the-field is ""; it must be an IPv4 address'),
        ("9.9.9.9;1.1.1.1", 'the-field is "9.9.9.9;1.1.1.1"; it must be an IPv4 address'),
        ("9.9.9.9,9.9.9.9", "the-field names 9.9.9.9 twice; keep one"),
        ("1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4", "the-field names more than 3 servers; keep the first 3"),
        ("127.0.0.53", "which can't be the address of a host"),
        ("0.1.2.3", "which can't be the address of a host"),
    ],
)
def test_servers_that_are_refused(text: str, message: str) -> None:
    """Each way to get DNS servers wrong has a message."""
    assert message in refusal(parse_dns, FIELD, text)

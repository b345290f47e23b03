"""Profiles hold what was meant and not a line more."""

from ipaddress import IPv4Interface, IPv4Network, IPv6Interface

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.l3 import (
    L3,
    AnnotationError,
    Route,
    Routing,
)
from lanloom.api.l3annotations import decode
from lanloom.features.vlan.rules.desired.names import routing_table
from lanloom.features.vlan.rules.desired.profile import (
    Profile,
    profile_of,
    read,
    render,
)
from lanloom.node.keyfile import owner, parse
from tests.features.vlan.cluster import CLUSTER
from tests.features.vlan.rules.strategies import profiles
from tests.features.vlan.rules.test_names import NETWORKS, VIDS

SECTIONS = {
    "connection": {"id", "uuid", "type", "interface-name", "autoconnect-retries"},
    "vlan": {"flags", "id", "parent"},
    "user": {"lanloom.owner"},
}
IPV6 = {"address1", "ignore-auto-dns", "ignore-auto-routes", "may-fail", "never-default", "method"}
MADE = IPV6 - {"address1"} | {"addr-gen-mode", "ip6-privacy", "ra-timeout"}
LEASED = IPV6 - {"address1"} | {"addr-gen-mode", "dhcp-duid", "dhcp-timeout"}
GATEWAY6 = {"route1", "route1_options", "routing-rule1", "routing-rule2"}
IPV4 = {"dad-timeout", "ignore-auto-dns", "ignore-auto-routes", "may-fail", "never-default", "method"}


@given(profiles())
def test_exactly_the_lines_that_were_meant(given: Profile) -> None:
    """No input makes a section or a key beyond those of a VLAN profile, and each value is the input's."""
    sections = parse(render(given))
    ipv4 = dict(sections["ipv4"])
    families = ("ipv4", "ipv6")
    assert {name: set(keys) for name, keys in sections.items() if name not in families} == SECTIONS
    assert set(sections["ipv6"]) == _ipv6(given)
    assert sections["ipv6"].get("address1", "") == given.address6
    assert not given.subnet6 or given.subnet6 in sections["ipv6"].values()
    assert set(ipv4) == IPV4 | _keys(given)
    assert ipv4["method"] == {"static": "manual", "dhcp": "auto"}[given.mode]
    assert ipv4.get("address1", "") == given.address
    vlan = sections["vlan"]
    assert (vlan["id"], vlan["parent"]) == (str(given.vid), f"{given.cluster_network}-br")
    assert owner(render(given)) == f"{given.cluster_network}/{given.vid}"


def _ipv6(given: Profile) -> set[str]:
    own = {"slaac": MADE, "dhcp6": LEASED, "": IPV6}[given.mode6]
    return own | _keys6(given) if given.address6 or given.mode6 else {"method"}


def _keys6(given: Profile) -> set[str]:
    routing = given.routing
    routes = len(routing.routes6) + bool(routing.gateway6) + bool(given.mode6)
    keys = {f"route{number + 1}" for number in range(routes)}
    keys |= GATEWAY6 if routing.gateway6 else set()
    return keys | ({"dns", "dns-priority"} if routing.dns6 else set())


def _keys(given: Profile) -> set[str]:
    routing = given.routing
    keys = {"address1"} if given.mode == "static" else {"dhcp-timeout", "route-metric"}
    keys |= {f"route{number + 1}" for number in range(len(routing.routes) + bool(routing.gateway))}
    keys |= {"route1_options", "routing-rule1", "routing-rule2"} if routing.gateway else set()
    return keys | ({"dns", "dns-priority"} if routing.dns else set())


@given(profiles())
def test_a_profile_is_read_as_it_was_meant(given: Profile) -> None:
    """What is rendered is read as the same value again."""
    assert read(render(given)) == given


@given(profiles(), profiles())
def test_equal_input_gives_equal_bytes(left: Profile, right: Profile) -> None:
    """The same input gives the same file on every run; another input gives another file."""
    files = [render(item) for item in (left, left, right)]
    assert files[0] == files[1]
    assert (files[0] == files[2]) == (left == right)


@given(profiles(), st.data())
def test_nothing_else_is_read(given: Profile, data: st.DataObject) -> None:
    """A file with a line more, or one that says something else, is read as what it says or not at all."""
    lines = render(given).decode().splitlines()
    at = data.draw(st.integers(0, len(lines)))
    fresh = data.draw(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from([*lines, "[vpn]", "id=7", "route9=0.0.0.0/0,10.0.0.1", "gateway=10.0.0.1"]),
        )
    )
    cut = at + data.draw(st.integers(0, 1))
    content = "\n".join([*lines[:at], fresh, *lines[cut:]]).encode(errors="replace")
    found = read(content)
    if found is not None:
        known = parse(render(found))
        assert all(entries.items() <= known.get(name, {}).items() for name, entries in parse(content).items())


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    """No content makes the reader fail."""
    assert read(content) is None


def test_a_profile_of_an_older_version_is_read() -> None:
    """A file that lacks a key which this version writes means the same."""
    given = profile_of(CLUSTER, "node1", "cluster-1", L3(vid=2012, mode="dhcp"))
    old = render(given).replace(b"ignore-auto-routes=true\n", b"")
    assert read(old) == given


def test_a_vlan_takes_neither_route_nor_dns_from_the_management_network() -> None:
    """No default route, no routes and DNS servers of a DHCP server, no IPv6, and an address that is missing fails."""
    sections = parse(render(profile_of(CLUSTER, "node1", "cluster-1", L3(vid=2012, mode="dhcp"))))
    wanted = {"never-default", "ignore-auto-dns", "ignore-auto-routes"}
    assert sections["ipv4"].items() >= {(key, "true") for key in wanted} | {("may-fail", "false")}
    assert sections["ipv6"] == {"method": "disabled"}


@given(profiles())
def test_no_default_route_but_in_a_table_of_its_own(given: Profile) -> None:
    """A gateway is the default route of the VLAN's own table, and only what is sent from its subnet looks there."""
    ipv4 = parse(render(given))["ipv4"]
    routes = {key: value for key, value in ipv4.items() if key.startswith("route") and "_" not in key}
    defaults = [key for key, value in routes.items() if value.startswith("0.0.0.0/0,")]
    assert defaults == (["route1"] if given.routing.gateway else [])
    if given.routing.gateway:
        table, subnet = (
            routing_table(given.cluster_network, given.vid),
            IPv4Interface(given.routing.gateway).network,
        )
        assert ipv4["route1_options"] == f"table={table}"
        assert ipv4["routing-rule1"] == f"priority 30100 from {subnet} table 254 suppress_prefixlength 0"
        assert ipv4["routing-rule2"] == f"priority 30200 from {subnet} table {table}"


@given(profiles())
def test_a_gateway_of_ipv6_has_the_same_table(given: Profile) -> None:
    """It is the default route of the VLAN's own table as that of IPv4 is, and no other."""
    ipv6 = parse(render(given))["ipv6"]
    if not given.routing.gateway6:
        assert not [key for key in ipv6 if key.startswith("routing") or key.endswith("options")]
        return
    table, gateway = routing_table(given.cluster_network, given.vid), IPv6Interface(given.routing.gateway6)
    assert ipv6["route1"] == f"::/0,{gateway.ip}"
    assert ipv6["route1_options"] == f"table={table}"
    assert ipv6["routing-rule1"] == f"priority 30100 from {gateway.network} table 254 suppress_prefixlength 0"
    assert ipv6["routing-rule2"] == f"priority 30200 from {gateway.network} table {table}"


@given(NETWORKS, VIDS, VIDS)
def test_tables_are_far_from_everybody_else_s(network: str, left: int, right: int) -> None:
    """A table's number is above all small ones and below 2³¹, and two VLANs of a network never share one."""
    tables = {routing_table(network, vid) for vid in (left, right)}
    assert all(1_000_000_000 <= table < 2**31 for table in tables)
    assert len(tables) == len({left, right})


_HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "192.168.1.1\n[vpn]",
            "192.168.1.1/24\r\nmethod=disabled",
            "192.168.1.1;8.8.8.8",
            "10.0.0.0/8,192.168.1.1",
            "192.168.1.1 table 254",
            "fd00::1%x\n[vpn]/64",
            "fd00::1%x/64",
            "٣.٣.٣.٣",
            '[{"to": "10.0.0.0/8", "via": "192.168.1.1\\nmethod=disabled"}]',
            '[{"to": "0.0.0.0/0", "via": "192.168.1.1"}]',
            "[" * 100_000,
        ]
    ),
)
_TEXTS = st.one_of(_HOSTILE, st.sampled_from(["7", "dhcp", "static", "192.168.1.1/24", "8.8.8.8,1.1.1.1"]))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("ipmap", "gateway", "routes", "dns"), _TEXTS)))
def test_annotations_of_any_kind_make_a_whole_profile_or_none(texts: dict[str, str]) -> None:
    """What a webhook let through, or was not asked about, gives an expected profile or an error, nothing between."""
    prefix = "network.harvesterhci.io"
    for vid, mode in ((texts.get("dns", ""), texts.get("routes", "")), ("7", "static"), ("7", "dhcp")):
        annotations = {
            f"{prefix}/l3connectivity-a-x": "true",
            f"{prefix}/vlan-id-a-x": vid,
            f"{prefix}/mode-a-x": mode,
            f"{prefix}/ipmap-a-x": '{"node1": "192.168.1.10/24"}',
            **{f"{prefix}/{kind}-a-x": text for kind, text in texts.items()},
        }
        entry = decode(annotations)["a-x"]
        if entry.value is None:
            assert isinstance(entry.error, AnnotationError)
            continue
        for node in entry.value.addresses or {"node1": ""}:
            meant = profile_of(CLUSTER, node, "cluster-1", entry.value)
            assert read(render(meant)) == meant


@given(
    profiles(),
    _HOSTILE,
    st.sampled_from(
        [
            "network",
            "uuid",
            "address",
            "gateway",
            "address6",
            "subnet6",
            "gateway6",
            "to",
            "via",
            "dns",
            "to6",
            "via6",
            "dns6",
        ]
    ),
)
def test_what_no_parser_let_pass_is_not_written(given: Profile, text: str, field: str) -> None:
    """A value of any kind that is put past the parsers is refused, or gives just the lines of its own meaning."""
    given = replace(given, mode6="", subnet6="")
    routing = given.routing
    match field:
        case "network":
            given = replace(given, cluster_network=text)
        case "uuid":
            given = replace(given, uuid=text)
        case "address":
            given = replace(given, mode="static", address=text)
        case "gateway":
            given = replace(given, routing=replace(routing, gateway=text))
        case "address6":
            given = replace(given, address6=text, routing=replace(routing, gateway6=""))
        case "subnet6":
            given = replace(given, mode6="slaac", subnet6=text, routing=replace(routing, gateway6=""))
        case "gateway6":
            given = replace(given, address6="fd00::7/64", routing=replace(routing, gateway6=text))
        case "to" | "via":
            route = replace(Route("10.0.0.0/8", "192.168.1.1"), **{field: text})
            given = replace(given, routing=replace(routing, routes=(route,)))
        case "to6" | "via6":
            route = replace(Route("fd00:20::/48", "fd00::1"), **{field[:-1]: text})
            given = replace(given, address6="fd00::7/64", routing=replace(routing, routes6=(route,)))
        case "dns6":
            given = replace(given, address6="fd00::7/64", routing=replace(routing, dns6=(text,)))
        case _:
            given = replace(given, routing=replace(routing, dns=(text,)))
    try:
        content = render(given)
    except ValueError:
        return
    sections = parse(content)
    assert set(sections) == {*SECTIONS, "ipv4", "ipv6"}
    assert set(sections["ipv4"]) == IPV4 | _keys(given)
    assert set(sections["ipv6"]) == _ipv6(given)
    assert len(content.splitlines()) == 1 + sum(2 + len(entries) for entries in sections.values())


@pytest.mark.parametrize("text", ["fd00::1%x/64", "fd00::1%x\n[vpn]/64", "::%\n", "::%\r", "fd00::1%\0/64"])
@pytest.mark.parametrize("field", ["address6", "gateway6"])
def test_an_address_with_a_scope_is_not_written(field: str, text: str) -> None:
    """A scope may be any text to Python's parser; no address of a profile has one."""
    routing = Routing(gateway6=text) if field == "gateway6" else Routing()
    address6 = text if field == "address6" else "fd00::7/64"
    given = Profile(
        cluster_network="cluster-1",
        vid=7,
        uuid="d3b783c8-4007-5837-887e-c2bdcb10a4d1",
        mode="dhcp",
        address6=address6,
        routing=routing,
    )
    with pytest.raises(ValueError, match="no profile can be written of the address"):
        render(given)


def test_an_address_that_the_node_makes() -> None:
    """Nothing but the address is taken of router advertisements: no route, no DNS server, no other address."""
    given = profile_of(
        CLUSTER, "node1", "cluster-1", L3(vid=2012, mode="dhcp", mode6="slaac", subnet6="fd00:1::/64")
    )
    assert parse(render(given))["ipv6"] == {
        "addr-gen-mode": "eui64",
        "ignore-auto-dns": "true",
        "ignore-auto-routes": "true",
        "ip6-privacy": "0",
        "may-fail": "true",
        "method": "auto",
        "never-default": "true",
        "ra-timeout": "2147483647",
        "route1": "fd00:1::/64",
    }
    content = render(given)
    for other in (b"", b"route1=fd00:1::/80\n", b"route1=fd00:1::/64\naddress1=fd00:1::7/64\n"):
        assert read(content.replace(b"route1=fd00:1::/64\n", other)) is None


def test_an_address_of_a_dhcpv6_server() -> None:
    """Nothing but the address is taken of it, and the client is known by the MAC address of the node."""
    value = L3(vid=2012, mode="dhcp", mode6="dhcp6", subnet6="fd00:1::/112")
    given = profile_of(CLUSTER, "node1", "cluster-1", value)
    assert parse(render(given))["ipv6"] == {
        "addr-gen-mode": "eui64",
        "dhcp-duid": "ll",
        "dhcp-timeout": "2147483647",
        "ignore-auto-dns": "true",
        "ignore-auto-routes": "true",
        "may-fail": "true",
        "method": "dhcp",
        "never-default": "true",
        "route1": "fd00:1::/112",
    }
    assert read(render(given)) == given


@pytest.mark.parametrize("vid", [-1, 0, 1, 4095, 20120])
def test_an_id_that_is_none_is_not_written(vid: int) -> None:
    """VLAN ids of profiles are 2 to 4094."""
    given = profile_of(CLUSTER, "node1", "cluster-1", L3(vid=2012, mode="dhcp"))
    with pytest.raises(ValueError, match=f"VLAN {vid} of"):
        render(replace(given, vid=vid))


def test_routes_and_servers_are_in_their_order() -> None:
    """Routes by destination after the gateway's, servers in the order in which they are to be asked."""
    routing = Routing(
        gateway="192.168.1.1/24",
        routes=(Route("10.9.0.0/16", "192.168.1.2"), Route("10.20.0.0/16", "192.168.1.3")),
        dns=("192.168.1.53", "8.8.8.8"),
    )
    given = profile_of(CLUSTER, "node1", "cluster-1", L3(vid=2012, mode="dhcp", routing=routing))
    ipv4 = parse(render(given))["ipv4"]
    assert [ipv4[f"route{number}"] for number in (1, 2, 3)] == [
        "0.0.0.0/0,192.168.1.1",
        "10.9.0.0/16,192.168.1.2",
        "10.20.0.0/16,192.168.1.3",
    ]
    assert (ipv4["dns"], int(ipv4["dns-priority"])) == ("192.168.1.53;8.8.8.8;", 200)
    assert IPv4Network("192.168.1.0/24") == IPv4Network(ipv4["routing-rule1"].split()[3])
    assert read(render(replace(given, routing=Routing(dns=routing.dns)))) != given


def test_routes_and_servers_of_ipv6() -> None:
    """They stand next to those of IPv4, after the gateway's, and are read as they were meant."""
    routing = Routing(
        gateway6="fd00:1::1/64",
        routes6=(Route("2001:db8::/32", "fd00:1::3"), Route("fd00:20::/48", "fd00:1::2")),
        dns=("192.168.1.53",),
        dns6=("fd00:1::53", "2001:db8::53"),
    )
    four, six = {"node1": "192.168.1.10/24"}, {"node1": "fd00:1::10/64"}
    value = L3(vid=2012, mode="static", addresses=four, addresses6=six, routing=routing)
    given = profile_of(CLUSTER, "node1", "cluster-1", value)
    sections = parse(render(given))
    assert [sections["ipv6"][f"route{number}"] for number in (1, 2, 3)] == [
        "::/0,fd00:1::1",
        "2001:db8::/32,fd00:1::3",
        "fd00:20::/48,fd00:1::2",
    ]
    assert sections["ipv6"]["dns"] == "fd00:1::53;2001:db8::53;"
    assert sections["ipv4"]["dns"] == "192.168.1.53;"
    assert read(render(given)) == given

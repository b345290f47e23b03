"""What IPAM programs give: taken as it is where it is right, and refused with the field's name otherwise."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.lan.rules.addressing import PodRoute, previous_addresses, read_given, shaped

Raw = dict[str, Any]

BOTH: Raw = {
    "cniVersion": "1.1.0",
    "interfaces": None,
    "ips": [
        {"address": "192.0.2.7/24", "gateway": "192.0.2.1", "interface": None},
        {"address": "2001:DB8::7/64", "gateway": "2001:db8::1"},
    ],
    "routes": [
        {"dst": "0.0.0.0/0"},
        {
            "dst": "2001:db8:1::/48",
            "gw": "2001:db8::2",
            "priority": 7,
            "mtu": 1400,
            "table": 1000,
            "scope": 0,
        },
        {"dst": "198.51.100.7/24", "gw": None},
    ],
    "dns": {"nameservers": ["192.0.2.53"], "search": None},
}


def test_result_in_each_version() -> None:
    """A result has the interface of each address, its version before 1.0.0, and fields of routes since 1.1.0."""
    found = read_given(BOTH)
    four: Raw = {"interface": 0, "address": "192.0.2.7/24", "gateway": "192.0.2.1"}
    six: Raw = {"interface": 0, "address": "2001:db8::7/64", "gateway": "2001:db8::1"}
    plain: list[Raw] = [
        {"dst": "0.0.0.0/0"},
        {"dst": "2001:db8:1::/48", "gw": "2001:db8::2"},
        {"dst": "198.51.100.0/24"},
    ]
    dns = {"nameservers": ["192.0.2.53"]}
    for version in ("0.3.0", "0.3.1", "0.4.0"):
        ips = [four | {"version": "4"}, six | {"version": "6"}]
        assert shaped(found, version) == {"ips": ips, "routes": plain, "dns": dns}
    assert shaped(found, "1.0.0") == {"ips": [four, six], "routes": plain, "dns": dns}
    plain[1] |= {"priority": 7, "mtu": 1400, "table": 1000, "scope": 0}
    assert shaped(found, "1.1.0") == {"ips": [four, six], "routes": plain, "dns": dns}


def test_gateways_of_routes() -> None:
    """A route without a gateway goes through that of an address of its version, and else over the link."""
    routes = read_given(BOTH).resolved_routes()
    assert [route.gw for route in routes] == ["192.0.2.1", "2001:db8::2", "192.0.2.1"]
    alone = read_given({"ips": [{"address": "192.0.2.7/32"}], "routes": [{"dst": "::/0"}]})
    assert alone.resolved_routes() == (PodRoute(dst="::/0"),)


def _ip(**more: Any) -> Raw:
    return {"ips": [{"address": "192.0.2.7/24", **more}]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "the result"),
        ([], "the result"),
        ({}, "ips"),
        ({"ips": []}, "ips"),
        ({"ips": {}}, "ips"),
        ({"ips": [7]}, "ips"),
        ({"ip4": {"ip": "192.0.2.7/24"}}, "ips"),
        ({"ips": [{"address": "192.0.2.7/24"}] * 65}, "ips"),
        (_ip(address="192.0.2.7"), "ips[0].address"),
        (_ip(address="192.0.2.7/0"), "ips[0].address"),
        (_ip(address="192.0.2.7/33"), "ips[0].address"),
        (_ip(address="192.0.2.7/255.255.255.0 x"), "ips[0].address"),
        (_ip(address="127.0.0.1/8"), "ips[0].address"),
        (_ip(address="224.0.0.1/4"), "ips[0].address"),
        (_ip(address="0.0.0.0/8"), "ips[0].address"),
        (_ip(address="fe80::1%eth0/64"), "ips[0].address"),
        (_ip(address="::/64"), "ips[0].address"),
        (_ip(address="a" * 10_000), "ips"),
        (_ip(address="\n"), "ips[0].address"),
        (_ip(gateway="x"), "ips[0].gateway"),
        (_ip(gateway="2001:db8::1"), "ips[0].gateway"),
        (_ip() | {"routes": [{"dst": "x/y"}]}, "routes[0].dst"),
        (_ip() | {"routes": [{"gw": "192.0.2.1"}]}, "routes"),
        (_ip() | {"routes": [{"dst": "::/0", "gw": "192.0.2.1"}]}, "routes[0].gw"),
        (_ip() | {"routes": [{"dst": "0.0.0.0/0", "priority": -1}]}, "routes"),
        (_ip() | {"routes": [{"dst": "0.0.0.0/0", "mtu": 1 << 40}]}, "routes"),
        (_ip() | {"routes": [{"dst": "0.0.0.0/0"}] * 257}, "routes"),
        (_ip() | {"dns": {"nameservers": ["dns.example"]}}, "dns.nameservers[0]"),
        (_ip() | {"dns": {"search": ["a\nnameserver 192.0.2.1"]}}, "dns"),
        (_ip() | {"dns": []}, "dns"),
    ],
)
def test_bad_results(body: object, field: str) -> None:
    """A result that can't be used is refused, and the message begins with the field."""
    with pytest.raises(ValueError) as caught:
        read_given(body)
    assert str(caught.value).startswith(field), caught.value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ips", "address", "gateway", "routes", "dst", "gw", "dns"]), inner)
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_result(body: object) -> None:
    """Whatever is in a result, it is either read, with addresses that a kernel can be given, or refused."""
    try:
        found = read_given(body)
    except ValueError:
        return
    assert found.addresses and msgspec.json.encode(shaped(found, "0.3.1"))


def test_previous_addresses() -> None:
    """Of a result only those addresses count that the pod's interface has."""
    previous = {
        "interfaces": [
            {"name": "net1"},
            {"name": "net1", "sandbox": "/run/netns/p"},
            {"name": "x", "sandbox": "/p"},
        ],
        "ips": [
            {"address": "192.0.2.7/24", "interface": 1},
            {"address": "192.0.2.8/24", "interface": 0},
            {"address": "192.0.2.9/24", "interface": 2},
            {"address": "192.0.2.10/24"},
        ],
    }
    assert previous_addresses(previous, "net1") == ("192.0.2.7/24",)
    odd: object
    for odd in (None, [], {"ips": 7}, {"ips": [7], "interfaces": [7]}):
        assert previous_addresses(odd, "net1") == ()
    with pytest.raises(ValueError, match=r"ips\[0\].address"):
        previous_addresses(previous | {"ips": [{"address": "x", "interface": 1}]}, "net1")

"""The parsers that stand between what users write and root-owned files."""

import json
import re
from ipaddress import IPv4Interface
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanloom.api.l3 import (
    NODE_IP_MAP_MAX,
    AnnotationError,
    parse_cidr,
    parse_connectivity,
    parse_mode,
    parse_node_ip_map,
    parse_node_name,
    parse_vid,
)
from lanloom.text import quote

FIELD = "the-field"
SAFE_ADDRESS = re.compile(r"[0-9./]+", re.ASCII)
SAFE_NAME = re.compile(r"[a-z0-9.-]+", re.ASCII)

NASTY = st.sampled_from(
    [
        "192.168.1.10/24\n[ipv4]",
        "192.168.1.10/24\n",
        " 192.168.1.10/24",
        "192.168.1.10/24,192.168.1.1",
        "192.168.1.10/99",
        "192.168.1.10/-1",
        "192.168.1.10",
        "192.168.1.10/255.255.255.0",
        "192.168.001.10/24",
        "192.168.1.10/08",
        "192.168.1.256/24",
        "../../etc/passwd",
        "١٩٢.168.1.10/24",
        "fe80::1/64",
        "",
    ]
)
TEXTS = st.text() | NASTY
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10)
NODE_NAMES = st.from_regex(SAFE_NAME, fullmatch=True) | st.sampled_from(["node1", "node-2.example.org"])
ADDRESSES = st.builds("{}/{}".format, st.ip_addresses(v=4).map(str), st.integers(min_value=0, max_value=33))
MAPS = (
    st.text()
    | JSON.map(json.dumps)
    | st.dictionaries(NODE_NAMES, ADDRESSES | NASTY | LEAVES).map(json.dumps)
    | st.dictionaries(NODE_NAMES, st.integers(1, 254).map("192.168.1.{}/24".format)).map(json.dumps)
)


def refusal(parser: Any, *arguments: object) -> str:
    """The message with which a parser refuses."""
    with pytest.raises(AnnotationError) as caught:
        parser(*arguments)
    return str(caught.value)


@given(MAPS)
@example('{"node1": ' + "[" * 900 + "]" * 900 + "}")
@example("[" * 100_000)
@example('{"node1": ' + "9" * 5_000 + "}")
@example('{"node1": NaN}')
@example('{"node1": "\\ud800"}')
def test_a_map_is_safe_or_refused(text: str) -> None:
    """Whatever is accepted as a map holds DNS names and addresses of digits, dots and a slash, and nothing else."""
    try:
        addresses = parse_node_ip_map(FIELD, text)
    except AnnotationError as error:
        assert error.field.startswith(FIELD)
        assert str(error).isprintable()
        return
    assert addresses
    for node, address in addresses.items():
        assert SAFE_NAME.fullmatch(node)
        assert SAFE_ADDRESS.fullmatch(address)
        assert str(IPv4Interface(address)) == address
    assert len({IPv4Interface(item).network for item in addresses.values()}) == 1
    assert len(set(addresses.values())) == len(addresses)
    assert parse_node_ip_map(FIELD, json.dumps(addresses)) == addresses


@given(JSON | ADDRESSES)
def test_a_value_of_any_kind_is_an_address_or_refused(value: object) -> None:
    """A value that is no address is refused, whatever its type."""
    try:
        address = parse_cidr(FIELD, value)
    except AnnotationError:
        return
    assert isinstance(value, str)
    assert SAFE_ADDRESS.fullmatch(value)
    ends = {address.network.network_address, address.network.broadcast_address}
    assert address.ip not in ends or address.network.prefixlen >= 31


@given(JSON)
def test_a_value_of_any_kind_is_a_vid_or_refused(value: object) -> None:
    """A VLAN id is the one decimal spelling of a number from 2 to 4094."""
    try:
        vid = parse_vid(FIELD, value)
    except AnnotationError:
        return
    assert 2 <= vid <= 4094
    assert value == str(vid)


@given(st.none() | TEXTS)
def test_only_exact_words_are_understood(text: str | None) -> None:
    """`l3-connectivity` and `mode` know their words and no others."""
    if text not in (None, "true", "false"):
        refusal(parse_connectivity, text)
    if text not in ("static", "dhcp"):
        refusal(parse_mode, FIELD, text)


@given(st.text() | st.text(alphabet="ab-.", max_size=8))
def test_node_names_are_dns_names(text: str) -> None:
    """A node name is a DNS-1123 subdomain of at most 253 characters."""
    labels = text.split(".")
    good = len(text) <= 253 and all(re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", label) for label in labels)
    if good:
        assert parse_node_name(FIELD, text) == text
    else:
        refusal(parse_node_name, FIELD, text)


@given(JSON)
def test_quotes_are_one_short_line(value: object) -> None:
    """A value that is quoted in a message can neither break its line nor drown it."""
    text = quote(value)
    assert text.isprintable()
    assert len(text) <= (62 if isinstance(value, str) else 60)


def test_words_of_connectivity() -> None:
    """Absent and "false" switch node addresses off, "true" on."""
    assert [parse_connectivity(text) for text in (None, "false", "true")] == [False, False, True]


@pytest.mark.parametrize("text", ["1", "0", "4095", "02", "+2", "2.0", " 2", "2\n", "٢", "", "true"])
def test_near_vids_are_refused(text: str) -> None:
    """A VLAN id outside of 2 to 4094 or in another spelling is refused with the range."""
    assert "must be a VLAN id from 2 to 4094, without leading zeros" in refusal(parse_vid, FIELD, text)


def test_json_white_space_is_fine() -> None:
    """The design's own example, a map over several lines, is read."""
    text = '{\n  "node1": "192.168.1.10/24",\n  "node2": "192.168.1.11/24"\n}\n'
    assert parse_node_ip_map(FIELD, text) == {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            None,
            'the-field is missing; mode static needs a JSON object of node name to address, such as {"node1":',
        ),
        ("{", "the-field is not valid JSON; it must be an object such as"),
        ("[]", "the-field must be a JSON object of node name to address"),
        ("{}", "the-field is empty; mode static needs one address per node"),
        ('{"node1": 5}', 'the-field["node1"] is 5; it must be an IPv4 address with a prefix length'),
        ('{"node1": "10.0.0.1/99"}', 'the-field["node1"] is "10.0.0.1/99"; it must be an IPv4 address'),
        ('{"node1": "10.0.0.1/24\\n[vlan]"}', 'the-field["node1"] is "10.0.0.1/24\\n[vlan]"; it must be'),
        ('{"../etc": "10.0.0.1/24"}', 'the-field has the key "../etc"; keys must be node names'),
        ('{"a": "10.0.0.1/24", "a": "10.0.0.2/24"}', 'the-field names node "a" twice'),
        ('{"node1": "10.0.0.1/24", "n\\u006fde1": "10.0.0.2/24"}', 'the-field names node "node1" twice'),
        ('{"a": "10.0.0.1/24", "b": "10.0.0.1/24"}', 'the-field gives 10.0.0.1 to both "a" and "b"'),
        ('{"a": "10.0.0.1/24", "b": "10.0.1.1/24"}', "two subnets (10.0.0.0/24 and 10.0.1.0/24)"),
        ('{"a": "10.0.0.0/24"}', "the network address of its subnet; choose a host address"),
        ('{"a": "10.0.0.255/24"}', "the broadcast address of its subnet; choose a host address"),
        ('{"a": "127.0.0.1/8"}', "which can't be the address of a node"),
        ('{"a": "224.0.0.5/24"}', "which can't be the address of a node"),
        ('{"a": "0.0.0.0/0"}', "which can't be the address of a node"),
        ('{"a": "10.0.0.1/0"}', "which can't be the address of a node"),
        ("x" * (2 * 1024 * 1024), f"the-field has 2097152 characters; at most {NODE_IP_MAP_MAX} are allowed"),
    ],
)
def test_refusals_name_field_and_remedy(text: str | None, message: str) -> None:
    """Each way to get a map wrong has a message with the field, the value and what is allowed."""
    assert message in refusal(parse_node_ip_map, FIELD, text)


@pytest.mark.timeout(10)
def test_a_map_of_the_longest_size_is_read_quickly() -> None:
    """A map as long as is allowed takes no more than a moment."""
    addresses = {f"n{index}": f"10.{index >> 8}.{index & 255}.7/8" for index in range(6_000)}
    text = json.dumps(addresses)[:NODE_IP_MAP_MAX].rpartition(",")[0] + "}"
    assert len(parse_node_ip_map(FIELD, text)) > 4_000

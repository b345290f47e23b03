"""How the L3 configurations of many networks live side by side in the annotations of one ClusterNetwork."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api import names
from lanloom.api.l3 import (
    L3,
    VID_MAX,
    VID_MIN,
    AnnotationError,
    Route,
    Routing,
)
from lanloom.api.l3annotations import (
    L3Entry,
    decode,
    encode,
    encode_reference,
    is_l3_key,
    legacy_suffixes,
    network_suffix,
    suffix_of_key,
    values_in_nads,
)
from lanloom.api.meta import Key

LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
TIGHT_LABEL = st.from_regex(r"[ab]([-ab]{0,3}[ab])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
KEYS = st.builds(Key, LABEL, NAME) | st.builds(Key, TIGHT_LABEL, TIGHT_LABEL)
VIDS = st.integers(VID_MIN, VID_MAX)
ADDRESSES = st.dictionaries(LABEL, st.integers(1, 254), min_size=1, max_size=5).map(
    lambda nodes: {node: f"172.16.0.{number + 9}/24" for number, node in enumerate(sorted(nodes), start=1)}
)
ROUTES = st.sets(st.integers(0, 255), max_size=4).map(
    lambda numbers: tuple(Route(f"10.{number}.0.0/16", "172.16.0.9") for number in sorted(numbers))
)
SERVERS = st.lists(st.integers(1, 254).map("192.0.2.{}".format), max_size=3, unique=True).map(tuple)
ROUTINGS = st.builds(Routing, gateway=st.sampled_from(["", "172.16.0.1/24"]), routes=ROUTES, dns=SERVERS)
SIX = Routing(gateway="172.16.0.1/24", gateway6="fd00::fffe/64")
DUAL = st.sets(LABEL, min_size=1, max_size=4).map(
    lambda nodes: L3(
        vid=7,
        mode="static",
        addresses={node: f"172.16.0.{number}/24" for number, node in enumerate(sorted(nodes), 9)},
        addresses6={node: f"fd00::{number:x}/64" for number, node in enumerate(sorted(nodes), 9)},
        routing=SIX,
    )
)
MADE = st.builds(
    L3,
    vid=VIDS,
    mode=st.just("dhcp"),
    mode6=st.just("slaac"),
    subnet6=st.just("fd00:1::/64"),
    routing=ROUTINGS,
)
VALUES = (
    DUAL
    | MADE
    | st.builds(L3, vid=VIDS, mode=st.just("dhcp"), routing=ROUTINGS)
    | st.builds(L3, vid=VIDS, mode=st.just("static"), addresses=ADDRESSES, routing=ROUTINGS)
)
KEY_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
NETWORK = Key("default", "nad2012")


def annotation(**values: str) -> dict[str, str]:
    """Annotations by the part of the key after the prefix, with underscores for dashes."""
    return {names.PREFIX + key.replace("_", "-"): value for key, value in values.items()}


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_what_is_encoded_is_decoded(networks: dict[Key, L3]) -> None:
    """Any networks' configurations come out of the annotations as they went in, each under its own suffix."""
    annotations: dict[str, str] = {}
    for nad, value in networks.items():
        annotations |= encode(nad, value)
    entries = decode(annotations)
    assert {suffix: entry.value for suffix, entry in entries.items()} == {
        network_suffix(nad): value for nad, value in networks.items()
    }


@given(KEYS, VALUES)
def test_keys_are_keys_of_annotations(nad: Key, value: L3) -> None:
    """Every key is one that Kubernetes accepts, at most 63 characters after the prefix, and known as the manager's."""
    for key in encode(nad, value) | encode_reference(nad, value):
        assert KEY_NAME.fullmatch(key.removeprefix(names.PREFIX)), key
        assert is_l3_key(key)
        assert suffix_of_key(key) == network_suffix(nad)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_a_reference_names_vlan_id_and_mode(networks: dict[Key, L3]) -> None:
    """Of a network whose values are in its NAD an agent learns that, its VLAN id and its mode, and no more."""
    annotations: dict[str, str] = {}
    for nad, value in networks.items():
        annotations |= encode_reference(nad, value)
    assert decode(annotations) == {
        network_suffix(nad): L3Entry(
            L3(vid=value.vid, mode=value.mode, mode6=value.mode6), None, value.vid, in_nad=True
        )
        for nad, value in networks.items()
    }
    assert values_in_nads(annotations) == {network_suffix(nad) for nad in networks}


@given(KEYS, KEYS)
def test_two_networks_never_share_a_suffix(left: Key, right: Key) -> None:
    """Different NADs have different suffixes, also where dashes and lengths make names look alike."""
    assert (network_suffix(left) == network_suffix(right)) == (left == right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Key("a", "b-c"), Key("a-b", "c")),
        (Key("default", "x" * 60 + "1"), Key("default", "x" * 60 + "2")),
        (Key("default", "x" * 200), Key("default", "x" * 201)),
    ],
)
def test_names_that_look_alike_when_joined(left: Key, right: Key) -> None:
    """Where namespace and name are the same for two networks, or are cut, a hash distinguishes the networks."""
    assert network_suffix(left) != network_suffix(right)


def test_short_names_stay_readable() -> None:
    """A namespace without a dash and a short name give `<namespace>-<name>`."""
    assert network_suffix(NETWORK) == "default-nad2012"


@pytest.mark.parametrize(
    "key", [names.MTU_SOURCE, names.UPLINK_MTU, "other.io/mode-x", names.PREFIX + "modern", names.MODE]
)
def test_foreign_annotations_are_not_ours(key: str) -> None:
    """Annotations that only look like L3 keys are left alone."""
    assert not is_l3_key(key)


LEGACY = annotation(
    l3connectivity_nad2012="true",
    vlan_id_nad2012="2012",
    mode_nad2012="static",
    ipmap_default_nad2012='{"node1": "192.168.1.10/24"}',
)


def test_the_design_s_own_keys_are_read() -> None:
    """Keys with the bare name as suffix, and the namespace in the map's only, are understood."""
    value = L3(vid=2012, mode="static", addresses={"node1": "192.168.1.10/24"})
    assert decode(LEGACY)["nad2012"].value == value
    assert {suffix_of_key(key) for key in LEGACY} == set(legacy_suffixes(NETWORK))


def test_a_legacy_map_of_a_longer_name_is_not_taken() -> None:
    """The map of `my-nad2012` is never read for `nad2012`, although its key ends like it."""
    other = annotation(
        l3connectivity_my_nad2012="true",
        vlan_id_my_nad2012="2013",
        mode_my_nad2012="static",
        ipmap_default_my_nad2012='{"node1": "192.168.2.10/24"}',
    )
    entries = decode(LEGACY | other)
    values = {suffix: entry.value for suffix, entry in entries.items()}
    assert values["nad2012"] == L3(vid=2012, mode="static", addresses={"node1": "192.168.1.10/24"})
    assert values["my-nad2012"] == L3(vid=2013, mode="static", addresses={"node1": "192.168.2.10/24"})


def test_two_legacy_maps_of_one_name_are_refused() -> None:
    """Where two namespaces have a network of one name, no map is guessed."""
    entry = decode(LEGACY | annotation(ipmap_other_nad2012='{"node1": "192.168.9.9/24"}'))["nad2012"]
    assert entry.value is None
    assert "ipmap-nad2012 is missing" in str(entry.error)


KINDS = ("l3connectivity", "vlan-id", "mode", "ipmap", "gateway", "routes", "dns")
ANY_KEY = st.builds(
    f"{names.PREFIX}{{}}-{{}}".format,
    st.sampled_from(KINDS),
    st.sampled_from(["nad2012", "default-nad2012", "x", "", "-", "a_b"]) | st.text(max_size=5),
)
WORDS = [
    "true",
    "false",
    "2012",
    "static",
    "dhcp",
    '{"node1": "172.16.0.10/24"}',
    "172.16.0.1",
    "172.16.0.1/24",
    "[]",
]
ANY_VALUE = st.sampled_from(WORDS) | st.text(max_size=20)


@given(st.dictionaries(ANY_KEY | st.sampled_from(sorted(LEGACY)) | st.text(), ANY_VALUE, max_size=14))
def test_any_annotations_are_decoded(annotations: dict[str, str]) -> None:
    """Whatever stands in the annotations, decoding gives a safe value or an error for each network that is on."""
    for suffix, entry in decode(LEGACY | annotations).items():
        assert (entry.value is None) != (entry.error is None)
        assert entry.error is None or isinstance(entry.error, AnnotationError)
        if entry.value is not None:
            again = encode(Key("x", "y"), entry.value)
            assert decode(again)["x-y"].value == entry.value, suffix


@pytest.mark.parametrize(
    ("broken", "vid", "message"),
    [
        ({"vlan_id_default_x": "1"}, 0, "vlan-id-default-x is"),
        ({"mode_default_x": "auto"}, 2012, 'mode-default-x is "auto"; it must be "static", "dhcp" or "pool"'),
        ({"mode_default_x": "static"}, 2012, "ipmap-default-x is missing"),
        ({"l3connectivity_default_x": "yes"}, 0, 'must be "true" or "false"'),
    ],
)
def test_one_broken_network_does_not_hide_the_others(broken: dict[str, str], vid: int, message: str) -> None:
    """A configuration that can't be used comes with its error and, where it can be read, its VLAN id."""
    good = encode(Key("default", "good"), L3(vid=5, mode="dhcp"))
    bad = encode(Key("default", "x"), L3(vid=2012, mode="dhcp")) | annotation(**broken)
    entries = decode(good | bad)
    assert entries["default-good"].value == L3(vid=5, mode="dhcp")
    assert entries["default-x"].vid == vid
    assert message in str(entries["default-x"].error)


def test_a_network_that_is_switched_off_is_left_out() -> None:
    """A network whose l3connectivity is "false" has no entry."""
    assert decode(LEGACY | annotation(l3connectivity_nad2012="false")) == {}


def test_maps_are_written_in_one_way() -> None:
    """Equal addresses in another order give equal annotations, so that nothing is written for it."""
    one = L3(vid=2012, mode="static", addresses={"b": "10.0.0.2/24", "a": "10.0.0.1/24"})
    other = L3(vid=2012, mode="static", addresses={"a": "10.0.0.1/24", "b": "10.0.0.2/24"})
    assert encode(NETWORK, one) == encode(NETWORK, other)
    assert json.loads(encode(NETWORK, one)[f"{names.PREFIX}ipmap-default-nad2012"]) == one.addresses


HARVESTERS_OWN = {
    "vlan-id-set-str": "1,31,32",
    "vlan-id-set-str-hash": "8d6c",
    "matched-nodes": "[]",
    "uplink-mtu": "1500",
    "mtu-source-vc": "vc-1",
    "vlan-dhcp-server-ip": "",
    "route": "{}",
    "route-source-vid": "31",
    "last-type": "L2VlanNetwork",
}
"""Keys that Harvester writes on ClusterNetworks and NADs (its pkg/utils/labels.go, at 2e5cbea)."""


def test_keys_of_harvesters_are_none_of_ours() -> None:
    """Whole keys of Harvester's are not taken for L3 keys, whatever they begin with."""
    assert not [key for key in HARVESTERS_OWN if is_l3_key(names.PREFIX + key)]
    assert decode({names.PREFIX + key: value for key, value in HARVESTERS_OWN.items()}) == {}


@given(KEYS | st.sampled_from([Key("set", "str"), Key("set", "str-hash"), Key("set-str", "hash")]), VALUES)
def test_no_network_takes_a_key_of_harvesters(nad: Key, value: L3) -> None:
    """The keys of no NAD are Harvester's, also in a namespace `set`; each is known as an L3 key with its suffix."""
    written = encode(nad, value) | encode_reference(nad, value)
    assert not written.keys() & {names.PREFIX + key for key in HARVESTERS_OWN}
    assert all(is_l3_key(key) and suffix_of_key(key) == network_suffix(nad) for key in written)
    assert decode(encode(nad, value))[network_suffix(nad)].value == value


@given(
    st.from_regex(
        r"(l3connectivity|vlan-id|mode|ipmap|gateway|routes|dns|l3values)?[-a-z_.]{0,12}", fullmatch=True
    )
)
def test_only_a_kind_and_a_dash_make_a_key_ours(name: str) -> None:
    """A key that looks like one of ours is none without the prefix, the whole kind, the dash and a suffix."""
    kinds = ("l3connectivity", "vlan-id", "mode", "ipmap", "gateway", "routes", "dns", "l3values")
    ours = name not in HARVESTERS_OWN and any(
        name.startswith(f"{kind}-") and name != f"{kind}-" for kind in kinds
    )
    assert is_l3_key(names.PREFIX + name) == ours
    assert not is_l3_key(name)
    assert not is_l3_key(f"example.org/{name}")

"""What reaches an IPAM program of a NAD that any tenant may have written."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.features.lan.rules.ipamconfig import PROGRAMS, arguments, program_config
from tests.harness.examples import examples

Raw = dict[str, Any]

HOST_LOCAL = {
    "type": "host-local",
    "ranges": [
        [
            {
                "subnet": "10.10.0.0/16",
                "rangeStart": "10.10.1.20",
                "rangeEnd": "10.10.3.50",
                "gateway": "10.10.0.254",
            },
            {"subnet": "172.16.5.0/24"},
        ],
        [{"subnet": "3ffe:ffff:0:01ff::/64", "rangeStart": "3ffe:ffff:0:01ff::0010"}],
    ],
    "routes": [
        {"dst": "0.0.0.0/0"},
        {"dst": "192.168.0.0/16", "gw": "10.10.5.1", "mtu": 1400, "priority": 9, "table": 100, "scope": 0},
        {"dst": "3ffe:ffff:0:01ff::1/64", "advmss": 1200},
    ],
}
STATIC = {
    "type": "static",
    "addresses": [
        {"address": "10.10.0.1/24", "gateway": "10.10.0.254"},
        {"address": "3ffe:ffff:0:01ff::1/64", "gateway": "3ffe:ffff:0::1", "version": "6"},
    ],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.168.0.0/16", "gw": "10.10.5.1"}],
    "dns": {
        "nameservers": ["8.8.8.8"],
        "domain": "example.com",
        "search": ["example.com"],
        "options": ["ndots:2"],
    },
}
DHCP = {
    "type": "dhcp",
    "request": [{"option": "subnet-mask", "skipDefault": True}],
    "provide": [{"option": "host-name", "fromArg": "K8S_POD_NAME"}, {"option": "12", "value": "web"}],
    "priority": 10,
}
WHEREABOUTS = {
    "type": "whereabouts",
    "ipRanges": [{"range": "192.168.10.1/24", "exclude": ["192.168.10.9"]}, {"range": "176.168.10.1/16"}],
    "range": "abcd::1/64",
    "exclude": ["192.168.2.229/30", "192.168.2.236/32"],
    "range_start": "192.168.2.225",
    "range_end": "192.168.2.230",
    "gateway": "192.168.2.1",
    "datastore": "kubernetes",
    "log_level": "debug",
    "node_slice_size": "/22",
    "network_name": "blue",
    "enable_overlapping_ranges": False,
    "leader_lease_duration": 1500,
    "reconciler_cron_expression": "*/5 4 * * *",
    "routes": [{"dst": "0.0.0.0/0"}],
    "addresses": [{"address": "10.10.0.1/24"}],
    "dns": {},
}
OWN = {
    "type": "lanloom-ipam",
    "network": "blue",
    "ips": ["pool4", "192.0.2.9"],
    "pools": ["dmz"],
    "routes": [{"dst": "198.51.100.0/24", "gw": "192.0.2.1"}],
    "defaultRoute": True,
    "dns": {"nameservers": ["192.0.2.53"]},
}
UNLISTED = {
    "type": "company-ipam",
    "server": "https://ipam.example/v1",
    "zones": [{"id": 7, "cidr": "192.0.2.0/24"}],
}
SIMPLE = {"type": "host-local", "subnet": "10.1.0.0/24", "gateway": "", "resolvConf": "/etc/resolv.conf"}
HYPHEN = {"type": "whereabouts", "range": "192.168.2.225-192.168.2.230/28"}

SECTIONS = (HOST_LOCAL, STATIC, DHCP, WHEREABOUTS, OWN, UNLISTED, HYPHEN)


def nad(section: object, **more: Any) -> Raw:
    """A configuration with this `ipam`."""
    return {
        "cniVersion": "1.0.0",
        "name": "blue-web",
        "type": "k8slanveth",
        "veth": "web",
        "ipam": section,
        **more,
    }


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section["type"])
def test_listed_fields(section: Raw) -> None:
    """What the programs' own documentation shows is passed on as it is."""
    found = program_config(nad(section), "ADD")
    assert found.faults == ()
    assert found.config == {key: value for key, value in nad(section).items() if key != "veth"}


def test_nothing_is_something() -> None:
    """An empty gateway and null are left out, and the resolver of the node may be named."""
    found = program_config(nad({**SIMPLE, "routes": None}), "ADD")
    assert found.faults == ()
    assert found.config["ipam"] == {key: value for key, value in SIMPLE.items() if key != "gateway"}


PATHS = (
    "/host-cni-bin",
    "../x",
    "..",
    "a/b",
    "/etc/resolv.conf/..",
    "~root",
    "file:///etc/shadow",
    "C:\\x",
    "10.0.0.0/24/../x",
)


def places(value: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document, objects and lists among them."""
    found = [at] if at else []
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        found += places(item, (*at, key))
    return found


def put(document: Raw, at: tuple[Any, ...], value: object) -> Raw:
    """The document with another value at a place."""
    copy: Any = json.loads(json.dumps(document))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return dict(copy)


EVERY = [(section, at) for section in SECTIONS for at in places(section) if at != ("type",)]


@given(
    st.sampled_from(EVERY), st.sampled_from(PATHS), st.sampled_from(["ADD", "CHECK", "STATUS", "DEL", "GC"])
)
@settings(max_examples=examples(300))
def test_a_path_anywhere(place: tuple[Raw, tuple[Any, ...]], path: str, command: str) -> None:
    """A path in place of any value is a fault that names its field, and reaches no program by any command."""
    section, at = place
    found = program_config(nad(put(section, at, path)), command)
    assert found.faults and found.faults[0].startswith(f"ipam.{at[0]}"), found
    assert path not in json.dumps(found.config)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dataDir", "/host-cni-bin"),
        ("datadir", "x"),
        ("DATADIR", "x"),
        ("dataDir\u017f", "x"),
        ("daemonSocketPath", "/run/x.sock"),
        ("kubernetes", {"kubeconfig": "/x"}),
        ("\u212aubernetes", {"k8s_api_root": "https://evil.example"}),
        ("log_file", "/x"),
        ("configuration_path", "/x"),
        ("etcd_host", "evil.example"),
        ("_comment", "hello"),
    ],
)
@pytest.mark.parametrize(
    "section", [HOST_LOCAL, STATIC, DHCP, WHEREABOUTS, OWN], ids=lambda section: section["type"]
)
def test_unlisted_fields(section: Raw, name: str, value: object) -> None:
    """Any other field is refused, whatever its case, and left out where addresses are given back."""
    refused = program_config(nad({**section, name: value}), "ADD")
    assert [fault.partition(":")[0] for fault in refused.faults] == [f"ipam.{name}"]
    assert program_config(nad({**section, name: value}), "DEL").config["ipam"] == section


@pytest.mark.parametrize(
    ("other_fields", "field"),
    [
        ({"name": "../../host-cni-bin"}, "name"),
        ({"name": ".."}, "name"),
        ({"name": 7}, "name"),
        ({"runtimeConfig": {"ips": ["/x"]}}, "runtimeConfig.ips[0]"),
        (
            {"runtimeConfig": {"ipRanges": [[{"subnet": "10.0.0.0/8", "dataDir": "/x"}]]}},
            "runtimeConfig.ipRanges[0][0].dataDir",
        ),
        ({"runtimeConfig": []}, "runtimeConfig"),
        ({"args": {"cni": {"ips": [["/x"]]}}}, "args.cni.ips[0]"),
    ],
)
def test_fields_next_to_the_section(other_fields: Raw, field: str) -> None:
    """The other fields that programs read are validated as well."""
    found = program_config(nad(STATIC, **other_fields), "ADD")
    assert [fault.partition(":")[0] for fault in found.faults] == [field]


def test_fields_of_nobody() -> None:
    """What no program reads does not reach one, under no spelling."""
    more = {
        "IPAM": {"dataDir": "/x"},
        "Name": "/x",
        "prevResult": {"x": "/x"},
        "capabilities": {"ips": True},
        "mtu": 9,
    }
    found = program_config(nad(STATIC, **more, args={"cni": {"labels": ["/x"]}, "x": "/x"}), "ADD")
    assert found.faults == ()
    assert found.config.keys() == {"cniVersion", "name", "type", "ipam", "args"} and found.config["args"] == {
        "cni": {}
    }


def test_results() -> None:
    """A CHECK has the result of ADD, and GC the valid attachments; other commands have neither."""
    previous = {
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/x"}],
        "ips": [{"address": "10.10.0.1/24", "gateway": "10.10.0.254", "interface": 0}],
        "dns": {},
    }
    valid = [{"containerID": "c0ffee", "ifname": "net1"}]
    given = nad(STATIC, prevResult=previous, **{"cni.dev/valid-attachments": valid})
    extra = {
        command: program_config(given, command).config.keys() - {"cniVersion", "name", "type", "ipam"}
        for command in ("ADD", "CHECK", "DEL", "GC", "STATUS")
    }
    assert extra == {
        "ADD": set(),
        "CHECK": {"prevResult"},
        "DEL": set(),
        "GC": {"cni.dev/valid-attachments"},
        "STATUS": set(),
    }
    assert program_config(given, "CHECK").config["prevResult"] == previous


def test_arguments() -> None:
    """CNI_ARGS are passed on without paths."""
    text = "IgnoreUnknown=1;K8S_POD_NAME=web;IP=192.0.2.7/24;FILE=/etc/shadow;UP=..;"
    assert arguments(text) == "IgnoreUnknown=1;K8S_POD_NAME=web;IP=192.0.2.7/24"


NAMES = st.sampled_from(
    sorted({key for _, at in EVERY for key in at if isinstance(key, str)} | {"DataDir", "x/y"})
)
LEAVES = st.sampled_from([None, True, -1, 7, 1.5, "", "x", "10.0.0.0/24", *PATHS])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*PROGRAMS, "company-ipam"]), st.dictionaries(NAMES, JSON, max_size=5))
@settings(max_examples=examples(300))
def test_odd_sections(program: str, section: Raw) -> None:
    """Whatever stands in a section, it is read, and what is left has no path in it."""
    found = program_config(nad({**section, "type": program}), "DEL")
    texts = json.dumps(found.config)
    assert not any(json.dumps(path) in texts for path in PATHS)

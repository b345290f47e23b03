"""Whatever a file holds: it is read, or it is Malformed or Denied with one message, and nothing else happens."""

import json
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.features.ipam.ganeti.formats.conversion import (
    downgrade_config,
    downgrade_runtime,
    upgrade_config,
    upgrade_runtime,
)
from lanloom.features.ipam.ganeti.formats.verify import verify_config, verify_runtime
from lanloom.refusals import Denied, Malformed
from tests.features.ipam.ganeti.formats.clusters import Json
from tests.harness.examples import examples

ROOT = Path(__file__).parents[4] / "golden" / "ganeti"
FILES = [path.read_text() for path in sorted(ROOT.rglob("*")) if path.suffix in (".data", ".runtime")]
CONVERSIONS = (
    upgrade_config,
    downgrade_config,
    upgrade_runtime,
    downgrade_runtime,
    verify_config,
    verify_runtime,
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**30),
    st.floats(allow_nan=False),
    st.text(max_size=9),
    st.sampled_from(
        ["192.0.2.1", "192.0.2.0/28", "2001:db8::/64", "0101", "\ud800", "a" * 500, "::/0", "0.0.0.0/0"]
    ),
    st.just([]),
    st.just({}),
    st.just([[]]),
    st.just({"": {}}),
).map(deepcopy)


def try_all(text: str) -> None:
    """Run everything on a text."""
    for convert in CONVERSIONS:
        with suppress(Malformed, Denied):
            convert(text)


def places(value: Json, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a value that another one can be put."""
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, item in items for place in places(item, (*at, key))]


@given(st.sampled_from(FILES), st.data())
@settings(max_examples=examples(250), deadline=None)
def test_values(text: str, data: st.DataObject) -> None:
    """Any value may stand anywhere."""
    value = json.loads(text)
    for _ in range(data.draw(st.integers(1, 2))):
        *path, last = data.draw(st.sampled_from(places(value)))
        target = value
        for key in path:
            target = target[key]
        if data.draw(st.booleans()):
            target[last] = data.draw(ODD)
        else:
            del target[last]
        if not value:
            break
    try_all(json.dumps(value, indent=data.draw(st.sampled_from([None, 2]))))


@given(st.sampled_from(FILES), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_texts(text: str, data: st.DataObject) -> None:
    """A text may be cut short, or have anything in it."""
    at = data.draw(st.integers(0, len(text)))
    rests = ["", text[at + 1 :], '"', "{", "}" + text[at:], "\0" + text[at:], "NaN" + text[at:]]
    more = data.draw(st.sampled_from(rests))
    try_all(text[:at] + more)


HALVES = '{"cluster": {}, "instances": {}, "networks": {"%s": {"network": "192.0.2.0/28", "uuid": "%s"}}}'
"""A configuration with a network, stored under a key, and its UUID."""


def network_with(**values: Json) -> str:
    """A configuration with one network of one subnet."""
    subnet = {"cidr": "192.0.2.0/28"} | values
    return json.dumps({"cluster": {}, "instances": {}, "networks": {"n": {"subnets": [subnet]}}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nonsense",
        "null",
        "5",
        '"text"',
        "{",
        "{}",
        "[]",
        "[[],[],{}",
        "NaN",
        '{"cluster": NaN, "instances": {}}',
        '{"cluster": {}, "instances": []}',
        '{"cluster": {}, "instances": {"a": 5}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {}}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {"network": "10.0.0.0/8"}}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {"network": "2001:db8::/64"}}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {"network": "192.0.2.0/28", "subnets": []}}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {"network": "192.0.2.0/28", "reservations": "012"}}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {"subnets": [{}]}}}',
        '{"cluster": {}, "instances": {}, "networks": {"n": {"network": "192.0.2.0/28", "old_form": {}}}}',
        network_with(external=[{"start": "255.255.255.255", "size": 2}]),
        network_with(external=[{"start": "192.0.2.1", "end": "2001:db8::1"}]),
        network_with(external=[{"start": "192.0.2.1", "size": 2, "end": "192.0.2.1"}]),
        network_with(external=[["192.0.2.1", 0]]),
        network_with(pools=[{"range": None}]),
        '{"cluster": {}, "instances": {"a": {"nics": [{"ip": "x"}]}}}',
        '{"cluster": {}, "instances": {"a": {"nics": [{"ip": null, "ips": []}]}}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 5_000,
        '{"cluster": {}, "instances": {}, "serial_no": ' + "1" * 5_000 + "}",
        "\ufeff{}",
    ],
    ids=lambda text: text[:30],
)
def test_malformed(text: str) -> None:
    """What is no file of Ganeti's is said to be none, in a message of reasonable length."""
    for convert in CONVERSIONS:
        with pytest.raises(Malformed) as caught:
            convert(text)
        assert len(str(caught.value)) < 300


def test_depth() -> None:
    """However deep a file is, it is read, or it is Malformed."""
    for depth in range(800, 1000):
        deep = "[" * depth + "]" * depth
        try_all('{"cluster": {}, "instances": {"a": {"nics": [{"ip": null, "x": ' + deep + "}]}}}")


def test_key_twice() -> None:
    """A key that is given twice where something would be rewritten is Malformed: it is unknown which one counts."""
    nic = '{"ip": "192.0.2.1", "ip": null}'
    for convert in (upgrade_config, downgrade_config, verify_config):
        with pytest.raises(Malformed, match='"ip" occurs twice'):
            convert('{"cluster": {}, "instances": {"a": {"nics": [' + nic + "]}}}")
    for convert in (upgrade_runtime, downgrade_runtime, verify_runtime):
        with pytest.raises(Malformed, match='"ip" occurs twice'):
            convert('[["kvm"], [' + nic + "], {}]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "^is empty$"),
        (" \n", "^is empty$"),
        ("\ufeff{}", "begins with a byte order mark; remove it"),
        ('{"cluster": {}, "instances": {}, "serial_no": ' + "1" * 5_000 + "}", "a number that is too long"),
        ('{"cluster": NaN}', "is not JSON: it contains NaN"),
        ('{"cluster": {}, "insta', "is not JSON: Unterminated string .*column 17"),
        (HALVES % (r"\ud800", "n"), r"networks: \"\\ud800\" contains half of a character"),
        (HALVES % ("n", r"\udc00"), r"networks\[\"n\"\].uuid: \"\\udc00\" contains half of a character"),
    ],
    ids=lambda text: text[:20],
)
def test_messages(text: str, message: str) -> None:
    """What is wrong with a file is reported in words of an administrator's, not of a library's."""
    with pytest.raises(Malformed, match=message):
        verify_config(text)


def test_misfitting_external_reservations() -> None:
    """External reservations of another length than the network's can't be put into place, and are refused by name."""
    network = '{"name": "net1", "network": "192.0.2.0/28", "ext_reservations": "1"}'
    text = '{"cluster": {}, "instances": {}, "networks": {"n": ' + network + "}}"
    with pytest.raises(Denied, match="ext_reservations has 1 bits for the 16 addresses"):
        upgrade_config(text)

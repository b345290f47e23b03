"""Edits that need a restart: the cases of KubeVirt by meaning, and fields that are unknown here."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.liveupdate.rules.restart import (
    UNKNOWN,
    Start,
    digest_of,
    networks_need_restart,
    parse_start,
    was_edited,
)
from tests.features.liveupdate.objects import (
    POD_INTERFACE,
    POD_NETWORK,
    Raw,
    devices,
    interface,
    network,
    on,
)

STATES = ("", "absent", "up", "down")


def needed(template: Raw, spec: Raw, *, live: bool = True) -> bool:
    """Whether a template needs a restart of the instance with that spec."""
    return networks_need_restart(template, spec, lambda _name: live)


@pytest.mark.parametrize(
    "spec", [devices([], []), on({"blue": "old"}), {}, {"domain": None, "networks": None}]
)
def test_no_change(spec: Raw) -> None:
    """Equal specs need none."""
    assert not needed(spec, spec)


def test_added() -> None:
    """Networks that come need none."""
    assert not needed(on({"blue": "old", "red": "new"}), on({"blue": "old"}))


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_state(before: str, after: str) -> None:
    """The state of an interface never needs one."""
    networks = [network("blue", "old")]
    assert not needed(
        devices([interface("blue", state=after)], networks),
        devices([interface("blue", state=before)], networks),
    )


def test_order() -> None:
    """Another order is no change."""
    spec = on({"blue": "old", "red": "old"})
    mixed = devices(spec["domain"]["devices"]["interfaces"][::-1], spec["networks"][::-1])
    assert not needed(mixed, spec)


@pytest.mark.parametrize(
    "nic",
    [
        interface("blue", "masquerade"),
        interface("blue", macAddress="02:00:00:00:00:02"),
        interface("blue", unknown={"deep": [1]}),
        interface("blue") | {"bridge": {"x": 1}},
    ],
)
def test_interface(nic: Raw) -> None:
    """Another binding, or any other field of an interface, known here or not, needs one."""
    networks = [network("blue", "old")]
    assert needed(devices([nic], networks), devices([interface("blue")], networks))


@pytest.mark.parametrize(("before", "after"), [("pod", "multus"), ("multus", "pod")])
def test_source(before: str, after: str) -> None:
    """A network that becomes the pod network, or stops being it, needs one."""
    sources = {"pod": {"name": "default", "pod": {}}, "multus": network("default", "old")}
    nics = [interface("default")]
    assert needed(devices(nics, [sources[after]]), devices(nics, [sources[before]]))


@pytest.mark.parametrize("live", [True, False])
def test_nad(live: bool) -> None:
    """Another NAD needs one where it can't change in the running machine."""
    assert needed(on({"blue": "new"}), on({"blue": "old"}), live=live) is not live


def test_other_fields_of_networks() -> None:
    """Fields of a network besides the NAD's name need one."""
    nics = [interface("blue")]
    assert needed(devices(nics, [network("blue", "new", fresh=1)]), devices(nics, [network("blue", "old")]))


def test_removed() -> None:
    """An interface or a network that is gone from the VirtualMachine needs one."""
    spec = on({"blue": "old"})
    assert needed(on({}), spec)
    assert needed(devices(spec["domain"]["devices"]["interfaces"], [POD_NETWORK]), spec)
    assert needed(devices([POD_INTERFACE], spec["networks"]), spec)


def test_pod_network_added() -> None:
    """The pod network for a machine without it needs one."""
    assert needed(on({}), devices([], []))
    assert needed(
        devices([POD_INTERFACE, interface("blue")], [POD_NETWORK, network("blue", "old")]),
        devices([interface("blue")], [network("blue", "old")]),
    )


EMPTY: list[Any] = [None, False, "", 0, [], 0.0]


@pytest.mark.parametrize("value", EMPTY)
def test_empty_is_absent(value: Any) -> None:
    """What Go leaves out is no change, whoever wrote it."""
    networks = [network("blue", "old")]
    assert not needed(
        devices([interface("blue", acpiIndex=value)], [network("blue", "old", default=value)]),
        devices([interface("blue")], networks),
    )


def test_true_and_one_are_values() -> None:
    """True and 1 are no absent values, though they are equal in Python."""
    networks = [network("blue", "old")]
    values: list[Any] = [True, 1, "0", [0], {}]
    for value in values:
        assert needed(devices([interface("blue", x=value)], networks), devices([interface("blue")], networks))


LIVE: list[Raw] = [
    {"nodeSelector": {"zone": "b"}},
    {"affinity": {"nodeAffinity": {}}},
    {"tolerations": [{"key": "x"}]},
    {"networks": [network("blue", "new")]},
]


def template(**fields: Any) -> Raw:
    """A template with a processor and memory."""
    base = {"domain": {"cpu": {"cores": 2, "sockets": 1}, "memory": {"guest": "1Gi"}, "devices": {}}}
    return base | {"hostname": "a"} | fields


@pytest.mark.parametrize("fields", LIVE)
def test_live_fields(fields: Raw) -> None:
    """What KubeVirt changes in running machines does not count."""
    assert digest_of(template(**fields)) == digest_of(template())


def test_live_fields_of_the_domain() -> None:
    """More sockets and memory don't count, more cores do."""
    more = template(domain={"cpu": {"cores": 2, "sockets": 4}, "memory": {"guest": "2Gi"}, "devices": {}})
    assert digest_of(more) == digest_of(template())
    cores = template(domain={"cpu": {"cores": 4, "sockets": 1}, "memory": {"guest": "1Gi"}, "devices": {}})
    assert digest_of(cores) != digest_of(template())


def test_memory_goes_at_a_restart_only() -> None:
    """The guest's memory may be set in a running machine's template or changed there, but not taken out of it."""
    none: Raw = {"cpu": {"cores": 2, "sockets": 1}, "devices": {}}
    kept = none | {"memory": {}}
    start, without = (Start(1, digest_of(item)) for item in (template(), template(domain=none)))
    assert was_edited(start, template(domain=none))
    assert was_edited(start, template(domain=kept))
    assert not was_edited(without, template())
    assert not was_edited(without, template(domain=kept))


@pytest.mark.parametrize(
    "fields",
    [{"hostname": "b"}, {"domain": {"devices": {"rng": {}}}}, {"volumes": [{"name": "x"}]}, {"new": True}],
)
def test_other_fields(fields: Raw) -> None:
    """Everything else counts, also what is unknown here."""
    assert digest_of(template(**fields)) != digest_of(template())


def test_go_writes_empty_structs() -> None:
    """What Go writes of a template that has nothing there is the same template."""
    written = {"domain": {"devices": {}, "resources": {}}, "hostname": "a", "volumes": [], "subdomain": ""}
    assert digest_of(written) == digest_of({"hostname": "a"})


def test_start() -> None:
    """What was remembered of a start is read again, and other texts are not."""
    start = Start(12, digest_of(template()))
    assert parse_start(start.text) == start
    for text in ("", "12", "x:y", ":", "12:", "-1:x", "٣:x", "9" * 30 + ":x"):
        assert parse_start(text) is None
    assert not was_edited(start, template())
    assert was_edited(start, template(hostname="b"))
    assert not was_edited(Start(1, UNKNOWN), template(hostname="b"))


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(trees)
def test_a_spec_equals_itself(tree: Any) -> None:
    """Whatever is in the fields, an unedited machine needs no restart."""
    spec = {"domain": tree, "networks": tree, "x": tree}
    assert not needed(spec, spec)
    assert digest_of(spec) == digest_of(dict(reversed(spec.items())))

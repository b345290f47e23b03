"""Edits that need a restart: the cases of KubeVirt by meaning, and fields that are unknown here."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.liveupdate.rules.start import (
    UNKNOWN,
    Start,
    digest_of,
    first_seen,
    has_values_of,
    needs_restart,
    networks_need_restart,
    parse_start,
    start_of,
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
    """What Go leaves out is no change, from any writer."""
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
    assert was_edited(start, template(domain=none), {})
    assert was_edited(start, template(domain=kept), {})
    assert not was_edited(without, template(), {})
    assert not was_edited(without, template(domain=kept), {})


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
    start = start_of(12, template())
    for known in (start, Start(12, digest_of(template())), Start(3)):
        assert parse_start(known.text) == known
    for text in ("", "12", "x:y", ":", "12:", "-1:x", "٣:x", "9" * 30 + ":x"):
        assert parse_start(text) is None
    assert not was_edited(start, template(), {})
    assert was_edited(start, template(hostname="b"), {})


DEFAULTS: Raw = {
    "architecture": "amd64",
    "domain": {
        "machine": {"type": "q35"},
        "cpu": {"cores": 2, "sockets": 1, "model": "host-model"},
        "memory": {"guest": "1Gi", "maxGuest": "4Gi"},
        "devices": {"disks": [{"name": "root", "disk": {"bus": "sata"}}, {"name": "init", "disk": {}}]},
        "firmware": {"uuid": "f"},
        "resources": {"requests": {"memory": "1Gi", "cpu": "1"}},
    },
    "hostname": "a",
    "volumes": [{"name": "root", "containerDisk": {"image": "i", "imagePullPolicy": "Always"}}],
}
"""What KubeVirt makes of `asked()`."""


def asked(**fields: Any) -> Raw:
    """What a user wrote of that."""
    domain: Raw = {
        "cpu": {"cores": 2},
        "devices": {"disks": [{"name": "root", "disk": {}}]},
        "resources": {"requests": {"memory": "1024Mi", "cpu": 1}},
    }
    volumes = [{"name": "root", "containerDisk": {"image": "i"}}]
    return {"domain": domain, "hostname": "a", "volumes": volumes} | fields


EDITS: dict[str, Raw] = {
    "changed": {"hostname": "b"},
    "added": {"subdomain": "x"},
    "unknown": {"later": {"x": 1}},
    "in a list": {"volumes": [{"name": "root", "containerDisk": {"image": "other"}}]},
    "longer list": {"volumes": [{"name": "root", "containerDisk": {"image": "i"}}, {"name": "more"}]},
    "quantity": {"domain": {"resources": {"requests": {"memory": "2Gi"}}}},
    "unnamed list": {"args": ["x"]},
}


@pytest.mark.parametrize("recorded", [None, 3])
@pytest.mark.parametrize("fields", EDITS.values(), ids=EDITS)
def test_an_edit_that_nobody_saw(fields: Raw, recorded: int | None) -> None:
    """A template that asks for what the instance does not have was edited, also before Lanloom looked at it."""
    start = first_seen(4, asked(**fields), DEFAULTS, recorded)
    assert start.digest == UNKNOWN and start.generation != 4
    assert was_edited(start, asked(**fields), DEFAULTS)
    assert not was_edited(start, asked(), DEFAULTS)


@pytest.mark.parametrize("recorded", [None, 3, 4])
def test_defaults_are_no_edit(recorded: int | None) -> None:
    """What KubeVirt adds to an instance, and how it writes quantities, is no edit, and neither are live fields."""
    start = first_seen(4, asked(), DEFAULTS, recorded)
    assert not was_edited(start, asked(), DEFAULTS)
    assert not was_edited(start, asked(nodeSelector={"zone": "b"}), DEFAULTS)


@given(st.sampled_from(["1", "100m", "1Gi", "1024Mi", "1k", "0.5", "x", "1e3", "", "-1", "1Kii"]))
def test_quantities(text: str) -> None:
    """A text that is a quantity of Kubernetes equals any other way to write it; other texts equal themselves."""
    same = {"1024Mi": "1Gi", "1k": "1000", "0.5": "500m", "100m": "0.1"}.get(text, text)
    assert has_values_of({"a": text}, {"a": same})
    assert not has_values_of({"a": text or "y"}, {"a": "7"})


def test_a_start_that_is_kept() -> None:
    """Against the template of the start everything counts that was changed, taken out too, until it is taken back."""
    start = start_of(0, asked(subdomain="x"))
    for now in (asked(), asked(subdomain="y")):
        assert needs_restart(start, now, DEFAULTS, lambda _: True)
    assert not needs_restart(start, asked(subdomain="x"), DEFAULTS, lambda _: True)


INJECTED = devices([POD_INTERFACE], [POD_NETWORK])


@pytest.mark.parametrize("start", [start_of(1, {"hostname": "a"}), Start(1, digest_of({"hostname": "a"}))])
def test_an_injected_pod_network(start: Start) -> None:
    """The pod network that an instance got by default is no change of its template, whatever else is edited."""
    assert not needs_restart(start, {"hostname": "a", "nodeSelector": {"a": "b"}}, INJECTED, lambda _: True)
    assert needs_restart(start, {"hostname": "b"}, INJECTED, lambda _: True)


def test_networks_that_were_there_at_the_start() -> None:
    """A network that was plugged in and is taken out again needs no restart; one of the start does."""
    start = start_of(1, on({"blue": "old"}))
    both = on({"blue": "old", "red": "old"})
    assert not needs_restart(start, on({"blue": "old"}), both, lambda _: True)
    assert needs_restart(start, on({"red": "old"}), both, lambda _: True)


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
    assert has_values_of(spec, spec)

"""From a VirtualMachine to its instance: the cases of KubeVirt's network controller by meaning, applied as patches."""

import copy
import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.kubevirt import VirtualMachineInstanceSpec
from lanloom.api.reading import convert
from lanloom.features.liveupdate.rules.sync import doubled_names, has_ordinal_interfaces, operations, sync
from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.patches import json_patch
from tests.features.liveupdate.objects import (
    POD_INTERFACE,
    POD_NETWORK,
    Raw,
    as_instance,
    devices,
    instance,
    interface,
    network,
    on,
    status,
)

STATES = ("up", "down", "absent", "")


def synced(
    template: Raw, spec: Raw, *, movable: Collection[str] | None = None, **of_status: Any
) -> tuple[list[Raw], list[Raw]]:
    """Sync an instance by its patch; its networks and interfaces afterwards."""
    raw = instance(copy.deepcopy(spec), **of_status)
    raw["metadata"] |= {"uid": "i1", "resourceVersion": "7"}
    machine = as_instance(raw)
    wanted = convert(template, VirtualMachineInstanceSpec)
    plan = sync(wanted, machine, (lambda name: True) if movable is None else movable.__contains__)
    steps = json.loads(json.dumps([dict(step) for step in operations(plan, machine, template)]))
    after = json_patch(raw, steps) if plan else raw
    return after["spec"]["networks"], after["spec"]["domain"]["devices"]["interfaces"]


def with_state(state: str, **fields: Any) -> Raw:
    """A NIC in a state."""
    return interface("blue", **fields) | ({"state": state} if state else {})


def one(nic: Raw) -> Raw:
    """A machine with one NIC besides that of the pod network."""
    return devices([POD_INTERFACE, nic], [POD_NETWORK, network("blue", "old")])


@pytest.mark.parametrize("spec", [devices([], []), on({"blue": "old"})])
def test_nothing_to_do(spec: Raw) -> None:
    """Equal machines, with and without NICs, have nothing to sync."""
    plan = sync(convert(spec, VirtualMachineInstanceSpec), as_instance(instance(spec)), lambda _name: True)
    assert not plan


@pytest.mark.parametrize("binding", ["bridge", "sriov"])
def test_plug(binding: str) -> None:
    """A new interface is appended with its network and all of its fields."""
    fresh = interface("fresh", binding, macAddress="02:00:00:00:00:02", model="virtio", unknown={"a": [1]})
    template = devices([POD_INTERFACE, fresh], [POD_NETWORK, network("fresh", "other", more="x")])
    networks, interfaces = synced(template, devices([POD_INTERFACE], [POD_NETWORK]))
    assert networks == [POD_NETWORK, network("fresh", "other", more="x")]
    assert interfaces == [POD_INTERFACE, fresh]


def test_plug_into_a_machine_without_networks() -> None:
    """The first interface of all makes the lists."""
    template = devices([interface("fresh")], [network("fresh", "other")])
    bare: Raw = {"domain": {"devices": {}}}
    networks, interfaces = synced(template, bare, interfaces=[])
    assert (networks, interfaces) == ([network("fresh", "other")], [interface("fresh")])


@pytest.mark.parametrize(
    "nic",
    [interface("fresh", "masquerade"), interface("fresh", "binding"), interface("fresh", state="absent")],
)
def test_not_plugged(nic: Raw) -> None:
    """Other bindings can't be plugged, and an absent interface is none."""
    template = devices([POD_INTERFACE, nic], [POD_NETWORK, network("fresh", "other")])
    networks, interfaces = synced(template, devices([POD_INTERFACE], [POD_NETWORK]))
    assert (networks, interfaces) == ([POD_NETWORK], [POD_INTERFACE])


@pytest.mark.parametrize("before", [item for item in STATES if item != "absent"])
@pytest.mark.parametrize("after", STATES)
def test_states(before: str, after: str) -> None:
    """The state of an interface follows, and nothing else of it changes."""
    nic = with_state(before, unknown={"kept": None})
    _, interfaces = synced(one(with_state(after)), one(nic))
    assert interfaces[1] == {
        key: item for key, item in (nic | {"state": after}).items() if key != "state" or after
    }


@pytest.mark.parametrize("after", STATES)
def test_an_interface_that_goes_stays_so(after: str) -> None:
    """The state of an interface that is being unplugged changes no more."""
    _, interfaces = synced(one(with_state(after)), one(with_state("absent")))
    assert interfaces[1]["state"] == "absent"


def test_gone_interfaces_are_dropped() -> None:
    """An absent interface that no status has any more leaves the instance with its network."""
    spec = devices(
        [POD_INTERFACE, with_state("absent"), interface("red")],
        [network("blue", "old"), POD_NETWORK, network("red", "other")],
    )
    networks, interfaces = synced(spec, spec, interfaces=[status("default"), status("red")])
    assert networks == [POD_NETWORK, network("red", "other")]
    assert interfaces == [POD_INTERFACE, interface("red")]


@pytest.mark.parametrize("pod", ["net1", ""])
def test_not_unplugged_with_ordinal_names(pod: str) -> None:
    """Where interfaces are numbered, or their names are unknown, none is unplugged."""
    reported = [{"name": "blue", "infoSource": "domain, multus-status", "podInterfaceName": pod}]
    _, interfaces = synced(one(with_state("absent")), one(with_state("")), interfaces=reported)
    assert "state" not in interfaces[1]


def test_naming_schemes() -> None:
    """The scheme is that of the first secondary network that has a name in the pod."""
    machine = as_instance(instance(on({"blue": "old", "red": "old"})))
    assert not has_ordinal_interfaces(machine.spec.networks, machine.status.interfaces)
    assert has_ordinal_interfaces(machine.spec.networks, ())
    assert not has_ordinal_interfaces((), ())


def test_plug_and_unplug_at_once() -> None:
    """An interface comes while another one is marked as absent."""
    template = devices(
        [POD_INTERFACE, with_state("absent"), interface("fresh")],
        [POD_NETWORK, network("blue", "old"), network("fresh", "other")],
    )
    networks, interfaces = synced(template, one(with_state("")))
    assert [item["name"] for item in networks] == ["default", "blue", "fresh"]
    assert [item.get("state") for item in interfaces] == [None, "absent", None]


def test_nads_follow_where_they_may() -> None:
    """A NAD is copied where it may change in the running machine, and nowhere else."""
    spec = on({"blue": "old", "red": "old"})
    networks, _ = synced(on({"blue": "new", "red": "new"}), spec, movable={"red"})
    assert networks == [POD_NETWORK, network("blue", "old"), network("red", "new")]


def test_two_of_three_follow() -> None:
    """Only what was edited changes."""
    spec = on({"a": "old", "b": "old", "c": "old"})
    networks, _ = synced(on({"a": "new", "b": "old", "c": "other"}), spec)
    assert networks == [POD_NETWORK, network("a", "new"), network("b", "old"), network("c", "other")]


def test_injected_pod_network_stays() -> None:
    """A network that the VirtualMachine does not have is neither removed nor changed."""
    template = devices([interface("blue")], [network("blue", "new")])
    networks, interfaces = synced(template, on({"blue": "old"}))
    assert networks == [POD_NETWORK, network("blue", "new")]
    assert interfaces == [POD_INTERFACE, interface("blue")]


def test_pod_network_and_multus_are_not_mixed() -> None:
    """A network that became the pod network, or was it, is left alone."""
    template = devices(
        [interface("blue"), interface("default")], [{"name": "blue", "pod": {}}, network("default", "new")]
    )
    networks, _ = synced(template, on({"blue": "old"}))
    assert networks == [POD_NETWORK, network("blue", "old")]


def test_unknown_fields_survive() -> None:
    """Unknown fields of networks stay."""
    spec = devices([interface("blue")], [network("blue", "old", fresh={"x": None}) | {"resource": [1]}])
    networks, _ = synced(on({"blue": "new"}), spec)
    assert networks == [network("blue", "new", fresh={"x": None}) | {"resource": [1]}]


def test_a_patch_is_for_what_was_read() -> None:
    """A patch fails where the instance is another one, or its networks are not those that were read."""
    raw = instance(on({"blue": "old"}))
    raw["metadata"] |= {"uid": "i1", "resourceVersion": "7"}
    machine = as_instance(raw)
    plan = sync(convert(on({"blue": "new"}), VirtualMachineInstanceSpec), machine, lambda _name: True)
    steps = [dict(step) for step in operations(plan, machine)]
    moved, another, edited = copy.deepcopy(raw), copy.deepcopy(raw), copy.deepcopy(raw)
    moved["spec"]["networks"].reverse()
    another["metadata"]["uid"] = "i2"
    edited["spec"]["networks"][1]["multus"]["networkName"] = "other"
    for changed in (moved, another, edited):
        with pytest.raises(StatusError):
            json_patch(changed, steps)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (on({"blue": "old"}), ""),
        (
            devices([interface("a"), interface("a")], [network("a", "old")]),
            'x.domain.devices.interfaces: "a"',
        ),
        (devices([interface("a")], [network("a", "old"), network("a", "new")]), 'x.networks: "a"'),
    ],
)
def test_doubled_names(spec: Raw, told: str) -> None:
    """Names that are there more than once are reported with their field."""
    assert doubled_names(convert(spec, VirtualMachineInstanceSpec), "x").startswith(told)
    assert bool(told) is bool(doubled_names(convert(spec, VirtualMachineInstanceSpec), "x"))


NAMES = st.lists(st.sampled_from("abcde"), unique=True)


@given(NAMES, NAMES, st.randoms(use_true_random=False))
def test_syncing_converges(wanted: list[str], own: list[str], rng: Any) -> None:
    """After a sync there is nothing left to sync, and no network came or went that should not."""
    template = on({name: rng.choice(["old", "new"]) for name in wanted})
    for nic in template["domain"]["devices"]["interfaces"][1:]:
        nic |= rng.choice([{}, {"state": "up"}, {"state": "down"}])
    spec = on({name: rng.choice(["old", "new"]) for name in own})
    networks, interfaces = synced(template, spec)
    after = as_instance(
        instance(spec | {"networks": networks, "domain": {"devices": {"interfaces": interfaces}}})
    )
    assert not sync(convert(template, VirtualMachineInstanceSpec), after, lambda _name: True)
    assert {item["name"] for item in networks} == {"default", *wanted, *own}
    assert {item["name"] for item in interfaces} == {"default", *wanted, *own}

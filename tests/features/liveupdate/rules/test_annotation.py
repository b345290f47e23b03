"""What launcher pods ask of Multus: new ones, and running ones that get or lose interfaces."""

import json
from typing import Any

import pytest

from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.features.liveupdate.rules.annotation import launcher_annotations, running_annotation
from tests.features.liveupdate.objects import (
    PLACE,
    POD_INTERFACE,
    POD_NETWORK,
    Raw,
    as_instance,
    as_pod,
    devices,
    instance,
    interface,
    launcher,
    network,
    on,
    status,
)

BLUE, FRESH, RED = "pod16477688c0e", "pod8bf1a2a8b9b", "podb1f51a511f1"


def new_pod(spec: Raw) -> dict[str, str]:
    """The annotations of a new pod of a machine."""
    return launcher_annotations(as_instance(instance(spec)).spec, PLACE)


def test_new_pod() -> None:
    """The annotation is compact, its keys are in Multus' order, and the address is there only where one is set."""
    spec = devices(
        [POD_INTERFACE, interface("blue", macAddress="02:00:00:00:00:02"), interface("red")],
        [POD_NETWORK, network("blue", "test1"), network("red", "other-namespace/test1")],
    )
    assert new_pod(spec) == {
        MULTUS_NETWORKS: '[{"name":"test1","namespace":"vms","mac":"02:00:00:00:00:02","interface":"'
        f'{BLUE}"}},{{"name":"test1","namespace":"other-namespace","interface":"{RED}"}}]'
    }


def test_swap_keeps_the_interface() -> None:
    """Another NAD changes the name in the annotation alone."""
    before = new_pod(on({"blue": "old"}))
    after = new_pod(on({"blue": "new"}))
    assert after[MULTUS_NETWORKS] == before[MULTUS_NETWORKS].replace("old", "new")


def test_absent_interfaces_are_left_out() -> None:
    """A new pod does not get what is to go."""
    spec = devices([interface("blue", state="absent")], [network("blue", "old")])
    assert new_pod(spec) == {}


def test_default_network() -> None:
    """A multus network in place of the pod network has an annotation of its own."""
    spec = devices([interface("default")], [network("default", "infra/net", default=True)])
    found = new_pod(spec)
    assert found == {"v1.multus-cni.io/default-network": "infra/net"}


def running(spec: Raw, annotation: str | None, nads: dict[str, str], **of_status: Any) -> str | None:
    """The annotation that a running pod with these NADs is to have."""
    raw = launcher("uid", nads)
    if annotation is not None:
        raw["metadata"]["annotations"][MULTUS_NETWORKS] = annotation
    return running_annotation(as_instance(instance(spec, **of_status)), as_pod(raw))


OLD = f'[{{"name":"old","namespace":"vms","interface":"{BLUE}"}}]'


def test_a_swap_alone_does_not_touch_the_pod() -> None:
    """Another NAD alone never patches the annotation of a running pod."""
    assert running(on({"blue": "new"}), OLD, {"blue": "vms/old"}) is None


def test_plug() -> None:
    """A new interface is added to what is there."""
    spec = on({"blue": "old", "red": "other"})
    found = running(spec, OLD, {"blue": "vms/old"}, interfaces=[status("blue")])
    assert found == OLD[:-1] + f',{{"name":"other","namespace":"vms","interface":"{RED}"}}]'
    assert running(spec, found, {"blue": "vms/old"}, interfaces=[status("blue")]) is None


def test_plug_and_swap_in_one_edit() -> None:
    """The pod keeps its old NAD next to a new interface (KubeVirt writes the new one, and the interface is lost)."""
    spec = on({"blue": "new", "red": "other"})
    found = running(spec, OLD, {"blue": "vms/old"}, interfaces=[status("blue")])
    assert [item["name"] for item in json.loads(found or "")] == ["old", "other"]


def test_unplug() -> None:
    """An interface that is to go leaves the annotation, and what else is asked for stays with all its fields."""
    spec = devices(
        [interface("blue", state="absent"), interface("red")], [network("blue", "old"), network("red", "x")]
    )
    extra = f'{{"name":"x","namespace":"vms","interface":"{RED}","cni-args":{{"a":1}}}}'
    found = running(spec, f"{OLD[:-1]},{extra}]", {"blue": "vms/old", "red": "vms/x"})
    assert found == f"[{extra}]"


def test_sriov_is_not_plugged_into_a_running_pod() -> None:
    """SR-IOV needs another pod."""
    spec = devices(
        [interface("blue"), interface("red", "sriov")], [network("blue", "old"), network("red", "x")]
    )
    assert running(spec, OLD, {"blue": "vms/old"}, interfaces=[status("blue")]) is None


def test_ordinal_names() -> None:
    """A pod whose interfaces are numbered gets the next number."""
    raw = launcher("uid", {})
    raw["metadata"]["annotations"] |= {
        "k8s.v1.cni.cncf.io/network-status": '[{"name":"vms/old","interface":"net1"}]',
        MULTUS_NETWORKS: '[{"name":"old","namespace":"vms","interface":"net1"}]',
    }
    machine = as_instance(instance(on({"blue": "old", "red": "x"}), interfaces=[status("blue", pod="net1")]))
    found = json.loads(running_annotation(machine, as_pod(raw)) or "")
    assert [item["interface"] for item in found] == ["net1", "net2"]


def test_short_form() -> None:
    """An annotation in Multus' short form is taken over as a list."""
    found = running(
        on({"blue": "old", "red": "x"}), f"vms/old@{BLUE}", {"blue": "vms/old"}, interfaces=[status("blue")]
    )
    assert [item["interface"] for item in json.loads(found or "")] == [BLUE, RED]


@pytest.mark.parametrize("text", ["{", "[1]", "a/b/c/d"])
def test_unreadable(text: str) -> None:
    """An annotation that can't be read is not replaced."""
    with pytest.raises(ValueError):
        running(on({"blue": "old", "red": "x"}), text, {"blue": "vms/old"}, interfaces=[status("blue")])

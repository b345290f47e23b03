"""What the networks of a machine need: the cases of KubeVirt's evaluator by meaning, and what Lanloom corrects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.kubevirt import pod_interface_name
from lanloom.features.liveupdate.rules.evaluation import Evaluation, Need, evaluate
from tests.features.liveupdate.objects import (
    BOTH,
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


def needs(
    spec: Raw, nads: dict[str, str] | None = None, *, text: str | None = None, **of_status: Any
) -> Evaluation:
    """Evaluate a machine whose pod has these NADs."""
    machine = as_instance(instance(spec, **of_status))
    return evaluate(machine, as_pod(launcher("uid", nads or {}, text=text)))


def test_no_networks() -> None:
    """A machine without networks needs nothing."""
    assert needs(devices([], [])).need == "none"


def test_status_equals_spec() -> None:
    """A machine whose networks are all reported needs nothing, also where the pod does not tell of an interface."""
    found = needs(on({"blue": "old"}), interfaces=[status("default", "domain"), status("blue", pod="")])
    assert found.need == "none"


def test_absent_and_still_in_the_domain() -> None:
    """An interface that is to go is waited for while the guest has it."""
    spec = devices([POD_INTERFACE, interface("blue", state="absent")], [POD_NETWORK, network("blue", "old")])
    assert needs(spec, {"blue": "vms/old"}).need == "none"


def test_absent_and_out_of_the_domain() -> None:
    """An interface that has left the guest, and not the pod, is pending."""
    spec = devices([POD_INTERFACE, interface("blue", state="absent")], [POD_NETWORK, network("blue", "old")])
    found = needs(spec, {"blue": "vms/old"}, interfaces=[status("blue", "multus-status")])
    assert found.need == "pending"


@pytest.mark.parametrize(("binding", "need"), [("bridge", "pending"), ("sriov", "immediate")])
def test_plugged_in(binding: str, need: Need) -> None:
    """A new bridge interface is pending, because the pod may get it; an SR-IOV interface needs another pod."""
    spec = devices([POD_INTERFACE, interface("blue", binding)], [POD_NETWORK, network("blue", "old")])
    assert needs(spec, interfaces=[status("default", "domain")]).need == need


@pytest.mark.parametrize(
    ("wanted", "attached", "need"),
    [
        ("old", "vms/old", "none"),
        ("vms/old", "vms/old", "none"),
        ("new", "vms/old", "immediate"),
        ("vms/new", "vms/old", "immediate"),
        ("other/old", "vms/old", "immediate"),
        ("old", "other/old", "immediate"),
        ("other/old", "other/old", "none"),
    ],
)
def test_nad(wanted: str, attached: str, need: Need) -> None:
    """Another NAD than that of the pod is immediate; a name alone is one of the machine's own namespace."""
    found = needs(on({"blue": wanted}), {"blue": attached})
    assert found.need == need
    assert found.observed["blue"] == attached


def test_one_of_two_differs() -> None:
    """One network in another namespace that differs is enough."""
    nads = {"blue": "vms/nad2", "red": "other/nad2"}
    assert needs(on(nads), {"blue": "vms/nad2", "red": "other/nad1"}).need == "immediate"


def test_pod_without_the_interface() -> None:
    """A network that the pod's network-status does not tell of is not compared."""
    assert needs(on({"blue": "new"}), {}).need == "none"


def test_the_most_severe_need_counts() -> None:
    """A pending hot-plug does not hide an immediate swap behind it (KubeVirt takes the first finding)."""
    spec = devices(
        [interface("fresh"), interface("blue")], [network("fresh", "other"), network("blue", "new")]
    )
    found = needs(spec, {"blue": "vms/old"}, interfaces=[status("blue")])
    assert [item.need for item in found.findings] == ["pending", "immediate"]
    assert found.need == "immediate"


@pytest.mark.parametrize(
    ("wanted", "attached", "need"),
    [
        ("new", "infra/old", "immediate"),
        ("old", "infra/old", "none"),
        ("infra/new", "infra/old", "immediate"),
    ],
)
def test_default_network(wanted: str, attached: str, need: Need) -> None:
    """A multus network in place of the pod network is compared too (KubeVirt leaves it out)."""
    spec = devices([interface("default", "bridge")], [network("default", wanted, default=True)])
    text = f'[{{"name": "{attached}", "interface": "eth0", "default": true}}]'
    assert needs(spec, text=text, interfaces=[status("default", pod="eth0")]).need == need


@pytest.mark.parametrize("text", ["{", "5", '[{"name"', "[" * 5000, "x" * 70_000])
def test_unreadable(text: str) -> None:
    """An annotation that can't be read is reported with its pod, and is not taken for an empty one."""
    found = needs(on({"blue": "new"}), text=text)
    assert not found.known
    assert "k8s.v1.cni.cncf.io/network-status of pod vms/virt-launcher-vm-node1" in found.error
    assert found.error.endswith("; migrate the machine, so that it gets a pod with a readable one")
    assert found.need == "none"
    fixed = needs(on({"blue": "new"}), text=text, conditions=[])
    assert fixed.error.endswith("; restart the machine, so that it gets a pod with a readable one")


def test_no_pod() -> None:
    """Without a launcher pod nothing is known, and nothing is wrong."""
    found = evaluate(as_instance(instance(on({"blue": "new"}))), None)
    assert (found.known, found.error, found.need) == (False, "", "none")


def test_machine_without_status() -> None:
    """A machine without a report is no reason for anything but waiting."""
    raw = instance(on({"blue": "new"})) | {"status": None}
    assert evaluate(as_instance(raw), as_pod(launcher("uid", {"blue": "vms/old"}))).need == "pending"


names = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)


@given(names, st.randoms())
def test_order_does_not_matter(found: list[str], rng: Any) -> None:
    """Interfaces and networks in another order need the same."""
    nads = {name: rng.choice(["old", "new"]) for name in found}
    attached = {name: "vms/old" for name in found if rng.random() < 0.7}
    reported = [status(name, rng.choice([BOTH, "domain"])) for name in found if rng.random() < 0.7]
    spec, mixed = on(nads), on(nads)
    before = needs(spec, attached, interfaces=list(reported)).need
    rng.shuffle(mixed["networks"])
    rng.shuffle(mixed["domain"]["devices"]["interfaces"])
    rng.shuffle(reported)
    assert needs(mixed, attached, interfaces=reported).need == before


def test_interface_name() -> None:
    """The pod's interface follows from the machine's own name of a network, not from the NAD."""
    assert pod_interface_name("secondary-network") == "pod56a025b6623"
    assert pod_interface_name("blue") == "pod16477688c0e"

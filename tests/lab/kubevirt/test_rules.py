"""What KubeVirt makes of machines, as pure functions."""

import json
from typing import Any

import pytest
from msgspec import convert

from lanloom.api.core import Pod
from lanloom_lab.guests.domain import Domain, Nic
from lanloom_lab.kubevirt import rules
from lanloom_lab.kubevirt.objects import Whole
from tests.lab.kubevirt.objects import MAC, interface, machine, network, spec, whole

LINK = "pod094a367b026"
"""The interface in the pod for the network `lan`."""


@pytest.mark.parametrize(
    ("fields", "ended", "wanted"),
    [
        ({"runStrategy": "Always"}, "Failed", True),
        ({"runStrategy": "RerunOnFailure"}, "Failed", True),
        ({"runStrategy": "RerunOnFailure"}, "Succeeded", False),
        ({"runStrategy": "Once"}, "", True),
        ({"runStrategy": "Once"}, "Failed", False),
        ({"runStrategy": "Halted"}, "", False),
        ({"runStrategy": "Manual"}, "", False),
        ({"running": True, "runStrategy": None}, "", True),
        ({"running": False, "runStrategy": None}, "", False),
    ],
)
def test_run_strategies(fields: dict[str, Any], ended: str, wanted: bool) -> None:
    """A machine has an instance as its run strategy, or the older field, says."""
    assert rules.wants_running(convert(machine(**fields), Whole), ended) == wanted


def test_annotation_of_the_pod() -> None:
    """The annotation names NAD, MAC address and the hashed interface; the default network has one of its own."""
    vmi = whole(
        spec=spec(
            [
                interface("lan", macAddress=MAC),
                interface("other"),
                interface("first"),
                interface("old", state="absent"),
            ],
            [
                network("lan", "red"),
                network("other", "far/blue"),
                network("first", "base", default=True),
                network("old", "x"),
            ],
        )
    )
    found = rules.network_annotations(vmi)
    assert found["v1.multus-cni.io/default-network"] == "base"
    first, second = json.loads(found["k8s.v1.cni.cncf.io/networks"])
    assert list(first.items()) == [
        ("name", "red"),
        ("namespace", "default"),
        ("mac", MAC),
        ("interface", LINK),
    ]
    assert (second["namespace"], second["name"], "mac" in second) == ("far", "blue", False)


def test_pods() -> None:
    """A launcher pod has KubeVirt's marks; that of a migration has its uid, and avoids the machine's other pods."""
    migration = convert({"metadata": {"name": "m1", "uid": "u9"}}, Whole)
    plain, target = rules.launcher_pod(whole(), ["a/b"]), rules.launcher_pod(whole(), [], migration)
    meta = plain["metadata"]
    assert meta["labels"]["kubevirt.io"] == "virt-launcher"
    assert meta["labels"]["kubevirt.io/created-by"] == "u1"
    assert meta["annotations"]["kubevirt.io/domain"] == "vm1"
    assert meta["ownerReferences"][0]["kind"] == "VirtualMachineInstance"
    assert plain["spec"]["containers"][0]["resources"]["limits"] == {"a/b": "1"}
    assert "affinity" not in plain["spec"]
    assert target["metadata"]["labels"]["kubevirt.io/migrationJobUID"] == "u9"
    assert "podAntiAffinity" in target["spec"]["affinity"]


def test_hardware() -> None:
    """A NIC has the MAC address of the spec, else of the pod's interface; one without an interface has no tap."""
    vmi = whole(
        spec=spec(
            [interface("lan"), interface("pods")],
            [network("lan", "red"), {"name": "pods", "pod": {}}],
            volumes=[
                {
                    "name": "v",
                    "cloudInitNoCloud": {"networkData": "ethernets: {eth0: {addresses: [10.0.0.1/8]}}"},
                }
            ],
        )
    )
    made = rules.domain(vmi, {LINK: "02:00:00:00:00:99"}, lambda: "02:00:00:00:00:77")
    assert [(nic.name, nic.mac, nic.link, nic.address) for nic in made.nics] == [
        ("lan", "02:00:00:00:00:99", LINK, "10.0.0.1/8"),
        ("pods", "02:00:00:00:00:77", "", ""),
    ]


def test_statuses() -> None:
    """A NIC's status says where it was found: in the guest, in the pod, or in both."""
    vmi = whole(
        spec=spec([interface("lan"), interface("new")], [network("lan", "red"), network("new", "blue")])
    )
    guest = Domain(name="vm1", memory="/m", nics=(Nic(name="lan", mac=MAC, slot=4, link=LINK),))
    both = rules.interfaces_as_written(vmi, guest, {LINK: MAC})
    assert [(item["name"], item["infoSource"], item["podInterfaceName"]) for item in both] == [
        ("lan", "domain, multus-status", LINK)
    ]
    (pod_only,) = rules.interfaces_as_written(vmi, None, {LINK: MAC})
    assert (pod_only["infoSource"], "mac" in pod_only) == ("multus-status", False)


def test_what_changes_in_a_guest() -> None:
    """NICs are plugged once the pod has their interface, unplugged when absent, and take the link state of the spec."""
    vmi = whole(
        spec=spec(
            [interface("lan", state="absent"), interface("new"), interface("down", state="down")],
            [network("lan", "red"), network("new", "blue"), network("down", "red")],
        )
    )
    nics = (Nic(name="lan", mac=MAC, slot=4), Nic(name="down", mac=MAC, slot=5))
    guest = Domain(name="vm1", memory="/m", nics=nics)
    assert rules.absent_nics(vmi, guest) == ("lan",)
    assert rules.missing_nics(vmi, guest, {}) == ()
    assert rules.missing_nics(vmi, guest, None) == ("new",)
    assert [(nic.name, up) for nic, up in rules.other_links(vmi, guest)] == [("down", False)]


def test_on_the_other_node() -> None:
    """A guest that moves keeps its hardware; a NIC whose interface the pod there lacks loses its tap."""
    guest = Domain(name="vm1", memory="/m", nics=(Nic(name="lan", mac=MAC, slot=4, link=LINK),))
    assert rules.moved(guest, {LINK: ""}) == guest
    assert rules.moved(guest, {}).nics[0].link == ""


@pytest.mark.parametrize(
    ("instance", "can"),
    [
        (spec([interface("lan")], [network("lan", "red")]), True),
        (spec([interface("lan")], [network("lan", "red")], {"cpu": {"model": "host-passthrough"}}), False),
        (spec([interface("pods")], [{"name": "pods", "pod": {}}]), False),
        (spec([{"name": "pods", "masquerade": {}}], [{"name": "pods", "pod": {}}]), True),
    ],
)
def test_what_can_migrate(instance: dict[str, object], can: bool) -> None:
    """A CPU of the host's, and a bridge on the pod network, keep a machine where it is."""
    assert rules.migratable(whole(spec=instance))[0] is can


def test_conditions_of_others_stay() -> None:
    """The conditions of an instance are those that others wrote and this controller's own; written once."""
    mine = {"type": "MigrationRequired", "status": "True"}
    vmi = whole(status={"conditions": [mine]})
    written = rules.conditions(vmi, ready=True, now=1.0)
    assert {item["type"]: item["status"] for item in written} == {
        "MigrationRequired": "True",
        "Ready": "True",
        "LiveMigratable": "True",
    }
    assert rules.conditions(whole(status={"conditions": written}), ready=True, now=99.0) == []


def test_conditions_of_a_machine() -> None:
    """A machine has its instance's conditions, RestartRequired of its own, and loses what others wrote onto it."""
    own, foreign = {"type": "RestartRequired", "status": "True"}, {"type": "Foreign", "status": "True"}
    vm = convert({"status": {"conditions": [own, foreign]}}, Whole)
    theirs = [{"type": "Ready", "status": "True"}, {"type": "MigrationRequired", "status": "False"}]
    found = rules.machine_conditions(vm, whole(status={"conditions": theirs}), 1.0)
    assert [(item["type"], item["status"]) for item in found] == [
        ("RestartRequired", "True"),
        ("Ready", "True"),
        ("MigrationRequired", "False"),
    ]
    stopped = rules.machine_conditions(vm, None, 1.0)
    assert [item["type"] for item in stopped] == ["RestartRequired", "Foreign", "Ready"]


def test_interfaces_of_a_pod() -> None:
    """The interfaces of a pod are those of its network-status; a pod without one has none."""
    text = json.dumps([{"name": "default/red", "interface": LINK, "mac": MAC, "dns": {}}])
    pod = convert({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": text}}}, Pod)
    assert rules.pod_links(pod) == {LINK: MAC}
    assert rules.pod_links(Pod()) == {}

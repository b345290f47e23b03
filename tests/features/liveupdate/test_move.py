"""Which way a NIC moves, and what is refused before anything is written."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    VmNic,
)
from lanloom.api.liveupdate import NetworkSwap, Policy
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS
from lanloom.api.reading import convert
from lanloom.features.liveupdate.following import edit_step
from lanloom.features.liveupdate.machines import Machine, Objects, machines_of
from lanloom.features.liveupdate.rules.edits import INSTANCE, TEMPLATE, move_network
from lanloom.features.liveupdate.rules.evaluation import evaluate
from lanloom.features.liveupdate.rules.move import MoveRequest, Plan, plan_move
from lanloom.features.liveupdate.rules.preflight import Findings
from lanloom.refusals import Denied
from lanloom_embedded.patches import json_patch
from tests.features.liveupdate import bodies

WEB = Key("default", "web")
TO = Key("default", "vlan20")
POLICY = "liveupdate.lanloom.io/policy"


def _typed(kind: type[Any], body: dict[str, Any], **meta: str) -> Any:
    return convert(body | {"metadata": {"namespace": "default", **body["metadata"], **meta}}, kind)


def objects(*, running: bool = True, migratable: bool = True, annotations: Mapping[str, str] = {}) -> Objects:
    """The machine `web`, on its networks."""
    vm = _typed(VirtualMachine, bodies.machine("web", annotations=annotations), uid="vm")
    if not running:
        return Objects(machines=(vm,))
    vmi = bodies.instance("web", "vm", migratable=migratable)
    return Objects(
        machines=(vm,),
        instances=(_typed(VirtualMachineInstance, vmi, uid="vmi"),),
        pods=(_typed(Pod, bodies.launcher("web", "vmi", "node1"), name="launcher"),),
    )


def machine(**changes: Any) -> Machine:
    """That machine with all that belongs to it."""
    [found] = machines_of(objects(**changes))
    return found


def wish(policy: Policy | None = None, nic: str = "blue", to: Key = TO, **more: Any) -> MoveRequest:
    """A user asks for `web` on another network."""
    return MoveRequest(machine=WEB, nic=nic, to=to, policy=policy, **more)


def test_migration_by_default() -> None:
    """Without a policy the machine is edited, and only its networkName, tested against what was read."""
    plan = plan_move(wish(), machine(), Findings())
    assert (plan.way, plan.from_, plan.record) == ("migrate", Key("default", "vlan10"), False)
    raw = bodies.machine("web")
    changed = json_patch(raw, plan.operations)
    raw["spec"]["template"]["spec"]["networks"][1]["multus"]["networkName"] = "vlan20"
    assert changed == raw
    assert sum(item["op"] == "test" for item in plan.operations) == 2


@pytest.mark.parametrize("policy", ["in-place", "prefer-in-place"])
def test_in_place(policy: Policy) -> None:
    """In place, nothing is edited before the move; the swap records it in the machine afterwards."""
    for plan in (
        plan_move(wish(policy, flap=True), machine(), Findings()),
        plan_move(wish(flap=True), machine(annotations={POLICY: policy}), Findings()),
    ):
        assert plan == Plan(
            way="in-place", nic="blue", from_=Key("default", "vlan10"), to=TO, record=True, flap=True
        )


def test_migration_where_in_place_is_impossible() -> None:
    """`prefer-in-place` migrates where the preflight is against a move in place, and says why."""
    plan = plan_move(wish("prefer-in-place"), machine(), Findings(in_place=("node1 has no bridge b",)))
    assert plan.way == "migrate"
    assert plan.notes == ("It can't move in place: node1 has no bridge b",)


@pytest.mark.parametrize("policy", ["migrate", "in-place", "prefer-in-place"])
def test_what_the_guest_has_to_do(policy: Policy) -> None:
    """A warning about the new network is shown for either way; one about a move in place, only by that."""
    found = Findings(warnings=("set 1300 in the guest",), in_place_warnings=("its addresses stay",))
    notes = plan_move(wish(policy), machine(), found).notes
    assert "set 1300 in the guest" in notes
    assert ("its addresses stay" in notes) == (policy != "migrate")


def test_an_earlier_move_says_nothing_of_an_edit() -> None:
    """A swap that had ended before an edit to the same network does not count as what became of the edit."""
    spec = {
        "machine": "web",
        "uid": "vmi",
        "network": "blue",
        "from": "default/vlan10",
        "to": "default/vlan20",
    }
    body = {"metadata": {"name": "old"}, "spec": spec, "status": {"phase": "Failed", "message": "long ago"}}
    [moved] = machines_of(msgspec.structs.replace(objects(), swaps=(_typed(NetworkSwap, body, uid="s"),)))
    plan = plan_move(wish(), moved, Findings())
    multus = bodies.machine("web")
    multus["spec"]["template"]["spec"]["networks"][1]["multus"]["networkName"] = "vlan20"
    edited = msgspec.structs.replace(moved, vm=_typed(VirtualMachine, multus, uid="vm"))
    assert edit_step(edited, plan).outcome == "failed"
    assert edit_step(edited, plan, frozenset({"old"})).outcome == ""


def stuck() -> Machine:
    """The machine and its instance are on `vlan20` by their specs, and its port is on `vlan10` still."""
    nics = {"blue": "vlan20", "red": "other/vlan30"}
    vm = _typed(VirtualMachine, bodies.machine("web", nics), uid="vm")
    vmi = _typed(VirtualMachineInstance, bodies.instance("web", "vm", nics, migratable=False), uid="vmi")
    [found] = machines_of(msgspec.structs.replace(objects(), machines=(vm,), instances=(vmi,)))
    return found


def test_a_port_that_an_edit_has_left_behind() -> None:
    """That it is there already is said of the port alone; what KubeVirt wrote without moving it is moved from there."""
    plan = plan_move(wish("in-place"), stuck(), Findings())
    assert plan == Plan(way="in-place", nic="blue", from_=Key("default", "vlan10"), to=TO)
    with pytest.raises(Denied, match="use --policy in-place"):
        plan_move(wish("migrate"), stuck(), Findings())


def test_force() -> None:
    """Force is the swap's, and of no move by migration."""
    assert plan_move(wish("in-place", force=True), machine(), Findings()).force


def test_a_machine_that_does_not_run() -> None:
    """It is edited, and starts with the new network."""
    plan = plan_move(wish("prefer-in-place"), machine(running=False), Findings())
    assert plan.way == "next-start"
    assert plan.operations


@pytest.mark.parametrize("own", ["", "migrate", "in-place", "prefer-in-place"])
@pytest.mark.parametrize("asked", [None, "migrate", "prefer-in-place"])
@pytest.mark.parametrize("ended", ["gone", "Succeeded", "Failed", "deleting"])
def test_a_machine_of_which_nothing_runs(own: str, asked: Policy | None, ended: str) -> None:
    """A stopped machine is edited, whatever its policy is, also while KubeVirt still has its instance."""
    found = machine(running=ended != "gone", annotations={POLICY: own} if own else {})
    if found.vmi is not None:
        meta = replace(found.vmi.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        status = replace(found.vmi.status, phase=ended)
        found = replace(
            found,
            vmi=replace(found.vmi, metadata=meta)
            if ended == "deleting"
            else replace(found.vmi, status=status),
        )
    plan = plan_move(wish(asked), found, Findings())
    assert (plan.way, bool(plan.operations)) == ("next-start", True)
    with pytest.raises(Denied, match="does not run, so no port can be moved; leave out --policy"):
        plan_move(wish("in-place"), found, Findings())


def test_a_network_of_another_namespace() -> None:
    """A NAD elsewhere is named with its namespace, and a name with a namespace keeps it."""
    networks = machine().wanted
    [*_, there] = move_network(networks, TEMPLATE, "blue", Key("other", "x"), "default")
    assert there["value"] == "other/x"
    [*_, back] = move_network(networks, INSTANCE, "red", Key("default", "x"), "default")
    assert (back["path"], back["value"]) == ("/spec/networks/2/multus/networkName", "default/x")


def test_nothing_to_do() -> None:
    """A NIC that is there already is left alone, whatever the policy."""
    to = Key("default", "vlan10")
    assert plan_move(wish("in-place", to=to), machine(), Findings()).way == "none"
    assert plan_move(wish(to=to), machine(running=False), Findings()).way == "none"


def test_a_move_that_was_asked_for_and_not_done() -> None:
    """A machine that names the network already, while its instance does not, moves in place without a record."""
    found = objects()
    [vm] = found.machines
    edited = _typed(
        VirtualMachine, bodies.machine("web", {"blue": "vlan20", "red": "other/vlan30"}), uid="vm"
    )
    assert edited != vm
    [late] = machines_of(msgspec.structs.replace(found, machines=(edited,)))
    plan = plan_move(wish("in-place"), late, Findings())
    assert (plan.way, plan.from_, plan.record) == ("in-place", Key("default", "vlan10"), False)


@pytest.mark.parametrize("policy", ["migrate", "in-place"])
def test_an_edit_that_has_not_moved_anything_yet(policy: Policy) -> None:
    """Back to the network on which the instance still is, only the machine is edited, and no port moves."""
    found = objects()
    edited = _typed(
        VirtualMachine, bodies.machine("web", {"blue": "vlan20", "red": "other/vlan30"}), uid="vm"
    )
    [late] = machines_of(msgspec.structs.replace(found, machines=(edited,)))
    plan = plan_move(wish(policy, to=Key("default", "vlan10")), late, Findings())
    assert (plan.way, plan.operations[-1]["value"]) == ("edit", "vlan10")


SWAP = {
    "metadata": {"name": "s", "namespace": "default"},
    "spec": {"machine": "web", "uid": "vmi", "network": "red", "from": "other/vlan30", "to": "other/x"},
    "status": {"phase": "Moving"},
}
MIGRATION = {
    "metadata": {"name": "m", "namespace": "default"},
    "spec": {"vmiName": "web"},
    "status": {"phase": "Running"},
}
REFUSALS: dict[str, tuple[dict[str, Any], MoveRequest, Findings, str]] = {
    "no such NIC": ({}, wish(nic="green"), Findings(), 'has no NIC "green"; it has default, blue, red'),
    "the pod network": (
        {},
        wish(nic="default"),
        Findings(),
        r"spec.template.spec.networks\[0\].*is the pod network",
    ),
    "not migratable": (
        {"migratable": False},
        wish(),
        Findings(),
        "LiveMigratable: DisksNotLiveMigratable: a disk is not shared.*use --policy in-place",
    ),
    "in place while it does not run": ({"running": False}, wish("in-place"), Findings(), "does not run"),
    "the preflight, in place": (
        {},
        wish("in-place"),
        Findings(in_place=("NAD x is missing",)),
        "in place: NAD x is missing",
    ),
    "the preflight of a migration": (
        {},
        wish(),
        Findings(migration=("NAD x is missing",)),
        "migration: NAD x is",
    ),
    "a start on no network": (
        {"running": False},
        wish(),
        Findings(both=("NAD x is missing",)),
        "can't start on default/vlan20: NAD x is missing",
    ),
    "a policy against that of the machine": (
        {"annotations": {POLICY: "in-place"}},
        wish("migrate"),
        Findings(),
        "remove the annotation",
    ),
    "a policy that is none": (
        {"annotations": {POLICY: "soon"}},
        wish(),
        Findings(),
        '"soon"; it must be one of migrate',
    ),
}


@pytest.mark.parametrize(("given", "asked", "findings", "why"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(given: dict[str, Any], asked: MoveRequest, findings: Findings, why: str) -> None:
    """What can't work is refused with object, field and remedy."""
    with pytest.raises(Denied, match=why):
        plan_move(asked, machine(**given), findings)


@pytest.mark.parametrize(
    ("busy", "why"),
    [
        ({"swaps": (_typed(NetworkSwap, SWAP),)}, "NetworkSwap default/s moves NIC red"),
        ({"migrations": (_typed(VirtualMachineInstanceMigration, MIGRATION),)}, "migrates .*m, Running"),
    ],
    ids=["swap", "migration"],
)
@pytest.mark.parametrize("policy", ["migrate", "in-place"])
def test_a_machine_that_moves_already(busy: dict[str, Any], why: str, policy: Policy) -> None:
    """Nothing begins while a swap or a migration is under way."""
    [found] = machines_of(msgspec.structs.replace(objects(), **busy))
    with pytest.raises(Denied, match=why):
        plan_move(wish(policy), found, Findings())


@pytest.mark.parametrize("policy", ["migrate", "in-place"])
def test_a_nic_on_the_pod_network(policy: Policy) -> None:
    """A NIC that the instance still has on the pod network needs a restart, whichever network its machine names."""
    found = machine()
    assert found.vmi is not None
    spec = msgspec.structs.replace(found.vmi.spec, networks=(VmNic(name="default"), VmNic(name="blue")))
    odd = msgspec.structs.replace(found, vmi=msgspec.structs.replace(found.vmi, spec=spec))
    with pytest.raises(Denied, match=r"the network blue is the pod network.*restart it"):
        plan_move(wish(policy), odd, Findings())


def test_an_unreadable_pod() -> None:
    """A migration is not asked for while the networks of the pod are unknown: none would follow."""
    [found] = machines_of(objects())
    assert found.pod is not None
    meta = msgspec.structs.replace(found.pod.metadata, annotations={NETWORK_STATUS: "[["})
    odd = msgspec.structs.replace(found, pod=msgspec.structs.replace(found.pod, metadata=meta))
    with pytest.raises(
        Denied, match=r"network-status of pod default/launcher: it is not valid JSON.*migrate the"
    ):
        plan_move(wish(), odd, Findings())


def test_nobody_migrates_by_itself() -> None:
    """An edit by which no controller migrates the machine is done, and says what else is to be done."""
    plan = plan_move(wish(), machine(), Findings(by_hand="add LiveMigrate"))
    assert (plan.way, plan.notes) == ("migrate", ("Nothing migrates the machine by itself: add LiveMigrate",))


def test_doubled_names() -> None:
    """Of two networks with one name neither is edited."""
    with pytest.raises(Denied, match='must have one network "a"; there are 2'):
        move_network((VmNic(name="a"), VmNic(name="a")), TEMPLATE, "a", TO, "default")


def test_where_a_nic_is() -> None:
    """What Multus tells of the pod on the machine's own node counts, and a source or target pod does not."""
    found = objects()
    other = _typed(Pod, bodies.launcher("web", "vmi", "node2", {"blue": "vlan99"}), name="target")
    [both] = machines_of(msgspec.structs.replace(found, pods=(other, *found.pods)))
    assert both.vmi is not None
    assert evaluate(both.vmi, both.pod).observed == {"blue": "default/vlan10", "red": "other/vlan30"}

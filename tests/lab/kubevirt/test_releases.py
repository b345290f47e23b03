"""KubeVirt's live update, release by release: what its sources do, as values."""

from typing import Any

import pytest
from msgspec import convert

from lanloom.api.admission import AdmissionRequest, GroupVersionResource, UserInfo
from lanloom.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from lanloom.api.meta import Key
from lanloom_lab.kubevirt import releases, virtapi
from lanloom_lab.kubevirt.objects import NODE_LABEL, Raw
from lanloom_lab.kubevirt.releases import RELEASES, Release
from lanloom_lab.kubevirt.updater import MARK, NO_MIGRATION, OUTDATED, Round, Updater, sync_workloads
from tests.features.liveupdate.objects import MIGRATABLE, as_instance, instance, on

NOW = 1_800_000_000.0

DUE = {
    "type": "MigrationRequired",
    "status": "True",
    "reason": "AutoMigrationDueToLiveUpdate",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def release(name: str) -> Release:
    """The release of that name."""
    found = RELEASES[name]
    assert found is not None
    return found


def machine(
    name: str = "vm", *conditions: dict[str, Any], migratable: bool = True, **meta: Any
) -> VirtualMachineInstance:
    """An instance on `old`."""
    own = [MIGRATABLE] if migratable else []
    raw = instance(on({"blue": "old"}), name, conditions=[*own, *conditions])
    raw["metadata"] |= meta
    return as_instance(raw)


def migration(of: str = "vm", phase: str = "", **annotations: str) -> VirtualMachineInstanceMigration:
    """A migration, by default one of the updater's."""
    meta = {"name": "m", "namespace": "vms", "annotations": annotations}
    body = {"metadata": meta, "spec": {"vmiName": of}, "status": {"phase": phase}}
    return convert(body, VirtualMachineInstanceMigration)


@pytest.mark.parametrize("migratable", [True, False])
@pytest.mark.parametrize(
    ("name", "copied", "restart"),
    [
        ("1.7", (False, False), (True, True)),
        ("1.8", (False, False), (True, True)),
        ("1.8+gate", (True, True), (False, False)),
        ("1.9", (True, True), (False, False)),
        ("main", (True, False), (False, True)),
    ],
)
def test_who_copies(
    name: str, copied: tuple[bool, bool], restart: tuple[bool, bool], migratable: bool
) -> None:
    """Another NAD is copied to the instance, or asks for a restart, as the release has it for such a machine."""
    old, new, index = on({"blue": "old"}), on({"blue": "new"}), 0 if migratable else 1
    steps = releases.sync(release(name), new, old, ["default", "blue"], migratable=migratable)
    assert bool(steps) == copied[index]
    if steps:
        assert [item["op"] for item in steps] == ["test", "add", "test", "add"]
        assert steps[1]["value"][1]["multus"]["networkName"] == "new"
    wanted = releases.restart_required(release(name), old, new, old, migratable=migratable)
    assert wanted == restart[index]
    assert not releases.restart_required(release(name), old, old, old, migratable=migratable)


def test_an_edit_before_the_start_needs_no_restart() -> None:
    """What the template was at the start, by the ControllerRevision, never asks for a restart."""
    old, new = on({"blue": "old"}), on({"blue": "new"})
    assert not releases.restart_required(release("main"), new, new, old, migratable=False)


def test_hot_plug() -> None:
    """A NIC more comes in every release, an absent one goes when the guest has let it go, and then from the machine."""
    old, more = on({"blue": "old"}), on({"blue": "old", "red": "x"})
    steps = releases.sync(release("1.7"), more, old, ["default", "blue"], migratable=False)
    assert [item["name"] for item in steps[1]["value"]] == ["default", "blue", "red"]
    gone = on({"blue": "old"})
    gone["domain"]["devices"]["interfaces"][1]["state"] = "absent"
    marked = releases.sync(release("1.9"), gone, old, ["default", "blue"], migratable=True)
    assert marked[3]["value"][1]["state"] == "absent"
    dropped = releases.sync(release("1.9"), gone, gone, ["default"], migratable=True)
    assert [item["name"] for item in dropped[1]["value"]] == ["default"]
    assert releases.without_unplugged(gone, gone, ["default"]) == []
    assert releases.without_unplugged(gone, on({}), ["default", "blue"]) == []
    trimmed = releases.without_unplugged(gone, on({}), ["default"])
    assert [item["name"] for item in trimmed[1]["value"]] == ["default"]
    assert [item["name"] for item in trimmed[3]["value"]] == ["default"]


@pytest.mark.parametrize(
    ("name", "attached", "need"),
    [
        ("1.7", "vms/new", "none"),
        ("1.8", "vms/new", "none"),
        ("1.8+gate", "vms/new", "immediate"),
        ("1.9", "vms/new", "immediate"),
        ("main", "vms/new", "immediate"),
        ("main", "vms/old", "none"),
        ("main", "old", "none"),
        ("main", "other/old", "immediate"),
    ],
)
def test_need(name: str, attached: str, need: str) -> None:
    """Instance and pod are compared by the names of NADs, whether or not the machine can migrate."""
    vmi = machine(migratable=False)
    interface = vmi.status.interfaces[1].pod_interface_name
    assert releases.need_of(release(name), vmi, {interface: attached}) == need
    assert releases.need_of(release(name), vmi, {}) == "none"


def test_migration_required() -> None:
    """The condition comes at once for another NAD, stays True, and goes when nothing is needed."""
    wanted, changed = releases.migration_required(machine(), "immediate", NOW)
    assert changed
    assert wanted is not None
    assert (wanted.status, wanted.reason) == ("True", "AutoMigrationDueToLiveUpdate")
    assert releases.migration_required(machine("vm", DUE), "pending", NOW)[1] is False
    assert releases.migration_required(machine("vm", DUE), "none", NOW) == (None, True)
    pending, _ = releases.migration_required(machine(), "pending", NOW)
    assert pending is not None
    assert pending.status == "False"


def test_specs_of_instances() -> None:
    """Only KubeVirt changes the spec of an instance."""
    assert releases.refuse_spec({"a": 1}, {"a": 2}, by_kubevirt=False) == "update of VMI object is restricted"
    assert releases.refuse_spec({"a": 1}, {"a": 2}, by_kubevirt=True) == ""
    assert releases.refuse_spec({"a": 1}, {"a": 1}, by_kubevirt=False) == ""


@pytest.mark.parametrize(
    ("user", "before", "after", "said"),
    [
        ("alice", {"spec": {"a": 1}}, {"spec": {"a": 2}}, "update of VMI object is restricted"),
        (virtapi.USER, {"spec": {"a": 1}}, {"spec": {"a": 2}}, ""),
        ("alice", {"spec": {"a": 1}, "status": {}}, {"spec": {"a": 1}, "status": {"b": 1}}, ""),
        ("alice", {"metadata": {"labels": {}}}, {"metadata": {"labels": {"mine": "1"}}}, ""),
        (
            "alice",
            {"metadata": {}},
            {"metadata": {"labels": {NODE_LABEL: "n2"}}},
            "reserved kubevirt.io/ labels",
        ),
        (virtapi.USER, {"metadata": {}}, {"metadata": {"labels": {NODE_LABEL: "n2"}}}, ""),
    ],
)
def test_the_webhook_of_instances(user: str, before: Raw, after: Raw, said: str) -> None:
    """Clients other than KubeVirt change conditions and annotations of an instance, not its spec or reserved labels."""
    vmis = GroupVersionResource("kubevirt.io", "v1", "virtualmachineinstances")
    request = AdmissionRequest(
        uid="u",
        operation="UPDATE",
        resource=vmis,
        object=after,
        old_object=before,
        user_info=UserInfo(username=user),
    )
    verdict = virtapi.admit(request)
    assert verdict.allowed == (not said)
    assert said in verdict.message


@pytest.mark.parametrize(
    ("methods", "migratable", "found"),
    [
        (("LiveMigrate",), True, Round(migrate=(Key("vms", "vm"),))),
        (("LiveMigrate",), False, Round()),
        (("LiveMigrate", "Evict"), True, Round(migrate=(Key("vms", "vm"),))),
        (("LiveMigrate", "Evict"), False, Round(evict=(Key("vms", "vm"),))),
        (("Evict",), True, Round(evict=(Key("vms", "vm"),))),
        ((), True, Round()),
    ],
)
def test_methods(methods: tuple[str, ...], migratable: bool, found: Round) -> None:
    """A machine that has to migrate is migrated if it can be, and shut down if that is allowed."""
    vmi = machine("vm", DUE, migratable=migratable)
    assert sync_workloads(Updater(due=NOW), methods, [vmi], [], NOW)[0] == found
    assert sync_workloads(Updater(due=NOW), methods, [machine(migratable=migratable)], [], NOW)[0] == Round()
    flying = [migration("vm", "Running")]
    assert sync_workloads(Updater(due=NOW), methods, [vmi], flying, NOW)[0] == Round()


def test_annotation_of_an_instance() -> None:
    """With KubeVirt's annotation nothing is done for a change, but an outdated machine is updated all the same."""
    held = machine("vm", DUE, annotations={NO_MIGRATION: ""})
    assert sync_workloads(Updater(), ("LiveMigrate", "Evict"), [held], [], NOW)[0] == Round()
    own = migration("vm", "Scheduling", **{MARK: ""})
    assert sync_workloads(Updater(), ("LiveMigrate",), [held], [own], NOW)[0] == Round(
        abort=(Key("vms", "vm"),)
    )
    old = machine("vm", annotations={NO_MIGRATION: "", OUTDATED: ""})
    assert sync_workloads(Updater(), ("LiveMigrate",), [old], [], NOW)[0] == Round(
        migrate=(Key("vms", "vm"),)
    )


def test_a_change_that_was_taken_back() -> None:
    """The updater's own migration is aborted when nothing asks for it any more; that of another client is not."""
    vmi = machine()
    own, other = migration("vm", "Running", **{MARK: ""}), migration("vm", "Running")
    assert sync_workloads(Updater(), (), [vmi], [own], NOW)[0] == Round(abort=(Key("vms", "vm"),))
    assert sync_workloads(Updater(), (), [vmi], [other], NOW)[0] == Round()


def test_rhythm() -> None:
    """A look comes five seconds after an event, sooner if one is due anyway, and at once as long as there is work."""
    updater = Updater().heard_of(machine(), NOW)
    assert updater.due is None
    updater = updater.heard_of(machine("vm", DUE), NOW)
    assert updater.due == NOW + 5
    assert updater.heard(NOW + 3).due == NOW + 5
    _, after = sync_workloads(updater, ("LiveMigrate",), [machine("vm", DUE)], [], NOW + 5)
    assert after.due is not None
    assert after.due - NOW - 5 < 1e-6
    assert sync_workloads(after, ("LiveMigrate",), [machine()], [], NOW + 6)[1].due is None


def test_limits() -> None:
    """At most five migrations at once, and ten evictions in a minute."""
    many = [machine(f"vm{number}", DUE) for number in range(20)]
    running = [migration("other", "Running"), migration("other", "Pending")]
    assert len(sync_workloads(Updater(), ("LiveMigrate",), many, running, NOW)[0].migrate) == 4
    found, after = sync_workloads(Updater(), ("Evict",), many, [], NOW)
    assert len(found.evict) == 10
    assert sync_workloads(after, ("Evict",), many, [], NOW + 59)[0].evict == ()
    assert len(sync_workloads(after, ("Evict",), many, [], NOW + 61)[0].evict) == 10

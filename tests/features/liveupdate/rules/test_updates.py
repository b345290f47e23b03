"""The workload updater's decisions: limits, back-off, abortion, and what is kept of the past."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from lanloom.api.meta import rfc3339
from lanloom.features.liveupdate.rules.updates import (
    CHANGE,
    KEPT,
    WORKLOAD_UPDATE,
    Failures,
    InFlight,
    Limits,
    body_of,
    can_abort,
    change_of,
    decide,
    failures,
    failures_of,
    to_delete,
)
from tests.features.liveupdate.objects import MIGRATABLE, Raw, as_instance, as_migration, instance, on

NOW = 1_800_000_000.0
IDLE = InFlight(0, 0)
NEEDED: Raw = {
    "type": "MigrationRequired",
    "status": "True",
    "reason": "AutoMigrationDueToLiveUpdate",
    "lastTransitionTime": rfc3339(NOW - 3600),
}


def machine(**status: Any) -> VirtualMachineInstance:
    """A machine that needs a migration."""
    raw = instance(on({"blue": "new"}), **({"conditions": [MIGRATABLE, NEEDED]} | status))
    raw["metadata"]["uid"] = "i1"
    return as_instance(raw)


def migration(
    phase: str, age: float = 0.0, *, name: str = "m", change: str | None = "", **meta: Any
) -> VirtualMachineInstanceMigration:
    """A workload update of the machine that came into its phase some seconds ago; `change` None is KubeVirt's."""
    annotations = {WORKLOAD_UPDATE: ""}
    if change is not None:
        annotations[CHANGE] = change or change_of(machine())
    stamp = rfc3339(NOW - age)
    return as_migration(
        {
            "metadata": {
                "name": f"{name}{age:.0f}",
                "uid": f"{name}{age:.0f}",
                "creationTimestamp": stamp,
                "annotations": annotations,
                **meta,
            },
            "spec": {"vmiName": "vm"},
            "status": {
                "phase": phase,
                "phaseTransitionTimestamps": [{"phase": phase, "phaseTransitionTimestamp": stamp}],
            },
        }
    )


def test_create() -> None:
    """A machine that runs, can migrate and does not yet gets a migration."""
    assert decide(machine(), (), IDLE, Limits(), now=NOW).step == "create"


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Scheduled"},
        {"phase": "Succeeded"},
        {"conditions": [NEEDED]},
        {"conditions": [NEEDED, MIGRATABLE | {"status": "False"}]},
        {"migrationState": {"startTimestamp": rfc3339(NOW)}},
    ],
)
def test_no_candidates(status: Raw) -> None:
    """Machines that don't run, can't migrate or do so already get none."""
    assert decide(machine(**status), (), IDLE, Limits(), now=NOW).step == "none"


def test_deleting() -> None:
    """A machine that is being deleted gets none."""
    raw = instance(on({"blue": "new"}), conditions=[MIGRATABLE, NEEDED])
    raw["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert decide(as_instance(raw), (), IDLE, Limits(), now=NOW).step == "none"


@pytest.mark.parametrize("phase", ["", "Pending", "Scheduling", "Running"])
def test_one_at_a_time(phase: str) -> None:
    """A machine with an unfinished migration, from any user, gets no other one."""
    manual = as_migration({"metadata": {"name": "m"}, "spec": {"vmiName": "vm"}, "status": {"phase": phase}})
    assert decide(machine(), (manual,), IDLE, Limits(), now=NOW).step == "none"


@pytest.mark.parametrize(
    ("cluster", "node", "step"),
    [(4, 1, "create"), (5, 0, "full"), (2, 2, "full"), (9, 9, "full"), (0, 0, "create")],
)
def test_limits(cluster: int, node: int, step: str) -> None:
    """No more than five at once in the cluster, and two away from a node."""
    assert decide(machine(), (), InFlight(cluster, node), Limits(), now=NOW).step == step


@pytest.mark.parametrize(
    ("count", "wait"), [(1, 20), (2, 40), (3, 80), (4, 160), (5, 320), (6, 600), (7, 600), (90, 600)]
)
def test_back_off(count: int, wait: float) -> None:
    """The wait after a failure begins with 20 seconds, doubles, and has an upper limit."""
    assert Failures(count, NOW).due(Limits()) == NOW + wait


@pytest.mark.parametrize(("age", "step"), [(39, "wait"), (40, "create"), (41, "create"), (-3600, "create")])
def test_back_off_is_waited_for(age: float, step: str) -> None:
    """After two failures the next attempt comes after 40 seconds, or when the clock was set back."""
    own = (migration("Failed", age), migration("Failed", age + 100))
    found = decide(machine(), own, IDLE, Limits(), now=NOW)
    assert found.step == step
    assert step == "create" or found.at == NOW + 1


def test_failures_are_counted_since_the_last_success() -> None:
    """A success ends a row of failures, and so does another change."""
    own = [
        migration("Failed", 10),
        migration("Failed", 20),
        migration("Succeeded", 30),
        migration("Failed", 40),
    ]
    assert failures(own, change_of(machine())) == Failures(2, NOW - 10)
    assert failures(own[1:3], change_of(machine())).count == 1
    other = [migration("Failed", 10), migration("Failed", 20, change="other"), migration("Failed", 30)]
    assert failures(other, change_of(machine())).count == 1


def test_failures_of_another_time() -> None:
    """What failed before the machine had to migrate this time does not count."""
    own = [migration("Failed", 10), migration("Failed", 7200)]
    assert failures_of(machine(), own).count == 1


def test_failures_of_kubevirt_count() -> None:
    """Migrations that KubeVirt requested count too, and those by hand don't."""
    by_hand = as_migration(
        {"metadata": {"name": "x"}, "spec": {"vmiName": "vm"}, "status": {"phase": "Failed"}}
    )
    own = [migration("Failed", 10, change=None), by_hand]
    assert failures(own, change_of(machine())).count == 1


def test_deleted_migrations_don_t_count() -> None:
    """A migration that is being deleted was aborted, and did not fail."""
    own = [migration("Failed", 10, deletionTimestamp=rfc3339(NOW))]
    assert failures(own, change_of(machine())).count == 0


def test_attempts() -> None:
    """After five failures in a row there is no other attempt, unless there is no limit."""
    own = tuple(migration("Failed", 1000 + 10 * number) for number in range(5))
    assert decide(machine(), own, IDLE, Limits(), now=NOW).step == "exhausted"
    assert decide(machine(), own, IDLE, Limits(attempts=0), now=NOW).step == "create"
    assert decide(machine(), own, IDLE, Limits(attempts=6), now=NOW).step == "create"


def test_an_edit_begins_anew() -> None:
    """Another NAD is another change, and so is another state; the order of networks is none."""
    base = change_of(as_instance(instance(on({"a": "x", "b": "y"}))))
    assert base != change_of(as_instance(instance(on({"a": "x", "b": "z"}))))
    turned = on({"b": "y", "a": "x"})
    turned["networks"].reverse()
    assert base == change_of(as_instance(instance(turned)))


@pytest.mark.parametrize("stamp", [None, "", "soon"])
def test_time_of_a_failure(stamp: str | None) -> None:
    """A failure whose time is unknown counts from its creation."""
    raw = {
        "metadata": {"name": "m", "creationTimestamp": rfc3339(NOW), "annotations": {WORKLOAD_UPDATE: ""}},
        "status": {
            "phase": "Failed",
            "phaseTransitionTimestamps": [{"phase": "Failed", "phaseTransitionTimestamp": stamp}],
            "migrationState": {"endTimestamp": stamp},
        },
    }
    assert failures([as_migration(raw)], "x") == Failures(1, NOW)


def test_body() -> None:
    """A migration has KubeVirt's form, and no priority, which only KubeVirt's controller may set."""
    body = body_of(machine(), ())
    assert body["metadata"]["generateName"] == "kubevirt-workload-update-"
    assert body["metadata"]["annotations"]["kubevirt.io/workloadUpdateMigration"] == ""
    assert body["metadata"]["labels"] == {"kubevirt.io/vmi-name": "vm"}
    assert body["spec"] == {"vmiName": "vm"}


def test_one_name_for_one_attempt() -> None:
    """The same attempt has the same name, and after another migration there is another one."""
    first, second = (body_of(machine(), ())["metadata"]["name"] for _ in range(2))
    assert first == second
    assert first.startswith("kubevirt-workload-update-")
    again = body_of(machine(), (migration("Failed", 20), migration("Failed", 10)))["metadata"]["name"]
    assert again != first
    assert again == body_of(machine(), (migration("Failed", 10), migration("Failed", 20)))["metadata"]["name"]


@pytest.mark.parametrize(
    ("state", "possible"),
    [
        (None, True),
        ({"migrationUid": "m0"}, True),
        ({"migrationUid": "m0", "startTimestamp": rfc3339(NOW)}, True),
        ({"migrationUid": "m0", "targetNodeDomainReadyTimestamp": rfc3339(NOW)}, False),
        ({"migrationUid": "m0", "completed": True}, False),
        ({"migrationUid": "before", "targetNodeDomainReadyTimestamp": rfc3339(NOW), "completed": True}, True),
    ],
)
def test_abort(state: Raw | None, possible: bool) -> None:
    """A migration can be aborted until the guest is on the target; another migration's state does not count."""
    assert can_abort(machine(migrationState=state), migration("Running")) is possible


def test_no_abort() -> None:
    """Finished migrations, those by hand, and those that are being deleted are left alone."""
    by_hand = as_migration(
        {"metadata": {"name": "x"}, "spec": {"vmiName": "vm"}, "status": {"phase": "Running"}}
    )
    leaving = migration("Running", deletionTimestamp=rfc3339(NOW))
    for item in (by_hand, leaving, migration("Succeeded"), migration("Failed")):
        assert not can_abort(machine(), item)


def test_old_migrations() -> None:
    """Of finished migrations as many stay as count, and only own ones are deleted."""
    own = [migration("Failed", age) for age in range(KEPT + 3)]
    kubevirt = [migration("Failed", 500 + age, change=None) for age in range(9)]
    found = to_delete([*own, *kubevirt, migration("Running", 900)], Limits())
    assert [item.metadata.name for item in found] == [f"m{age}" for age in range(KEPT + 2, KEPT - 1, -1)]
    assert not to_delete(own, Limits(attempts=KEPT + 3))


@given(st.lists(st.sampled_from(["Failed", "Succeeded", "Running"]), max_size=8), st.randoms())
def test_order_of_arrival_does_not_matter(phases: list[str], rng: Any) -> None:
    """The migrations of a machine count the same in whatever order the watch brought them."""
    own = [migration(phase, 10.0 * number, name="m") for number, phase in enumerate(phases)]
    mixed = list(own)
    rng.shuffle(mixed)
    assert failures(own, change_of(machine())) == failures(mixed, change_of(machine()))
    assert to_delete(own, Limits()) == to_delete(mixed, Limits())

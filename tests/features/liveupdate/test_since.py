"""Since when a machine waits, moves, stops or has to be restarted, as lists and pages of machines say it."""

from typing import Any

import pytest

from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration
from lanloom.api.liveupdate import NetworkSwap
from lanloom.api.reading import convert
from lanloom.features.liveupdate.fields import MACHINE_FIELDS
from lanloom.features.liveupdate.machines import Objects, machines_of
from lanloom.features.liveupdate.rules.report import NETWORKS_CURRENT
from lanloom.features.liveupdate.views import MIGRATION_REQUIRED, RESTART_REQUIRED, MachineView, view_of
from tests.features.liveupdate import objects

MADE, DELETED, MOVED, TOLD = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3, 4))


def told(type: str, status: str = "True") -> dict[str, Any]:
    """A condition that has been so since the fourth."""
    return {"type": type, "status": status, "reason": "So", "message": "so", "lastTransitionTime": TOLD}


def view(
    *conditions: dict[str, Any], swap: str = "", migration: str = "", wanted: str = "b", **status: Any
) -> MachineView:
    """A machine that runs with NIC blue on `a` and is to be on `b`, with what else there is of it."""
    deleted = status.pop("deleted", False)
    vm = objects.machine(objects.on({"blue": wanted}), uid="vm")
    vm["status"] = {"conditions": [item for item in conditions if item["type"] == RESTART_REQUIRED]}
    own = [item for item in conditions if item["type"] != RESTART_REQUIRED]
    vmi = objects.instance(objects.on({"blue": "a"}), owner="vm", conditions=own, **status)
    vmi["metadata"] |= {"uid": "vmi", "creationTimestamp": MADE}
    vmi["metadata"] |= {"deletionTimestamp": DELETED} if deleted else {}
    place, meta = objects.PLACE, {"name": "m", "namespace": objects.PLACE, "creationTimestamp": MOVED}
    spec = {"machine": "vm", "uid": "vmi", "network": "blue", "from": f"{place}/a", "to": f"{place}/b"}
    of_swap = {"metadata": meta, "spec": spec, "status": {"phase": swap, "phaseSince": TOLD}}
    of_migration = {"metadata": meta, "spec": {"vmiName": "vm"}, "status": {"phase": migration}}
    moves = (convert(of_migration, VirtualMachineInstanceMigration),) if migration else ()
    [found] = machines_of(
        Objects(
            machines=(convert(vm, VirtualMachine),),
            instances=(convert(vmi, VirtualMachineInstance),),
            migrations=moves,
            swaps=(convert(of_swap, NetworkSwap),) if swap else (),
        )
    )
    return view_of(found)


@pytest.mark.parametrize(
    ("found", "state", "since"),
    [
        (view(told(NETWORKS_CURRENT, "False")), "Waiting", TOLD),
        (view(told(MIGRATION_REQUIRED)), "Waiting", TOLD),
        (view(told(MIGRATION_REQUIRED), told(NETWORKS_CURRENT)), "Waiting", TOLD),
        (view(told(NETWORKS_CURRENT)), "Waiting", ""),
        (view(told(MIGRATION_REQUIRED, "False")), "Waiting", ""),
        (view(), "Waiting", ""),
        (view(told(NETWORKS_CURRENT, "False"), swap="Moving"), "Swapping", MOVED),
        (view(told(NETWORKS_CURRENT, "False"), migration="Running"), "Migrating", MOVED),
        (view(swap="UntilRestart"), "UntilRestart", TOLD),
        (view(told(RESTART_REQUIRED)), "RestartRequired", TOLD),
        (view(phase="Scheduling"), "Scheduling", MADE),
        (view(deleted=True), "Stopping", DELETED),
        (view(phase="Succeeded"), "Stopping", ""),
    ],
)
def test_since_when(found: MachineView, state: str, since: str) -> None:
    """A machine that is not well says since when, by the object that says so, and says nothing where none does."""
    assert (found.state, found.since) == (state, since)
    [field] = MACHINE_FIELDS.choose("since")
    assert field.value(found) == (since or None)

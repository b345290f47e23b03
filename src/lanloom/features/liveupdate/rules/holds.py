"""Keep KubeVirt's workload updater from a machine while its ports move.

Instance, pod and port can't change at once, and KubeVirt migrates or evicts a machine whose instance and pod differ. It
leaves instances alone that have an annotation of its own. The updater sees the same object as the condition that makes
it act, so an annotation that was there before the condition is there with it. Several swaps of a machine may hold it:
the value lists them.
"""

import re
from collections.abc import Iterable
from typing import Any

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.liveupdate import NetworkSwap
from lanloom.api.meta import is_ahead, parse_rfc3339
from lanloom.features.liveupdate.rules.conditions import MIGRATION_REQUIRED
from lanloom.features.liveupdate.rules.evaluation import evaluate
from lanloom.kube.conditions import is_true

NO_UPDATES = "kubevirt.io/testWorkloadUpdateMigrationAbortion"
"""KubeVirt's annotation of an instance, known to 1.7, 1.8, 1.9 and later: no migration or eviction for its changes."""

_PATH = "/metadata/annotations"


def is_held(machine: VirtualMachineInstance, holder: str) -> bool:
    """Return whether a swap, by its uid, holds an instance."""
    return holder in _holders(machine)


def hold(machine: VirtualMachineInstance, holder: str) -> list[dict[str, Any]]:
    """Return the JSON patch with which a swap holds an instance, besides those that do; none if it does."""
    if is_held(machine, holder):
        return []
    return _written(machine, (*_holders(machine), holder))


def release(machine: VirtualMachineInstance, *holders: str) -> list[dict[str, Any]]:
    """Return the JSON patch with which swaps let an instance go; none if none of them holds it."""
    kept = tuple(item for item in _holders(machine) if item not in holders)
    return _written(machine, kept) if kept != _holders(machine) else []


def abandoned(machine: VirtualMachineInstance, swaps: Iterable[NetworkSwap]) -> tuple[str, ...]:
    """Return who holds an instance besides these swaps, as far as it is a uid: others may have set the annotation."""
    known = {swap.metadata.uid for swap in swaps}
    return tuple(item for item in _holders(machine) if item not in known and _UID.fullmatch(item))


_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


SETTLING_SECONDS, LONGEST_SECONDS = 5.0, 60.0
"""How long a machine is held after a swap: until KubeVirt has seen all that was written, and no longer than that."""


def release_wait(swap: NetworkSwap, machine: VirtualMachineInstance, pod: Pod | None, now: float) -> float:
    """Return in how many seconds a machine may be let go.

    As long as KubeVirt has yet to see that instance and pod agree again, its condition still asks for a migration.
    """
    completed = parse_rfc3339(swap.status.completed_at)
    if is_ahead(completed, now):
        return 0.0
    since = now - completed
    if since < SETTLING_SECONDS:
        return SETTLING_SECONDS - since
    due = is_true(machine.status.conditions, MIGRATION_REQUIRED)
    if due and since < LONGEST_SECONDS and evaluate(machine, pod).need == "none":
        return 1.0
    return 0.0


def _holders(machine: VirtualMachineInstance) -> tuple[str, ...]:
    value = machine.metadata.annotations.get(NO_UPDATES)
    return tuple(value.split(",")) if value is not None else ()


def _written(machine: VirtualMachineInstance, holders: tuple[str, ...]) -> list[dict[str, Any]]:
    meta, path = machine.metadata, f"{_PATH}/{NO_UPDATES.replace('/', '~1')}"
    steps: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
    ]
    if not holders:
        return [*steps, {"op": "remove", "path": path}]
    if not meta.annotations:
        return [*steps, {"op": "add", "path": _PATH, "value": {NO_UPDATES: ",".join(holders)}}]
    return [*steps, {"op": "add", "path": path, "value": ",".join(holders)}]

"""Decide about migrations of machines whose networks changed, as KubeVirt's workload updater does.

All state is in the migrations themselves: which of them failed, when, and for which change. So a manager that takes
over decides the same, and an edit of the machine starts the count again.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct

from lanloom.api.kubevirt import (
    MigrationState,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    nad_of,
)
from lanloom.api.liveupdate import GROUP
from lanloom.api.meta import is_ahead, is_label_value, parse_rfc3339
from lanloom.features.liveupdate.rules.conditions import MIGRATION_REQUIRED
from lanloom.kube.conditions import find
from lanloom.kube.controller import doubling

WORKLOAD_UPDATE = "kubevirt.io/workloadUpdateMigration"
"""Annotation of migrations that no user asked for; its value is empty."""

MACHINE_LABEL = "kubevirt.io/vmi-name"
"""Label of migrations: the machine, as KubeVirt's webhook sets it."""

CHANGE = f"{GROUP}/change"
"""Annotation of migrations that Lanloom requested: the networks that they bring, as a hash."""

NAME_PREFIX = "kubevirt-workload-update-"

KEPT = 5
"""As many finished migrations of a machine stay, for those who look after a failure; KubeVirt keeps as many."""

Migrations = Sequence[VirtualMachineInstanceMigration]


class Limits(Struct, frozen=True, kw_only=True):
    """How much is migrated at once, and how often again. Times are in seconds.

    `attempts` failures of the same change in a row are the last ones; 0 tries endlessly.
    """

    per_cluster: int = 5
    per_node: int = 2
    first_wait: float = 20.0
    longest_wait: float = 600.0
    attempts: int = 5


class InFlight(Struct, frozen=True):
    """Migrations that are not final: of the cluster, and of those the ones that leave a node."""

    cluster: int
    node: int


class Failures(Struct, frozen=True):
    """The failures of a change in a row; `last` is in seconds since the epoch."""

    count: int = 0
    last: float = 0.0

    def due(self, limits: Limits) -> float:
        """Return when the next attempt may begin, in seconds since the epoch."""
        if not self.count:
            return 0.0
        return self.last + doubling(self.count - 1, first=limits.first_wait, cap=limits.longest_wait)

    def is_exhausted(self, limits: Limits) -> bool:
        """Return whether there is no further attempt."""
        return 0 < limits.attempts <= self.count


Step = Literal["create", "wait", "full", "exhausted", "none"]
"""create: a migration, now; wait: until `at`; full: until a migration ends; exhausted: no more; none: nothing to do."""


class Decision(Struct, frozen=True):
    """What the updater does about one machine."""

    step: Step
    at: float = 0.0


def change_of(machine: VirtualMachineInstance) -> str:
    """Return a hash of the NADs that a machine is to have; another edit has another one."""
    own = machine.metadata.namespace
    nads = sorted((item.name, str(nad_of(item.multus, own))) for item in machine.spec.networks if item.multus)
    states = sorted((item.name, item.state) for item in machine.spec.interfaces)
    return sha256(repr((machine.metadata.uid, nads, states)).encode()).hexdigest()[:16]


def is_workload_update(migration: VirtualMachineInstanceMigration) -> bool:
    """Return whether a migration brings a change to a machine, rather than being a user's request."""
    return WORKLOAD_UPDATE in migration.metadata.annotations


def failures(migrations: Iterable[VirtualMachineInstanceMigration], change: str, since: str = "") -> Failures:
    """Return the failures of a change since the last success, of migrations that were created at `since` or later.

    `migrations` are all of the machine. Those that KubeVirt requested don't say for which change; `since` is when it
    became known that the machine has to migrate, as RFC 3339.
    """
    own = [
        item
        for item in migrations
        if is_workload_update(item)
        and not item.metadata.is_deleting
        and (item.metadata.creation_timestamp or "") >= since
    ]
    own.sort(key=_age, reverse=True)
    count, last = 0, 0.0
    for item in own:
        if item.status.phase == "Succeeded" or item.metadata.annotations.get(CHANGE, change) != change:
            break
        if item.status.phase == "Failed":
            count += 1
            last = max(last, failed_at(item))
    return Failures(count, last)


def _age(migration: VirtualMachineInstanceMigration) -> tuple[str, int, str]:
    meta = migration.metadata
    return meta.creation_timestamp or "", meta.version, meta.name


def failed_at(migration: VirtualMachineInstanceMigration) -> float:
    """Return when a migration failed, in seconds since the epoch; when it was created if that is unknown."""
    stamps = [
        item.phase_transition_timestamp
        for item in migration.status.phase_transition_timestamps
        if item.phase == "Failed"
    ]
    state = migration.status.migration_state
    stamps += [state.end_timestamp] if state is not None else []
    for stamp in (*stamps, migration.metadata.creation_timestamp):
        try:
            return parse_rfc3339(stamp or "")
        except ValueError:
            continue
    return 0.0


def is_candidate(machine: VirtualMachineInstance) -> bool:
    """Return whether a machine could migrate, whatever it needs."""
    return (
        machine.is_running
        and not machine.metadata.is_deleting
        and not machine.is_migrating
        and machine.is_migratable
    )


def decide(
    machine: VirtualMachineInstance,
    own: Migrations,
    in_flight: InFlight,
    limits: Limits,
    *,
    now: float,
) -> Decision:
    """Return what to do about a machine that needs a migration. `own` are all its migrations."""
    if not is_candidate(machine) or any(not item.is_final for item in own):
        return Decision("none")
    past = failures_of(machine, own)
    if past.is_exhausted(limits):
        return Decision("exhausted")
    if not is_ahead(past.last, now) and now < (due := past.due(limits)):
        return Decision("wait", due)
    if in_flight.cluster >= limits.per_cluster or in_flight.node >= limits.per_node:
        return Decision("full")
    return Decision("create")


def failures_of(machine: VirtualMachineInstance, own: Migrations) -> Failures:
    """Return the failures of what a machine needs now. `own` are all its migrations."""
    required = find(machine.status.conditions, MIGRATION_REQUIRED)
    since = required.last_transition_time if required is not None else ""
    return failures(own, change_of(machine), since)


def is_target_of(move: MigrationState, migration: VirtualMachineInstanceMigration) -> bool:
    """Return whether a state is that of a migration."""
    return move.migration_uid == migration.metadata.uid


def body_of(machine: VirtualMachineInstance, past: Migrations) -> dict[str, Any]:
    """Return the migration that brings the machine's networks to it, after those that are past.

    Its name follows from these, so that managers who request the same migration at once create one. It has no priority:
    only KubeVirt's own controller may set one.
    """
    name, change = machine.metadata.name, change_of(machine)
    latest = max(past, key=_age, default=None)
    before = latest.metadata.uid if latest is not None else ""
    own = NAME_PREFIX + sha256(f"{machine.metadata.uid} {change} {before}".encode()).hexdigest()[:10]
    labels = {MACHINE_LABEL: name} if is_label_value(name) else {}
    annotations = {WORKLOAD_UPDATE: "", CHANGE: change}
    return {
        "metadata": {
            "name": own,
            "generateName": NAME_PREFIX,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {"vmiName": name},
    }


def can_abort(machine: VirtualMachineInstance, migration: VirtualMachineInstanceMigration) -> bool:
    """Return whether a migration may still be aborted: it brings a change, and the guest is not on the target yet."""
    meta = migration.metadata
    if migration.is_final or meta.is_deleting or not is_workload_update(migration):
        return False
    move = machine.status.migration_state
    if move is None or move.migration_uid not in ("", meta.uid):
        return True
    return move.target_node_domain_ready_timestamp is None and not move.completed


def to_delete(own: Migrations, limits: Limits) -> Migrations:
    """Return the finished migrations of a machine that Lanloom requested and that are not needed any more."""
    kept = max(KEPT, limits.attempts)
    finished = sorted(
        (item for item in own if item.is_final and CHANGE in item.metadata.annotations), key=_age
    )
    return [item for item in finished[: max(0, len(finished) - kept)] if not item.metadata.is_deleting]

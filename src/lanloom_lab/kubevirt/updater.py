"""KubeVirt's workload updater, as rules on values: when it looks at the cluster, and what it migrates or evicts.

All of it is pkg/virt-controller/watch/workload-updater/workload-updater.go, which acts alike in 1.7, 1.8, 1.9 and main.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from lanloom.api.meta import Key
from lanloom.kube.conditions import find
from lanloom_lab.kubevirt.releases import MIGRATION_REQUIRED

THROTTLE_SECONDS = 5.0
"""`defaultThrottleInterval`: the delay of a look that an event asks for."""

AGAIN_SECONDS = 30e-9
"""`periodicReEnqueueIntervalSeconds`: the constant 30 has no unit where it is used, so it is 30 nanoseconds."""

BATCH, BATCH_SECONDS = 10, 60.0
"""`defaultBatchDeletionCount` and `defaultBatchDeletionIntervalSeconds`: evictions at once, and the pause then."""

PARALLEL = 5
"""`parallelMigrationsPerCluster` by default: pkg/virt-config/virt-config.go."""

MARK = "kubevirt.io/workloadUpdateMigration"
"""Annotation of the updater's own migrations."""

NO_MIGRATION = "kubevirt.io/testWorkloadUpdateMigrationAbortion"
"""Annotation of an instance that the updater does not migrate or evict for changes: `doesRequireMigration`."""

OUTDATED = "lab.lanloom.io/outdated"
"""Annotation of an instance that stands for an outdated `launcherContainerImageVersion`: `isOutdated`."""


class Updater(Struct, frozen=True):
    """When the next look is due, None for never; and when the last batch was evicted.

    All events share one key of a delaying queue, so the earliest time counts: a look that is due anyway takes
    along what came a moment before.
    """

    due: float | None = None
    last_batch: float = float("-inf")

    def heard(self, now: float, delay: float = THROTTLE_SECONDS) -> "Updater":
        """Return the updater after an event that asks for a look: any event of a migration does."""
        at = now + delay
        return replace(self, due=at if self.due is None else min(self.due, at))

    def heard_of(self, vmi: VirtualMachineInstance, now: float) -> "Updater":
        """Return the updater after an update of an instance: `updateVmi`."""
        return self.heard(now) if _is_changing(vmi) and not vmi.has_ended and not vmi.is_migrating else self


class Round(Struct, frozen=True, kw_only=True):
    """What a look at the cluster leads to: instances to migrate, to evict, and whose migrations are aborted."""

    migrate: tuple[Key, ...] = ()
    evict: tuple[Key, ...] = ()
    abort: tuple[Key, ...] = ()


def sync_workloads(
    updater: Updater,
    methods: Collection[str],
    instances: Iterable[VirtualMachineInstance],
    migrations: Collection[VirtualMachineInstanceMigration],
    now: float,
) -> tuple[Round, Updater]:
    """Return what is done at a look that is due, and the updater after it: `getUpdateData` and `sync`."""
    unfinished = [item for item in migrations if not item.is_final]
    migratable, evictable, aborted = [], [], []
    for vmi in instances:
        key, outdated = vmi.metadata.key, OUTDATED in vmi.metadata.annotations
        if not vmi.is_running or vmi.metadata.is_deleting:
            continue
        if not outdated and _is_to_abort(vmi, unfinished):
            aborted.append(key)
            continue
        flying = any(_machine_of(item) == key for item in unfinished)
        if not (outdated or _needs_migration(vmi)) or vmi.is_migrating or flying:
            continue
        if "LiveMigrate" in methods and vmi.is_migratable:
            migratable.append(key)
        elif "Evict" in methods:
            evictable.append(key)
    free = PARALLEL - sum(item.status.phase not in ("", "Pending") for item in unfinished)
    batch = BATCH if now > updater.last_batch + BATCH_SECONDS else 0
    found = Round(
        migrate=tuple(migratable[: max(free, 0)]), evict=tuple(evictable[:batch]), abort=tuple(aborted)
    )
    after = replace(updater, due=None, last_batch=now if found.evict else updater.last_batch)
    return found, after.heard(now, AGAIN_SECONDS) if migratable or evictable or aborted else after


def _is_changing(vmi: VirtualMachineInstance) -> bool:
    """`isHotplugInProgress`, as far as networks go."""
    condition = find(vmi.status.conditions, MIGRATION_REQUIRED)
    return condition is not None and condition.status == "True"


def _needs_migration(vmi: VirtualMachineInstance) -> bool:
    """`doesRequireMigration`."""
    return not vmi.is_migrating and NO_MIGRATION not in vmi.metadata.annotations and _is_changing(vmi)


def _is_to_abort(vmi: VirtualMachineInstance, unfinished: Iterable[VirtualMachineInstanceMigration]) -> bool:
    """`shouldAbortMigration`: the change was taken back, and the guest is not on the target yet."""
    own = any(
        MARK in item.metadata.annotations and _machine_of(item) == vmi.metadata.key for item in unfinished
    )
    if NO_MIGRATION in vmi.metadata.annotations or not own:
        return own
    move = vmi.status.migration_state
    return not _is_changing(vmi) and (move is None or not move.target_node_domain_ready_timestamp)


def _machine_of(migration: VirtualMachineInstanceMigration) -> Key:
    return Key(migration.metadata.namespace, migration.spec.vmi_name)

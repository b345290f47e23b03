"""Request migrations of machines that need one, and abort those that are needed no more.

One worker decides for the whole cluster, because the limits are the cluster's. What it is about to create is checked
against the API server: a watch may be late, and another manager may have been at work.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

import structlog

from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    machine_uid_of,
)
from lanloom.api.liveupdate import ACTIVE, NETWORK_SWAPS
from lanloom.api.meta import Key, is_label_value
from lanloom.features.liveupdate.manager.context import MachineContext
from lanloom.features.liveupdate.manager.informers import (
    BY_STATE,
    NEEDED,
    UNFINISHED,
    machine_of,
)
from lanloom.features.liveupdate.manager.machines import BLOCKED_SECONDS, Machines
from lanloom.features.liveupdate.rules.conditions import MIGRATION_REQUIRED
from lanloom.features.liveupdate.rules.updates import (
    CHANGE,
    MACHINE_LABEL,
    InFlight,
    body_of,
    can_abort,
    decide,
    is_candidate,
)
from lanloom.kube.conditions import find, is_true
from lanloom.kube.errors import AlreadyExists, ApiError, ServerError
from lanloom.kube.events import reference
from lanloom.kube.lookup import get_or_none, ignore_not_found, list_or_empty
from lanloom.kube.refusals import Failing

log = structlog.get_logger(__name__)

UNSEEN_SECONDS = 60.0
"""As long an own migration counts that the watch has not brought."""

SETTLE_SECONDS = 2.0
"""Seconds until a machine is looked at again whose condition asks for a migration that it does not need any more."""

RETRY_SECONDS = 20.0
"""After which a request that the API server refused is made again."""

SPACING_SECONDS = 5.0
"""Between two migrations of a machine, as between two rounds of KubeVirt's updater.

Another manager may have aborted the first one, which it holds needless, and would abort the next as well.
"""

Migration = VirtualMachineInstanceMigration


class Updater:
    """The migrations of the whole cluster."""

    def __init__(self, context: MachineContext, machines: Machines) -> None:
        self._client, self._informers, self._modes = context.client, context.informers, context.modes
        self._recorder, self._limits = context.recorder, context.settings.limits
        self._act, self._now = context.act, context.now
        self._machines = machines
        self._created: dict[Key, tuple[Migration, float]] = {}
        self._failing: Failing[Key] = Failing()
        self._not_before: dict[Key, float] = {}

    async def reconcile(self, _key: str) -> float | None:
        """Abort and create what is due; in how many seconds to look again, None for when something happens."""
        if (await self._modes.get()).name != "full":
            return None
        unfinished = self._unfinished()
        for migration in unfinished:
            await self._abort_if_needless(migration)
        return await self._create_due(unfinished)

    def _unfinished(self) -> list[Migration]:
        """Return all migrations that are not final, own ones included that the watch has not brought yet."""
        store, now = self._informers.migrations.store, asyncio.get_running_loop().time()
        self._created = {
            key: (item, until)
            for key, (item, until) in self._created.items()
            if store.get(key) is None and now < until
        }
        return [*store.by(BY_STATE, UNFINISHED), *(item for item, _ in self._created.values())]

    async def _abort_if_needless(self, migration: Migration) -> None:
        key = machine_of(migration)
        machine = self._informers.instances.store.get(key)
        if machine is None or CHANGE not in migration.metadata.annotations or self._needs(machine, migration):
            return
        live = await get_or_none(self._client, VIRTUAL_MACHINE_INSTANCES, key)
        if live is None or self._needs(live, migration):
            return
        present = await get_or_none(self._client, MIGRATIONS, migration.metadata.key)
        if present is not None and present.is_final:
            return
        meta = migration.metadata
        about = reference(VIRTUAL_MACHINE_INSTANCES, live)
        try:
            with ignore_not_found(meta.name):
                await self._client.delete(MIGRATIONS, meta.name, meta.namespace, uid=meta.uid)
        except ApiError as error:
            text = f"Failed to abort change for vmi: {key.name}: {error}"
            await self._recorder.event(about, "Warning", "FailedChangeAbortion", text)
            raise
        self._created.pop(meta.key, None)
        self._act("aborted")
        log.info("migration-aborted", machine=str(key), migration=meta.name)
        await self._recorder.event(
            about, "Normal", "SuccessfulChangeAbortion", f"Aborted change for vmi: {key.name}"
        )

    def _needs(self, machine: VirtualMachineInstance, migration: Migration) -> bool:
        """Return whether a migration has to go on: for its machine, or because it is too late, or unknown."""
        found = self._machines.evaluation_of(machine)
        return not found.known or found.need != "none" or not can_abort(machine, migration)

    async def _create_due(self, unfinished: Iterable[Migration]) -> float | None:
        now, clock, waits = self._now(), asyncio.get_running_loop().time(), []
        flying = list(map(machine_of, unfinished))
        nodes = Counter(map(self._node_of, flying))
        for machine in self._candidates():
            if len(flying) >= self._limits.per_cluster:
                break
            if self._informers.is_swapping(machine):
                continue
            key, node = machine.metadata.key, machine.status.node_name
            own = self._own(key)
            found = decide(machine, own, InFlight(len(flying), nodes[node]), self._limits, now=now)
            wait = max(found.at - now, self._not_before.get(key, 0.0) - clock)
            if found.step == "wait" or (found.step == "create" and wait > 0):
                waits.append(wait)
            elif found.step == "create" and self._machines.against(machine):
                waits.append(BLOCKED_SECONDS)  # its condition wakes the updater before, when that is over
            elif found.step == "create" and await self._create(machine):
                flying.append(key)
                nodes[node] += 1
            elif found.step == "create" and (until := self._not_before.get(key, 0.0)) > clock:
                waits.append(until - clock)
        # Nothing wakes who waits for an own migration that came and went while the watch was interrupted.
        waits += [until - clock for _, until in self._created.values()]
        return min(waits, default=None)

    def _candidates(self) -> list[VirtualMachineInstance]:
        """Return the machines that need a migration, those first that have waited for the longest time."""
        needed = self._informers.instances.store.by(BY_STATE, NEEDED)
        clock = asyncio.get_running_loop().time()
        self._not_before = {key: until for key, until in self._not_before.items() if until > clock}
        return sorted(needed, key=_waiting_since)

    def _own(self, key: Key) -> tuple[Migration, ...]:
        unseen = (item for item, _ in self._created.values() if machine_of(item) == key)
        return (*self._informers.migrations_of(key), *unseen)

    def _node_of(self, key: Key) -> str:
        machine = self._informers.instances.store.get(key)
        return machine.status.node_name if machine is not None else ""

    async def _create(self, machine: VirtualMachineInstance) -> bool:
        """Create a migration if the API server says the same of the machine; return whether it was."""
        key = machine.metadata.key
        live = await get_or_none(self._client, VIRTUAL_MACHINE_INSTANCES, key)
        if live is None or live.metadata.uid != machine.metadata.uid or not is_candidate(live):
            return False
        past = await self._live_migrations(key)
        if not is_true(live.status.conditions, MIGRATION_REQUIRED) or any(not item.is_final for item in past):
            return False
        if await self._is_swapping(key) or await self._lags(live):
            return False
        evaluation = self._machines.evaluation_of(live)
        if evaluation.known and evaluation.need == "none":
            # It has migrated, and its condition goes in a moment; should a watch be late, it is looked at again.
            self._not_before[key] = asyncio.get_running_loop().time() + SETTLE_SECONDS
            return False
        about = reference(VIRTUAL_MACHINE_INSTANCES, live)
        try:
            made = await self._client.create(MIGRATIONS, body_of(live, past), key.namespace)
        except AlreadyExists:
            return False  # another manager, or a request whose answer was lost
        except ApiError as error:
            if not self._failing.is_refused(key, error) and isinstance(error, ServerError):
                raise
            await self._machines.migration_refused(key, error)
            self._not_before[key] = asyncio.get_running_loop().time() + RETRY_SECONDS
            self._act("refused")
            text = f"Error creating a Migration for automated workload update: {error}"
            await self._recorder.event(about, "Warning", "FailedCreate", text)
            return False
        self._failing.end(key)
        self._machines.migration_created(key)
        clock = asyncio.get_running_loop().time()
        self._created[made.metadata.key] = made, clock + UNSEEN_SECONDS
        self._not_before[key] = clock + SPACING_SECONDS
        self._act("requested")
        log.info("migration-created", machine=str(key), migration=made.metadata.name)
        text = f"Created Migration {made.metadata.name} for automated workload update"
        await self._recorder.event(about, "Normal", "SuccessfulCreate", text)
        return True

    async def _live_migrations(self, key: Key) -> list[Migration]:
        """Return the migrations of a machine that the API server has now, but for those without a label."""
        labels = f"{MACHINE_LABEL}={key.name}" if is_label_value(key.name) else ""
        found = await list_or_empty(self._client, MIGRATIONS, key.namespace, labels=labels)
        return [item for item in found if item.spec.vmi_name == key.name]

    async def _is_swapping(self, key: Key) -> bool:
        """Return whether a swap owns a port of the machine; the updater is woken when that is over."""
        swaps = await list_or_empty(self._client, NETWORK_SWAPS, key.namespace)
        return any(item.spec.machine == key.name and item.status.phase in ACTIVE for item in swaps)

    async def _lags(self, machine: VirtualMachineInstance) -> bool:
        """Return whether the VirtualMachine has changed since: the instance gets that first, and wakes the updater."""
        owner = await get_or_none(self._client, VIRTUAL_MACHINES, machine.metadata.key)
        if owner is None or owner.metadata.uid != machine_uid_of(machine):
            return False
        return self._machines.lags(owner, machine)


def _waiting_since(machine: VirtualMachineInstance) -> tuple[str, Key]:
    found = find(machine.status.conditions, MIGRATION_REQUIRED)
    return (found.last_transition_time if found is not None else "", machine.metadata.key)

"""Reconcile one machine: take its edit to the instance, see what its launcher pod has, and report how it stands.

What is written is decided on what is known after the write before it, so an edit leads to a migration in one pass.
"""

from typing import Literal

import structlog
from msgspec.structs import replace

from lanloom.api.core import PODS, EventDraft, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Condition, Key
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.features.liveupdate.manager.context import MachineContext
from lanloom.features.liveupdate.manager.edits import Edits, Strategies
from lanloom.features.liveupdate.manager.targets import AGAIN_SECONDS, Targets
from lanloom.features.liveupdate.rules.annotation import running_annotation
from lanloom.features.liveupdate.rules.conditions import MIGRATION_REQUIRED, migration_required
from lanloom.features.liveupdate.rules.evaluation import Evaluation, evaluate
from lanloom.features.liveupdate.rules.holds import abandoned, release
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.report import (
    NETWORKS_CURRENT,
    REVERTED,
    BlockingReason,
    MachineState,
    blocking_reason,
    networks_current,
)
from lanloom.features.liveupdate.rules.sync import doubled_names
from lanloom.features.liveupdate.rules.updates import Limits, failures_of, to_delete
from lanloom.kube.conditions import find
from lanloom.kube.errors import ApiError, Conflict, Invalid, NotFound
from lanloom.kube.events import reference
from lanloom.kube.lookup import ignore_not_found, list_or_empty

log = structlog.get_logger(__name__)

BLOCKED_SECONDS = 60.0
"""After which a machine is looked at again whose edit the preflight does not let pass."""


class Machines:
    """The machines, by namespace and name."""

    def __init__(self, context: MachineContext) -> None:
        self._client, self._informers, self._modes = context.client, context.informers, context.modes
        self._writer, self._recorder = context.writer, context.recorder
        self._settings, self._now = context.settings, context.now
        self._edits = Edits(context)
        self._targets = Targets(context.client, context.informers)
        self._without_migration: dict[Key, str] = {}
        self._compared: tuple[VirtualMachineInstance, Pod | None, Evaluation] | None = None
        self.blocked: set[Key] = set()
        """The machines that wait for a network or a node."""

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for a machine; in how many seconds to look again, None for when something happens."""
        mode = await self._modes.get()
        machine = self._writer.instance(key)
        if machine is None or machine.has_ended or machine.metadata.is_deleting:
            self.blocked.discard(key)
            self._without_migration.pop(key, None)
            owner = self._informers.machines.store.get(key)
            if machine is None and owner is not None and mode.name == "full":
                await self._edits.drop_unplugged(owner, None)
            return None
        machine = await self._let_go(machine)
        owner = self._informers.owner_of(machine)
        strategies: Strategies = ()
        again = None
        if mode.name == "full":
            machine, owner, strategies = await self._take_edit(owner, machine)
            machine, again = await self._mark(machine, strategies)
            await self._annotate(machine)
            await self._clean_up(key)
        elif mode.name == "restart" and owner is not None:
            strategies = self._edits.strategies(owner, machine, self._compare(machine).observed)
        blocking = await self._report(mode, owner, machine, strategies)
        check = AGAIN_SECONDS if self._targets.is_waiting(machine) else None
        return min(filter(None, (again, check, self._note(key, blocking))), default=None)

    async def _let_go(self, machine: VirtualMachineInstance) -> VirtualMachineInstance:
        """Leave an instance to KubeVirt that a swap holds whose finalizer was removed by force. Raises KubeError.

        A swap is there before it holds an instance, so one that is not there now is gone.
        """
        if not abandoned(machine, self._informers.swaps_of(machine)):
            return machine
        swaps = await list_or_empty(self._client, NETWORK_SWAPS, machine.metadata.namespace)
        steps = release(machine, *abandoned(machine, swaps))
        return await self._writer.change_instance(machine, steps) if steps else machine

    async def refused(self, key: Key, error: ApiError) -> None:
        """Implement Refusals: on the instance, and on its VirtualMachine. Raises KubeError.

        What refuses a change of the instance may refuse the condition there, too: then the VirtualMachine alone has it.
        """
        machine = self._writer.instance(key)
        if machine is None or machine.has_ended or machine.metadata.is_deleting:
            return
        full = (await self._modes.get()).name == "full"
        owner = self._informers.owner_of(machine) if full else None
        blocking = _refusal(str(error))
        try:
            await self._write(machine, owner, blocking, self._compare(machine))
        except (Conflict, NotFound):
            raise
        except ApiError:
            if owner is None:
                raise
            existing = find(owner.status.conditions, NETWORKS_CURRENT)
            wanted = networks_current(existing, blocking, {}, now=self._now())
            await self._mirror(owner, wanted)
            await self._record(machine, existing, wanted)

    async def accepted(self, key: Key) -> None:
        """Implement Refusals; the reconcile that went well has written the condition."""

    async def migration_refused(self, key: Key, error: ApiError) -> None:
        """Report that the migration that a machine waits for can't be created. Raises KubeError."""
        self._without_migration[key] = str(error)
        await self.refused(key, error)

    def migration_created(self, key: Key) -> None:
        """Note that it could be created."""
        self._without_migration.pop(key, None)

    def evaluation_of(self, machine: VirtualMachineInstance) -> Evaluation:
        """Return what the machine's networks need, besides those that a swap moves at this moment."""
        return self._compare(machine).without(self._edits.held(machine))

    def against(self, machine: VirtualMachineInstance) -> tuple[str, ...]:
        """Return what the preflight has against the migration that a machine needs."""
        return self._edits.against(machine, self.evaluation_of(machine).findings)

    def lags(self, owner: VirtualMachine, machine: VirtualMachineInstance) -> bool:
        """Return whether an instance is still to get something of its VirtualMachine."""
        strategies = self._edits.strategies(owner, machine, self._compare(machine).observed)
        return bool(self._edits.plan(owner, machine, strategies))

    def _compare(self, machine: VirtualMachineInstance) -> Evaluation:
        """Return how a machine compares with its pod; each step of a reconcile asks for that again."""
        pod, last = self._informers.launcher_of(machine), self._compared
        if last is None or last[0] is not machine or last[1] is not pod:
            last = self._compared = machine, pod, evaluate(machine, pod)
        return last[2]

    async def _take_edit(
        self, owner: VirtualMachine | None, machine: VirtualMachineInstance
    ) -> tuple[VirtualMachineInstance, VirtualMachine | None, Strategies]:
        found = self.evaluation_of(machine)
        owner = await self._edits.current_owner(owner, machine, found)
        if owner is None:
            return await self._edits.adopt(machine, found), None, ()
        observed = self._compare(machine).observed
        strategies = self._edits.strategies(owner, machine, observed)
        before, machine = machine, await self._edits.catch_up(machine, strategies, found)
        if machine is not before:
            strategies = self._edits.strategies(owner, machine, observed)
        machine = await self._edits.apply(owner, machine, strategies)
        return machine, await self._edits.drop_unplugged(owner, machine), strategies

    async def _mark(
        self, machine: VirtualMachineInstance, strategies: Strategies
    ) -> tuple[VirtualMachineInstance, float | None]:
        """Write whether the machine has to migrate; not for what moves in place."""
        in_place = {item.network for item, strategy in strategies if strategy.step in ("swap", "wait")}
        if not self._settings.gate:
            in_place |= {item.network for item in self.evaluation_of(machine).findings if item.is_swap}
        evaluation = self.evaluation_of(machine).without(in_place)
        if not machine.is_running or not evaluation.known:
            return machine, None
        outcome = migration_required(
            find(machine.status.conditions, MIGRATION_REQUIRED),
            evaluation.need,
            migrating=machine.is_migrating,
            now=self._now(),
        )
        if outcome.action != "keep":
            machine = await self._writer.set_instance_condition(
                machine, MIGRATION_REQUIRED, outcome.condition
            )
        return machine, outcome.recheck

    async def _annotate(self, machine: VirtualMachineInstance) -> None:
        """Ask the Dynamic Networks Controller for interfaces that come and go in the running pod. Raises KubeError."""
        pod = self._informers.launcher_of(machine)
        if pod is None or machine.is_migrating:
            return
        before = pod.metadata.annotations.get(MULTUS_NETWORKS)
        try:
            text = running_annotation(machine, pod)
        except ValueError:
            return  # reported as a condition
        if text is None or text == before:
            return
        meta, path = pod.metadata, "/metadata/annotations/" + MULTUS_NETWORKS.replace("/", "~1")
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
        steps = [test, {"op": "add", "path": path, "value": text}]
        try:
            with ignore_not_found(meta.name):
                await self._client.json_patch(PODS, meta.name, steps, meta.namespace, subresource="status")
        except Invalid:
            raise Conflict(409, "Conflict", f"Pod {meta.key} has changed since it was read") from None

    async def _clean_up(self, key: Key) -> None:
        for item in to_delete(self._informers.migrations_of(key), self._settings.limits):
            meta = item.metadata
            with ignore_not_found(meta.name):
                await self._client.delete(MIGRATIONS, meta.name, meta.namespace, uid=meta.uid)

    async def _report(
        self,
        mode: Mode,
        owner: VirtualMachine | None,
        machine: VirtualMachineInstance,
        strategies: Strategies,
    ) -> BlockingReason | None:
        evaluation = self.evaluation_of(machine)
        if not machine.is_running or not (evaluation.known or evaluation.error):
            return None
        state = self._state(mode, owner, machine, strategies, evaluation)
        blocking = blocking_reason(replace(state, waits=await self._targets.why_waiting(machine)))
        if blocking is not None and blocking.reason == "AttemptsExhausted":
            blocking = await self._taken_back(owner, machine, evaluation) or blocking
        blocking = self._unmigrated(machine.metadata.key, blocking)
        await self._write(machine, owner if mode.name == "full" else None, blocking, evaluation)
        return blocking

    def _unmigrated(self, key: Key, blocking: BlockingReason | None) -> BlockingReason | None:
        """Return why a machine that waits for its migration has none, where that can't be created."""
        if blocking is None or blocking.reason != "WaitingForMigration":
            self._without_migration.pop(key, None)
            return blocking
        error = self._without_migration.get(key)
        return _refusal(error, f"{blocking.message}: ") if error is not None else blocking

    async def _write(
        self,
        machine: VirtualMachineInstance,
        owner: VirtualMachine | None,
        blocking: BlockingReason | None,
        evaluation: Evaluation,
    ) -> None:
        """Write the condition, on the VirtualMachine `owner` too where one is given, and record what changed."""
        existing = find(machine.status.conditions, NETWORKS_CURRENT)
        wanted = networks_current(existing, blocking, evaluation.observed, now=self._now())
        if wanted is not None and wanted != existing:
            machine = await self._writer.set_instance_condition(machine, NETWORKS_CURRENT, wanted)
            await self._record(machine, existing, wanted)
        if owner is not None:
            await self._mirror(owner, wanted)

    def _state(
        self,
        mode: Mode,
        owner: VirtualMachine | None,
        machine: VirtualMachineInstance,
        strategies: Strategies,
        evaluation: Evaluation,
    ) -> MachineState:
        own = self._informers.migrations_of(machine.metadata.key)
        template = owner.spec.template if owner is not None else None
        doubled = doubled_names(template.spec, "spec.template.spec") if template is not None else ""
        swaps = self._informers.swaps_of(machine)
        return MachineState(
            mode=mode,
            machine=machine,
            evaluation=evaluation,
            strategies=strategies,
            against=self.against(machine),
            invalid=doubled or doubled_names(machine.spec, "spec"),
            own=own,
            past=failures_of(machine, own),
            until_restart="; ".join(
                item.status.message for item in swaps if item.status.phase == "UntilRestart"
            ),
            limits=self._limits(mode),
            gate=self._settings.gate,
        )

    def _limits(self, mode: Mode) -> Limits:
        """Return the limits of attempts: KubeVirt has none, but a change that is to be taken back then has its last."""
        limits = self._settings.limits
        return limits if mode.name == "full" or self._settings.revert else replace(limits, attempts=0)

    async def _taken_back(
        self, owner: VirtualMachine | None, machine: VirtualMachineInstance, evaluation: Evaluation
    ) -> BlockingReason | None:
        if owner is None or not self._settings.revert:
            return None
        text = await self._edits.revert(owner, evaluation)
        before = find(machine.status.conditions, NETWORKS_CURRENT)
        if not text and before is not None and before.reason == REVERTED:
            text = before.message  # the instance is to follow
        return BlockingReason(REVERTED, text) if text else None

    async def _record(
        self, machine: VirtualMachineInstance, old: Condition | None, new: Condition | None
    ) -> None:
        """Record an Event about a new reason that needs a user's action, and about its end."""
        if new is None or new.reason in _PASSING:
            return
        if old is not None and (old.status, old.reason) == (new.status, new.reason):
            return
        kind: Literal["Normal", "Warning"] = "Normal" if new.status == "True" else "Warning"
        draft = EventDraft(kind, f"Networks{new.reason}", new.message)
        await self._recorder.record(reference(VIRTUAL_MACHINE_INSTANCES, machine), (draft,))

    async def _mirror(self, owner: VirtualMachine, wanted: Condition | None) -> None:
        """Show the condition on the VirtualMachine too, as KubeVirt does with all conditions of an instance."""
        if find(owner.status.conditions, NETWORKS_CURRENT) != wanted:
            await self._writer.set_machine_condition(owner, NETWORKS_CURRENT, wanted)

    def _note(self, key: Key, blocking: BlockingReason | None) -> float | None:
        if blocking is None or blocking.reason != "PreflightFailed":
            self.blocked.discard(key)
            return None
        self.blocked.add(key)
        return BLOCKED_SECONDS


def _refusal(error: str, about: str = "") -> BlockingReason:
    return BlockingReason("Refused", f"{about}the API server refuses the change: {error}; it is tried again")


_PASSING = frozenset({"MovingInPlace", "Migrating", "WaitingForMigration", "MigrationPending", "BackingOff"})
"""Reasons that need no action of a user."""

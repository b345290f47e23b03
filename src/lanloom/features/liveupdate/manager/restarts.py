"""Say which machines need a restart: what was edited of them can't come into force while they run.

The template at the start is remembered as hashes on the instance, together with the generation of its VirtualMachine.
As long as that is the generation, nothing was edited, and nothing has to be read. Whole objects are read only of
machines that were edited since, and again only after another change.

Where KubeVirt keeps that template in a ControllerRevision, it is remembered at the first edit: a new leader would
otherwise make three requests for each machine of the cluster.
"""

from collections.abc import Sequence

from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VirtualMachine,
    VirtualMachineInstance,
    VmInterface,
    VmNic,
)
from lanloom.api.meta import Condition, Key, rfc3339
from lanloom.features.liveupdate.manager.context import MachineContext
from lanloom.features.liveupdate.manager.edits import template_of
from lanloom.features.liveupdate.manager.rawmachines import (
    CONTROLLER_REVISIONS,
    RAW_INSTANCES,
    RAW_MACHINES,
    RawMachine,
)
from lanloom.features.liveupdate.rules.start import (
    MESSAGE,
    RESTART_REQUIRED,
    STARTED_FROM,
    Start,
    first_seen,
    needs_restart,
    parse_start,
    recorded_generation,
    start_of,
)
from lanloom.features.liveupdate.rules.strategy import policy_of
from lanloom.kube.conditions import find
from lanloom.kube.lookup import get_or_none


class Restarts:
    """The condition RestartRequired of VirtualMachines."""

    def __init__(self, context: MachineContext) -> None:
        self._client, self._informers, self._modes = context.client, context.informers, context.modes
        self._writer, self._gate, self._now = context.writer, context.settings.gate, context.now
        self._known: dict[Key, tuple[object, bool]] = {}

    async def reconcile(self, key: Key) -> None:
        """Bring the condition of one VirtualMachine in place. Raises KubeError."""
        owner = self._informers.machines.store.get(key)
        if owner is None or owner.metadata.is_deleting or (await self._modes.get()).name != "full":
            self._known.pop(key, None)
            return
        machine = self._writer.instance(key)
        running = machine is not None and not machine.has_ended and self._informers.owner_of(machine) is owner
        if machine is None or not running:
            self._known.pop(key, None)
            await self._set(owner, False)
        elif not machine.metadata.is_deleting:
            await self._set(owner, await self._needs(owner, machine))

    async def _needs(self, owner: VirtualMachine, machine: VirtualMachineInstance) -> bool:
        start = parse_start(machine.metadata.annotations.get(STARTED_FROM, ""))
        if start is None:
            if _is_kept(owner, machine) and not _differ(owner, machine):
                return False
            start = await self._remember_start(owner, machine)
        if start.generation == owner.metadata.generation and not _differ(owner, machine):
            return False
        key = owner.metadata.key
        state = (
            owner.metadata.uid,
            owner.metadata.generation,
            start,
            policy_of(owner),
            machine.metadata.uid,
            machine.spec,
            machine.is_migratable,
        )
        known = self._known.get(key)
        if known is None or known[0] != state:
            self._known[key] = known = state, await self._compare(owner, machine, start)
        return known[1]

    async def _compare(self, owner: VirtualMachine, machine: VirtualMachineInstance, start: Start) -> bool:
        raw = await get_or_none(self._client, RAW_MACHINES, owner.metadata.key)
        instance = await get_or_none(self._client, RAW_INSTANCES, machine.metadata.key)
        if raw is None or instance is None or instance.metadata.uid != machine.metadata.uid:
            return False
        is_live = self._is_live(owner, machine)
        return needs_restart(start, template_of(raw.spec), instance.spec, lambda _name: is_live)

    def _is_live(self, owner: VirtualMachine, machine: VirtualMachineInstance) -> bool:
        """Return whether networks of the machine may change while it runs."""
        in_place = policy_of(owner) in ("in-place", "prefer-in-place")
        return self._gate and (machine.is_migratable or in_place)

    async def _remember_start(self, owner: VirtualMachine, machine: VirtualMachineInstance) -> Start:
        """Write down what the template is, as far as it is the one at the start."""
        meta = machine.metadata
        raw = await get_or_none(self._client, RAW_MACHINES, owner.metadata.key)
        instance = await get_or_none(self._client, RAW_INSTANCES, meta.key)
        if raw is None or instance is None:
            return Start(owner.metadata.generation)
        if raw.metadata.uid != owner.metadata.uid or instance.metadata.uid != meta.uid:
            return Start(owner.metadata.generation)
        start = await self._start_of(raw, instance, machine.status.virtual_machine_revision_name)
        annotations = {STARTED_FROM: start.text}
        patch = {"metadata": {"uid": meta.uid, "annotations": annotations}}
        await self._client.patch(VIRTUAL_MACHINE_INSTANCES, meta.name, patch, meta.namespace)
        return start

    async def _start_of(self, raw: RawMachine, instance: RawMachine, revision: str) -> Start:
        generation, recorded = raw.metadata.generation, recorded_generation(instance.metadata.annotations)
        template = template_of(raw.spec)
        if revision and recorded != generation:
            key = Key(instance.metadata.namespace, revision)
            kept = await get_or_none(self._client, CONTROLLER_REVISIONS, key)
            spec = kept.data.get("spec") if kept is not None else None
            if isinstance(spec, dict) and (first := template_of(spec)):
                return start_of(recorded or 0, first)
        return first_seen(generation, template, instance.spec, recorded)

    async def _set(self, owner: VirtualMachine, needed: bool) -> None:
        existing = find(owner.status.conditions, RESTART_REQUIRED)
        if needed and (existing is None or existing.status != "True"):
            stamp = rfc3339(self._now())
            wanted = Condition(
                type=RESTART_REQUIRED, status="True", message=MESSAGE, last_transition_time=stamp
            )
            await self._writer.set_machine_condition(owner, RESTART_REQUIRED, wanted)
        elif not needed and existing is not None:
            await self._writer.set_machine_condition(owner, RESTART_REQUIRED, None)


def _is_kept(owner: VirtualMachine, machine: VirtualMachineInstance) -> bool:
    """Return whether an instance has the present template, by KubeVirt's word, and KubeVirt keeps that."""
    has_present = recorded_generation(machine.metadata.annotations) == owner.metadata.generation
    return has_present and bool(machine.status.virtual_machine_revision_name)


def _differ(owner: VirtualMachine, machine: VirtualMachineInstance) -> bool:
    """Return whether networks differ in what is known of them: an edit may be older than what is remembered."""
    template = owner.spec.template
    if template is None:
        return False
    wanted, own = template.spec, machine.spec
    return _by_name(wanted.networks) != _by_name(own.networks) or _by_name(wanted.interfaces) != _by_name(
        own.interfaces
    )


def _by_name(items: Sequence[VmNic] | Sequence[VmInterface]) -> dict[str, object]:
    return {item.name: item for item in items}

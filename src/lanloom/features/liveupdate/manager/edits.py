"""Take the edits of VirtualMachines to their instances, each network by its strategy, and take back what failed."""

from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from lanloom.api.core import EventDraft
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    nad_of,
)
from lanloom.api.liveupdate import ACTIVE, FINAL, FORWARD, NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Condition, Key, rfc3339
from lanloom.features.liveupdate.manager.context import MachineContext
from lanloom.features.liveupdate.manager.rawmachines import RAW_MACHINES
from lanloom.features.liveupdate.rules.edits import INSTANCE, TEMPLATE, move_network, unedited
from lanloom.features.liveupdate.rules.evaluation import Evaluation, NetworkFinding
from lanloom.features.liveupdate.rules.networks import eligible_nodes
from lanloom.features.liveupdate.rules.preflight import Facts, Findings, check
from lanloom.features.liveupdate.rules.report import why_not_migratable
from lanloom.features.liveupdate.rules.strategy import (
    Difference,
    PlacementFacts,
    Strategy,
    differences,
    policy_of,
    strategy_of,
    swap_name,
)
from lanloom.features.liveupdate.rules.sync import (
    HOT_PLUG_ERROR,
    Sync,
    doubled_names,
    operations,
    sync,
    without_unplugged,
)
from lanloom.kube.conditions import find
from lanloom.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, ServerError
from lanloom.kube.events import reference
from lanloom.kube.lookup import get_or_none

log = structlog.get_logger(__name__)

Raw = dict[str, Any]
Strategies = tuple[tuple[Difference, Strategy], ...]

FAILURE = "Failure"
"""The condition of a VirtualMachine in which KubeVirt reports that something could not be done."""


class Edits:
    """The edits of all machines."""

    def __init__(self, context: MachineContext) -> None:
        self._client, self._informers, self._writer = context.client, context.informers, context.writer
        self._recorder, self._settings = context.recorder, context.settings
        self._act, self._now = context.act, context.now

    async def current_owner(
        self, owner: VirtualMachine | None, machine: VirtualMachineInstance, evaluation: Evaluation
    ) -> VirtualMachine | None:
        """Return the VirtualMachine; read again where a swap explains what differs, because it may have edited it."""
        if owner is None or not any(self._mover_of(machine, item) for item in evaluation.findings):
            return owner
        return await get_or_none(self._client, VIRTUAL_MACHINES, owner.metadata.key)

    def strategies(
        self, owner: VirtualMachine, machine: VirtualMachineInstance, observed: Mapping[str, str]
    ) -> Strategies:
        """Return what to do about each network whose NAD was edited."""
        found = differences(owner, machine, {name: _key(title) for name, title in observed.items()})
        return tuple((item, strategy_of(item, self._placement(owner, machine, item))) for item in found)

    def against(
        self, machine: VirtualMachineInstance, findings: tuple[NetworkFinding, ...]
    ) -> tuple[str, ...]:
        """Return what the preflight has against the migration that these findings ask for."""
        problems: list[str] = []
        for item in findings:
            if item.is_swap:
                leaves, enters = _key(item.observed), _key(item.wanted)
                problems += self._preflight(machine, item.network, leaves, enters).against_migration
        return tuple(dict.fromkeys(problems))

    def plan(self, owner: VirtualMachine, machine: VirtualMachineInstance, strategies: Strategies) -> Sync:
        """Return what the instance is to get now; nothing where names are doubled, which no patch could tell apart."""
        template = owner.spec.template
        wanted = template.spec if template is not None else VirtualMachineInstanceSpec()
        if doubled_names(wanted, "spec.template.spec") or doubled_names(machine.spec, "spec"):
            return Sync()
        copied = {item.network for item, strategy in strategies if strategy.step == "copy"}
        return sync(wanted, machine, copied.__contains__)

    async def apply(
        self, owner: VirtualMachine, machine: VirtualMachineInstance, strategies: Strategies
    ) -> VirtualMachineInstance:
        """Take the edit to the instance, as far as it may go, and begin swaps. Raises KubeError."""
        for item, strategy in strategies:
            if strategy.step == "swap":
                await self._begin_swap(owner, machine, item)
        plan = self.plan(owner, machine, strategies)
        if not plan:
            await self._clear_failure(owner)
            return machine
        raw = await self._template(owner) if plan.plugged else None
        try:
            written = await self._writer.change_instance(machine, operations(plan, machine, raw))
        except (Conflict, NotFound, ServerError):
            raise
        except ApiError as error:
            await self._report_failure(owner, error)
            raise
        networks = [item.name for item in plan.nads]
        log.info("machine-networks-synced", machine=str(machine.metadata.key), networks=networks)
        await self._warn(machine, [item for item, strategy in strategies if strategy.step == "copy"])
        await self._clear_failure(owner)
        return written

    async def drop_unplugged(
        self, owner: VirtualMachine, machine: VirtualMachineInstance | None
    ) -> VirtualMachine:
        """Take NICs out of a VirtualMachine that are unplugged from its instance. Raises KubeError.

        The instance is read again: the watch may lag behind a NIC that another leader has plugged in.
        """
        if not without_unplugged(owner, machine):
            return owner
        found = await get_or_none(self._client, VIRTUAL_MACHINE_INSTANCES, owner.metadata.key)
        if not (steps := without_unplugged(owner, found)):
            return owner
        written = await self._writer.change_machine(owner, steps)
        log.info("machine-nics-unplugged", machine=str(owner.metadata.key))
        return written

    async def _warn(self, machine: VirtualMachineInstance, moving: Iterable[Difference]) -> None:
        """Record what an owner should know of networks to which a migration is to take the machine."""
        texts = [
            text
            for item in moving
            for text in self._preflight(machine, item.network, item.present, item.wanted).warnings
        ]
        if texts:
            draft = EventDraft("Warning", "NetworksWarning", "; ".join(texts))
            await self._recorder.record(reference(VIRTUAL_MACHINE_INSTANCES, machine), (draft,))

    async def adopt(self, machine: VirtualMachineInstance, evaluation: Evaluation) -> VirtualMachineInstance:
        """Give an instance without a VirtualMachine the networks to which swaps have moved it. Raises KubeError."""
        for item in evaluation.findings:
            swap = self._mover_of(machine, item)
            if swap is not None and swap.status.phase == "Succeeded":
                machine = await self._follow(machine, swap)
        return machine

    async def catch_up(
        self, machine: VirtualMachineInstance, strategies: Strategies, evaluation: Evaluation
    ) -> VirtualMachineInstance:
        """Give an instance the networks of swaps that ended after another edit. Raises KubeError.

        The next move begins where the port is. Until then, instance and pod are of one mind, so nothing migrates.
        """
        stale = {item.network for item, _ in strategies if item.wanted not in (item.present, item.observed)}
        for item in evaluation.findings:
            swap = self._mover_of(machine, item) if item.network in stale else None
            if swap is not None and swap.status.phase == "Succeeded":
                machine = await self._follow(machine, swap)
        return machine

    async def _follow(self, machine: VirtualMachineInstance, swap: NetworkSwap) -> VirtualMachineInstance:
        own, spec = machine.metadata.namespace, swap.spec
        steps = move_network(machine.spec.networks, INSTANCE, spec.network, spec.target, own)
        return await self._writer.change_instance(machine, steps)

    def held(self, machine: VirtualMachineInstance) -> frozenset[str]:
        """Return the networks that a swap moves at this moment: what differs there is the swap's."""
        swaps = self._informers.swaps_of(machine)
        return frozenset(item.spec.network for item in swaps if item.status.phase in ACTIVE)

    async def revert(self, owner: VirtualMachine, evaluation: Evaluation) -> str:
        """Give the VirtualMachine the networks that its pod has, and return what was done. Raises KubeError.

        A network that was edited again since is left alone.
        """
        template, own = owner.spec.template, owner.metadata.namespace
        networks = template.spec.networks if template is not None else ()
        wanted = {item.name: str(nad_of(item.multus, own)) for item in networks if item.multus is not None}
        done = []
        for item in evaluation.findings:
            if item.is_swap and wanted.get(item.network) == item.wanted:
                steps = move_network(networks, TEMPLATE, item.network, _key(item.observed), own)
                owner = await self._writer.change_machine(owner, (unedited(owner), *steps))
                done.append(f"{item.network} from {item.wanted} to {item.observed}")
        if not done:
            return ""
        self._act("reverted")
        text = f"taken back after failed migrations: {', '.join(done)}"
        draft = EventDraft("Warning", "NetworksReverted", text)
        await self._recorder.record(reference(VIRTUAL_MACHINES, owner), (draft,))
        return text

    def _mover_of(self, machine: VirtualMachineInstance, item: NetworkFinding) -> NetworkSwap | None:
        """Return the swap that brought a network to where the pod has it."""
        moved = (
            swap
            for swap in self._informers.swaps_of(machine)
            if swap.spec.network == item.network
            and swap.spec.to == item.observed
            and swap.status.phase in FORWARD
        )
        return max(moved, key=lambda swap: swap.status.started_at, default=None)

    def _placement(
        self, owner: VirtualMachine, machine: VirtualMachineInstance, item: Difference
    ) -> PlacementFacts:
        swaps = {each.metadata.name: each for each in self._informers.swaps_of(machine)}
        own = [each for each in swaps.values() if each.spec.network == item.network]
        name = swap_name(owner, machine, item)
        pending = (
            each for each in own if each.metadata.name != name and each.status.phase not in ACTIVE | FINAL
        )
        before, after, network = item.observed or item.present, item.wanted, item.network
        return PlacementFacts(
            policy=policy_of(owner),
            gate=self._settings.gate,
            migratable=machine.is_migratable,
            why_not_migratable="" if machine.is_migratable else why_not_migratable(machine),
            against_migration=self._preflight(machine, network, item.present, after).against_migration,
            against_in_place=self._preflight(machine, network, before, after).against_in_place,
            under_way=next((each for each in own if each.status.phase in ACTIVE), None),
            attempt=swaps.get(name),
            pending=next(pending, None),
            migrating=machine.is_migrating or self._is_flying(machine.metadata.key),
        )

    def _is_flying(self, key: Key) -> bool:
        return any(not item.is_final for item in self._informers.migrations_of(key))

    def _preflight(self, machine: VirtualMachineInstance, network: str, leaves: Key, enters: Key) -> Findings:
        informers = self._informers
        return check(
            Facts(
                title=f"VirtualMachineInstance {machine.metadata.key}",
                network=network,
                leaves=leaves,
                enters=enters,
                machine=machine,
                pod=informers.launcher_of(machine),
                pods=informers.pods_of(machine),
                source=informers.nads.store.get(leaves),
                target=informers.nads.store.get(enters),
                eligible=eligible_nodes(machine, informers.nodes.store.items()),
                networks=informers.networks.seen_from(machine.metadata.namespace),
                isolation=self._settings.isolation,
            )
        )

    async def _begin_swap(
        self, owner: VirtualMachine, machine: VirtualMachineInstance, item: Difference
    ) -> None:
        meta, name = machine.metadata, swap_name(owner, machine, item)
        body = {
            "metadata": {"name": name},
            "spec": {
                "machine": meta.name,
                "uid": meta.uid,
                "network": item.network,
                "from": str(item.observed or item.present),
                "to": str(item.wanted),
            },
        }
        try:
            await self._client.create(NETWORK_SWAPS, body, meta.namespace)
        except AlreadyExists:
            return
        log.info("network-swap-requested", machine=str(meta.key), swap=name)

    async def _template(self, owner: VirtualMachine) -> Raw:
        """Return the machine's template with all fields. Raises Conflict if it is another one by now."""
        meta = owner.metadata
        found = await self._client.get(RAW_MACHINES, meta.name, meta.namespace)
        if (found.metadata.uid, found.metadata.generation) != (meta.uid, meta.generation):
            raise Conflict(409, "Conflict", f"VirtualMachine {meta.key} has changed since it was read")
        return template_of(found.spec)

    async def _report_failure(self, owner: VirtualMachine, error: ApiError) -> None:
        message = f"error encountered when trying to patch vmi: {error}"
        stamp = rfc3339(self._now())
        wanted = Condition(
            type=FAILURE, status="True", reason=HOT_PLUG_ERROR, message=message, last_transition_time=stamp
        )
        existing = find(owner.status.conditions, FAILURE)
        if existing is None or (existing.reason, existing.message) != (HOT_PLUG_ERROR, message):
            await self._writer.set_machine_condition(owner, FAILURE, wanted)

    async def _clear_failure(self, owner: VirtualMachine) -> None:
        existing = find(owner.status.conditions, FAILURE)
        if existing is not None and existing.reason == HOT_PLUG_ERROR:
            await self._writer.set_machine_condition(owner, FAILURE, None)


def template_of(spec: Raw) -> Raw:
    """Return the spec in the template of a VirtualMachine's spec."""
    template = spec.get("template")
    found = template.get("spec") if isinstance(template, dict) else None
    return found if isinstance(found, dict) else {}


def _key(title: str) -> Key:
    namespace, slash, name = title.partition("/")
    return Key(namespace, name) if slash else Key("", title)

"""Why the networks of a machine are not what they are to be: one reason, the one that needs help the most."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.features.liveupdate.rules.evaluation import Evaluation, Finding
from lanloom.features.liveupdate.rules.mode import GATE, Mode
from lanloom.features.liveupdate.rules.report import BlockingReason
from lanloom.features.liveupdate.rules.strategy import Difference, Step, Strategy
from lanloom.features.liveupdate.rules.updates import Failures, Limits, Migrations, is_target_of
from lanloom.kube.conditions import find

_SEVERITY: Mapping[Step, int] = {"blocked": 0, "restart": 1, "wait": 2, "swap": 2, "copy": 3}


WAITS = " waits: "
"""What is between a migration and what it waits for, in the message of a condition."""


class MachineState(Struct, frozen=True, kw_only=True):
    """All that is known of a machine whose networks may be about to change.

    `invalid` says what is wrong with its specification. `strategies` are those of networks whose NADs in the
    VirtualMachine are not the instance's. `evaluation` compares the instance with its pod, and `against` are the
    preflight's reasons against what that asks for. `own` are its migrations, `past` those that failed. `waits` is what
    one that is under way waits for; empty where nobody tells. `until_restart` is what a swap says that keeps a NIC on
    its network until the restart of the machine.
    """

    mode: Mode
    machine: VirtualMachineInstance
    evaluation: Evaluation
    strategies: tuple[tuple[Difference, Strategy], ...] = ()
    against: tuple[str, ...] = ()
    invalid: str = ""
    own: Migrations = ()
    past: Failures = Failures()
    limits: Limits = Limits()
    waits: str = ""
    until_restart: str = ""
    gate: bool = True


def blocking_reason(state: MachineState) -> BlockingReason | None:
    """Return why the networks are not current; None where they are."""
    if state.evaluation.error:
        return BlockingReason("Unreadable", state.evaluation.error)
    if state.invalid:
        return BlockingReason("InvalidSpec", state.invalid)
    if state.until_restart:
        return BlockingReason("UntilRestart", state.until_restart)
    return _edited(state) or _evaluated(state)


def _edited(state: MachineState) -> BlockingReason | None:
    """Return what keeps an edit from the instance."""
    if not state.strategies:
        return None
    mode = state.mode
    if mode.name == "restart":
        text = ", ".join(_change(item) for item, _ in state.strategies)
        return BlockingReason(
            "RestartRequired", f"{text}: {mode.reason}; restart the machine, or {mode.hint}"
        )
    held = [
        (_SEVERITY[strategy.step], BlockingReason(strategy.reason, f"{_change(item)}: {strategy.message}"))
        for item, strategy in state.strategies
        if strategy.reason is not None
    ]
    return min(held, key=lambda pair: pair[0])[1] if held else None


def _change(item: Difference) -> str:
    return f"{item.network}: from {item.observed or item.present} to {item.wanted}"


def _evaluated(state: MachineState) -> BlockingReason | None:
    """Return what the instance waits for."""
    findings = state.evaluation.findings
    if not findings:
        return None
    text = described(findings)
    if not state.gate and state.mode.name == "full" and any(item.is_swap for item in findings):
        remedy = "restart the machine, or start the manager with --live-update-nad-ref"
        return BlockingReason("FeatureGateOff", f"{text}: the feature gate {GATE} is off; {remedy}")
    if state.against:
        return BlockingReason("PreflightFailed", f"{text}: {'; '.join(state.against)}")
    if under_way := next((item for item in state.own if not item.is_final), None):
        waits = f"{WAITS}{state.waits}" if state.waits else ""
        name = f"VirtualMachineInstanceMigration {under_way.metadata.name}"
        return BlockingReason("Migrating", f"{text}: {name}{waits}")
    if state.past.is_exhausted(state.limits):
        remedy = "look after the cause, and edit the machine again"
        return BlockingReason("AttemptsExhausted", f"{text}: {_failed(state)}; {remedy}")
    if not state.mode.migrates:
        return BlockingReason(
            "StrategyUnset", f"{text}: nothing migrates the machine by itself; {state.mode.hint}"
        )
    if not state.machine.is_migratable:
        return BlockingReason(
            "NotMigratable", f"{text}: {why_not_migratable(state.machine)}; restart the machine"
        )
    if state.past.count:
        return BlockingReason("BackingOff", f"{text}: {_failed(state)}; another one follows")
    if state.evaluation.need == "pending":
        return BlockingReason("MigrationPending", f"{text}: migrates unless the launcher pod follows soon")
    return BlockingReason("WaitingForMigration", f"{text}: waits for its migration")


def _failed(state: MachineState) -> str:
    count = state.past.count
    how_many = "1 migration has failed" if count == 1 else f"{count} migrations in a row have failed"
    move = state.machine.status.migration_state
    is_last = move is not None and any(is_target_of(move, item) for item in state.own)
    why = move.failure_reason if move is not None and is_last else ""
    return f"{how_many} (the last one: {why})" if why else how_many


def described(findings: Iterable[Finding]) -> str:
    """Return networks that are to change, as `blue: from ns/a to ns/b`."""
    return ", ".join(
        f"{item.network}: from {item.observed or 'none'} to {item.wanted or 'none'}" for item in findings
    )


def why_not_migratable(machine: VirtualMachineInstance) -> str:
    """Return why a machine can't migrate, as KubeVirt says it."""
    found = find(machine.status.conditions, "LiveMigratable")
    if found is None:
        return "its condition LiveMigratable is missing"
    text = ": ".join(filter(None, (found.reason, found.message)))
    return f"its condition LiveMigratable is {found.status}" + (f" ({text})" if text else "")

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


class Standing(Struct, frozen=True, kw_only=True):
    """All that is known of a machine whose networks may be about to change.

    `invalid` says what is wrong with its specification. `strategies` are those of networks whose NADs in the VirtualMachine are not
    the instance's. `evaluation` compares the instance with its pod, and `against` are the preflight's reasons
    against what that asks for. `own` are its migrations, `past` those that failed. `waits` is what one that is under
    way waits for; empty where nobody tells. `until_restart` is what a swap says that keeps a NIC on its network until
    the restart of the machine.
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


def blocking_reason(standing: Standing) -> BlockingReason | None:
    """Return why the networks are not current; None where they are."""
    if standing.evaluation.error:
        return BlockingReason("Unreadable", standing.evaluation.error)
    if standing.invalid:
        return BlockingReason("InvalidSpec", standing.invalid)
    if standing.until_restart:
        return BlockingReason("UntilRestart", standing.until_restart)
    return _edited(standing) or _evaluated(standing)


def _edited(standing: Standing) -> BlockingReason | None:
    """Return what keeps an edit from the instance."""
    if not standing.strategies:
        return None
    mode = standing.mode
    if mode.name == "restart":
        text = ", ".join(_change(item) for item, _ in standing.strategies)
        return BlockingReason(
            "RestartRequired", f"{text}: {mode.reason}; restart the machine, or {mode.hint}"
        )
    held = [
        (_SEVERITY[strategy.step], BlockingReason(strategy.reason, f"{_change(item)}: {strategy.message}"))
        for item, strategy in standing.strategies
        if strategy.reason is not None
    ]
    return min(held, key=lambda pair: pair[0])[1] if held else None


def _change(item: Difference) -> str:
    return f"{item.network}: from {item.observed or item.present} to {item.wanted}"


def _evaluated(standing: Standing) -> BlockingReason | None:
    """Return what the instance waits for."""
    findings = standing.evaluation.findings
    if not findings:
        return None
    text = described(findings)
    if not standing.gate and standing.mode.name == "full" and any(item.is_swap for item in findings):
        remedy = "restart the machine, or start the manager with --live-update-nad-ref"
        return BlockingReason("FeatureGateOff", f"{text}: the feature gate {GATE} is off; {remedy}")
    if standing.against:
        return BlockingReason("PreflightFailed", f"{text}: {'; '.join(standing.against)}")
    if under_way := next((item for item in standing.own if not item.is_final), None):
        waits = f"{WAITS}{standing.waits}" if standing.waits else ""
        name = f"VirtualMachineInstanceMigration {under_way.metadata.name}"
        return BlockingReason("Migrating", f"{text}: {name}{waits}")
    if standing.past.is_exhausted(standing.limits):
        remedy = "look after the cause, and edit the machine again"
        return BlockingReason("AttemptsExhausted", f"{text}: {_failed(standing)}; {remedy}")
    if not standing.mode.migrates:
        return BlockingReason(
            "StrategyUnset", f"{text}: nothing migrates the machine by itself; {standing.mode.hint}"
        )
    if not standing.machine.is_migratable:
        return BlockingReason(
            "NotMigratable", f"{text}: {why_not_migratable(standing.machine)}; restart the machine"
        )
    if standing.past.count:
        return BlockingReason("BackingOff", f"{text}: {_failed(standing)}; another one follows")
    if standing.evaluation.need == "pending":
        return BlockingReason("MigrationPending", f"{text}: migrates unless the launcher pod follows soon")
    return BlockingReason("WaitingForMigration", f"{text}: waits for its migration")


def _failed(standing: Standing) -> str:
    count = standing.past.count
    how_many = "1 migration has failed" if count == 1 else f"{count} migrations in a row have failed"
    move = standing.machine.status.migration_state
    is_last = move is not None and any(is_target_of(move, item) for item in standing.own)
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

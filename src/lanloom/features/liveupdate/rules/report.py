"""The condition NetworksCurrent of an instance: whether its networks are those that it is to have, or why not.

There is one reason, the one that needs help the most. The condition is Lanloom's own in every mode. KubeVirt's
controllers leave conditions of an instance alone that they don't know, and show them on the VirtualMachine too;
conditions that another controller writes on a VirtualMachine they remove.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.meta import Condition, rfc3339
from lanloom.features.liveupdate.rules.evaluation import Evaluation, NetworkFinding
from lanloom.features.liveupdate.rules.mode import GATE, Mode
from lanloom.features.liveupdate.rules.strategy import Cause, Difference, Step, Strategy
from lanloom.features.liveupdate.rules.updates import Failures, Limits, Migrations, is_target_of
from lanloom.kube.conditions import find

NETWORKS_CURRENT = "NetworksCurrent"

CURRENT: Literal["Current"] = "Current"
REVERTED: Literal["Reverted"] = "Reverted"

MESSAGE_MAX = 1000

Why = (
    Cause
    | Literal[
        "Unreadable",
        "InvalidSpec",
        "Migrating",
        "WaitingForMigration",
        "MigrationPending",
        "BackingOff",
        "AttemptsExhausted",
        "StrategyUnset",
        "RestartRequired",
        "UntilRestart",
        "Reverted",
        "Refused",
    ]
)
"""The reasons of NetworksCurrent False. It is True with CURRENT, or with REVERTED if the change was taken back."""

REASONS: frozenset[str] = frozenset(text for part in get_args(Why) for text in get_args(part))

_SEVERITY: Mapping[Step, int] = {"blocked": 0, "restart": 1, "wait": 2, "swap": 2, "copy": 3}

MOVE_IN_PLACE = "lanloom vm move NAME NIC --to NAD --policy in-place"

WAITS = " waits: "
"""What is between a migration and what it waits for, in the message of a condition."""


class BlockingReason(Struct, frozen=True):
    """Why networks are not current."""

    reason: Why
    message: str


def networks_current(
    existing: Condition | None,
    blocking: BlockingReason | None,
    observed: Mapping[str, str],
    *,
    now: float,
) -> Condition | None:
    """Return the condition; None for a machine whose networks never were to change, which has none.

    `blocking` is None where all networks are current; `observed` are their NADs by the machine's names.
    """
    if blocking is not None:
        return _condition(existing, "False", blocking.reason, blocking.message, now)
    if existing is None:
        return None
    if existing.reason == REVERTED:
        return _condition(existing, "True", REVERTED, existing.message, now)
    places = ", ".join(f"{name} is on {nad}" for name, nad in sorted(observed.items()))
    return _condition(
        existing, "True", CURRENT, places or "there are no networks besides the pod network", now
    )


def _condition(existing: Condition | None, status: str, reason: str, message: str, now: float) -> Condition:
    text = message[:MESSAGE_MAX]
    if existing is not None and (existing.status, existing.reason, existing.message) == (
        status,
        reason,
        text,
    ):
        return existing
    moved = rfc3339(now) if existing is None or existing.status != status else existing.last_transition_time
    base = existing or Condition(type=NETWORKS_CURRENT, status=status)
    return replace(
        base, status=status, reason=reason, message=text, last_transition_time=moved, last_update_time=""
    )


class MachineState(Struct, frozen=True, kw_only=True):
    """All that is known of a machine whose networks may be about to change.

    `invalid` says what is wrong with its specification. `strategies` are those of networks whose NADs in the
    VirtualMachine are not the instance's. `evaluation` compares the instance with its pod, and `against` are the
    preflight's reasons against what that asks for. `own` are its migrations, `past` those that failed. `waits` is what
    one that is under way waits for; empty where that is unknown. `until_restart` is what a swap says that keeps a NIC
    on its network until the restart of the machine.
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
    under_way = next((item for item in state.own if not item.is_final), None)
    if under_way is None and not state.machine.is_migratable:
        moves = any(item.is_swap for item in findings)
        remedy = "restart the machine" + (f", or move its port there ({MOVE_IN_PLACE})" if moves else "")
        return BlockingReason("NotMigratable", f"{text}: {why_not_migratable(state.machine)}; {remedy}")
    if state.against and not (under_way is not None and under_way.is_placed):
        return BlockingReason("PreflightFailed", f"{text}: {'; '.join(state.against)}")
    if under_way is not None:
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
    if state.past.count:
        return BlockingReason("BackingOff", f"{text}: {_failed(state)}; another one follows")
    if state.evaluation.need == "pending":
        return BlockingReason("MigrationPending", f"{text}: migrates unless the launcher pod follows soon")
    pauses = f"; {state.mode.pauses}" if state.mode.pauses else ""
    return BlockingReason("WaitingForMigration", f"{text}: waits for its migration{pauses}")


def _failed(state: MachineState) -> str:
    count = state.past.count
    how_many = "1 migration has failed" if count == 1 else f"{count} migrations in a row have failed"
    move = state.machine.status.migration_state
    is_last = move is not None and any(is_target_of(move, item) for item in state.own)
    why = move.failure_reason if move is not None and is_last else ""
    return f"{how_many} (the last one: {why})" if why else how_many


def described(findings: Iterable[NetworkFinding]) -> str:
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

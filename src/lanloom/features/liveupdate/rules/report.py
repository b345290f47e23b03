"""The condition NetworksCurrent of an instance: whether its networks are those that it is to have, or why not.

It is Lanloom's own in every mode. KubeVirt's controllers leave conditions of an instance alone that they don't know,
and show them on the VirtualMachine too; conditions that somebody else writes on a VirtualMachine they remove.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.meta import Condition, rfc3339
from lanloom.features.liveupdate.rules.strategy import Cause

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

"""Conditions of a status as values: an unchanged condition stays equal, so that nothing is written for it."""

from typing import Literal

from msgspec.structs import replace

from lanloom.api.meta import Condition, rfc3339

ConditionStatus = Literal["True", "False", "Unknown"]


def find(conditions: tuple[Condition, ...], type: str) -> Condition | None:
    """Return the condition of that type."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: tuple[Condition, ...], type: str) -> bool:
    """Return whether there is a condition of that type, and it is True."""
    found = find(conditions, type)
    return found is not None and found.status == "True"


def set_condition(
    conditions: tuple[Condition, ...],
    *,
    type: str,
    status: ConditionStatus,
    reason: str = "",
    message: str = "",
    now: float,
) -> tuple[Condition, ...]:
    """Return the conditions with that one in place; equal to `conditions` if it says the same already.

    `lastTransitionTime` moves when the status does, `lastUpdateTime` when anything does. `now` is in seconds since the
    epoch.
    """
    stamp = rfc3339(now)
    old = find(conditions, type)
    if old is None:
        wanted = Condition(
            type=type,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=stamp,
            last_update_time=stamp,
        )
        return (*conditions, wanted)
    wanted = replace(old, status=status, reason=reason, message=message)
    if wanted == old:
        return conditions
    moved = stamp if status != old.status else old.last_transition_time
    wanted = replace(wanted, last_transition_time=moved, last_update_time=stamp)
    return tuple(wanted if condition is old else condition for condition in conditions)

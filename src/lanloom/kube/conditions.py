"""Conditions of a status as values: an unchanged condition stays equal, so that nothing is written for it.

Each condition names the generation of the object that it speaks of (`kubectl wait` believes no older one). `set_ready`
gives `Ready` its one meaning for all kinds of Lanloom's own, which clients of any kind understand, among them those
that follow kstatus: what the spec asks for is there and can be used. `Stalled` is set as well where it does not become
so by itself.
"""

from typing import Literal, NamedTuple

from msgspec.structs import replace

from lanloom.api.meta import Condition, rfc3339

ConditionStatus = Literal["True", "False", "Unknown"]

READY, STALLED = "Ready", "Stalled"


class Finding(NamedTuple):
    """The content of a condition, whatever its type."""

    status: ConditionStatus
    reason: str
    message: str = ""


def find(conditions: tuple[Condition, ...], type: str) -> Condition | None:
    """Return the condition of that type."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: tuple[Condition, ...], type: str) -> bool:
    """Return whether there is a condition of that type, and it is True."""
    found = find(conditions, type)
    return found is not None and found.status == "True"


def without(conditions: tuple[Condition, ...], type: str) -> tuple[Condition, ...]:
    """Return the conditions but for the one of that type."""
    return tuple(condition for condition in conditions if condition.type != type)


def set_condition(
    conditions: tuple[Condition, ...],
    *,
    type: str,
    status: ConditionStatus,
    reason: str = "",
    message: str = "",
    generation: int,
    now: float,
) -> tuple[Condition, ...]:
    """Return the conditions with that one in place; equal to `conditions` if it says the same already.

    `lastTransitionTime` moves when the status does, `lastUpdateTime` when anything does. `generation` is that of the
    object which the condition speaks of, 0 for a kind whose conditions name none. `now` is in seconds since the epoch.
    """
    stamp = rfc3339(now)
    old = find(conditions, type)
    if old is None:
        wanted = Condition(
            type=type,
            status=status,
            observed_generation=generation,
            reason=reason,
            message=message,
            last_transition_time=stamp,
            last_update_time=stamp,
        )
        return (*conditions, wanted)
    wanted = replace(old, status=status, observed_generation=generation, reason=reason, message=message)
    if wanted == old:
        return conditions
    moved = stamp if status != old.status else old.last_transition_time
    wanted = replace(wanted, last_transition_time=moved, last_update_time=stamp)
    return tuple(wanted if condition is old else condition for condition in conditions)


def with_finding(
    conditions: tuple[Condition, ...], type: str, finding: Finding | None, *, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return the conditions with the one of that type saying `finding`, or without it for None."""
    if finding is None:
        return without(conditions, type)
    status, reason, message = finding
    return set_condition(
        conditions, type=type, status=status, reason=reason, message=message, generation=generation, now=now
    )


def set_ready(
    conditions: tuple[Condition, ...],
    *,
    ready: bool,
    reason: str,
    message: str,
    stalled: bool = False,
    generation: int,
    now: float,
) -> tuple[Condition, ...]:
    """Return the conditions with `Ready`, and with `Stalled` if it is: a user has to change something."""
    conditions = set_condition(
        conditions,
        type=READY,
        status="True" if ready else "False",
        reason=reason,
        message=message,
        generation=generation,
        now=now,
    )
    if ready or not stalled:
        return without(conditions, STALLED)
    return set_condition(
        conditions,
        type=STALLED,
        status="True",
        reason=reason,
        message=message,
        generation=generation,
        now=now,
    )

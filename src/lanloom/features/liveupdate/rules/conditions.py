"""The condition MigrationRequired of a machine, as KubeVirt writes it; and conditions as JSON patches.

KubeVirt's lists of conditions have other writers, so an item is tested and changed in its place.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, to_builtins

from lanloom.api.meta import Condition, is_ahead, parse_rfc3339, rfc3339
from lanloom.features.liveupdate.rules.evaluation import Need

MIGRATION_REQUIRED = "MigrationRequired"
DUE, PENDING = "AutoMigrationDueToLiveUpdate", "AutoMigrationPending"
"""The reasons of MigrationRequired: a migration is needed now, or if the pod does not get its networks without one."""

GRACE_SECONDS = 15.0
"""How long networks may come and go in a running pod, as the Dynamic Networks Controller brings them."""

RECHECK_SECONDS = 10.0
"""After which a pending migration is looked at again."""

Operation = Mapping[str, Any]


class Outcome(Struct, frozen=True):
    """What to do about a condition: `keep` it, `remove` it, or `set` it to the value."""

    action: Literal["keep", "remove", "set"]
    condition: Condition | None = None
    recheck: float | None = None


KEEP = Outcome("keep")


def migration_required(existing: Condition | None, need: Need, *, migrating: bool, now: float) -> Outcome:
    """Return what becomes of the condition of a machine with that need."""
    if migrating:
        return KEEP
    if need == "none":
        return Outcome("remove") if existing is not None else KEEP
    if existing is not None and existing.status == "True":
        return KEEP
    since = _since(existing) if existing is not None else None
    is_over = since is not None and (now - since > GRACE_SECONDS or is_ahead(since, now))
    if need == "immediate" or is_over:
        return Outcome("set", _condition("True", DUE, now))
    if since is not None and existing is not None and existing.reason == PENDING:
        return Outcome("keep", recheck=RECHECK_SECONDS)
    return Outcome("set", _condition("False", PENDING, now), RECHECK_SECONDS)


def _since(condition: Condition) -> float | None:
    """Return when a migration that is pending became so; None where that is unknown, or where it is not."""
    if condition.status != "False":
        return None
    try:
        return parse_rfc3339(condition.last_transition_time)
    except ValueError:
        return None


def _condition(status: str, reason: str, now: float) -> Condition:
    return Condition(type=MIGRATION_REQUIRED, status=status, reason=reason, last_transition_time=rfc3339(now))


def condition_operations(
    conditions: Sequence[Condition], type: str, wanted: Condition | None
) -> tuple[Operation, ...]:
    """Return the operations that bring one condition into a list that is not empty, or take it out with None.

    `conditions` are those of an object's status as it was read.
    """
    index = next((number for number, item in enumerate(conditions) if item.type == type), None)
    if index is None:
        if wanted is None:
            return ()
        first = {"op": "test", "path": "/status/conditions/0/type", "value": conditions[0].type}
        return first, {"op": "add", "path": "/status/conditions/-", "value": wire(wanted)}
    path = f"/status/conditions/{index}"
    test = {"op": "test", "path": f"{path}/type", "value": type}
    if wanted is None:
        return test, {"op": "remove", "path": path}
    return test, {"op": "replace", "path": path, "value": wire(wanted)}


def wire(condition: Condition) -> dict[str, Any]:
    """Return the condition as KubeVirt writes it: with an empty time of a probe, and without that of an update."""
    body: dict[str, Any] = {"lastProbeTime": None} | to_builtins(condition)
    body.pop("lastUpdateTime", None)
    return body

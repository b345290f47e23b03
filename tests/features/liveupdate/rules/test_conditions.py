"""The condition MigrationRequired: what there is, what is needed, and what becomes of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.kubevirt import VirtualMachineInstanceStatus
from lanloom.api.meta import Condition, rfc3339
from lanloom.api.reading import convert
from lanloom.features.liveupdate.rules.conditions import (
    DUE,
    GRACE_SECONDS,
    MIGRATION_REQUIRED,
    PENDING,
    RECHECK_SECONDS,
    condition_operations,
    migration_required,
    wire,
)
from lanloom.features.liveupdate.rules.evaluation import Need
from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.patches import json_patch

NOW = 1_800_000_000.0


def existing(status: str, age: float = 0.0) -> Condition:
    """The condition as it was set some seconds ago."""
    reason = DUE if status == "True" else PENDING
    return Condition(
        type=MIGRATION_REQUIRED, status=status, reason=reason, last_transition_time=rfc3339(NOW - age)
    )


NONE, TRUE, FALSE, OLD = None, existing("True"), existing("False"), existing("False", GRACE_SECONDS + 1)


@pytest.mark.parametrize(
    ("before", "need", "action", "status"),
    [
        (NONE, "none", "keep", ""),
        (NONE, "pending", "set", "False"),
        (NONE, "immediate", "set", "True"),
        (FALSE, "none", "remove", ""),
        (FALSE, "pending", "keep", ""),
        (FALSE, "immediate", "set", "True"),
        (OLD, "pending", "set", "True"),
        (TRUE, "none", "remove", ""),
        (TRUE, "pending", "keep", ""),
        (TRUE, "immediate", "keep", ""),
    ],
)
def test_table(before: Condition | None, need: Need, action: str, status: str) -> None:
    """Nothing needed removes it, a need sets it, and one that is True stays."""
    found = migration_required(before, need, migrating=False, now=NOW)
    assert found.action == action
    assert (found.condition.status if found.condition is not None else "") == status
    if found.condition is not None:
        assert found.condition.reason == (DUE if status == "True" else PENDING)
        assert found.condition.last_transition_time == rfc3339(NOW)


@pytest.mark.parametrize("before", [NONE, FALSE, OLD, TRUE])
@pytest.mark.parametrize("need", ["none", "pending", "immediate"])
def test_nothing_is_written_while_a_migration_runs(before: Condition | None, need: Need) -> None:
    """A migration that runs may be bringing what is needed."""
    assert migration_required(before, need, migrating=True, now=NOW).action == "keep"


@pytest.mark.parametrize(
    ("age", "action"),
    [(GRACE_SECONDS - 1, "keep"), (GRACE_SECONDS, "keep"), (GRACE_SECONDS + 1, "set"), (-3600, "set")],
)
def test_grace(age: float, action: str) -> None:
    """What is pending is due after 15 seconds, or when the clock was set back, and is looked at again after 10."""
    found = migration_required(existing("False", age), "pending", migrating=False, now=NOW)
    assert found.action == action
    assert found.recheck == (RECHECK_SECONDS if action == "keep" else None)


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_time_of_others(time: str) -> None:
    """A pending condition whose time can't be read gets one, and so becomes due."""
    before = Condition(type=MIGRATION_REQUIRED, status="False", reason=PENDING, last_transition_time=time)
    found = migration_required(before, "pending", migrating=False, now=NOW)
    assert (found.action, found.recheck) == ("set", RECHECK_SECONDS)
    assert found.condition is not None and found.condition.status == "False"
    later = migration_required(found.condition, "pending", migrating=False, now=NOW + GRACE_SECONDS + 1)
    assert later.condition is not None and later.condition.status == "True"


types = st.lists(st.sampled_from(["Ready", MIGRATION_REQUIRED, "Paused"]), unique=True, min_size=1)


@given(types, st.booleans())
def test_patches_touch_one_condition(present: list[str], wanted: bool) -> None:
    """A patch brings one condition in or takes it out, and leaves others with all their fields."""
    others = [
        {"type": name, "status": "True", "unknown": {"a": None}, "lastProbeTime": None} for name in present
    ]
    raw: dict[str, Any] = {"status": {"conditions": others}}
    conditions = convert(raw["status"], VirtualMachineInstanceStatus).conditions
    target = existing("True") if wanted else None
    steps = [dict(step) for step in condition_operations(conditions, MIGRATION_REQUIRED, target)]
    after = json_patch(raw, steps)["status"]["conditions"]
    kept = [item for item in others if item["type"] != MIGRATION_REQUIRED]
    assert [item for item in after if item["type"] != MIGRATION_REQUIRED] == kept
    own = [item for item in after if item["type"] == MIGRATION_REQUIRED]
    assert own == ([wire(target)] if target is not None else [])


def test_form() -> None:
    """The condition has KubeVirt's form, without fields of other kinds."""
    assert wire(existing("True")) == {
        "lastProbeTime": None,
        "type": "MigrationRequired",
        "status": "True",
        "reason": "AutoMigrationDueToLiveUpdate",
        "lastTransitionTime": rfc3339(NOW),
    }


def test_moved_meanwhile() -> None:
    """A patch for a list that has changed since fails as a whole."""
    conditions = (Condition(type="Ready", status="True"), existing("True"))
    steps = [dict(step) for step in condition_operations(conditions, MIGRATION_REQUIRED, None)]
    raw: dict[str, Any] = {"status": {"conditions": [{"type": MIGRATION_REQUIRED}, {"type": "Ready"}]}}
    with pytest.raises(StatusError):
        json_patch(raw, steps)

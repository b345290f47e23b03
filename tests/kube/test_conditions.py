"""Conditions as values."""

from lanloom.api.meta import Condition
from lanloom.kube.conditions import find, set_condition

NOON, LATER = 1_767_268_800.0, 1_767_268_860.5
AT_NOON, AT_LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z"


def _ready(status: str = "True", **more: str) -> tuple[Condition, ...]:
    return set_condition((), type="ready", status=status, now=NOON, **more)  # type: ignore[arg-type]


def test_new_condition() -> None:
    """A condition that was not there is added after the others, changed and moved now."""
    both = set_condition(_ready(), type="L3Ready", status="False", reason="NoLease", message="No.", now=LATER)
    assert both == (
        Condition(type="ready", status="True", last_transition_time=AT_NOON, last_update_time=AT_NOON),
        Condition(
            type="L3Ready",
            status="False",
            reason="NoLease",
            message="No.",
            last_transition_time=AT_LATER,
            last_update_time=AT_LATER,
        ),
    )


def test_nothing_new() -> None:
    """A condition that says the same again changes nothing, its times included."""
    before = _ready(reason="Up", message="All is well.")
    assert (
        set_condition(before, type="ready", status="True", reason="Up", message="All is well.", now=LATER)
        is before
    )


def test_another_message() -> None:
    """Another reason or message is an update, not a transition."""
    [after] = set_condition(_ready("False"), type="ready", status="False", reason="Down", now=LATER)
    assert (after.reason, after.last_transition_time, after.last_update_time) == ("Down", AT_NOON, AT_LATER)


def test_another_status() -> None:
    """Another status is a transition; what no longer applies is emptied, and the order stays."""
    before = (*_ready(reason="Up", message="m"), Condition(type="other", status="True"))
    after = set_condition(before, type="ready", status="Unknown", now=LATER)
    assert after[0] == Condition(
        type="ready", status="Unknown", last_transition_time=AT_LATER, last_update_time=AT_LATER
    )
    assert after[1] is before[1]


def test_find() -> None:
    """A condition is found by its type, or isn't."""
    conditions = _ready()
    assert find(conditions, "ready") is conditions[0]
    assert find(conditions, "other") is None

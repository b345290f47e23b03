"""Conditions as values."""

from lanloom.api.meta import Condition
from lanloom.kube.conditions import find, set_condition, set_ready

NOON, LATER = 1_767_268_800.0, 1_767_268_860.5
AT_NOON, AT_LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z"


def _ready(status: str = "True", **more: str) -> tuple[Condition, ...]:
    return set_condition((), type="ready", status=status, generation=1, now=NOON, **more)  # type: ignore[arg-type]


def test_new_condition() -> None:
    """A condition that was not there is added after the others, changed and moved now."""
    both = set_condition(
        _ready(), type="L3Ready", status="False", reason="NoLease", message="No.", generation=2, now=LATER
    )
    assert both == (
        Condition(
            type="ready",
            status="True",
            observed_generation=1,
            last_transition_time=AT_NOON,
            last_update_time=AT_NOON,
        ),
        Condition(
            type="L3Ready",
            status="False",
            observed_generation=2,
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
        set_condition(
            before, type="ready", status="True", reason="Up", message="All is well.", generation=1, now=LATER
        )
        is before
    )


def test_another_message() -> None:
    """Another reason or message is an update, not a transition."""
    [after] = set_condition(
        _ready("False"), type="ready", status="False", reason="Down", generation=1, now=LATER
    )
    assert (after.reason, after.last_transition_time, after.last_update_time) == ("Down", AT_NOON, AT_LATER)


def test_another_status() -> None:
    """Another status is a transition; what no longer applies is emptied, and the order stays."""
    before = (*_ready(reason="Up", message="m"), Condition(type="other", status="True"))
    after = set_condition(before, type="ready", status="Unknown", generation=0, now=LATER)
    assert after[0] == Condition(
        type="ready", status="Unknown", last_transition_time=AT_LATER, last_update_time=AT_LATER
    )
    assert after[1] is before[1]


def test_find() -> None:
    """A condition is found by its type, or isn't."""
    conditions = _ready()
    assert find(conditions, "ready") is conditions[0]
    assert find(conditions, "other") is None


def test_another_generation() -> None:
    """The same words about a later generation are an update, and no transition."""
    [after] = set_condition(_ready(), type="ready", status="True", generation=2, now=LATER)
    assert (after.observed_generation, after.last_transition_time, after.last_update_time) == (
        2,
        AT_NOON,
        AT_LATER,
    )


def _types(conditions: tuple[Condition, ...]) -> dict[str, tuple[str, str, int]]:
    return {item.type: (item.status, item.reason, item.observed_generation) for item in conditions}


def test_stalled_is_beside_a_ready_that_somebody_has_to_help() -> None:
    """`Stalled` comes with such a reason, says the same, and goes when it is over."""
    said = set_ready((), ready=False, reason="InvalidSpec", message="m", stalled=True, generation=1, now=NOON)
    assert _types(said) == {"Ready": ("False", "InvalidSpec", 1), "Stalled": ("True", "InvalidSpec", 1)}
    said = set_ready(said, ready=False, reason="Pending", message="m", generation=2, now=NOON)
    assert _types(said) == {"Ready": ("False", "Pending", 2)}
    said = set_ready(said, ready=True, reason="Ready", message="m", stalled=True, generation=3, now=NOON)
    assert _types(said) == {"Ready": ("True", "Ready", 3)}

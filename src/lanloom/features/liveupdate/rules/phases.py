"""Decisions of all phases of a swap: enter one, end, take a step, turn back."""

from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.liveupdate import (
    COMPLETE,
    FINAL,
    MOVED,
    PREFLIGHT,
    NetworkSwap,
    NetworkSwapStatus,
    Phase,
    SwapPort,
)
from lanloom.api.meta import Condition, parse_rfc3339, rfc3339
from lanloom.features.liveupdate.rules.swapinputs import Decision, Step, SwapInputs
from lanloom.kube.conditions import ConditionStatus, set_condition, set_ready

RECORDING_SECONDS = 60.0

POLL_SECONDS = 5.0
"""How often a swap is looked at that nothing wakes."""

MESSAGE_MAX = 1000


def take(inputs: SwapInputs, step: Step) -> Decision:
    """Return the decision to take a step, unless it has been tried for too long."""
    if age_of(inputs) >= RECORDING_SECONDS:
        what = "launcher pod" if step == "pod" else "VirtualMachine"
        return turn_back(
            inputs, "RecordingFailed", f"the {what} could not be written within {RECORDING_SECONDS:.0f} s"
        )
    return Decision(status=inputs.swap.status, steps=(step,), wait=POLL_SECONDS)


def turn_back(inputs: SwapInputs, reason: str, why: str) -> Decision:
    """Return the decision to undo the swap."""
    status = with_condition(inputs, MOVED, "False", reason, why)
    events = (EventDraft("Warning", "NetworkSwapReverting", _titled(inputs.swap, why)),)
    return enter(inputs, status, "Reverting", why, events=events)


def port_of(inputs: SwapInputs) -> SwapPort | None:
    """Return the agent's report, if it is that of the node of this swap."""
    port = inputs.swap.status.port
    return port if port is not None and port.node == inputs.swap.status.node else None


def end(inputs: SwapInputs, phase: Phase, reason: str, message: str) -> Decision:
    """Return the decision to end the swap."""
    succeeded = phase == "Succeeded"
    status = with_condition(inputs, COMPLETE, "True" if succeeded else "False", reason, message)
    kind = PREFLIGHT if inputs.swap.status.phase in ("", "Pending") else MOVED
    if not succeeded:
        status = replace(status, conditions=conditions_with(inputs, status, kind, "False", reason, message))
    status = replace(status, completed_at=rfc3339(inputs.now))
    draft = EventDraft(
        "Normal" if succeeded else "Warning",
        f"NetworkSwap{phase}",
        _titled(inputs.swap, message),
    )
    return enter(inputs, status, phase, message, events=(draft,))


def enter(
    inputs: SwapInputs,
    status: NetworkSwapStatus,
    phase: Phase,
    message: str,
    *,
    events: tuple[EventDraft, ...] = (),
) -> Decision:
    """Return the decision to enter a phase."""
    conditions = set_ready(
        status.conditions,
        ready=phase == "Succeeded",
        reason=phase,
        message="" if phase == "Succeeded" else message[:MESSAGE_MAX],
        stalled=phase in FINAL,
        generation=inputs.swap.metadata.generation,
        now=inputs.now,
    )
    status = replace(status, conditions=conditions)
    entered = replace(status, phase=phase, message=message[:MESSAGE_MAX], phase_since=rfc3339(inputs.now))
    return Decision(status=entered, events=events, wait=None if phase in FINAL else POLL_SECONDS)


def with_condition(
    inputs: SwapInputs, type: str, status: ConditionStatus, reason: str, message: str
) -> NetworkSwapStatus:
    """Return the swap's status with a condition in place."""
    found = inputs.swap.status
    return replace(found, conditions=conditions_with(inputs, found, type, status, reason, message))


def conditions_with(
    inputs: SwapInputs,
    found: NetworkSwapStatus,
    type: str,
    status: ConditionStatus,
    reason: str,
    message: str,
) -> tuple[Condition, ...]:
    """Return the swap's conditions with one in place."""
    return set_condition(
        found.conditions,
        type=type,
        status=status,
        reason=reason,
        message=message[:MESSAGE_MAX],
        generation=inputs.swap.metadata.generation,
        now=inputs.now,
    )


def age_of(inputs: SwapInputs) -> float:
    """Return the seconds since the phase began."""
    return since(inputs.swap.status.phase_since, inputs.now)


def since(stamp: str, now: float) -> float:
    """Return the seconds since a time; 0 for one that is none."""
    try:
        return max(now - parse_rfc3339(stamp), 0.0)
    except ValueError:
        return 0.0


def _titled(swap: NetworkSwap, text: str) -> str:
    """Return a text of an Event, with the instance that it is about unless it begins with that."""
    title = title_of(swap)
    return (text if text.startswith(title) else f"{title}: {text}")[:MESSAGE_MAX]


def title_of(swap: NetworkSwap) -> str:
    """Return the instance of a swap for a message."""
    return f"VirtualMachineInstance {swap.metadata.namespace}/{swap.spec.machine}"

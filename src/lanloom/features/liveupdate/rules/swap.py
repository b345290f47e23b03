"""The phases of a swap: from all that is known of it to its status and what the manager does next.

    Pending ──► Moving ──► Recording ──► Succeeded
       │           │            │
       ▼           ▼            ▼
    Reverted    Reverting ◄─────┘
                   │ └────────────► Failed
                   ▼
                Reverted

The port follows the phase: the agent of the node brings it to `to` while the swap moves, and to `from` while it
reverts. What the manager itself does is known from the objects that it writes: a step is done when the pod, or the
machine, says so. So a manager can die after any write, and two may be at work: each step is conditional on what it
changes. When a step fails the steps before it are undone, the last one first.

A swap never begins beside a migration. One that begins meanwhile makes a swap revert as long as nothing is recorded:
the target pod is made for the network that the machine's spec names. Nor does one go on that namespace isolation
forbids, however far it was when that was switched on: the port goes back, and nothing of it stays recorded.
"""

from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.liveupdate import (
    BACK,
    COMPLETE,
    FINAL,
    FLAPPED,
    FORWARD,
    MOVED,
    PREFLIGHT,
    NetworkSwap,
    NetworkSwapStatus,
    Phase,
    SwapPort,
)
from lanloom.api.meta import Condition, parse_rfc3339, rfc3339
from lanloom.features.liveupdate.rules.course import Course, Decision, Step
from lanloom.kube.conditions import ConditionStatus, find, set_condition, set_ready
from lanloom.text import quote

PENDING_SECONDS = 300.0
"""How long a swap waits for its preflight, its addresses, or a migration before it gives up."""

MOVING_SECONDS = 30.0
"""How long a port may take to its new network before it is called back: a move takes less than a second."""

FLAP_SECONDS = 10.0
"""How long a guest's link is down at the most, where nothing tells that it is."""

RECORDING_SECONDS = 60.0
REVERTING_SECONDS = 300.0
"""How long a port may take back. A node that returns later brings its port back all the same."""

POLL_SECONDS = 5.0
"""How often a swap is looked at that nothing wakes."""

MESSAGE_MAX = 1000


def decide(course: Course) -> Decision:
    """Return what to do about a swap now."""
    phase = course.swap.status.phase
    if phase in FINAL:
        return Decision(status=course.swap.status)
    if phase in ("", "Pending"):
        return _pending(course)
    if _is_gone(course):
        return _ended_meanwhile(course)
    if phase == "Reverting":
        return _reverting(course)
    if course.forbidden:
        return _turn_back(course, "NamespaceIsolation", course.forbidden)
    return _moving(course) if phase == "Moving" else _recording(course)


def _pending(course: Course) -> Decision:
    swap, spec = course.swap, course.swap.spec
    if spec.source == spec.target:
        return _end(course, "Reverted", "InvalidSpec", f"spec.to is spec.from ({spec.to}); nothing was moved")
    if swap.metadata.is_deleting:
        return _end(course, "Reverted", "Deleted", f"{_title(swap)}: the swap was deleted; nothing was moved")
    if _is_another(course):
        why = f"{_title(swap)} with the uid {quote(spec.uid)} is not there: it was replaced or stopped"
        return _end(course, "Reverted", "Gone", f"{why}; nothing was moved")
    if course.rival:
        return _waiting(course, "Waiting", f"waits for NetworkSwap {course.rival}, which moves the same NIC")
    if problems := course.findings.against_in_place:
        message = "; ".join(problems)
        # What does not go by itself is told at once; a policy may choose the other way then.
        if not course.findings.passing:
            return _end(course, "Reverted", "PreflightFailed", f"{message}. Nothing was moved")
        return _waiting(course, "PreflightFailed", message)
    if course.claim.problem:
        return _end(course, "Reverted", "NoAddresses", f"{course.claim.problem}. Nothing was moved")
    if not course.claim.ready:
        return _waiting(course, "AddressesPending", f"waits for addresses of {spec.to}")
    machine = course.machine
    assert machine is not None
    warnings = "; ".join((*course.findings.in_place_warnings, *course.findings.warnings))
    status = replace(
        _with(course, PREFLIGHT, "True", "Warning" if warnings else "Passed", warnings),
        node=machine.status.node_name,
        pod=course.pod,
        pod_uid=course.pod_uid,
        addresses=course.claim.addresses,
        started_at=rfc3339(course.now),
    )
    events = (EventDraft("Warning", "NetworkSwapWarning", warnings[:MESSAGE_MAX]),) if warnings else ()
    return _enter(course, status, "Moving", f"moves from {spec.from_} to {spec.to}", events=events)


def _waiting(course: Course, reason: str, message: str) -> Decision:
    status = _with(course, PREFLIGHT, "False", reason, message)
    if course.swap.status.phase == "":
        return _enter(course, status, "Pending", message)
    if _age(course) >= PENDING_SECONDS:
        return _end(course, "Reverted", reason, f"{message}: no longer waited for. Nothing was moved")
    return Decision(status=replace(status, message=message[:MESSAGE_MAX]), wait=POLL_SECONDS)


def _moving(course: Course) -> Decision:
    swap, status = course.swap, course.swap.status
    port = _port(course)
    if port is not None and port.nad == swap.spec.to and port.phase in FORWARD:
        moved = _with(course, MOVED, "True", "Moved", f"{port.link} of {port.node} is on {swap.spec.to}")
        return _enter(course, moved, "Recording", f"is on {swap.spec.to}; being recorded")
    if port is not None and port.final and port.error:
        return _turn_back(course, "MoveFailed", port.error)
    if course.migrating:
        return _turn_back(
            course,
            "Migrating",
            f"the migration {course.migrating} began; a migration and a move in place can't be at once",
        )
    if _age(course) >= MOVING_SECONDS:
        why = port.error if port is not None and port.error else f"the agent of {status.node} did not answer"
        return _turn_back(course, "TimedOut", f"{why} (no success within {MOVING_SECONDS:.0f} s)")
    return Decision(status=status, wait=POLL_SECONDS)


def _recording(course: Course) -> Decision:
    swap, target = course.swap, course.swap.spec.target
    port = _port(course)
    if flapping(swap):
        return _flap(course)
    if course.refused:
        return _turn_back(course, "RecordingFailed", course.refused)
    if port is not None and port.nad == swap.spec.from_:
        return _turn_back(course, "Moved", f"the port is on {swap.spec.from_} again")
    if course.attached is None:
        return _turn_back(
            course, "RecordingFailed", f"the network-status of Pod {swap.status.pod} can't be read"
        )
    if course.attached != target:
        return _step(course, "pod")
    if swap.spec.record and course.named != target:
        if course.named != swap.spec.source:
            return _turn_back(course, "RecordingFailed", _changed(course))
        return _step(course, "machine")
    if swap.spec.flap and course.link in ("", "up") and find(swap.status.conditions, FLAPPED) is None:
        how = "Down" if course.link == "" else "DownFromUp"
        status = _with(course, FLAPPED, "False", how, "the guest's link goes down, and up again")
        return Decision(status=status, wait=0.0)
    return _succeeded(course, port)


def flapping(swap: NetworkSwap) -> bool:
    """Return whether the guest's link may be down because of the swap."""
    condition = find(swap.status.conditions, FLAPPED)
    return condition is not None and condition.status == "False"


def _flap(course: Course) -> Decision:
    """Set the guest's link down until it is, and then up. What can't be set down is no reason to take the move back."""
    condition = find(course.swap.status.conditions, FLAPPED)
    assert condition is not None
    over = _since(condition.last_transition_time, course.now) >= FLAP_SECONDS
    if condition.reason.startswith("Down"):
        if course.link == "down" and (course.guest_link == "down" or over):
            status = _with(
                course, FLAPPED, "False", condition.reason.replace("Down", "Up", 1), condition.message
            )
            return Decision(status=status, wait=0.0)
        if course.link != "down" and not over and not course.refused:
            return Decision(status=course.swap.status, steps=("link-down",), wait=1.0)
        if course.link == "down":
            return Decision(status=course.swap.status, wait=1.0)
        why = course.refused or "the VirtualMachine could not be written in time"
        return Decision(status=_with(course, FLAPPED, "Unknown", "NotFlapped", why), wait=0.0)
    if course.link == "down":
        return Decision(status=course.swap.status, steps=(_link_up(course.swap),), wait=1.0)
    return Decision(
        status=_with(course, FLAPPED, "True", "Flapped", "the guest has seen its link go"), wait=0.0
    )


def _link_up(swap: NetworkSwap) -> Step:
    condition = find(swap.status.conditions, FLAPPED)
    return "link-up" if condition is not None and condition.reason.endswith("FromUp") else "link-unset"


def _succeeded(course: Course, port: SwapPort | None) -> Decision:
    swap = course.swap
    gap = port.gap_milliseconds if port is not None else 0.0
    took = f"after {gap:.0f} ms without a network" if gap else "its agent restarted while it moved the port"
    message = f"{swap.spec.network} is on {swap.spec.to}, {took}"
    return _end(course, "Succeeded", "Moved", message)


def _changed(course: Course) -> str:
    spec = course.swap.spec
    found = f"is {course.named}" if course.named is not None else "is not there"
    return (
        f"VirtualMachine {course.swap.metadata.namespace}/{spec.machine}: the network {spec.network} {found} in its "
        f"spec, and not {spec.from_}; it was changed meanwhile"
    )


def _step(course: Course, step: Step) -> Decision:
    if _age(course) >= RECORDING_SECONDS:
        what = "launcher pod" if step == "pod" else "VirtualMachine"
        return _turn_back(
            course, "RecordingFailed", f"the {what} could not be written within {RECORDING_SECONDS:.0f} s"
        )
    return Decision(status=course.swap.status, steps=(step,), wait=POLL_SECONDS)


def _turn_back(course: Course, reason: str, why: str) -> Decision:
    status = _with(course, MOVED, "False", reason, why)
    events = (EventDraft("Warning", "NetworkSwapReverting", f"{_title(course.swap)}: {why}"[:MESSAGE_MAX]),)
    return _enter(course, status, "Reverting", why, events=events)


def _reverting(course: Course) -> Decision:
    """Undo what was recorded, the last first, while the agent brings the port back."""
    swap, port = course.swap, _port(course)
    undo = _undo(course)
    back = port is not None and port.nad == swap.spec.from_ and port.phase in BACK
    if back and not undo:
        return _end(
            course,
            "Reverted",
            "MovedBack",
            f"{swap.spec.network} is on {swap.spec.from_}: {swap.status.message}",
        )
    if _age(course) < REVERTING_SECONDS:
        return Decision(status=swap.status, steps=undo[:1], wait=POLL_SECONDS)
    return _end(course, "Failed", "NotMovedBack", f"{_known(course, undo)}; first: {swap.status.message}")


def _undo(course: Course) -> tuple[Step, ...]:
    spec = course.swap.spec
    steps: list[Step] = []
    if flapping(course.swap) and course.link == "down":
        steps.append(_link_up(course.swap))
    if spec.record and course.named == spec.target:
        steps.append("machine-back")
    if course.attached == spec.target:
        steps.append("pod-back")
    return tuple(steps)


def _known(course: Course, undo: tuple[Step, ...]) -> str:
    """What is known of a swap that could not be taken back."""
    swap, port = course.swap, _port(course)
    parts = []
    if port is not None and port.error and not port.nad:
        parts.append(f"the port {port.link} of {port.node} is on neither network: {port.error}")
    elif port is None or not port.nad:
        parts.append(f"the agent of {swap.status.node} did not say where the port is; see to that node")
    elif port.nad != swap.spec.from_:
        parts.append(f"the port is on {port.nad}" + (f" ({port.error})" if port.error else ""))
    if "machine-back" in undo:
        parts.append(f"the VirtualMachine names {swap.spec.to}")
    if "pod-back" in undo:
        parts.append(f"the launcher pod says {swap.spec.to}")
    if course.refused:
        parts.append(course.refused)
    return "; ".join(parts)


def _ended_meanwhile(course: Course) -> Decision:
    """The pod whose port it was is gone: whatever runs next gets the network of the machine's spec."""
    swap, spec = course.swap, course.swap.spec
    if flapping(swap) and course.link == "down":
        return Decision(status=swap.status, steps=(_link_up(swap),), wait=POLL_SECONDS)
    if spec.record and course.named == spec.target and swap.status.phase == "Reverting":
        return Decision(status=swap.status, steps=("machine-back",), wait=POLL_SECONDS)
    where = course.named or spec.source
    message = f"{_title(swap)} was stopped or moved to another node meanwhile; its port is gone"
    if spec.record and course.named == spec.target:
        return _end(course, "Succeeded", "Restarted", f"{message}, and it starts on {where}")
    return _end(course, "Reverted", "Restarted", f"{message}, and it starts on {where}")


def _is_gone(course: Course) -> bool:
    return _is_another(course) or course.pod_uid != course.swap.status.pod_uid


def _is_another(course: Course) -> bool:
    machine, spec = course.machine, course.swap.spec
    return machine is None or machine.has_ended or (spec.uid != "" and machine.metadata.uid != spec.uid)


def _port(course: Course) -> SwapPort | None:
    """The agent's report, if it is that of the node of this swap."""
    port = course.swap.status.port
    return port if port is not None and port.node == course.swap.status.node else None


def _end(course: Course, phase: Phase, reason: str, message: str) -> Decision:
    succeeded = phase == "Succeeded"
    status = _with(course, COMPLETE, "True" if succeeded else "False", reason, message)
    kind = PREFLIGHT if course.swap.status.phase in ("", "Pending") else MOVED
    if not succeeded:
        status = replace(status, conditions=_conditions(course, status, kind, "False", reason, message))
    status = replace(status, completed_at=rfc3339(course.now))
    draft = EventDraft(
        "Normal" if succeeded else "Warning",
        f"NetworkSwap{phase}",
        f"{_title(course.swap)}: {message}"[:MESSAGE_MAX],
    )
    return _enter(course, status, phase, message, events=(draft,))


def _enter(
    course: Course,
    status: NetworkSwapStatus,
    phase: Phase,
    message: str,
    *,
    events: tuple[EventDraft, ...] = (),
) -> Decision:
    conditions = set_ready(
        status.conditions,
        ready=phase == "Succeeded",
        reason=phase,
        message="" if phase == "Succeeded" else message[:MESSAGE_MAX],
        stalled=phase in FINAL,
        generation=course.swap.metadata.generation,
        now=course.now,
    )
    status = replace(status, conditions=conditions)
    entered = replace(status, phase=phase, message=message[:MESSAGE_MAX], phase_since=rfc3339(course.now))
    return Decision(status=entered, events=events, wait=None if phase in FINAL else POLL_SECONDS)


def _with(course: Course, type: str, status: ConditionStatus, reason: str, message: str) -> NetworkSwapStatus:
    found = course.swap.status
    return replace(found, conditions=_conditions(course, found, type, status, reason, message))


def _conditions(
    course: Course,
    found: NetworkSwapStatus,
    type: str,
    status: ConditionStatus,
    reason: str,
    message: str,
) -> tuple[Condition, ...]:
    return set_condition(
        found.conditions,
        type=type,
        status=status,
        reason=reason,
        message=message[:MESSAGE_MAX],
        generation=course.swap.metadata.generation,
        now=course.now,
    )


def _age(course: Course) -> float:
    return _since(course.swap.status.phase_since, course.now)


def _since(stamp: str, now: float) -> float:
    try:
        return max(now - parse_rfc3339(stamp), 0.0)
    except ValueError:
        return 0.0


def _title(swap: NetworkSwap) -> str:
    return f"VirtualMachineInstance {swap.metadata.namespace}/{swap.spec.machine}"

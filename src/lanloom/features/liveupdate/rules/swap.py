"""The phases of a swap: from all that is known of it to its status and what the manager does next.

    Pending ─► (Syncing) ─► Moving ──► Recording ──► (UntilRestart) ──► Succeeded
       │           │            │           │               │
       ▼           ▼            ▼           │               │
    Reverted    Reverting ◄─────┴───────────┴───────────────┘
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
from lanloom.api.liveupdate import BACK, FINAL, FORWARD, MOVED, PREFLIGHT
from lanloom.api.meta import rfc3339
from lanloom.features.liveupdate.rules.course import Course, Decision, Step
from lanloom.features.liveupdate.rules.phases import (
    MESSAGE_MAX,
    POLL_SECONDS,
    age_of,
    end,
    enter,
    port_of,
    title_of,
    turn_back,
    with_condition,
)
from lanloom.features.liveupdate.rules.recording import (
    FOLLOW_SECONDS,
    flapping,
    link_up,
    recording,
    syncing,
    until_restart,
)
from lanloom.text import quote

PENDING_SECONDS = 300.0
"""How long a swap waits for its preflight, its addresses, or a migration before it gives up."""

MOVING_SECONDS = 30.0
"""How long a port may take to its new network before it is called back: a move takes less than a second."""

REVERTING_SECONDS = 300.0
"""How long a port may take back. A node that returns later brings its port back all the same."""


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
        return turn_back(course, "NamespaceIsolation", course.forbidden)
    if phase == "Syncing":
        return syncing(course)
    if phase == "UntilRestart":
        return until_restart(course)
    return _moving(course) if phase == "Moving" else recording(course)


def _pending(course: Course) -> Decision:
    swap, spec = course.swap, course.swap.spec
    if spec.source == spec.target:
        return end(course, "Reverted", "InvalidSpec", f"spec.to is spec.from ({spec.to}); nothing was moved")
    if swap.metadata.is_deleting:
        return end(
            course, "Reverted", "Deleted", f"{title_of(swap)}: the swap was deleted; nothing was moved"
        )
    if _is_another(course):
        why = f"{title_of(swap)} with the uid {quote(spec.uid)} is not there: it was replaced or stopped"
        return end(course, "Reverted", "Gone", f"{why}; nothing was moved")
    if course.rival:
        return _waiting(course, "Waiting", f"waits for NetworkSwap {course.rival}, which moves the same NIC")
    if problems := course.findings.against_in_place:
        message = "; ".join(problems)
        # What does not go by itself is told at once; a policy may choose the other way then.
        if not course.findings.passing:
            return end(course, "Reverted", "PreflightFailed", f"{message}. Nothing was moved")
        return _waiting(course, "PreflightFailed", message)
    if course.claim.problem:
        return end(course, "Reverted", "NoAddresses", f"{course.claim.problem}. Nothing was moved")
    if not course.claim.ready:
        return _waiting(course, "AddressesPending", f"waits for addresses of {spec.to}")
    if why := _not_followed(course):
        return end(course, "Reverted", "NotFollowed", f"{why}. Nothing was moved")
    if course.beside and not course.held:
        return Decision(status=swap.status, steps=("hold",), wait=POLL_SECONDS)
    machine = course.machine
    assert machine is not None
    warnings = "; ".join((*course.findings.in_place_warnings, *course.findings.warnings))
    status = replace(
        with_condition(course, PREFLIGHT, "True", "Warning" if warnings else "Passed", warnings),
        node=machine.status.node_name,
        pod=course.pod,
        pod_uid=course.pod_uid,
        addresses=course.claim.addresses,
        former_result=course.reported,
        started_at=rfc3339(course.now),
    )
    events = (EventDraft("Warning", "NetworkSwapWarning", warnings[:MESSAGE_MAX]),) if warnings else ()
    if course.beside and course.asked != spec.target and not machine.is_migratable:
        return enter(course, status, "Syncing", "edits the VirtualMachine", events=events)
    return enter(course, status, "Moving", f"moves from {spec.from_} to {spec.to}", events=events)


def _not_followed(course: Course) -> str:
    """Return why no instance would follow a move: beside KubeVirt, it follows its VirtualMachine alone."""
    spec = course.swap.spec
    if not course.beside or course.asked == spec.target or (spec.record and course.named is not None):
        return ""
    remedy = "create the NetworkSwap with spec.record" if course.named is not None else "restart it"
    return (
        f"{title_of(course.swap)} names {course.asked}, and beside KubeVirt, it follows its VirtualMachine alone; "
        f"{remedy}"
    )


def _waiting(course: Course, reason: str, message: str) -> Decision:
    status = with_condition(course, PREFLIGHT, "False", reason, message)
    if course.swap.status.phase == "":
        return enter(course, status, "Pending", message)
    if age_of(course) >= PENDING_SECONDS:
        return end(course, "Reverted", reason, f"{message}: no longer waited for. Nothing was moved")
    let_go: tuple[Step, ...] = ("release",) if course.held else ()
    return Decision(status=replace(status, message=message[:MESSAGE_MAX]), steps=let_go, wait=POLL_SECONDS)


def _moving(course: Course) -> Decision:
    swap, status = course.swap, course.swap.status
    port = port_of(course)
    if port is not None and port.nad == swap.spec.to and port.phase in FORWARD:
        moved = with_condition(
            course, MOVED, "True", "Moved", f"{port.link} of {port.node} is on {swap.spec.to}"
        )
        return enter(course, moved, "Recording", f"is on {swap.spec.to}; being recorded")
    if port is not None and port.final and port.error:
        return turn_back(course, "MoveFailed", port.error)
    if course.migrating:
        return turn_back(
            course,
            "Migrating",
            f"the migration {course.migrating} began; a migration and a move in place can't be at once",
        )
    if age_of(course) >= MOVING_SECONDS:
        why = port.error if port is not None and port.error else f"the agent of {status.node} did not answer"
        return turn_back(course, "TimedOut", f"{why} (no success within {MOVING_SECONDS:.0f} s)")
    return Decision(status=status, wait=POLL_SECONDS)


def _reverting(course: Course) -> Decision:
    """Undo what was recorded, the last first, while the agent brings the port back."""
    swap, port = course.swap, port_of(course)
    undo = _undo(course)
    back = port is not None and port.nad == swap.spec.from_ and port.phase in BACK
    if back and not undo and not _is_ahead(course):
        return end(
            course,
            "Reverted",
            "MovedBack",
            f"{swap.spec.network} is on {swap.spec.from_}: {swap.status.message}",
        )
    if age_of(course) < REVERTING_SECONDS:
        return Decision(status=swap.status, steps=undo[:1], wait=POLL_SECONDS)
    return end(course, "Failed", "NotMovedBack", f"{_known(course, undo)}; first: {swap.status.message}")


def _undo(course: Course) -> tuple[Step, ...]:
    spec = course.swap.spec
    steps: list[Step] = []
    if flapping(course.swap) and course.link == "down":
        steps.append(link_up(course.swap))
    if spec.record and course.named == spec.target:
        steps.append("machine-back")
    if course.attached == spec.target:
        steps.append("pod-back")
    return tuple(steps)


def _is_ahead(course: Course) -> bool:
    """Return whether the instance is yet to follow its VirtualMachine back."""
    spec = course.swap.spec
    return course.beside and (course.named, course.asked) == (spec.source, spec.target)


def _known(course: Course, undo: tuple[Step, ...]) -> str:
    """Return what is known of a swap that could not be taken back."""
    swap, port = course.swap, port_of(course)
    parts = []
    if port is not None and port.error and not port.nad:
        parts.append(f"the port {port.link} of {port.node} is on neither network: {port.error}")
    elif port is None or not port.nad:
        parts.append(f"the agent of {swap.status.node} did not say where the port is; see to that node")
    elif port.nad != swap.spec.from_:
        parts.append(f"the port is on {port.nad}" + (f" ({port.error})" if port.error else ""))
    if "machine-back" in undo:
        parts.append(f"the VirtualMachine names {swap.spec.to}")
    if _is_ahead(course):
        parts.append(f"the instance names {swap.spec.to}")
    if "pod-back" in undo:
        parts.append(f"the launcher pod says {swap.spec.to}")
    if course.refused:
        parts.append(course.refused)
    return "; ".join(parts)


def _ended_meanwhile(course: Course) -> Decision:
    """Return the pod whose port it was is gone: whatever runs next gets the network of the machine's spec."""
    swap, spec = course.swap, course.swap.spec
    if flapping(swap) and course.link == "down":
        return Decision(status=swap.status, steps=(link_up(swap),), wait=POLL_SECONDS)
    if spec.record and course.named == spec.target and swap.status.phase == "Reverting":
        return Decision(status=swap.status, steps=("machine-back",), wait=POLL_SECONDS)
    if waits := _not_alike(course):
        return waits
    where = course.named or spec.source
    message = f"{title_of(swap)} was stopped or moved to another node meanwhile; its port is gone"
    if spec.record and course.named == spec.target:
        return end(course, "Succeeded", "Restarted", f"{message}, and it starts on {where}")
    return end(course, "Reverted", "Restarted", f"{message}, and it starts on {where}")


def _not_alike(course: Course) -> Decision | None:
    """Wait for an instance that migrated to name what its VirtualMachine names; take the edit back if it does not."""
    swap, named = course.swap, course.named
    if not course.beside or _is_another(course) or named is None or course.asked == named:
        return None
    if swap.status.phase == "Reverting":
        return Decision(status=swap.status, wait=1.0) if age_of(course) < REVERTING_SECONDS else None
    if age_of(course) < FOLLOW_SECONDS or not swap.spec.record or named != swap.spec.target:
        return Decision(status=swap.status, wait=1.0) if age_of(course) < FOLLOW_SECONDS else None
    return turn_back(
        course, "NotFollowed", f"KubeVirt did not take {swap.spec.to} to the instance after its migration"
    )


def _is_gone(course: Course) -> bool:
    return _is_another(course) or course.pod_uid != course.swap.status.pod_uid


def _is_another(course: Course) -> bool:
    machine, spec = course.machine, course.swap.spec
    return machine is None or machine.has_ended or (spec.uid != "" and machine.metadata.uid != spec.uid)

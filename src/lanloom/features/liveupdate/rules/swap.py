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

A swap never begins during a migration. One that begins meanwhile makes a swap revert as long as nothing is recorded:
the target pod is made for the network that the machine's spec names. Nor does one go on that namespace isolation
forbids, however far it was when that was switched on: the port goes back, and nothing of it stays recorded.
"""

from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.liveupdate import BACK, FINAL, FORWARD, MOVED, PREFLIGHT
from lanloom.api.meta import rfc3339
from lanloom.features.liveupdate.rules.launcher import nic_of
from lanloom.features.liveupdate.rules.phases import (
    MESSAGE_MAX,
    POLL_SECONDS,
    Decision,
    Step,
    SwapInputs,
    age_of,
    begins_again,
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


def decide(inputs: SwapInputs) -> Decision:
    """Return what to do about a swap now."""
    phase = inputs.swap.status.phase
    if phase in FINAL:
        return Decision(status=inputs.swap.status)
    if begins_again(inputs):
        return Decision(status=replace(inputs.swap.status, phase_since=rfc3339(inputs.now)), wait=0.0)
    if phase in ("", "Pending"):
        return _pending(inputs)
    if _is_gone(inputs):
        return _ended_meanwhile(inputs)
    if _is_unplugged(inputs):
        why = f"{title_of(inputs.swap)}: the NIC {inputs.swap.spec.network} was unplugged meanwhile; its port is gone"
        return end(inputs, "Reverted", "Unplugged", why)
    if phase == "Reverting":
        return _reverting(inputs)
    if inputs.forbidden:
        return turn_back(inputs, "NamespaceIsolation", inputs.forbidden)
    if phase == "Syncing":
        return syncing(inputs)
    if phase == "UntilRestart":
        return until_restart(inputs)
    return _moving(inputs) if phase == "Moving" else recording(inputs)


def _pending(inputs: SwapInputs) -> Decision:
    swap, spec = inputs.swap, inputs.swap.spec
    if spec.source == spec.target:
        return end(inputs, "Reverted", "InvalidSpec", f"spec.to is spec.from ({spec.to}); nothing was moved")
    if swap.metadata.is_deleting:
        return end(
            inputs, "Reverted", "Deleted", f"{title_of(swap)}: the swap was deleted; nothing was moved"
        )
    if _is_another(inputs):
        why = f"{title_of(swap)} with the uid {quote(spec.uid)} is not there: it was replaced or stopped"
        return end(inputs, "Reverted", "Gone", f"{why}; nothing was moved")
    if inputs.conflicting:
        return _waiting(
            inputs, "Waiting", f"waits for NetworkSwap {inputs.conflicting}, which moves the same NIC"
        )
    if problems := inputs.findings.against_in_place:
        message = "; ".join(problems)
        # What does not go by itself is reported at once; a policy may choose the other way then.
        if not inputs.findings.passing:
            return end(inputs, "Reverted", "PreflightFailed", f"{message}. Nothing was moved")
        return _waiting(inputs, "PreflightFailed", message)
    if inputs.claim.problem:
        return end(inputs, "Reverted", "NoAddresses", f"{inputs.claim.problem}. Nothing was moved")
    if not inputs.claim.ready:
        return _waiting(inputs, "AddressesPending", f"waits for addresses of {spec.to}")
    if why := _not_followed(inputs):
        return end(inputs, "Reverted", "NotFollowed", f"{why}. Nothing was moved")
    if inputs.snapshot and (spec.record or spec.flap):
        why = f"the VirtualMachine can't be edited before its snapshot {inputs.snapshot} is done"
        return _waiting(inputs, "SnapshotInProgress", f"{title_of(swap)}: {why}")
    if inputs.with_kubevirt and not inputs.held:
        return Decision(status=swap.status, steps=("hold",), wait=POLL_SECONDS)
    machine = inputs.machine
    assert machine is not None
    warnings = "; ".join((*inputs.findings.in_place_warnings, *inputs.findings.warnings))
    status = replace(
        with_condition(inputs, PREFLIGHT, "True", "Warning" if warnings else "Passed", warnings),
        node=machine.status.node_name,
        pod=inputs.pod,
        pod_uid=inputs.pod_uid,
        addresses=inputs.claim.addresses,
        former_result=inputs.reported,
        started_at=rfc3339(inputs.now),
    )
    events = (EventDraft("Warning", "NetworkSwapWarning", warnings[:MESSAGE_MAX]),) if warnings else ()
    if inputs.with_kubevirt and inputs.asked != spec.target and not machine.is_migratable:
        return enter(inputs, status, "Syncing", "edits the VirtualMachine", events=events)
    return enter(inputs, status, "Moving", f"moves from {spec.from_} to {spec.to}", events=events)


def _not_followed(inputs: SwapInputs) -> str:
    """Return why no instance would follow a move: alongside KubeVirt, it follows its VirtualMachine alone."""
    spec = inputs.swap.spec
    if not inputs.with_kubevirt or inputs.asked == spec.target or (spec.record and inputs.named is not None):
        return ""
    remedy = "create the NetworkSwap with spec.record" if inputs.named is not None else "restart it"
    return (
        f"{title_of(inputs.swap)} names {inputs.asked}, and alongside KubeVirt, it follows its VirtualMachine alone; "
        f"{remedy}"
    )


def _waiting(inputs: SwapInputs, reason: str, message: str) -> Decision:
    status = with_condition(inputs, PREFLIGHT, "False", reason, message)
    if inputs.swap.status.phase == "":
        return enter(inputs, status, "Pending", message)
    if age_of(inputs) >= PENDING_SECONDS:
        return end(inputs, "Reverted", reason, f"{message}: no longer waited for. Nothing was moved")
    let_go: tuple[Step, ...] = ("release",) if inputs.held else ()
    return Decision(status=replace(status, message=message[:MESSAGE_MAX]), steps=let_go, wait=POLL_SECONDS)


def _moving(inputs: SwapInputs) -> Decision:
    swap, status = inputs.swap, inputs.swap.status
    port = port_of(inputs)
    if port is not None and port.nad == swap.spec.to and port.phase in FORWARD:
        moved = with_condition(
            inputs, MOVED, "True", "Moved", f"{port.link} of {port.node} is on {swap.spec.to}"
        )
        return enter(inputs, moved, "Recording", f"is on {swap.spec.to}; being recorded")
    if port is not None and port.final and port.error:
        return turn_back(inputs, "MoveFailed", port.error)
    if inputs.migrating:
        return turn_back(
            inputs,
            "Migrating",
            f"the migration {inputs.migrating} began; a migration and a move in place can't be at once",
        )
    if age_of(inputs) >= MOVING_SECONDS:
        why = port.error if port is not None and port.error else f"the agent of {status.node} did not answer"
        return turn_back(inputs, "TimedOut", f"{why} (no success within {MOVING_SECONDS:.0f} s)")
    return Decision(status=status, wait=POLL_SECONDS)


def _reverting(inputs: SwapInputs) -> Decision:
    """Undo what was recorded, the last first, while the agent brings the port back."""
    swap, port = inputs.swap, port_of(inputs)
    undo = _undo(inputs)
    back = port is not None and port.nad == swap.spec.from_ and port.phase in BACK
    if back and not undo and not _is_ahead(inputs):
        return end(
            inputs,
            "Reverted",
            "MovedBack",
            f"{swap.spec.network} is on {swap.spec.from_}: {swap.status.message}",
        )
    if age_of(inputs) < REVERTING_SECONDS:
        return Decision(status=swap.status, steps=undo[:1], wait=POLL_SECONDS)
    return end(inputs, "Failed", "NotMovedBack", f"{_known(inputs, undo)}; first: {swap.status.message}")


def _undo(inputs: SwapInputs) -> tuple[Step, ...]:
    spec = inputs.swap.spec
    steps: list[Step] = []
    if flapping(inputs.swap) and inputs.link == "down":
        steps.append(link_up(inputs.swap))
    if spec.record and inputs.named == spec.target:
        steps.append("machine-back")
    if inputs.attached == spec.target:
        steps.append("pod-back")
    return tuple(steps)


def _is_ahead(inputs: SwapInputs) -> bool:
    """Return whether the instance is yet to follow its VirtualMachine back."""
    spec = inputs.swap.spec
    return inputs.with_kubevirt and (inputs.named, inputs.asked) == (spec.source, spec.target)


def _known(inputs: SwapInputs, undo: tuple[Step, ...]) -> str:
    """Return what is known of a swap that could not be taken back."""
    swap, port = inputs.swap, port_of(inputs)
    parts = []
    if port is not None and port.error and not port.nad:
        parts.append(f"the port {port.link} of {port.node} is on neither network: {port.error}")
    elif port is None or not port.nad:
        parts.append(f"the agent of {swap.status.node} did not say where the port is; see to that node")
    elif port.nad != swap.spec.from_:
        parts.append(f"the port is on {port.nad}" + (f" ({port.error})" if port.error else ""))
    if "machine-back" in undo:
        parts.append(f"the VirtualMachine names {swap.spec.to}")
    if _is_ahead(inputs):
        parts.append(f"the instance names {swap.spec.to}")
    if "pod-back" in undo:
        parts.append(f"the launcher pod says {swap.spec.to}")
    if inputs.refused:
        parts.append(inputs.refused)
    return "; ".join(parts)


def _ended_meanwhile(inputs: SwapInputs) -> Decision:
    """End a swap whose pod is gone: whatever runs next gets the network of the machine's spec."""
    swap, spec = inputs.swap, inputs.swap.spec
    if flapping(swap) and inputs.link == "down":
        return Decision(status=swap.status, steps=(link_up(swap),), wait=POLL_SECONDS)
    if spec.record and inputs.named == spec.target and swap.status.phase == "Reverting":
        return Decision(status=swap.status, steps=("machine-back",), wait=POLL_SECONDS)
    if waits := _not_alike(inputs):
        return waits
    message = f"{title_of(swap)} was stopped or moved to another node meanwhile; its port is gone"
    if inputs.named is not None:
        message = f"{message}, and it starts on {inputs.named}"
    done = spec.record and inputs.named == spec.target
    return end(inputs, "Succeeded" if done else "Reverted", "Restarted", message)


def _not_alike(inputs: SwapInputs) -> Decision | None:
    """Wait for an instance that migrated to name what its VirtualMachine names; take the edit back if it does not."""
    swap, named = inputs.swap, inputs.named
    if not inputs.with_kubevirt or _is_another(inputs) or named is None or inputs.asked == named:
        return None
    if swap.status.phase == "Reverting":
        return Decision(status=swap.status, wait=1.0) if age_of(inputs) < REVERTING_SECONDS else None
    if age_of(inputs) < FOLLOW_SECONDS or not swap.spec.record or named != swap.spec.target:
        return Decision(status=swap.status, wait=1.0) if age_of(inputs) < FOLLOW_SECONDS else None
    return turn_back(
        inputs, "NotFollowed", f"KubeVirt did not take {swap.spec.to} to the instance after its migration"
    )


def _is_gone(inputs: SwapInputs) -> bool:
    return _is_another(inputs) or inputs.pod_uid != inputs.swap.status.pod_uid


def _is_unplugged(inputs: SwapInputs) -> bool:
    """Return whether the instance has no such network any more. A later NIC of that name is none of the swap's."""
    machine = inputs.machine
    return machine is not None and nic_of(machine.spec, inputs.swap.spec.network) is None


def _is_another(inputs: SwapInputs) -> bool:
    machine, spec = inputs.machine, inputs.swap.spec
    return machine is None or machine.has_ended or (spec.uid != "" and machine.metadata.uid != spec.uid)

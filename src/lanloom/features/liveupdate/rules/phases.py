"""What is known of a swap, and the decisions that its phases share: enter one, end, take a step, turn back."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.kubevirt import VirtualMachineInstance
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
from lanloom.api.meta import Condition, Key, is_ahead, parse_rfc3339, rfc3339
from lanloom.features.liveupdate.rules.preflight import Findings
from lanloom.kube.conditions import ConditionStatus, set_condition, set_ready

RECORDING_SECONDS = 60.0

POLL_SECONDS = 5.0
"""How often a swap is looked at that nothing wakes."""

MESSAGE_MAX = 1000

Step = Literal[
    "hold", "release", "pod", "machine", "pod-back", "machine-back", "link-down", "link-up", "link-unset"
]
"""`hold` keeps KubeVirt's workload updater from the machine as long as the swap lasts; `release` ends that.

`pod` writes the new NAD into the launcher pod's annotations, `machine` into the VirtualMachine; `-back` undoes it.

The others set the state of the NIC in the VirtualMachine, by which KubeVirt sets the guest's link down and up.
"""


class Claim(Struct, frozen=True, kw_only=True):
    """The addresses of the new network for the machine's NIC, where they are managed.

    `problem` says why there are none, empty while they are on their way.
    """

    ready: bool = True
    addresses: tuple[str, ...] = ()
    problem: str = ""


class SwapInputs(Struct, frozen=True, kw_only=True):
    """All that is known of a swap.

    `machine` is the instance of the name, whatever its uid. `pod_uid` is the uid of its launcher pod on the node of the
    swap, empty where it is gone. `reported` is what its network-status reports of the network of the NIC besides the
    NAD. `attached` is the NAD that the pod's network-status has for the NIC; None where it can't be read. `named` is
    the NAD in the VirtualMachine's template; None without a VirtualMachine or network. `link` is the state of the NIC
    in that template, None where there is none; `guest_link` the one that KubeVirt reports. `with_kubevirt` says that
    KubeVirt runs: it alone takes networks from the VirtualMachine to the instance, which names `asked`; `held` that its
    workload updater leaves the machine alone, and `restart_due` that it asks for a restart. `migrating` names a
    migration that has not ended, `conflicting` an older swap of the NIC. `refused` is the last refusal of a step of the
    manager. `forbidden` says why namespace isolation keeps the machine from the new NAD; empty if it does not.
    `snapshot` names the snapshot that KubeVirt makes of the VirtualMachine, whose spec it lets no one change meanwhile.
    `now` is in seconds since the epoch.
    """

    swap: NetworkSwap
    machine: VirtualMachineInstance | None
    pod_uid: str = ""
    pod: str = ""
    reported: str = ""
    attached: Key | None = None
    named: Key | None = None
    link: str | None = None
    guest_link: str = ""
    with_kubevirt: bool = False
    asked: Key | None = None
    held: bool = False
    restart_due: bool = False
    findings: Findings = Findings()
    claim: Claim = Claim()
    migrating: str = ""
    conflicting: str = ""
    refused: str = ""
    forbidden: str = ""
    snapshot: str = ""
    now: float = 0.0


class Decision(Struct, frozen=True, kw_only=True):
    """The status to write, then the steps to take, then Events. `wait` is when to look again without being woken."""

    status: NetworkSwapStatus
    steps: tuple[Step, ...] = ()
    events: tuple[EventDraft, ...] = ()
    wait: float | None = None


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


def begins_again(inputs: SwapInputs) -> bool:
    """Return whether the phase's time has to begin again: the clock was set back, and none of it would pass."""
    return is_later(inputs.swap.status.phase_since, inputs.now)


def is_later(stamp: str, now: float) -> bool:
    """Return whether a time is yet to come, as `is_ahead`; False for one that is none."""
    try:
        return is_ahead(parse_rfc3339(stamp), now)
    except ValueError:
        return False


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

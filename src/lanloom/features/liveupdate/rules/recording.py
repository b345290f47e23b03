"""Record a move in the objects that name its network, each write after the one that it depends on.

Without KubeVirt's live update, the launcher pod's annotations come first, and the VirtualMachine after them. Alongside
it, KubeVirt compares instance and pod, and migrates or evicts a machine for which they differ. There, the
VirtualMachine comes first; the pod follows when KubeVirt has taken the network to the instance, and nothing is recorded
of a machine whose instance does not follow. Which machines that are depends on KubeVirt's version, and is seen, not
assumed: a machine that can't migrate is edited before its port is touched.

With `untilRestart`, the port of such a machine moves all the same. Instance and pod keep naming the old network, so
that KubeVirt finds nothing to do, and the swap stays as long as that is so: nothing else says where the port is.
"""

from lanloom.api.liveupdate import FLAPPED, NetworkSwap, SwapPort
from lanloom.features.liveupdate.rules.phases import (
    Decision,
    Step,
    SwapInputs,
    age_of,
    end,
    enter,
    is_later,
    port_of,
    since,
    take,
    turn_back,
    with_condition,
)
from lanloom.kube.conditions import find

FLAP_SECONDS = 10.0
"""How long a guest's link is down at the most, where nothing tells that it is."""

FOLLOW_SECONDS = 20.0
"""How long KubeVirt may take to bring a network to an instance; it takes less than a second."""


def syncing(inputs: SwapInputs) -> Decision:
    """Edit the VirtualMachine and wait for its instance; the port is where it was."""
    spec = inputs.swap.spec
    if inputs.migrating:
        return turn_back(inputs, "Migrating", f"the migration {inputs.migrating} began")
    if waits := _followed(inputs):
        return waits
    return enter(inputs, inputs.swap.status, "Moving", f"moves from {spec.from_} to {spec.to}")


def _followed(inputs: SwapInputs) -> Decision | None:
    """Return what is to be done until the instance names the new network; None when it does."""
    spec = inputs.swap.spec
    if inputs.refused:
        return turn_back(inputs, "RecordingFailed", inputs.refused)
    if spec.record and inputs.named != spec.target:
        if inputs.named != spec.source:
            return turn_back(inputs, "RecordingFailed", _changed(inputs))
        return take(inputs, "machine")
    over = age_of(inputs) >= FOLLOW_SECONDS
    if inputs.asked == spec.target or (spec.until_restart and (over or inputs.restart_due)):
        return None
    if not over:
        return Decision(status=inputs.swap.status, wait=1.0)
    why = (
        f"KubeVirt did not take {spec.to} from the VirtualMachine to its instance within {FOLLOW_SECONDS:.0f} s; move "
        "the port until the next restart with --until-restart (spec.untilRestart), or edit the VirtualMachine and "
        "restart it"
    )
    return turn_back(inputs, "NotFollowed", why)


UNTIL_RESTART_POLL = 60.0
"""How often a port is looked at that waits for the restart of its machine; what changes wakes the swap anyway."""


def until_restart(inputs: SwapInputs) -> Decision:
    """Keep a port that nothing but the swap tells of, until KubeVirt takes the network over or it is to go back."""
    swap, spec, port = inputs.swap, inputs.swap.spec, port_of(inputs)
    if swap.metadata.is_deleting:
        return turn_back(inputs, "Deleted", "the NetworkSwap was deleted")
    if port is not None and port.nad == spec.from_:
        return turn_back(inputs, "Moved", f"the port is on {spec.from_} again")
    if inputs.migrating:
        return turn_back(inputs, "Migrating", f"the migration {inputs.migrating} began, to {spec.from_}")
    if inputs.named != spec.target:
        return turn_back(inputs, "TakenBack", _changed(inputs))
    if not inputs.with_kubevirt or inputs.asked == spec.target:
        return enter(inputs, swap.status, "Recording", f"is on {spec.to}; being recorded")
    return Decision(status=swap.status, wait=UNTIL_RESTART_POLL)


def recording(inputs: SwapInputs) -> Decision:
    """Write what is yet to be written; end when all of it is."""
    swap, target = inputs.swap, inputs.swap.spec.target
    port = port_of(inputs)
    if flapping(swap):
        return _flap(inputs)
    if inputs.refused:
        return turn_back(inputs, "RecordingFailed", inputs.refused)
    if port is not None and port.nad == swap.spec.from_:
        return turn_back(inputs, "Moved", f"the port is on {swap.spec.from_} again")
    if inputs.attached is None:
        return turn_back(
            inputs, "RecordingFailed", f"the network-status of Pod {swap.status.pod} can't be read"
        )
    if inputs.with_kubevirt and (waits := _followed(inputs)):
        return waits
    stays = inputs.with_kubevirt and inputs.asked != target
    if inputs.attached != target and not stays:
        return take(inputs, "pod")
    if swap.spec.record and inputs.named != target:
        if inputs.named != swap.spec.source:
            return turn_back(inputs, "RecordingFailed", _changed(inputs))
        return take(inputs, "machine")
    if swap.spec.flap and inputs.link in ("", "up") and find(swap.status.conditions, FLAPPED) is None:
        how = "Down" if inputs.link == "" else "DownFromUp"
        status = with_condition(inputs, FLAPPED, "False", how, "the guest's link goes down, and up again")
        return Decision(status=status, wait=0.0)
    return _entered_until_restart(inputs) if stays else _succeeded(inputs, port)


def _entered_until_restart(inputs: SwapInputs) -> Decision:
    spec = inputs.swap.spec
    message = (
        f"{spec.network} is on {spec.to}. KubeVirt takes it for one on {spec.from_} until the machine is restarted; it "
        f"starts on {spec.to} then. To take the NIC back before, delete this NetworkSwap"
    )
    return enter(inputs, inputs.swap.status, "UntilRestart", message)


def flapping(swap: NetworkSwap) -> bool:
    """Return whether the guest's link may be down because of the swap."""
    condition = find(swap.status.conditions, FLAPPED)
    return condition is not None and condition.status == "False"


def _flap(inputs: SwapInputs) -> Decision:
    """Set the guest's link down until it is, and then up. What can't be set down is no reason to take the move back."""
    condition = find(inputs.swap.status.conditions, FLAPPED)
    assert condition is not None
    began = condition.last_transition_time
    over = since(began, inputs.now) >= FLAP_SECONDS or is_later(began, inputs.now)
    if condition.reason.startswith("Down"):
        if inputs.link == "down" and (inputs.guest_link == "down" or over):
            status = with_condition(
                inputs, FLAPPED, "False", condition.reason.replace("Down", "Up", 1), condition.message
            )
            return Decision(status=status, wait=0.0)
        if inputs.link != "down" and not over and not inputs.refused:
            return Decision(status=inputs.swap.status, steps=("link-down",), wait=1.0)
        if inputs.link == "down":
            return Decision(status=inputs.swap.status, wait=1.0)
        why = inputs.refused or "the VirtualMachine could not be written in time"
        return Decision(status=with_condition(inputs, FLAPPED, "Unknown", "NotFlapped", why), wait=0.0)
    if inputs.link == "down":
        return Decision(status=inputs.swap.status, steps=(link_up(inputs.swap),), wait=1.0)
    return Decision(
        status=with_condition(inputs, FLAPPED, "True", "Flapped", "the guest has seen its link go"), wait=0.0
    )


def link_up(swap: NetworkSwap) -> Step:
    """Return the step that ends a flap."""
    condition = find(swap.status.conditions, FLAPPED)
    return "link-up" if condition is not None and condition.reason.endswith("FromUp") else "link-unset"


def _succeeded(inputs: SwapInputs, port: SwapPort | None) -> Decision:
    swap = inputs.swap
    gap = port.gap_milliseconds if port is not None else 0.0
    took = f"after {gap:.0f} ms without a network" if gap else "its agent restarted while it moved the port"
    message = f"{swap.spec.network} is on {swap.spec.to}, {took}"
    return end(inputs, "Succeeded", "Moved", message)


def _changed(inputs: SwapInputs) -> str:
    spec = inputs.swap.spec
    found = f"is {inputs.named}" if inputs.named is not None else "is not there"
    return (
        f"VirtualMachine {inputs.swap.metadata.namespace}/{spec.machine}: the network {spec.network} {found} in its "
        f"spec, and not {spec.from_}; it was changed meanwhile"
    )

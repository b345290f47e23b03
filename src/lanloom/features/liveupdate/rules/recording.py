"""Record a move in the objects that name its network, each write after the one that it depends on.

Without KubeVirt's live update, the launcher pod's annotations come first, and the VirtualMachine after them. Beside it,
KubeVirt compares instance and pod, and migrates or evicts a machine for which they differ. There, the VirtualMachine
comes first; the pod follows when KubeVirt has taken the network to the instance, and nothing is recorded of a machine
whose instance does not follow. Which machines that are depends on KubeVirt's version, and is seen, not assumed: a
machine that can't migrate is edited before its port is touched.

With `untilRestart`, the port of such a machine moves all the same. Instance and pod keep naming the old network, so
that KubeVirt finds nothing to do, and the swap stays as long as that is so: nothing else says where the port is.
"""

from lanloom.api.liveupdate import FLAPPED, NetworkSwap, SwapPort
from lanloom.features.liveupdate.rules.course import Course, Decision, Step
from lanloom.features.liveupdate.rules.phases import (
    age_of,
    end,
    enter,
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


def syncing(course: Course) -> Decision:
    """Edit the VirtualMachine and wait for its instance; the port is where it was."""
    spec = course.swap.spec
    if course.migrating:
        return turn_back(course, "Migrating", f"the migration {course.migrating} began")
    if waits := _followed(course):
        return waits
    return enter(course, course.swap.status, "Moving", f"moves from {spec.from_} to {spec.to}")


def _followed(course: Course) -> Decision | None:
    """Return what is to be done until the instance names the new network; None when it does."""
    spec = course.swap.spec
    if course.refused:
        return turn_back(course, "RecordingFailed", course.refused)
    if spec.record and course.named != spec.target:
        if course.named != spec.source:
            return turn_back(course, "RecordingFailed", _changed(course))
        return take(course, "machine")
    over = age_of(course) >= FOLLOW_SECONDS
    if course.asked == spec.target or (spec.until_restart and (over or course.restart_due)):
        return None
    if not over:
        return Decision(status=course.swap.status, wait=1.0)
    why = (
        f"KubeVirt did not take {spec.to} from the VirtualMachine to its instance within {FOLLOW_SECONDS:.0f} s; move "
        "the port until the next restart with --until-restart (spec.untilRestart), or edit the VirtualMachine and "
        "restart it"
    )
    return turn_back(course, "NotFollowed", why)


UNTIL_RESTART_POLL = 60.0
"""How often a port is looked at that waits for the restart of its machine; what changes wakes the swap anyway."""


def until_restart(course: Course) -> Decision:
    """Keep a port that nothing but the swap tells of, until KubeVirt takes the network over or it is to go back."""
    swap, spec, port = course.swap, course.swap.spec, port_of(course)
    if swap.metadata.is_deleting:
        return turn_back(course, "Deleted", "the NetworkSwap was deleted")
    if port is not None and port.nad == spec.from_:
        return turn_back(course, "Moved", f"the port is on {spec.from_} again")
    if course.migrating:
        return turn_back(course, "Migrating", f"the migration {course.migrating} began, to {spec.from_}")
    if course.named != spec.target:
        return turn_back(course, "TakenBack", _changed(course))
    if not course.beside or course.asked == spec.target:
        return enter(course, swap.status, "Recording", f"is on {spec.to}; being recorded")
    return Decision(status=swap.status, wait=UNTIL_RESTART_POLL)


def recording(course: Course) -> Decision:
    """Write what is yet to be written; end when all of it is."""
    swap, target = course.swap, course.swap.spec.target
    port = port_of(course)
    if flapping(swap):
        return _flap(course)
    if course.refused:
        return turn_back(course, "RecordingFailed", course.refused)
    if port is not None and port.nad == swap.spec.from_:
        return turn_back(course, "Moved", f"the port is on {swap.spec.from_} again")
    if course.attached is None:
        return turn_back(
            course, "RecordingFailed", f"the network-status of Pod {swap.status.pod} can't be read"
        )
    if course.beside and (waits := _followed(course)):
        return waits
    stays = course.beside and course.asked != target
    if course.attached != target and not stays:
        return take(course, "pod")
    if swap.spec.record and course.named != target:
        if course.named != swap.spec.source:
            return turn_back(course, "RecordingFailed", _changed(course))
        return take(course, "machine")
    if swap.spec.flap and course.link in ("", "up") and find(swap.status.conditions, FLAPPED) is None:
        how = "Down" if course.link == "" else "DownFromUp"
        status = with_condition(course, FLAPPED, "False", how, "the guest's link goes down, and up again")
        return Decision(status=status, wait=0.0)
    return _entered_until_restart(course) if stays else _succeeded(course, port)


def _entered_until_restart(course: Course) -> Decision:
    spec = course.swap.spec
    message = (
        f"{spec.network} is on {spec.to}. KubeVirt takes it for one on {spec.from_} until the machine is restarted; it "
        f"starts on {spec.to} then. To take the NIC back before, delete this NetworkSwap"
    )
    return enter(course, course.swap.status, "UntilRestart", message)


def flapping(swap: NetworkSwap) -> bool:
    """Return whether the guest's link may be down because of the swap."""
    condition = find(swap.status.conditions, FLAPPED)
    return condition is not None and condition.status == "False"


def _flap(course: Course) -> Decision:
    """Set the guest's link down until it is, and then up. What can't be set down is no reason to take the move back."""
    condition = find(course.swap.status.conditions, FLAPPED)
    assert condition is not None
    over = since(condition.last_transition_time, course.now) >= FLAP_SECONDS
    if condition.reason.startswith("Down"):
        if course.link == "down" and (course.guest_link == "down" or over):
            status = with_condition(
                course, FLAPPED, "False", condition.reason.replace("Down", "Up", 1), condition.message
            )
            return Decision(status=status, wait=0.0)
        if course.link != "down" and not over and not course.refused:
            return Decision(status=course.swap.status, steps=("link-down",), wait=1.0)
        if course.link == "down":
            return Decision(status=course.swap.status, wait=1.0)
        why = course.refused or "the VirtualMachine could not be written in time"
        return Decision(status=with_condition(course, FLAPPED, "Unknown", "NotFlapped", why), wait=0.0)
    if course.link == "down":
        return Decision(status=course.swap.status, steps=(link_up(course.swap),), wait=1.0)
    return Decision(
        status=with_condition(course, FLAPPED, "True", "Flapped", "the guest has seen its link go"), wait=0.0
    )


def link_up(swap: NetworkSwap) -> Step:
    """Return the step that ends a flap."""
    condition = find(swap.status.conditions, FLAPPED)
    return "link-up" if condition is not None and condition.reason.endswith("FromUp") else "link-unset"


def _succeeded(course: Course, port: SwapPort | None) -> Decision:
    swap = course.swap
    gap = port.gap_milliseconds if port is not None else 0.0
    took = f"after {gap:.0f} ms without a network" if gap else "its agent restarted while it moved the port"
    message = f"{swap.spec.network} is on {swap.spec.to}, {took}"
    return end(course, "Succeeded", "Moved", message)


def _changed(course: Course) -> str:
    spec = course.swap.spec
    found = f"is {course.named}" if course.named is not None else "is not there"
    return (
        f"VirtualMachine {course.swap.metadata.namespace}/{spec.machine}: the network {spec.network} {found} in its "
        f"spec, and not {spec.from_}; it was changed meanwhile"
    )

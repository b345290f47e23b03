"""What keeps a DummyClusterNetwork: who uses it, who may come to, and the nodes whose bridges are not gone yet."""

from collections.abc import Iterable, Iterator

from lanloom.api.dummy import FINALIZER
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.model import User
from lanloom.features.dummy.views import AWAY, NO_POD, DummyView
from lanloom.runtime.blockers.finalizers import MANAGER
from lanloom.runtime.blockers.model import Obstacle

_WHAT = f"finalizer {FINALIZER}"

_TEMPLATE = "spec.template.metadata.annotations"
_MENDING = "Mend what can't be read: until then it counts as a user of every network."
_REMEDIES = {
    "VirtualMachine": (
        "Delete the VirtualMachine; or take the network out of spec.template.spec.networks, and the interface of the "
        "same name out of spec.template.spec.domain.devices.interfaces, and restart it."
    ),
    "VirtualMachineInstance": "Stop or delete the machine; its VirtualMachineInstance goes with it.",
    "Pod": "Delete the pod, or what made it, or wait until it has ended.",
    "CronJob": (
        "Delete the CronJob, or take the network out of k8s.v1.cni.cncf.io/networks in "
        "spec.jobTemplate.spec.template.metadata.annotations."
    ),
}


def remedies(users: Iterable[User]) -> str:
    """What to do about users of a network, in a sentence for each kind of them."""
    every = tuple(users)
    kinds = dict.fromkeys(user.kind for user in every)
    texts = [_REMEDIES.get(kind) or _of_workload(kind) for kind in kinds]
    return " ".join([_MENDING, *texts] if any(user.problem for user in every) else texts)


def _of_workload(kind: str) -> str:
    return f"Delete the {kind}, or take the network out of k8s.v1.cni.cncf.io/networks in its {_TEMPLATE}."


def obstacles(view: DummyView, finalizers: Iterable[str]) -> tuple[Obstacle, ...]:
    """What is in the way of a network that is being deleted, or of a deletion that nobody has asked for yet."""
    if FINALIZER not in finalizers:
        return ()
    found = tuple(_found(view))
    if found or not view.deleting:
        return found
    why = "nobody uses it any more, and the manager has not let go yet"
    if view.message:
        why += f"; the manager's last word is: {view.message}"
    remedy = "Wait a moment. If it stays so, see whether a manager runs and leads, and what its log says."
    return (Obstacle(what=_WHAT, whose=MANAGER, why=why, remedy=remedy),)


def podless_advice(view: DummyView) -> str:
    """What to do about nodes on which the network's DaemonSet has no pod; empty where there are none."""
    sets = [item for item in view.resources if item.kind == DAEMON_SETS.kind]
    if not sets or not any(node.state == NO_POD for node in view.nodes):
        return ""
    return (
        "See why the DaemonSet has no pod on some nodes: "
        f"kubectl -n {sets[0].namespace} describe daemonset {sets[0].name}."
    )


def _found(view: DummyView) -> Iterator[Obstacle]:
    if view.users:
        yield Obstacle(
            what=_WHAT,
            whose=MANAGER,
            why=f"{view.nad} is used",
            waits_for=tuple(map(str, view.users)),
            remedy=remedies(view.users),
        )
    if view.deleting:
        yield from _requests(view)
        yield from _bridges(view)


def _requests(view: DummyView) -> Iterator[Obstacle]:
    """Requests whose objects were not seen yet.

    Not while there are users: a list does not show who came and went, of whom the manager's watch knows.
    """
    if view.unreadable:
        yield Obstacle(
            what=_WHAT,
            whose=MANAGER,
            why=f"the NetworkAttachmentDefinition {view.nad} does not tell which requests were allowed to use it: "
            f"{view.unreadable}",
            remedy="Take the annotation network.harvester.io/admitted away from it once nothing new can come.",
        )
    if view.awaited and not view.users:
        yield Obstacle(
            what=_WHAT,
            whose=MANAGER,
            why="requests that were allowed before the deletion may still be stored",
            waits_for=tuple(f"{item.title}, at the latest at {item.until}" for item in view.awaited),
            remedy="Wait; it goes on by itself.",
        )


def _bridges(view: DummyView) -> Iterator[Obstacle]:
    """Nodes that have not said that their bridge is gone; only once nobody can come to use it any more."""
    missing = [node for node in view.nodes if not node.acknowledged and node.state != AWAY]
    if view.phase != "Terminating" or not missing:
        return
    yield Obstacle(
        what=_WHAT,
        whose=MANAGER,
        why=f"the bridge {view.bridge} is not gone from every node yet",
        waits_for=tuple(f"{node.node}: {node.state}: {node.message}" for node in missing),
        remedy=(
            f"{podless_advice(view)} See to these nodes. One that is gone, or not Ready for some minutes, is not "
            "waited for; its agent takes the bridge away when it is back."
        ).strip(),
    )

"""Which nodes have said that a network's bridge is there, or that it is gone.

A node says so by a pod of the network's DaemonSet that is Ready: its kubelet reports that, so the pods themselves need
no rights. Waited for are the nodes that are up, and for a while those that were a moment ago; a node that stays away
is cleaned by its own agent when it returns.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.core import Node, Pod
from lanloom.api.dummy import BRIDGE_LABEL, PRESENT
from lanloom.api.meta import parse_rfc3339
from lanloom.kube.conditions import find, is_true

READY = "Ready"
"""The condition of nodes and of pods, of Kubernetes."""

_COMPLAINT_MAX = 400


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """How far the nodes are. `missing` are live ones that have not acknowledged, each with why where that is known.

    `away` are nodes that are there but not waited for any more. `until` is when the next one is not (seconds since the
    epoch), None if all that are waited for are up.
    """

    live: tuple[str, ...] = ()
    acknowledged: tuple[str, ...] = ()
    missing: dict[str, str] = {}
    away: tuple[str, ...] = ()
    until: float | None = None


def acknowledgement(
    nodes: Iterable[Node], pods: Iterable[Pod], state: str, *, now: float, patience: float
) -> Acknowledgement:
    """What the pods of a network's DaemonSet say, of bridges that are to be present or absent.

    `patience` are the seconds for which a node that is not ready is waited for. A bridge is gone only where no pod
    that keeps it is left.
    """
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    ends = {node.metadata.name: _given_up(node, patience) for node in nodes}
    live = tuple(sorted(name for name, end in ends.items() if end is None or now < end))
    done = dict.fromkeys(name for name in live if _has_acknowledged(by_node.get(name, ()), state))
    return Acknowledgement(
        live=live,
        acknowledged=tuple(done),
        missing={name: _why(by_node.get(name, ())) for name in live if name not in done},
        away=tuple(sorted(ends.keys() - live)),
        until=min((end for name in live if (end := ends[name]) is not None), default=None),
    )


def is_up(node: Node) -> bool:
    """Whether a node's kubelet has lately said that all is well."""
    return is_true(node.status.conditions, READY)


def is_ready(pod: Pod) -> bool:
    """Whether a pod does what it is there for."""
    return not pod.metadata.is_deleting and is_true(pod.status.conditions, READY)


def complaint(pod: Pod) -> str:
    """Why a pod is not ready, in its own words or the kubelet's; empty if nobody says."""
    for container in pod.status.container_statuses:
        for state in (container.state, container.last_state):
            if state.terminated is not None and state.terminated.message:
                return _one_line(state.terminated.message)
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            return _one_line(f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason)
    return ""


def _one_line(text: str) -> str:
    """What fits into a message with others: kubelets and runtimes tell up to 4 KiB, with line breaks."""
    found = " ".join(text.split())
    return found if len(found) <= _COMPLAINT_MAX else f"{found[:_COMPLAINT_MAX]}…"


def _has_acknowledged(pods: Iterable[Pod], state: str) -> bool:
    found = False
    for pod in pods:
        label = pod.metadata.labels.get(BRIDGE_LABEL)
        if state != PRESENT and label != state and not pod.has_ended:
            return False  # who keeps the bridge may still make it again
        found = found or (label == state and is_ready(pod))
    return found


def _why(pods: Iterable[Pod]) -> str:
    return next((text for pod in pods if (text := complaint(pod))), "")


def _given_up(node: Node, patience: float) -> float | None:
    """When a node is not waited for any more; None while it is up."""
    if node.metadata.is_deleting:
        return 0.0
    if is_up(node):
        return None
    found = find(node.status.conditions, READY)
    since = (found.last_transition_time if found else "") or node.metadata.creation_timestamp or ""
    try:
        return parse_rfc3339(since) + patience
    except ValueError:
        return 0.0


def titles(missing: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that are waited for, for a message: those first that say why."""
    ordered = sorted(missing.items(), key=lambda item: (not item[1], item[0]))
    return tuple(f"{name} ({why})" if why else name for name, why in ordered)

"""What a DaemonSet wants of its pods: observed → which to create, which to delete, and what its status says.

As kube-controller-manager 1.20 does it (`pkg/controller/daemon`), without what no network daemon of ours needs: taints
are not looked at (each pod counts as tolerating all), of node affinity only `nodeSelector` is, and there are no
ControllerRevisions: the template's hash alone tells old pods from new ones.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from lanloom.api.core import Node, Pod
from lanloom.api.times import parse_rfc3339
from lanloom.api.workloads import DAEMON_SETS, DaemonSet, DaemonSetStatus
from lanloom.kube.conditions import find, is_true

REVISION_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
"""Counts the changes of the template; kube-apiserver puts it on DaemonSets, the embedded server doesn't."""

FAILED_SECONDS = 2.0
"""Least age of a failed pod that is replaced: one that fails at once again must not keep the API server busy."""


class Decision(Struct, frozen=True):
    """What is to be done: `create` names nodes. Pods in `abandoned` are on nodes that are gone.

    `again` are the seconds after which time alone may change the decision.
    """

    create: tuple[str, ...]
    delete: tuple[Pod, ...]
    abandoned: tuple[Pod, ...]
    status: DaemonSetStatus
    again: float | None


def decide(daemon: DaemonSet, nodes: Iterable[Node], pods: Iterable[Pod], now: float) -> Decision:
    """Compares the DaemonSet with its pods. `now` is in seconds since the epoch."""
    known = {node.metadata.name: node for node in nodes}
    placed: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_age):
        placed.setdefault(pod.spec.node_name, []).append(pod)
    wanted = {name for name, node in known.items() if _matches(daemon, node)}
    scene = _Scene(daemon, placed, wanted, now)
    superfluous = scene.superfluous(known)
    return Decision(
        create=tuple(sorted(wanted - placed.keys())),
        delete=(*superfluous, *scene.outdated(superfluous)),
        abandoned=tuple(pod for name, here in placed.items() if name not in known for pod in here),
        status=scene.status(),
        again=scene.again(),
    )


class _Scene:
    """A DaemonSet and its pods by node, the oldest first."""

    def __init__(self, daemon: DaemonSet, placed: dict[str, list[Pod]], wanted: set[str], now: float) -> None:
        self._daemon = daemon
        self._placed = placed
        self._wanted = wanted
        self._now = now
        self._revision = revision(daemon)

    def superfluous(self, known: Mapping[str, Node]) -> tuple[Pod, ...]:
        """Pods on nodes that don't want one, failed ones, and all but the oldest of several on a node."""
        found: list[Pod] = []
        for name in sorted(known.keys() & self._placed.keys()):
            here = [pod for pod in self._placed[name] if not pod.metadata.is_leaving]
            if name not in self._wanted:
                found += here
                continue
            found += [pod for pod in here if pod.has_ended and self._rest(pod) <= 0]
            found += [pod for pod in here if not pod.has_ended][1:]
        return tuple(found)

    def outdated(self, superfluous: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Pods of another template that a rolling update takes now, as far as `maxUnavailable` lets it.

        Those that are not available anyhow go at once.
        """
        strategy = self._daemon.spec.update_strategy
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return ()
        going = {pod.metadata.uid for pod in superfluous}
        old = [
            pod
            for name in sorted(self._wanted & self._placed.keys())
            for pod in self._placed[name]
            if not pod.metadata.is_leaving
            and pod.metadata.uid not in going
            and not pod.has_ended
            and pod.metadata.labels.get(REVISION_LABEL) != self._revision
        ]
        serving = [pod for pod in old if self._is_available(pod)]
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        budget = max_unavailable(limit, len(self._wanted)) - self._missing()
        return (*(pod for pod in old if pod not in serving), *serving[: max(0, budget)])

    def _missing(self) -> int:
        """Nodes without a pod that is available and stays."""
        served = 0
        for name in self._wanted:
            served += any(
                self._is_available(pod) and not pod.metadata.is_leaving for pod in self._placed.get(name, ())
            )
        return len(self._wanted) - served

    def status(self) -> DaemonSetStatus:
        """Numbers of nodes; on each the oldest pod counts."""
        first = {name: here[0] for name, here in self._placed.items() if name in self._wanted}
        available = sum(self._is_available(pod) for pod in first.values())
        return DaemonSetStatus(
            observed_generation=self._daemon.metadata.generation,
            desired_number_scheduled=len(self._wanted),
            current_number_scheduled=len(first),
            updated_number_scheduled=sum(
                pod.metadata.labels.get(REVISION_LABEL) == self._revision for pod in first.values()
            ),
            number_ready=sum(is_ready(pod) for pod in first.values()),
            number_available=available,
            number_unavailable=len(self._wanted) - available,
            number_misscheduled=sum(name not in self._wanted for name in self._placed),
        )

    def again(self) -> float | None:
        """When the next pod will have been ready, or failed, for long enough."""
        waits = [
            rest
            for here in self._placed.values()
            for pod in here
            if not pod.metadata.is_leaving and (rest := self._rest(pod)) > 0
        ]
        return min(waits, default=None)

    def _rest(self, pod: Pod) -> float:
        """Seconds until a ready pod counts as available, or until a failed one is replaced; 0 for any other."""
        if pod.has_ended:
            return parse_rfc3339(pod.metadata.creation_timestamp or "") + FAILED_SECONDS - self._now
        if not is_ready(pod):
            return 0.0
        ready = find(pod.status.conditions, "Ready")
        since = ready.last_transition_time if ready is not None else ""
        return parse_rfc3339(since) + self._daemon.spec.min_ready_seconds - self._now if since else 0.0

    def _is_available(self, pod: Pod) -> bool:
        return is_ready(pod) and (not self._daemon.spec.min_ready_seconds or self._rest(pod) <= 0)


def is_ready(pod: Pod) -> bool:
    """Whether the pod's kubelet says that it is ready."""
    return is_true(pod.status.conditions, "Ready")


def max_unavailable(limit: int | str, desired: int) -> int:
    """The number that `maxUnavailable` stands for; a percentage is rounded up."""
    if isinstance(limit, int):
        return limit
    return -(-int(limit.removesuffix("%")) * desired // 100)


def revision(daemon: DaemonSet) -> str:
    """The value of `controller-revision-hash` for pods of the template as it is now."""
    text = msgspec.json.encode(daemon.spec.template, order="sorted")
    return hashlib.sha256(text).hexdigest()[:10]


def pod_body(daemon: DaemonSet, node: str) -> dict[str, Any]:
    """The pod for a node. It is bound at once; the real controller names the node by an affinity for the scheduler."""
    template, meta = daemon.spec.template, daemon.metadata
    described = template.get("metadata", {})
    generation = meta.annotations.get(GENERATION_ANNOTATION, str(meta.generation))
    marks = {REVISION_LABEL: revision(daemon), GENERATION_LABEL: generation}
    return {
        "metadata": {
            "generateName": f"{meta.name}-",
            "namespace": meta.namespace,
            "labels": {**described.get("labels", {}), **marks},
            "annotations": described.get("annotations", {}),
            "ownerReferences": [owner_reference(daemon)],
        },
        "spec": {**template.get("spec", {}), "nodeName": node},
    }


def owner_reference(daemon: DaemonSet) -> dict[str, Any]:
    """How a pod names the DaemonSet as its controller."""
    return {
        "apiVersion": DAEMON_SETS.api_version,
        "kind": DAEMON_SETS.kind,
        "name": daemon.metadata.name,
        "uid": daemon.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def status_patch(status: DaemonSetStatus) -> dict[str, Any]:
    """A merge patch of the status; a number that is zero is left to the server's default, which may be none."""
    numbers: dict[str, Any] = to_builtins(status)
    fields = DaemonSetStatus.__struct_encode_fields__
    return {"status": {name: numbers.get(name) for name in fields}}


def selector(daemon: DaemonSet) -> str:
    """The DaemonSet's selector as the text of a label selector."""
    wanted = daemon.spec.selector
    parts = [f"{key}={value}" for key, value in sorted(wanted.get("matchLabels", {}).items())]
    return ",".join((*parts, *map(_expression, wanted.get("matchExpressions", ()))))


def _expression(expression: Mapping[str, Any]) -> str:
    key, values = expression["key"], ",".join(expression.get("values", ()))
    match expression["operator"]:
        case "Exists":
            return str(key)
        case "DoesNotExist":
            return f"!{key}"
        case operator:
            return f"{key} {str(operator).lower()} ({values})"


def _matches(daemon: DaemonSet, node: Node) -> bool:
    labels: Mapping[str, str] = daemon.spec.template.get("spec", {}).get("nodeSelector", {})
    return labels.items() <= node.metadata.labels.items()


def _age(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name

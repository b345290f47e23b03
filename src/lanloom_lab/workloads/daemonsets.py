"""A controller of DaemonSets for clusters without kube-controller-manager: the lab's, and simulated ones.

Watches tell when to look; the pods themselves are listed again for each look, so that what was just created or deleted
is never counted wrongly. Pods of deleted DaemonSets are the garbage collector's. A pod whose labels were changed so
that the selector no longer finds it is left alone (the real controller lets go of it) and replaced.

What a DaemonSet wants of its pods: observed → which to create, which to delete, and what its status says.

As kube-controller-manager 1.20 does it (`pkg/controller/daemon`), without what no network daemon of ours needs: taints
are not looked at (each pod counts as tolerating all), of node affinity only `nodeSelector` is, and there are no
ControllerRevisions: the template's hash alone tells old pods from new ones.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from lanloom.api.core import (
    NODES,
    PODS,
    Node,
    Pod,
)
from lanloom.api.meta import Key, parse_rfc3339
from lanloom.api.workloads import DAEMON_SETS, DaemonSet, DaemonSetStatus
from lanloom.kube.conditions import find, is_true
from lanloom.kube.controller import Controller
from lanloom.kube.errors import Conflict, NotFound
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client

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
    """Compare the DaemonSet with its pods. `now` is in seconds since the epoch."""
    known = {node.metadata.name: node for node in nodes}
    placed: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_age):
        placed.setdefault(pod.spec.node_name, []).append(pod)
    wanted = {name for name, node in known.items() if _matches(daemon, node)}
    scene = _Scene(daemon, placed, wanted, now)
    orphans = scene.orphans(known)
    return Decision(
        create=tuple(sorted(wanted - placed.keys())),
        delete=(*orphans, *scene.outdated(orphans)),
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

    def orphans(self, known: Mapping[str, Node]) -> tuple[Pod, ...]:
        """Return pods on nodes that don't want one, failed ones, and all but the oldest of several on a node."""
        found: list[Pod] = []
        for name in sorted(known.keys() & self._placed.keys()):
            here = [pod for pod in self._placed[name] if not pod.metadata.is_deleting]
            if name not in self._wanted:
                found += here
                continue
            found += [pod for pod in here if pod.has_ended and self._rest(pod) <= 0]
            found += [pod for pod in here if not pod.has_ended][1:]
        return tuple(found)

    def outdated(self, orphans: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Return pods of another template that a rolling update takes now, as far as `maxUnavailable` lets it.

        Those that are not available anyhow go at once.
        """
        strategy = self._daemon.spec.update_strategy
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return ()
        going = {pod.metadata.uid for pod in orphans}
        old = [
            pod
            for name in sorted(self._wanted & self._placed.keys())
            for pod in self._placed[name]
            if not pod.metadata.is_deleting
            and pod.metadata.uid not in going
            and not pod.has_ended
            and pod.metadata.labels.get(REVISION_LABEL) != self._revision
        ]
        serving = [pod for pod in old if self._is_available(pod)]
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        budget = max_unavailable(limit, len(self._wanted)) - self._missing()
        return (*(pod for pod in old if pod not in serving), *serving[: max(0, budget)])

    def _missing(self) -> int:
        """Return nodes without a pod that is available and stays."""
        served = 0
        for name in self._wanted:
            served += any(
                self._is_available(pod) and not pod.metadata.is_deleting for pod in self._placed.get(name, ())
            )
        return len(self._wanted) - served

    def status(self) -> DaemonSetStatus:
        """Return the numbers of nodes; on each the oldest pod counts."""
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
        """Return when the next pod will have been ready, or failed, for long enough."""
        waits = [
            rest
            for here in self._placed.values()
            for pod in here
            if not pod.metadata.is_deleting and (rest := self._rest(pod)) > 0
        ]
        return min(waits, default=None)

    def _rest(self, pod: Pod) -> float:
        """Return seconds until a ready pod counts as available, or until a failed one is replaced; 0 for any other."""
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
    """Return whether the pod's kubelet says that it is ready."""
    return is_true(pod.status.conditions, "Ready")


def max_unavailable(limit: int | str, desired: int) -> int:
    """Return the number that `maxUnavailable` stands for; a percentage is rounded up."""
    if isinstance(limit, int):
        return limit
    return -(-int(limit.removesuffix("%")) * desired // 100)


def revision(daemon: DaemonSet) -> str:
    """Return the value of `controller-revision-hash` for pods of the template as it is now."""
    text = msgspec.json.encode(daemon.spec.template, order="sorted")
    return hashlib.sha256(text).hexdigest()[:10]


def pod_body(daemon: DaemonSet, node: str) -> dict[str, Any]:
    """Return the pod for a node.

    It is bound at once; the real controller names the node by an affinity for the scheduler.
    """
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
    """Return how a pod names the DaemonSet as its controller."""
    return {
        "apiVersion": DAEMON_SETS.api_version,
        "kind": DAEMON_SETS.kind,
        "name": daemon.metadata.name,
        "uid": daemon.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def status_patch(status: DaemonSetStatus) -> dict[str, Any]:
    """Return a merge patch of the status; a number that is zero is left to the server's default, which may be none."""
    numbers: dict[str, Any] = to_builtins(status)
    fields = DaemonSetStatus.__struct_encode_fields__
    return {"status": {name: numbers.get(name) for name in fields}}


def selector(daemon: DaemonSet) -> str:
    """Return the DaemonSet's selector as the text of a label selector."""
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


class DaemonSets:
    """Keeps a pod of every DaemonSet on every node that it wants; exactly one of these may run for a server."""

    def __init__(self, client: Client, rng: Random, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now
        self._daemons: Informer[DaemonSet] = Informer(client, DAEMON_SETS, rng=rng)
        self._nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._pods: Informer[Pod] = Informer(client, PODS, rng=rng)
        self._controller: Controller[Key] = Controller("daemon-sets", self._reconcile, rng=rng, workers=4)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = (self._daemons, self._nodes, self._pods)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            self._daemons.on_change(self._daemon_changed)
            self._nodes.on_change(self._node_changed)
            self._pods.on_change(self._pod_changed)
            group.create_task(self._controller.run())

    def _daemon_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if (item := new or old) is not None:
            self._controller.enqueue(item.metadata.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return
        for daemon in self._daemons.store.items():
            self._controller.enqueue(daemon.metadata.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            for owner in pod.metadata.owner_references if pod is not None else ():
                if pod is not None and owner.controller and owner.kind == DAEMON_SETS.kind:
                    self._controller.enqueue(Key(pod.metadata.namespace, owner.name))

    async def _reconcile(self, key: Key) -> float | None:
        daemon = self._daemons.store.get(key)
        if daemon is None or daemon.metadata.is_deleting:
            return None
        pods = await self._claimed(daemon)
        if pods is None:
            return None
        decision = decide(daemon, self._nodes.store.items(), pods, self._now())
        await self._carry_out(daemon, decision)
        if decision.status != daemon.status:
            patch = status_patch(decision.status)
            with suppress(NotFound):
                await self._client.patch(DAEMON_SETS, key.name, patch, key.namespace, subresource="status")
        return decision.again

    async def _claimed(self, daemon: DaemonSet) -> tuple[Pod, ...] | None:
        """Return the DaemonSet's pods, and those that it adopts: its selector's, which have no controller.

        None if there are such pods and the DaemonSet is no more; the watch will tell of its end.
        """
        meta = daemon.metadata
        found: list[Pod] = []
        free: list[Pod] = []
        for pod in (await self._client.list(PODS, meta.namespace, labels=selector(daemon))).items:
            controllers = [owner.uid for owner in pod.metadata.owner_references if owner.controller]
            if not controllers and not pod.metadata.is_deleting and pod.spec.node_name:
                free.append(pod)
            elif meta.uid in controllers:
                found.append(pod)
        if free and not await self._stays(daemon):
            return None
        for pod in free:
            await self._adopt(daemon, pod)
        return (*found, *free)

    async def _stays(self, daemon: DaemonSet) -> bool:
        """Return whether the server has this very DaemonSet, and it is not deleted.

        A store may be behind a deletion that has released the pods: adopted again, they would be collected with their
        owner. Asked after the list, the server knows of each deletion that released a pod in it.
        """
        now = await get_or_none(self._client, DAEMON_SETS, daemon.metadata.key)
        return now is not None and now.metadata.uid == daemon.metadata.uid and not now.metadata.is_deleting

    async def _adopt(self, daemon: DaemonSet, pod: Pod) -> None:
        """Make a pod the DaemonSet's, unless another writer changes it meanwhile."""
        version, owners = pod.metadata.resource_version, to_builtins(pod.metadata.owner_references)
        patch = {
            "metadata": {"resourceVersion": version, "ownerReferences": [*owners, owner_reference(daemon)]}
        }
        await self._client.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)

    async def _carry_out(self, daemon: DaemonSet, decision: Decision) -> None:
        for pod in decision.delete:
            await self._delete(pod)
        for pod in decision.abandoned:
            # A store may not know a new node yet; only the server's word ends a pod that no kubelet stops.
            if await get_or_none(self._client, NODES, Key("", pod.spec.node_name)) is None:
                await self._delete(pod, grace=0)
        for node in decision.create:
            await self._client.create(PODS, pod_body(daemon, node), daemon.metadata.namespace)

    async def _delete(self, pod: Pod, grace: int | None = None) -> None:
        meta = pod.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace=grace)

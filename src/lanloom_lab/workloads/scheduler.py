"""Finds nodes for pods in the lab: the ready node with the fewest pods that has the labels which the pod asks for.

kube-scheduler binds by the subresource `binding`, because in kube-apiserver `spec.nodeName` is immutable. The
embedded server has no bindings and takes a node's name in a patch, once. Of what the real one weighs only
`nodeSelector`, cordoned nodes and required anti-affinity by labels are looked at: the lab's nodes have no resources to
run out of.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Literal

from lanloom.api.core import NODES, Node
from lanloom.api.meta import Condition, Key, rfc3339
from lanloom.kube.conditions import find, is_true
from lanloom.kube.controller import Controller
from lanloom.kube.errors import NotFound
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from lanloom_lab.workloads.pods import PODS, Pod

SCHEDULED = "PodScheduled"
HOSTNAME = "kubernetes.io/hostname"


class Unschedulable(Exception):
    """No node will do; the text says why, node by node."""


def choose(
    pod: Pod, nodes: Iterable[Node], load: Mapping[str, int], avoided: Collection[str] = frozenset()
) -> str:
    """Return the node for a pod.

    `load` is the number of pods by node, `avoided` are nodes of pods that it must not join. Raises Unschedulable.
    """
    reasons = {
        node.metadata.name: _obstacle(pod, node)
        or ("with pods that its anti-affinity names" if node.metadata.name in avoided else "")
        for node in nodes
    }
    fit = [name for name, reason in reasons.items() if not reason]
    if fit:
        return min(fit, key=lambda name: (load.get(name, 0), name))
    counts = sorted(Counter(reasons.values()).items())
    why = ", ".join(f"{count} {reason}" for reason, count in counts)
    raise Unschedulable(f"0/{len(reasons)} nodes are available" + (f": {why}." if why else "."))


def _obstacle(pod: Pod, node: Node) -> str:
    """Return why the node won't do, or nothing."""
    if not is_true(node.status.conditions, "Ready"):
        return "not ready"
    if node.spec.unschedulable:
        return "cordoned"
    missing = pod.spec.node_selector.items() - node.metadata.labels.items()
    if missing:
        return "without " + ", ".join(f"{key}={value}" for key, value in sorted(missing))
    return ""


def avoided(pod: Pod, others: Iterable[Pod]) -> frozenset[str]:
    """Return the nodes with pods of its namespace that a pod must not join."""
    rule = pod.spec.affinity.get("podAntiAffinity") or {}
    terms = rule.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    selectors = [
        ((term.get("labelSelector") or {}).get("matchLabels") or {}).items()
        for term in terms
        if term.get("topologyKey") == HOSTNAME
    ]
    return frozenset(
        other.spec.node_name
        for other in others
        if other.metadata.namespace == pod.metadata.namespace
        and other.spec.node_name
        and not other.has_ended
        and any(selector and selector <= other.metadata.labels.items() for selector in selectors)
    )


class Scheduler:
    """Binds pods that have no node; exactly one of these may run for a server."""

    def __init__(self, client: Client, rng: Random, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now
        self._nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._pods: Informer[Pod] = Informer(client, PODS, rng=rng, indexes={"waiting": _waiting})
        self._bound: dict[Key, str] = {}
        self._controller: Controller[Key] = Controller("scheduler", self._reconcile, rng=rng)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = (self._nodes, self._pods)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            self._pods.on_change(self._pod_changed)
            self._nodes.on_change(self._node_changed)
            group.create_task(self._controller.run())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.spec.node_name:
            if (item := new or old) is not None:
                self._bound.pop(item.metadata.key, None)
        elif old is None:
            self._controller.enqueue(new.metadata.key)

    def _node_changed(self, _old: Node | None, _new: Node | None) -> None:
        for pod in self._pods.store.by("waiting", ""):
            self._controller.enqueue(pod.metadata.key)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.store.get(key)
        if pod is None or not _waiting(pod) or key in self._bound:
            return
        with suppress(NotFound):  # of a pod that is deleted meanwhile
            try:
                found = tuple(self._pods.store.items())
                node = choose(pod, self._nodes.store.items(), self._load(), avoided(pod, found))
            except Unschedulable as error:
                await self._set_condition(pod, "False", "Unschedulable", str(error))
                return
            await self._set_condition(pod, "True")
            await self._bind(key, node)

    async def _bind(self, key: Key, node: str) -> None:
        self._bound[key] = node
        try:
            await self._client.patch(PODS, key.name, {"spec": {"nodeName": node}}, key.namespace)
        except BaseException:
            self._bound.pop(key, None)
            raise

    def _load(self) -> Counter[str]:
        """Return pods by node, with those that were bound a moment ago."""
        running = (pod.spec.node_name for pod in self._pods.store.items() if not pod.has_ended)
        return Counter((*running, *self._bound.values()))

    async def _set_condition(
        self, pod: Pod, status: Literal["True", "False"], reason: str = "", message: str = ""
    ) -> None:
        """Write the condition PodScheduled, before the pod has a kubelet that writes conditions."""
        old = find(pod.status.conditions, SCHEDULED)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return
        moved = old.last_transition_time if old is not None and old.status == status else rfc3339(self._now())
        condition = Condition(
            type=SCHEDULED, status=status, reason=reason, message=message, last_transition_time=moved
        )
        others = [item for item in pod.status.conditions if item.type != SCHEDULED]
        patch = {"status": {"conditions": [*others, condition]}}
        await self._client.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace, subresource="status")


def _waiting(pod: Pod) -> tuple[str, ...]:
    """Return an index value for pods that need a node."""
    return () if pod.spec.node_name or pod.has_ended or pod.metadata.is_deleting else ("",)

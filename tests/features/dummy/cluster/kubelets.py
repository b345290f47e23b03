"""Stands in for the kubelets of a cluster, and for the scheduler as far as DaemonSets need one, on any API server.

Pods on a node whose kubelet answers become ready, and end at once when they are deleted.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import Struct

from lanloom.api.core import (
    NODES,
    PODS,
    ContainerState,
    Ended,
    Node,
    Pod,
)
from lanloom.api.meta import Key, Object, rfc3339
from lanloom.api.resource import Resource
from lanloom.kube.controller import Controller
from lanloom.kube.errors import Conflict, NotFound
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client


class PlacedSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Where a pod runs or is to run."""

    node_name: str = ""
    affinity: dict[str, Any] = {}


class PlacedPod(Pod, frozen=True, kw_only=True):
    """A pod that may wait for a scheduler."""

    spec: PlacedSpec = PlacedSpec()  # type: ignore[assignment]


PLACED_PODS = Resource(
    group="", version="v1", kind="Pod", plural="pods", type=PlacedPod, namespaced=True, status=True
)
BINDINGS = Resource(group="", version="v1", kind="Binding", plural="bindings", type=Object, namespaced=True)

Verdict = Callable[[Pod], str | None]
"""What becomes of a pod's container: None, it is ready; a text, it ended with that message; `HELD`, nothing happens."""

HELD = "held"


class Kubelets:
    """The kubelets of all nodes but those in `silent`. `verdict` decides what becomes of pods."""

    def __init__(self, client: Client, now: Callable[[], float], rng: Random) -> None:
        self.silent: set[str] = set()
        self.verdict: Verdict = lambda pod: None
        self._client = client
        self._now = now
        self._nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._pods: Informer[PlacedPod] = Informer(client, PLACED_PODS, rng=rng)
        self._controller: Controller[Key] = Controller("kubelets", self._reconcile, rng=rng, workers=4)

    async def run(self) -> None:
        """Works until cancelled."""
        informers = (self._nodes, self._pods)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            self._pods.on_change(lambda old, new: self._look(new))
            self._nodes.on_change(lambda old, new: self.look_again())
            group.create_task(self._controller.run())

    def look_again(self) -> None:
        """Looks at every pod: a node, or what the test wants of pods, has changed."""
        for pod in self._pods.store.items():
            self._look(pod)

    def _look(self, pod: PlacedPod | None) -> None:
        if pod is not None:
            self._controller.enqueue(pod.metadata.key)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.store.get(key)
        if pod is None:
            return
        with suppress(NotFound, Conflict):
            if not pod.spec.node_name:
                await self._bind(pod)
            elif (
                self._nodes.store.get(Key("", pod.spec.node_name)) is None
                or pod.spec.node_name in self.silent
            ):
                return
            elif pod.metadata.deletion_timestamp is not None:
                await self._client.delete(PODS, key.name, key.namespace, uid=pod.metadata.uid, grace=0)
            elif not pod.has_ended:
                await self._report(pod)

    async def _bind(self, pod: PlacedPod) -> None:
        """As the scheduler does with pods of DaemonSets, which are for one node alone."""
        node = wanted_node(pod.spec.affinity)
        if (
            node
            and pod.metadata.deletion_timestamp is None
            and self._nodes.store.get(Key("", node)) is not None
        ):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"metadata": {"name": pod.metadata.name}, "target": target}
            await self._client.create(BINDINGS, body, pod.metadata.namespace)

    async def _report(self, pod: PlacedPod) -> None:
        verdict = self.verdict(pod)
        if verdict == HELD:
            return
        ready = verdict is None
        ended = ContainerState(
            terminated=None if verdict is None else Ended(exit_code=1, reason="Error", message=verdict)
        )
        known = {item.type: item.status for item in pod.status.conditions}
        if known.get("Ready") == str(ready) and [item.state for item in pod.status.container_statuses] == [
            ended
        ]:
            return
        stamp = rfc3339(self._now())
        conditions = [
            {"type": kind, "status": str(ready), "lastTransitionTime": stamp}
            for kind in ("Ready", "ContainersReady")
        ]
        container = {
            "name": "bridge",
            "ready": ready,
            "restartCount": 0,
            "image": "image",
            "imageID": "",
            "state": ended,
        }
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
        meta = pod.metadata
        await self._client.patch(PODS, meta.name, {"status": status}, meta.namespace, subresource="status")


def wanted_node(affinity: dict[str, Any]) -> str:
    """The only node that a pod may run on, as DaemonSets say it; empty if it isn't said."""
    required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", ()):
        for field in term.get("matchFields", ()):
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return ""

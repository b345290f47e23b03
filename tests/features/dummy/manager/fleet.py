"""Nodes as far as isolated networks see them: what kube-controller-manager and kubelets do with DaemonSets, at once.

A pod of each DaemonSet on each node, Ready as soon as it is there, unless the test says that its node is silent.
"""

import asyncio
from contextlib import suppress
from typing import Any

from lanloom.api.core import NODES, PODS, Pod
from lanloom.api.meta import rfc3339
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.kube.errors import AlreadyExists, Conflict, NotFound
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.local import LocalClient

Raw = dict[str, Any]

_KINDS = (NODES.plural, PODS.plural, DAEMON_SETS.plural)


class Fleet:
    """The nodes. `silent` are those whose pods are not Ready, with what these say, empty for nothing."""

    def __init__(self, engine: Engine) -> None:
        self.silent: dict[str, str] = {}
        self._client = LocalClient(engine)
        self._changed = asyncio.Event()
        engine.ledger.listen(self._notice)

    def _notice(self, change: Change) -> None:
        if change.resource.plural in _KINDS:
            self._changed.set()

    async def add(self, name: str, *, ready: bool = True) -> None:
        """One more node."""
        await self._client.create(NODES, {"metadata": {"name": name}})
        await self.report(name, ready=ready)

    async def report(self, name: str, *, ready: bool) -> None:
        """A node is up from now on, or not."""
        stamp = rfc3339(asyncio.get_running_loop().time())
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": stamp}
        await self._client.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def remove(self, name: str) -> None:
        """A node is gone for good."""
        await self._client.delete(NODES, name)

    def silence(self, name: str, why: str = "") -> None:
        """The pods of a node are not Ready from now on."""
        self.silent[name] = why
        self._changed.set()

    def hear(self, name: str) -> None:
        """The pods of a node are Ready again."""
        self.silent.pop(name, None)
        self._changed.set()

    async def run(self) -> None:
        """Does what DaemonSets ask for until cancelled."""
        while True:
            self._changed.clear()
            with suppress(Conflict, NotFound, AlreadyExists):
                await self._once()
            await self._changed.wait()

    async def _once(self) -> None:
        nodes = [item.metadata.name for item in (await self._client.list(NODES)).items]
        pods = (await self._client.list(PODS)).items
        for daemon_set in (await self._client.list(DAEMON_SETS)).items:
            own = {
                item.spec.node_name: item
                for item in pods
                if any(owner.uid == daemon_set.metadata.uid for owner in item.metadata.owner_references)
            }
            for node in own.keys() - set(nodes):
                await self._end(own.pop(node))
            for node in nodes:
                await self._see_to(daemon_set, node, own.get(node))
            await self._count(daemon_set, len(nodes))

    async def _see_to(self, daemon_set: DaemonSet, node: str, pod: Pod | None) -> None:
        labels = daemon_set.spec.template["metadata"]["labels"]
        if pod is not None and pod.metadata.labels != labels:
            await self._end(pod)
            pod = None
        if pod is None:
            pod = await self._client.create(
                PODS, _pod(daemon_set, node, labels), daemon_set.metadata.namespace
            )
        status = self._status(node)
        if [item.status for item in pod.status.conditions] != [status["conditions"][0]["status"]]:
            patch = {"status": status}
            await self._client.patch(
                PODS, pod.metadata.name, patch, pod.metadata.namespace, subresource="status"
            )

    def _status(self, node: str) -> Raw:
        why = self.silent.get(node)
        status = "True" if why is None else "False"
        ended = {"terminated": {"exitCode": 1, "message": why or ""}}
        container = {
            "name": "bridge",
            "ready": why is None,
            "image": "x",
            "imageID": "x",
            "restartCount": 0,
            "lastState": ended if why else {},
        }
        return {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": status}],
            "containerStatuses": [container],
        }

    async def _end(self, pod: Pod) -> None:
        await self._client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace=0)

    async def _count(self, daemon_set: DaemonSet, number: int) -> None:
        meta, status = daemon_set.metadata, daemon_set.status
        wanted = (meta.generation, number, number)
        if (
            status.observed_generation,
            status.desired_number_scheduled,
            status.updated_number_scheduled,
        ) == wanted:
            return
        body = {
            "observedGeneration": meta.generation,
            "desiredNumberScheduled": number,
            "updatedNumberScheduled": number,
            "currentNumberScheduled": number,
            "numberReady": number,
            "numberMisscheduled": 0,
        }
        await self._client.patch(
            DAEMON_SETS, meta.name, {"status": body}, meta.namespace, subresource="status"
        )


def _pod(daemon_set: DaemonSet, node: str, labels: dict[str, str]) -> Raw:
    meta = daemon_set.metadata
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
    }
    return {
        "metadata": {"generateName": f"{meta.name}-", "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "bridge", "image": "x"}]},
    }

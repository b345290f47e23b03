"""Nodes of a simulated cluster: they run the pods of DaemonSets, as kube-controller-manager and kubelets would."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from lanloom.api.core import NODES, PODS
from lanloom.api.dummy import UID_LABEL
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.apiserver.local import LocalClient
from lanloom.kube.errors import KubeError

NODE_NAMES = ("node1", "node2")
_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def add_nodes(admin: LocalClient) -> None:
    """The nodes."""
    for name in NODE_NAMES:
        await admin.create(NODES, {"metadata": {"name": name}})
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await admin.patch(NODES, name, status, subresource="status")


class Nodes:
    """Looks every second or so what there is to do, and does it at once."""

    def __init__(self, admin: LocalClient, rng: Random) -> None:
        self._admin = admin
        self._rng = rng

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await asyncio.sleep(0.5 + self._rng.random())
            with suppress(KubeError):
                await self._look()

    async def _look(self) -> None:
        wanted = {
            f"{item.metadata.name}-{node}": (item, node)
            for item in (await self._admin.list(DAEMON_SETS, LANLOOM_NAMESPACE)).items
            for node in NODE_NAMES
        }
        there = (await self._admin.list(PODS, LANLOOM_NAMESPACE, labels=UID_LABEL)).items
        for pod in there:
            found = wanted.pop(pod.metadata.name, None)
            if found is None or pod.metadata.labels != _labels(found[0]):
                await self._admin.delete(PODS, pod.metadata.name, LANLOOM_NAMESPACE, grace=0)
        for name, (daemon_set, node) in wanted.items():
            await self._start(name, daemon_set, node)

    async def _start(self, name: str, daemon_set: DaemonSet, node: str) -> None:
        metadata = {"name": name, "labels": _labels(daemon_set)}
        spec = {"nodeName": node, "containers": [{"name": "bridge", "image": "i"}]}
        await self._admin.create(PODS, {"metadata": metadata, "spec": spec}, LANLOOM_NAMESPACE)
        await self._admin.patch(PODS, name, {"status": _READY}, LANLOOM_NAMESPACE, subresource="status")


def _labels(daemon_set: DaemonSet) -> dict[str, Any]:
    labels: dict[str, Any] = daemon_set.spec.template["metadata"]["labels"]
    return labels

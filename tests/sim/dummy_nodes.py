"""Nodes of a simulated cluster: they run the pods of DaemonSets, as kube-controller-manager and kubelets would."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import to_builtins

from lanloom.api.core import NODES, PODS, Pod
from lanloom.api.dummy import UID_LABEL
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS, DaemonSet, DaemonSetStatus
from lanloom.kube.errors import KubeError
from lanloom_embedded.local import LocalClient

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
        pods = {
            item.metadata.name: item
            for item in (await self._admin.list(PODS, BRIDGES_NAMESPACE, labels=UID_LABEL)).items
        }
        for daemon_set in (await self._admin.list(DAEMON_SETS, BRIDGES_NAMESPACE)).items:
            there = [pods.pop(f"{daemon_set.metadata.name}-{node}", None) for node in NODE_NAMES]
            for node, pod in zip(NODE_NAMES, there, strict=True):
                await self._care(daemon_set, node, pod)
            await self._report(daemon_set, there)
        for name in pods:
            await self._admin.delete(PODS, name, BRIDGES_NAMESPACE, grace=0)

    async def _care(self, daemon_set: DaemonSet, node: str, pod: Pod | None) -> None:
        name = f"{daemon_set.metadata.name}-{node}"
        if pod is None:
            metadata = {"name": name, "labels": _labels(daemon_set)}
            spec = {"nodeName": node, "containers": [{"name": "bridge", "image": "i"}]}
            await self._admin.create(PODS, {"metadata": metadata, "spec": spec}, BRIDGES_NAMESPACE)
        elif pod.metadata.labels != _labels(daemon_set):
            await self._admin.delete(PODS, name, BRIDGES_NAMESPACE, grace=0)
        elif pod.status.phase != _READY["phase"]:
            await self._admin.patch(PODS, name, {"status": _READY}, BRIDGES_NAMESPACE, subresource="status")

    async def _report(self, daemon_set: DaemonSet, pods: Sequence[Pod | None]) -> None:
        right = [pod for pod in pods if pod is not None and pod.metadata.labels == _labels(daemon_set)]
        ready = sum(pod.status.phase == _READY["phase"] for pod in right)
        status = DaemonSetStatus(
            observed_generation=daemon_set.metadata.generation,
            desired_number_scheduled=len(NODE_NAMES),
            current_number_scheduled=len(pods),
            updated_number_scheduled=len(right),
            number_ready=ready,
            number_available=ready,
        )
        if status != daemon_set.status:
            await self._admin.patch(
                DAEMON_SETS,
                daemon_set.metadata.name,
                {"status": to_builtins(status)},
                BRIDGES_NAMESPACE,
                subresource="status",
            )


def _labels(daemon_set: DaemonSet) -> dict[str, Any]:
    labels: dict[str, Any] = daemon_set.spec.template["metadata"]["labels"]
    return labels

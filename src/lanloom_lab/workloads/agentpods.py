"""The pods that stand for the agents of a lab's nodes, so that clients find an agent as in any cluster.

The inner daemon runs the agents. Each has a mirror pod, as a kubelet makes one for a static pod: annotated as such, and
controlled by its node. What asks the agent through the API server (`pods/proxy`) asks it at its node's address. The
deletion of the pod does not end the agent, and the pod comes again.
"""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from lanloom.api.core import NODES, PODS, Node, Pod
from lanloom.api.meta import Key
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.lan.counters import AGENTS, PORT
from lanloom.kube.controller import Controller
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from lanloom_lab.plan import AGENT_PORT
from lanloom_lab.workloads.hosts import Machines

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which `kubectl drain` leaves alone. Its value tells forms of the static pod apart."""


def agent_pod(node: Node) -> dict[str, Any]:
    """Return the pod of a node's agent.

    Its image is not Lanloom's: the kubelet would start a second agent.
    """
    name, value = AGENTS.split("=")
    owner = {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "name": node.metadata.name,
        "uid": node.metadata.uid,
        "controller": True,
    }
    container = {
        "name": "agent",
        "image": "lanloom_lab/agent",
        "ports": [{"name": "metrics", "containerPort": AGENT_PORT, "protocol": "TCP"}],
    }
    return {
        "metadata": {
            "name": pod_name(node.metadata.name),
            "labels": {name: value},
            "annotations": {MIRROR: "1", PORT: str(AGENT_PORT)},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node.metadata.name,
            "hostNetwork": True,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        },
    }


def pod_name(node: str) -> str:
    """Return the name of the pod of a node's agent."""
    return f"lanloom-lan-{node}"


class AgentPods:
    """Keeps a pod for the agent of each node that runs. That of a node that is off stays until the node is removed."""

    def __init__(self, client: Client, machines: Machines, rng: Random) -> None:
        self._client = client
        self._machines = machines
        self._nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._pods: Informer[Pod] = Informer(
            client, PODS, rng=rng, namespace=LANLOOM_NAMESPACE, labels=AGENTS
        )
        self._controller: Controller[str] = Controller("agent-pods", self._reconcile, rng=rng)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = (self._nodes, self._pods)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._machines.on_change(self._controller.enqueue)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            group.create_task(self._controller.run())

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or old.metadata.uid != new.metadata.uid):
            self._controller.enqueue(new.metadata.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._controller.enqueue(old.spec.node_name)

    async def _reconcile(self, name: str) -> float | None:
        node = self._nodes.store.get(Key("", name))
        there = self._pods.store.get(Key(LANLOOM_NAMESPACE, pod_name(name)))
        if node is None or there is not None or self._machines.boot(name) is None:
            return None
        # A pod that the store does not know yet, or one that is going: its end enqueues the node.
        with suppress(AlreadyExists):
            await self._client.create(PODS, agent_pod(node), LANLOOM_NAMESPACE)
        return None

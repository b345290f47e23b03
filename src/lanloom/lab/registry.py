"""The part of a kubelet that a lab needs: a Node object for each node, Ready while the node runs.

There is no heartbeat: the supervisor knows when a node goes, and API server and nodes end together with it.
"""

from collections.abc import Callable
from contextlib import suppress

from lanloom.api.core import NODES
from lanloom.api.times import rfc3339
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.ports import Client
from lanloom.lab.plan import NodeSpec


class Registry:
    """The Node objects of a lab. `now` gives seconds since the epoch."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now

    async def report(self, node: NodeSpec, *, ready: bool) -> None:
        """Makes the Node object say that the node runs, or that it does not."""
        labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}
        with suppress(AlreadyExists):
            await self._client.create(NODES, body)
        addresses = [
            {"type": "InternalIP", "address": node.address},
            {"type": "Hostname", "address": node.name},
        ]
        await self._client.patch(
            NODES,
            node.name,
            {"status": {"addresses": addresses, "conditions": [self._condition(ready)]}},
            subresource="status",
        )

    async def forget(self, name: str) -> None:
        """Deletes the Node object; there may be none."""
        with suppress(NotFound):
            await self._client.delete(NODES, name)

    def _condition(self, ready: bool) -> dict[str, str]:
        stamp = rfc3339(self._now())
        return {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "LabNodeRuns" if ready else "LabNodeStopped",
            "message": "the node runs"
            if ready
            else "the node is powered off; start it with `lanloom lab node start`",
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }

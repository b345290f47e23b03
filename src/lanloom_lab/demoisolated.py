"""The demo's part about isolated networks: one that pods use is deleted, stays until they are gone, and goes then.

Between the steps it shows what an operator would ask; `ask` gets commands as users type them.
"""

import json
from typing import Any

from lanloom.api.core import PODS, Pod
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.kube.errors import Forbidden
from lanloom.kube.lookup import get_or_none
from lanloom_lab import examples
from lanloom_lab.demo import Story, like
from lanloom_lab.errors import DemoFailed

EXAMPLE = "dummy-subnet.yaml"
NETWORK, BRIDGE = "isolated-subnet", "isosub-br"
POD, NEIGHBOUR, LATE = (Key("default", name) for name in ("addressed", "neighbour", "late"))


class IsolatedStory(Story):
    """The network comes, is used, is kept by its users, and goes."""

    show = f"dummy show {NETWORK}"

    async def run(self) -> None:
        """All of it, in order."""
        bodies = dict(examples.objects(EXAMPLE))
        nodes = await self._make(bodies[DUMMY_CLUSTER_NETWORKS])
        node = await self._use(bodies[PODS])
        self.progress("deleting the network while both pods use it: it stays, and goes on carrying")
        await self.client.delete(DUMMY_CLUSTER_NETWORKS, NETWORK)
        await self.until("a deletion that is blocked", lambda: self._has_phase("DeletionBlocked"))
        self.ask(f"why-not-deleted dcn/{NETWORK}")
        await self._carries(node)
        await self.until("a mark on the NAD that keeps new users out", self._is_draining)
        self.progress(f"a third pod comes too late: {await self._refusal(like(bodies[PODS], LATE, node))}")
        await self._end(nodes)

    async def _make(self, body: dict[str, Any]) -> int:
        """Return the number of nodes that have the bridge."""
        self.progress("an isolated network: on every node a bridge without an uplink, which leads nowhere")
        await self.client.create(DUMMY_CLUSTER_NETWORKS, body)
        await self.until("an isolated network that is ready", lambda: self._has_phase("Ready"))
        found = await self._network()
        return found.status.nodes.live if found is not None and found.status.nodes is not None else 0

    async def _use(self, body: dict[str, Any]) -> str:
        """Return the node on which two pods use the network."""
        self.progress("two pods of one node on it, which get addresses and ping each other")
        await self.client.create(PODS, body, POD.namespace)
        node = await self.started(POD)
        await self.client.create(PODS, like(body, NEIGHBOUR, node), NEIGHBOUR.namespace)
        await self.started(NEIGHBOUR)
        await self._carries(node)
        self.ask("dummy list")
        return node

    async def _carries(self, node: str) -> None:
        """Check that the pods of this node reach each other."""
        neighbour = await self.client.get(PODS, NEIGHBOUR.name, NEIGHBOUR.namespace)
        await self.verifier.pod_reaches(node, str(POD).replace("/", "."), address_of(neighbour))

    async def _refusal(self, body: dict[str, Any]) -> str:
        """Return why a pod is not let in."""
        try:
            await self.client.create(PODS, body, LATE.namespace)
        except Forbidden as error:
            return str(error)
        raise DemoFailed(
            f"the pod {LATE} was let onto the network {NETWORK}, which is being deleted",
            "Run the demo with --keep, then see `lanloom lab status`.",
        )

    async def _end(self, nodes: int) -> None:
        self.progress("deleting the pods: now the network goes by itself")
        for key in (POD, NEIGHBOUR):
            await self.client.delete(PODS, key.name, key.namespace)
        await self.until("the end of the isolated network", self._is_gone)
        for number in range(1, nodes + 1):
            await self.verifier.lacks(f"node{number}", "the bridge", "ip -brief link", BRIDGE)
        self.progress("all is gone: the network, its NAD, and its bridge on every node")

    async def state(self) -> str:
        """Return what the network's status says."""
        found = await self._network()
        return f"{found.status.phase}: {found.status.message}" if found is not None else ""

    async def _network(self) -> DummyClusterNetwork | None:
        return await get_or_none(self.client, DUMMY_CLUSTER_NETWORKS, Key("", NETWORK))

    async def _has_phase(self, phase: str) -> bool:
        found = await self._network()
        return found is not None and found.status.phase == phase

    async def _is_draining(self) -> bool:
        found = await self._network()
        nad = await get_or_none(self.client, NADS, found.spec.nad) if found is not None else None
        return nad is not None and DRAINING in nad.metadata.annotations

    async def _is_gone(self) -> bool:
        return await self._network() is None


def address_of(pod: Pod) -> str:
    """Return the address of a pod's first network, as its annotation tells. Raises DemoFailed."""
    try:
        networks = json.loads(pod.metadata.annotations.get(NETWORK_STATUS, ""))
        return str(networks[0]["ips"][0])
    except (ValueError, LookupError, TypeError):
        raise DemoFailed(
            f"the pod {pod.metadata.key} does not tell its address", "See `lanloom lab logs node1`."
        ) from None

"""The demo's part about isolated networks: one that pods use is deleted, stays until they are gone, and goes then.

Between the steps it shows what an operator would ask; `ask` gets commands as everybody types them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from lanloom.api.core import PODS, Pod
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import Forbidden, KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.runtime.connect import connect
from lanloom_lab import examples
from lanloom_lab.demo import Verifier
from lanloom_lab.errors import DemoFailed
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done

EXAMPLE = "dummy-subnet.yaml"
NETWORK, BRIDGE = "isolated-subnet", "isosub-br"
POD, NEIGHBOUR, LATE = (Key("default", name) for name in ("addressed", "neighbour", "late"))

STEP_TIMEOUT = 60.0
PAUSE = 0.2

Progress = Callable[[str], None]
Ask = Callable[[str], None]


async def run_isolated(layout: Layout, progress: Progress, ask: Ask) -> None:
    """Tells the story on a running lab. Raises DemoFailed."""
    try:
        async with connect(str(layout.kubeconfig)) as client:
            await _Story(client, Verifier(layout), progress, ask).run()
    except KubeError as error:
        raise DemoFailed(
            f"the API server refused or is silent: {error}", "See `lanloom lab status`."
        ) from error


class _Story:
    """The network comes, is used, is kept by its users, and goes."""

    def __init__(self, client: Client, verifier: Verifier, progress: Progress, ask: Ask) -> None:
        self._client = client
        self._verifier = verifier
        self._progress = progress
        self._ask = ask

    async def run(self) -> None:
        """All of it, in order."""
        bodies = dict(examples.objects(EXAMPLE))
        nodes = await self._make(bodies[DUMMY_CLUSTER_NETWORKS])
        node = await self._use(bodies[PODS])
        self._progress("deleting the network while both pods use it: it stays, and goes on carrying")
        await self._client.delete(DUMMY_CLUSTER_NETWORKS, NETWORK)
        await self._until("a deletion that is blocked", lambda: self._has_phase("DeletionBlocked"))
        self._ask(f"why-not-deleted dcn/{NETWORK}")
        await self._carries(node)
        await self._until("a mark on the NAD that keeps new users out", self._is_draining)
        self._progress(f"a third pod comes too late: {await self._refusal(_like(bodies[PODS], LATE, node))}")
        await self._end(nodes)

    async def _make(self, body: dict[str, Any]) -> int:
        """The number of nodes that have the bridge."""
        self._progress("an isolated network: on every node a bridge without an uplink, which leads nowhere")
        await self._client.create(DUMMY_CLUSTER_NETWORKS, body)
        await self._until("an isolated network that is ready", lambda: self._has_phase("Ready"))
        found = await self._network()
        return found.status.nodes.live if found is not None and found.status.nodes is not None else 0

    async def _use(self, body: dict[str, Any]) -> str:
        """The node on which two pods use the network."""
        self._progress("two pods of one node on it, which get addresses and ping each other")
        await self._client.create(PODS, body, POD.namespace)
        node = await self._started(POD)
        await self._client.create(PODS, _like(body, NEIGHBOUR, node), NEIGHBOUR.namespace)
        await self._started(NEIGHBOUR)
        await self._carries(node)
        self._ask("dummy list")
        return node

    async def _carries(self, node: str) -> None:
        """The pods of this node reach each other."""
        neighbour = await self._client.get(PODS, NEIGHBOUR.name, NEIGHBOUR.namespace)
        await self._verifier.pod_reaches(node, str(POD).replace("/", "."), address_of(neighbour))

    async def _refusal(self, body: dict[str, Any]) -> str:
        """Why a pod is not let in."""
        try:
            await self._client.create(PODS, body, LATE.namespace)
        except Forbidden as error:
            return str(error)
        raise DemoFailed(
            f"the pod {LATE} was let onto the network {NETWORK}, which is being deleted",
            "Run the demo with --keep, then see `lanloom lab status`.",
        )

    async def _end(self, nodes: int) -> None:
        self._progress("deleting the pods: now the network goes by itself")
        for key in (POD, NEIGHBOUR):
            await self._client.delete(PODS, key.name, key.namespace)
        await self._until("the end of the isolated network", self._is_gone)
        for number in range(1, nodes + 1):
            await self._verifier.lacks(f"node{number}", "the bridge", "ip -brief link", BRIDGE)
        self._progress("all is gone: the network, its NAD, and its bridge on every node")

    async def _started(self, key: Key) -> str:
        """The node on which a pod is ready."""
        await self._until(f"the pod {key}", lambda: self._is_ready(key))
        return (await self._client.get(PODS, key.name, key.namespace)).spec.node_name

    async def _network(self) -> DummyClusterNetwork | None:
        return await get_or_none(self._client, DUMMY_CLUSTER_NETWORKS, Key("", NETWORK))

    async def _has_phase(self, phase: str) -> bool:
        found = await self._network()
        return found is not None and found.status.phase == phase

    async def _is_draining(self) -> bool:
        found = await self._network()
        nad = await get_or_none(self._client, NADS, found.spec.nad) if found is not None else None
        return nad is not None and DRAINING in nad.metadata.annotations

    async def _is_gone(self) -> bool:
        return await self._network() is None

    async def _is_ready(self, key: Key) -> bool:
        found = await get_or_none(self._client, PODS, key)
        return found is not None and is_true(found.status.conditions, "Ready")

    async def _until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(STEP_TIMEOUT):
                await until_done(condition, PAUSE)
        except TimeoutError:
            found = await self._network()
            said = f"\n  {found.status.phase}: {found.status.message}" if found is not None else ""
            raise DemoFailed(
                f"after {STEP_TIMEOUT:.0f} s there is not {what}{said}",
                f"Run the demo with --keep, then see `lanloom dummy show {NETWORK}`.",
            ) from None


def address_of(pod: Pod) -> str:
    """The address of a pod's first network, as its annotation tells. Raises DemoFailed."""
    try:
        networks = json.loads(pod.metadata.annotations.get(NETWORK_STATUS, ""))
        return str(networks[0]["ips"][0])
    except (ValueError, LookupError, TypeError):
        raise DemoFailed(
            f"the pod {pod.metadata.key} does not tell its address", "See `lanloom lab logs node1`."
        ) from None


def _like(body: dict[str, Any], key: Key, node: str) -> dict[str, Any]:
    """A pod once more, under another name on a certain node."""
    metadata = body["metadata"] | {"name": key.name}
    return body | {"metadata": metadata, "spec": body["spec"] | {"nodeName": node}}

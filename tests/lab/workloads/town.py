"""An API server in memory with nodes, kubelets, a scheduler and the controller of DaemonSets, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Any, TypeVar

from lanloom.api.core import NODES, PODS, Pod
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.kube.ports import WatchEvent
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from lanloom_lab.workloads.daemonsets import DaemonSets
from lanloom_lab.workloads.scheduler import Scheduler
from tests.features.dummy.cluster.kubelets import Kubelets
from tests.harness.interceptor import Interceptor
from tests.harness.virtual import run

T = TypeVar("T", bound=Object)

PLACE = "default"
LABELS = {"app": "daemon"}


class Town:
    """The cluster, with words for what tests do to it.

    What becomes of DaemonSets reaches their controller `behind` seconds late.
    """

    def __init__(self) -> None:
        self.behind = 0.0
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.engine = Engine(MemoryStorage(), now=loop.time, rng=Random(1))
        self.client = LocalClient(self.engine)
        self.kubelets = Kubelets(self.client, loop.time, Random(2))

    async def rest(self) -> None:
        """Waits until everything has come to rest."""
        await asyncio.sleep(30)

    async def add_node(self, name: str, ready: bool = True, labels: dict[str, str] | None = None) -> None:
        """A node, with its kubelet."""
        conditions = [{"type": "Ready", "status": str(ready)}]
        body = {"metadata": {"name": name, "labels": labels or {}}, "status": {"conditions": conditions}}
        await self.client.create(NODES, body)

    async def add_daemons(self, name: str = "daemon", spec: dict[str, Any] | None = None, **pod: Any) -> None:
        """A DaemonSet; `spec` and `pod` are over the standard."""
        template = {
            "metadata": {"labels": LABELS, "annotations": {"note": "kept"}},
            "spec": {"containers": [{"name": "main", "image": "one"}], **pod},
        }
        standard: dict[str, Any] = {"selector": {"matchLabels": LABELS}, "template": template}
        await self.client.create(
            DAEMON_SETS, {"metadata": {"name": name}, "spec": standard | (spec or {})}, PLACE
        )

    async def change_image(self, image: str, name: str = "daemon") -> None:
        """A new template."""
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        await self.client.patch(DAEMON_SETS, name, {"spec": {"template": template}}, PLACE)

    async def daemons(self, name: str = "daemon") -> DaemonSet:
        """The DaemonSet."""
        return await self.client.get(DAEMON_SETS, name, PLACE)

    async def pods(self) -> tuple[Pod, ...]:
        """All pods, by node."""
        found = (await self.client.list(PODS, PLACE)).items
        return tuple(sorted(found, key=lambda pod: (pod.spec.node_name, pod.metadata.name)))

    async def nodes_with_pods(self) -> list[str]:
        """The nodes of all pods."""
        return [pod.spec.node_name for pod in await self.pods()]

    async def uids(self) -> dict[str, str]:
        """The pods' uids by node."""
        return {pod.spec.node_name: pod.metadata.uid for pod in await self.pods()}


class Behind(Interceptor):
    """The controller's client: changes of DaemonSets come as late as the town says, those of pods at once."""

    def __init__(self, town: Town) -> None:
        super().__init__(town.client)
        self._town = town

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        async with aclosing(begin()) as stream:
            async for event in stream:
                await asyncio.sleep(self._town.behind if resource is DAEMON_SETS else 0)
                yield event


def in_a_town(test: Callable[[Town], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a cluster with the nodes n1, n2 and n3."""

    async def main() -> None:
        town = Town()
        await town.engine.start()
        for name in ("n1", "n2", "n3"):
            await town.add_node(name)
        workers = [
            asyncio.create_task(each.run())
            for each in (
                town.kubelets,
                DaemonSets(Behind(town), Random(3), town.now),
                Scheduler(town.client, Random(4), town.now),
            )
        ]
        try:
            await test(town)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await town.engine.close()

    def run_it() -> None:
        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it

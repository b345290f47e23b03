"""A cluster as far as DaemonSets and their pods go: nodes, kubelets that answer, and a namespace for each test."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from lanloom.api.core import (
    NAMESPACES,
    NODES,
    PODS,
    Pod,
)
from lanloom.api.meta import rfc3339
from lanloom.api.workloads import DAEMON_SETS
from lanloom.kube.errors import NotFound
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom_lab.workloads.daemonsets import DaemonSets
from tests.features.dummy.cluster.kubelets import PLACED_PODS, Kubelets, wanted_node
from tests.harness.servers.eventually import eventually as eventually_within

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds until something is a failure that takes as long as it takes.

The collector of a real cluster may pause for 30 of them when kinds come or go, and a manager waits 75 for a request
that was allowed and never came.
"""

EMBEDDED = "embedded"
REAL = pytest.param("real", marks=[pytest.mark.realserver, pytest.mark.slow])
"""Parameters of the fixture `cluster`."""

_serial = count(1)


class Ground:
    """A cluster. `place` is the test's own namespace; `start` runs something until the test's end."""

    def __init__(self, kubeconfig: Path, is_real: bool, stack: AsyncExitStack) -> None:
        self.is_real = is_real
        self.config = load(str(kubeconfig))
        self.client = HttpClient(self.config)
        self.kubelets = Kubelets(self.client, time.time, Random(1))
        self.place = f"place-{next(_serial)}"
        self.stack = stack

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs something until the end of the test, or until `stop`."""
        task = asyncio.create_task(work)
        self.stack.push_async_callback(stop, task)
        return task

    async def add_node(self, name: str) -> None:
        """A node that is ready."""
        await self.client.create(NODES, {"metadata": {"name": name}})
        await self.report(name, "True")

    async def report(self, name: str, ready: str, since: float | None = None) -> None:
        """What the cluster knows of a node's kubelet: True, False or Unknown, since then."""
        stamp = rfc3339(time.time() if since is None else since)
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": stamp}
        await self.client.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def pods(self, place: str = "", labels: str = "") -> dict[str, Pod]:
        """The pods of a namespace by the node on which they are, or are to be."""
        found = (await self.client.list(PLACED_PODS, place or self.place, labels=labels)).items
        return {pod.spec.node_name or wanted_node(pod.spec.affinity): pod for pod in found}

    async def until(
        self, read: Callable[[], Awaitable[T]], holds: Callable[[T], bool], seconds: float = PATIENCE
    ) -> T:
        """What `read` gives once it holds."""
        return await eventually(read, holds, seconds)


async def eventually(
    read: Callable[[], Awaitable[T]], holds: Callable[[Any], bool], seconds: float = PATIENCE
) -> T:
    """What `read` gives once it holds, with the patience that a cluster needs."""
    return await eventually_within(read, holds, seconds)


async def stop(task: asyncio.Task[None]) -> None:
    """Ends a task, as a process is ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def ground(kubeconfig: Path, *, is_real: bool) -> AsyncIterator[Ground]:
    """The cluster with three nodes; what the test leaves in it is removed."""
    async with AsyncExitStack() as stack:
        made = Ground(kubeconfig, is_real, stack)
        await stack.enter_async_context(made.client)
        await made.client.create(NAMESPACES, {"metadata": {"name": made.place}})
        stack.push_async_callback(_clean, made)
        for name in ("n1", "n2", "n3"):
            await made.add_node(name)
        made.start(made.kubelets.run())
        if not is_real:
            made.start(DaemonSets(made.client, Random(2)).run())
        yield made


async def _clean(made: Ground) -> None:
    """Removes DaemonSets, pods and nodes, as no controller is left to do it."""
    for daemon in (await made.client.list(DAEMON_SETS)).items:
        with suppress(NotFound):
            await made.client.delete(DAEMON_SETS, daemon.metadata.name, daemon.metadata.namespace)
    for node in (await made.client.list(NODES)).items:
        await made.client.delete(NODES, node.metadata.name)

    async def pods() -> int:
        found = (await made.client.list(PODS)).items
        for pod in found:
            with suppress(NotFound):
                await made.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace=0)
        return len(found) + len((await made.client.list(DAEMON_SETS)).items)

    await eventually(pods, lambda number: number == 0)

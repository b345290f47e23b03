"""A cluster for one test: an embedded API server on the loop's clock, and the processes that run next to it."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.resource import Resource
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.servers.filled import filled
from tests.harness.virtual import run

Raw = dict[str, Any]


def installed(*kinds: Resource[Any]) -> MemoryStorage:
    """The storage of a server that serves these custom kinds, before its first use."""
    return copy.deepcopy(_installed(kinds))


@cache
def _installed(kinds: tuple[Resource[Any], ...]) -> MemoryStorage:
    """Made once for these kinds, because CRDs take their time."""

    async def fill(admin: LocalClient) -> None:
        for resource in kinds:
            await admin.create(CRDS, manifest(resource))

    return filled(fill)


class Cluster:
    """The API server, an administrator's `client`, and named processes; all of it ends with the block."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = ()
    """The custom kinds that the server serves from the start."""

    def __init__(self, storage: MemoryStorage, *, seed: int = 1) -> None:
        self.now = asyncio.get_running_loop().time
        self.engine = Engine(storage, now=self.now, rng=Random(seed))
        self.client = LocalClient(self.engine)
        self._processes: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        await self.engine.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in tuple(self._processes):
            await self.kill(name)
        await self.engine.close()

    def begin(self, name: str, process: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a process under a name."""
        task = self._processes[name] = asyncio.create_task(process)
        return task

    async def kill(self, name: str) -> None:
        """End a process."""
        task = self._processes.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def recorder(self, component: str, name: str, client: Client, rng: Random) -> Recorder:
        """The writer of a process's Events."""
        return Recorder(client, component, name, now=self.now, rng=rng)

    async def keep(self, resource: Resource[Any], body: Raw) -> str:
        """Create an object, with its status if the kind has one apart; return its uid."""
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        made = await self.client.create(resource, body, namespace)
        if "status" in body and resource.status:
            status = {"status": body["status"]}
            await self.client.patch(resource, name, status, namespace, subresource="status")
        uid: str = made.metadata.uid
        return uid


C = TypeVar("C", bound=Cluster)


def play(
    story: Callable[[C], Awaitable[None]], make: type[C], *, rng: Random | None = None, seed: int = 1
) -> None:
    """Play a story in a cluster of its own, in virtual time; `rng` orders what is ready at the same moment."""

    async def main(storage: MemoryStorage) -> None:
        async with make(storage, seed=seed) as cluster:
            await story(cluster)

    run(main(installed(*make.kinds)), rng=rng)

"""The manager's side of settings on a server in memory, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from random import Random
from typing import Any, Self

from lanloom.api.core import (
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    NAMESPACES,
    PODS,
    Event,
)
from lanloom.api.crds import manifest
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.dummy.manager.settings import DefaultNetwork, DummySettings
from lanloom.features.dummy.rights import CONFIG_MAP
from lanloom.features.dummy.rules.flags import Flags
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from tests.harness.cluster import Cluster, play

IDENTITY = "lanloom-manager-0"


class Office(Cluster):
    """The server, and a manager of which only the settings and the default network are there."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._numbers = count()
        await self.client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        return self

    async def start(self, given: Flags) -> DummySettings:
        """A manager's settings, as soon as they were read."""
        informers = Informers(self.client, Random(3))
        settings = DummySettings(informers, identity=IDENTITY, given=given)
        for informer in informers.all():
            self._run(informer.run())
        await all_synced(informers.all())
        return settings

    def lead(self, settings: DummySettings) -> Callable[[], Awaitable[None]]:
        """What the leader does with them; returns what ends its term."""
        recorder = self.recorder("lanloom-manager", IDENTITY, self.client, Random(4))
        network = DefaultNetwork(self.client, settings, rng=Random(5))
        names = [self._run(work) for work in (settings.run(recorder), network.run())]

        async def end() -> None:
            for name in names:
                await self.kill(name)

        return end

    def _run(self, work: Coroutine[Any, Any, None]) -> str:
        """Runs something under a name of its own."""
        name = f"work {next(self._numbers)}"
        self.begin(name, work)
        return name

    async def know_the_kind(self) -> None:
        """Brings the server DummyClusterNetworks."""
        await self.client.create(CRDS, manifest(DUMMY_CLUSTER_NETWORKS))

    async def write(self, data: dict[str, str]) -> None:
        """Creates the ConfigMap."""
        await self.client.create(
            CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "data": data}, LANLOOM_NAMESPACE
        )
        await self.rest()

    async def change(self, data: dict[str, str | None]) -> None:
        """Changes the ConfigMap's entries."""
        await self.client.patch(CONFIG_MAPS, CONFIG_MAP, {"data": data}, LANLOOM_NAMESPACE)
        await self.rest()

    async def erase(self) -> None:
        """Deletes the ConfigMap."""
        await self.client.delete(CONFIG_MAPS, CONFIG_MAP, LANLOOM_NAMESPACE)
        await self.rest()

    async def networks(self) -> tuple[DummyClusterNetwork, ...]:
        """The networks that are there."""
        return (await self.client.list(DUMMY_CLUSTER_NETWORKS)).items

    async def events(self) -> tuple[Event, ...]:
        """What was reported."""
        return (await self.client.list(EVENTS)).items

    async def pod(self, *containers: dict[str, Any], name: str = IDENTITY) -> None:
        """A pod in Lanloom's namespace, with what its node reports of its containers."""
        spec = {"containers": [{"name": "manager", "image": "lanloom:0.1.0"}]}
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, LANLOOM_NAMESPACE)
        status = {"status": {"phase": "Running", "containerStatuses": list(containers)}}
        await self.client.patch(PODS, name, status, LANLOOM_NAMESPACE, subresource="status")
        await self.rest()

    async def rest(self, seconds: float = 5.0) -> None:
        """Until all have had the time to act."""
        await asyncio.sleep(seconds)


def in_an_office(test: Callable[[Office], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets the server."""

    def run_it() -> None:
        play(test, Office)

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it

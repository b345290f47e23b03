"""An API server with the kinds of address management and one manager, for tests that do one thing at a time."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import cache
from random import Random
from typing import Any

from lanloom.api.core import CRDS, EVENTS, Event
from lanloom.api.crds import manifest
from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    NetworkStatus,
    Nic,
    NicStatus,
)
from lanloom.api.meta import Condition
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.manager.informers import ipam_informers
from lanloom.kube.conditions import find
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.servers.filled import filled
from tests.harness.virtual import run

PLACE = "default"


def first_storage() -> MemoryStorage:
    """A server that knows the kinds, before anybody used it."""
    return copy.deepcopy(_first_storage())


@cache
def _first_storage() -> MemoryStorage:
    """Made once, because CRDs take their time."""

    async def fill(admin: LocalClient) -> None:
        for resource in (NETWORKS, NICS):
            await admin.create(CRDS, manifest(resource))

    return filled(fill)


class Realm:
    """The server and its manager, with words for what tests do to them."""

    def __init__(self, storage: MemoryStorage) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.engine = Engine(storage, now=loop.time, rng=Random(1))
        self.admin = LocalClient(self.engine)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """The server and a manager."""
        await self.engine.start()
        self.lead("manager-1")

    def lead(self, name: str, client: LocalClient | None = None) -> None:
        """A manager that believes to lead."""
        self._tasks[name] = asyncio.create_task(self._manage(name, client or LocalClient(self.engine)))

    async def kill(self, name: str) -> None:
        """Ends a manager."""
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Ends everything."""
        for name in tuple(self._tasks):
            await self.kill(name)
        await self.engine.close()

    async def _manage(self, name: str, client: LocalClient) -> None:
        rng = Random(name)
        informers = ipam_informers(Informers(client, rng))
        recorder = Recorder(client, "lanloom-manager", name, now=self.now, rng=rng)
        manager = IpamManager(client, informers, recorder, identity=name, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            group.create_task(manager.run())

    async def network(self, name: str = "net", *subnets: dict[str, Any]) -> None:
        """A network; 192.0.2.0/24 with a pool of ten addresses unless told otherwise."""
        standard = {
            "cidr": "192.0.2.0/24",
            "gateway": "192.0.2.1",
            "pools": [{"range": "192.0.2.10-192.0.2.19"}],
        }
        body = {"metadata": {"name": name}, "spec": {"subnets": list(subnets) or [standard]}}
        await self.admin.create(NETWORKS, body)

    async def nic(self, name: str, *ips: str, network: str = "net", **spec: Any) -> None:
        """A NIC that asks for addresses."""
        body = {
            "metadata": {"name": name},
            "spec": {
                "owner": {"kind": "Instance", "name": name},
                "network": network,
                "ips": list(ips),
                **spec,
            },
        }
        await self.admin.create(NICS, body, PLACE)

    async def change(self, name: str, **spec: Any) -> None:
        """Changes what a NIC asks for."""
        await self.admin.patch(NICS, name, {"spec": spec}, PLACE)

    async def force(self, name: str, **status: Any) -> None:
        """Writes into a NIC's status what only the manager may."""
        await self.admin.patch(NICS, name, {"status": status}, PLACE, subresource="status")

    async def delete(self, name: str) -> None:
        """Deletes a NIC."""
        await self.admin.delete(NICS, name, PLACE)

    async def rest(self) -> None:
        """Waits until everything has come to rest."""
        await asyncio.sleep(30)

    async def get(self, name: str) -> Nic:
        """A NIC."""
        return await self.admin.get(NICS, name, PLACE)

    async def status(self, name: str) -> NicStatus:
        """A NIC's status."""
        return (await self.get(name)).status

    async def ips(self, name: str) -> tuple[str, ...]:
        """What a NIC has."""
        return (await self.status(name)).ips

    async def refusal(self, name: str) -> tuple[str, str]:
        """Why a NIC does not get what it asks for: reason and message."""
        found = condition(await self.status(name), "Allocated")
        assert found.status == "False"
        return found.reason, found.message

    async def net(self, name: str = "net") -> Network:
        """A network."""
        return await self.admin.get(NETWORKS, name)

    async def configure(self, *subnets: dict[str, Any], name: str = "net") -> None:
        """Gives a network other subnets."""
        await self.admin.patch(NETWORKS, name, {"spec": {"subnets": list(subnets)}})

    async def events(self, reason: str) -> list[Event]:
        """The Events of this reason, oldest first."""
        found = (await self.admin.list(EVENTS)).items
        return sorted(
            (item for item in found if item.reason == reason), key=lambda item: item.first_timestamp or ""
        )


def condition(status: NicStatus | NetworkStatus, type: str) -> Condition:
    """A condition that must be there."""
    found = find(status.conditions, type)
    assert found is not None
    return found


def in_a_realm(test: Callable[[Realm], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets the server and its manager."""

    async def main(storage: MemoryStorage) -> None:
        realm = Realm(storage)
        await realm.start()
        try:
            await test(realm)
        finally:
            await realm.close()

    def run_it() -> None:
        run(main(first_storage()))

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it

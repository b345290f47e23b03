"""A cluster with address management, for tests that do one thing at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, ClassVar

from lanloom.api.core import EVENTS, Event
from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    NetworkStatus,
    Nic,
    NicStatus,
)
from lanloom.api.meta import Condition
from lanloom.api.resource import Resource
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.reader import ipam_informers
from lanloom.kube.conditions import find
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.harness.cluster import Cluster, play
from tests.harness.interceptor import Deed, Interceptor, Request

PLACE = "default"
STANDARD = {
    "cidr": "192.0.2.0/24",
    "gateway": "192.0.2.1",
    "pools": [{"range": "192.0.2.10-192.0.2.19"}],
}
"""A subnet with a pool of ten addresses."""


class IpamCluster(Cluster):
    """Networks, NICs in the namespace `default`, and the managers that give addresses."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (NETWORKS, NICS)

    def lead(self, name: str = "manager-1", client: Client | None = None) -> None:
        """Start a manager that believes to lead."""
        self.begin(name, self._manage(name, client or LocalClient(self.engine)))

    async def _manage(self, name: str, client: Client) -> None:
        rng = Random(name)
        informers = ipam_informers(Informers(client, rng))
        recorder = self.recorder("lanloom-manager", name, client, rng)
        manager = IpamManager(client, informers, recorder, identity=name, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            group.create_task(manager.run())

    async def network(self, name: str = "net", *subnets: dict[str, Any]) -> None:
        """Create a network; its subnet is STANDARD unless given otherwise."""
        body = {"metadata": {"name": name}, "spec": {"subnets": list(subnets) or [STANDARD]}}
        await self.client.create(NETWORKS, body)

    async def configure(self, *subnets: dict[str, Any], name: str = "net") -> None:
        """Give a network other subnets."""
        await self.client.patch(NETWORKS, name, {"spec": {"subnets": list(subnets)}})

    async def net(self, name: str = "net") -> Network:
        """A network."""
        return await self.client.get(NETWORKS, name)

    async def nic(self, name: str, *ips: str, network: str = "net", **spec: Any) -> None:
        """Create a NIC that asks for addresses."""
        body = {
            "metadata": {"name": name},
            "spec": {
                "owner": {"kind": "Instance", "name": name},
                "network": network,
                "ips": list(ips),
                **spec,
            },
        }
        await self.client.create(NICS, body, PLACE)

    async def change(self, name: str, **spec: Any) -> None:
        """Change what a NIC asks for."""
        await self.client.patch(NICS, name, {"spec": spec}, PLACE)

    async def force(self, name: str, **status: Any) -> None:
        """Write into a NIC's status what only the manager may."""
        await self.client.patch(NICS, name, {"status": status}, PLACE, subresource="status")

    async def delete(self, name: str) -> None:
        """Delete a NIC."""
        await self.client.delete(NICS, name, PLACE)

    async def rest(self) -> None:
        """Wait until everything has come to rest."""
        await asyncio.sleep(30)

    async def get(self, name: str) -> Nic:
        """A NIC."""
        return await self.client.get(NICS, name, PLACE)

    async def nics(self) -> tuple[Nic, ...]:
        """All NICs, by name."""
        found = (await self.client.list(NICS)).items
        return tuple(sorted(found, key=lambda nic: nic.metadata.name))

    async def status(self, name: str) -> NicStatus:
        """A NIC's status."""
        return (await self.get(name)).status

    async def ips(self, name: str) -> tuple[str, ...]:
        """The addresses of a NIC."""
        return (await self.status(name)).ips

    async def refusal(self, name: str) -> tuple[str, str]:
        """Why a NIC does not get what it asks for: reason and message."""
        found = condition(await self.status(name), "Allocated")
        assert found.status == "False"
        return found.reason, found.message

    async def events(self, reason: str) -> list[Event]:
        """The Events of this reason, oldest first."""
        found = (await self.client.list(EVENTS)).items
        return sorted(
            (item for item in found if item.reason == reason), key=lambda item: item.first_timestamp or ""
        )


class GrantingClient(Interceptor):
    """An API server that is about to store the first grant when something else happens."""

    def __init__(self, inner: Client, meanwhile: Deed) -> None:
        super().__init__(inner)
        self.meanwhile: Deed | None = meanwhile

    async def send(self, request: Request) -> Any:
        grants = request.body.get("status", {}).get("grants") if request.merges else None
        if grants and self.meanwhile is not None:
            deed, self.meanwhile = self.meanwhile, None
            await deed()
        return await super().send(request)


def condition(status: NicStatus | NetworkStatus, type: str) -> Condition:
    """A condition that must be there."""
    found = find(status.conditions, type)
    assert found is not None
    return found


def in_a_cluster(test: Callable[[IpamCluster], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets the cluster with one manager."""

    async def managed(cluster: IpamCluster) -> None:
        cluster.lead()
        await test(cluster)

    def run_it() -> None:
        play(managed, IpamCluster)

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it

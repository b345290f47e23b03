"""Two managers on a real kube-apiserver, and a lease that is taken from the one that leads."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import CRDS, LEASES
from lanloom.api.crds import manifest
from lanloom.api.ipam import NETWORKS, NICS, Nic
from lanloom.api.resource import Resource
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.reader import ipam_informers
from lanloom.kube.election import Elector
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.events import Recorder
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.loading import load
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

pytestmark = pytest.mark.realserver


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver for this module alone: its managers would look after every other test's networks."""
    with RealServer(real_binaries) as running:
        yield running


PLACE, LEASE = "default", "lanloom-ipam-test"
NICS_EACH = 20


async def manage(client: HttpClient, name: str) -> None:
    """A manager that goes on for some seconds after it has lost the lease."""
    rng = random.Random(name)
    informers = ipam_informers(Informers(client, rng))
    recorder = Recorder(client, "lanloom-manager", name, now=time.time, rng=rng)
    manager = IpamManager(client, informers, recorder, identity=name, now=time.time, rng=rng)
    elector = Elector(client, PLACE, LEASE, name, now=time.time, rng=rng, lease=3.0, renew=2.0, retry=0.2)

    async def lead() -> None:
        leading = asyncio.create_task(manager.run())
        try:
            await asyncio.shield(leading)
        except asyncio.CancelledError:
            await asyncio.sleep(1.5)
            raise
        finally:
            leading.cancel()

    async with asyncio.TaskGroup() as group:
        for informer in informers.all():
            group.create_task(informer.run())
        await all_synced(informers.all())
        await elector.run(lead)


async def add_nics(client: HttpClient, prefix: str) -> None:
    """NICs that ask for an address each."""
    for index in range(NICS_EACH):
        name = f"{prefix}{index}"
        spec: dict[str, Any] = {
            "owner": {"kind": "Instance", "name": name},
            "network": "real",
            "ips": ["pool"],
        }
        await client.create(NICS, {"metadata": {"name": name}, "spec": spec}, PLACE)


def served(nics: tuple[Nic, ...], count: int) -> bool:
    """Whether each of so many NICs has an address."""
    return len(nics) == count and all(item.status.ips for item in nics)


async def test_a_stolen_lease_gives_nothing_twice(server: RealServer) -> None:
    """While the lease passes from one manager to the other, NICs get addresses, and no two of them the same."""
    kinds: tuple[Resource[Any], ...] = (NETWORKS, NICS)
    async with HttpClient(load(str(server.kubeconfig))) as client:
        for resource in kinds:
            with suppress(AlreadyExists):
                await client.create(CRDS, manifest(resource))
            await eventually(partial(client.list, resource), lambda _: True)
        managers = [asyncio.create_task(manage(client, name)) for name in ("manager-1", "manager-2")]
        try:
            pools = [{"range": "192.0.2.16-192.0.2.250"}]
            spec = {"subnets": [{"cidr": "192.0.2.0/24", "pools": pools}]}
            await client.create(NETWORKS, {"metadata": {"name": "real"}, "spec": spec})
            await add_nics(client, "a")
            first = await eventually(
                lambda: client.get(NETWORKS, "real"), lambda item: item.status.allocator.epoch > 0
            )
            thief = {"spec": {"holderIdentity": "a thief", "leaseDurationSeconds": 1}}
            await client.patch(LEASES, LEASE, thief, PLACE)
            await add_nics(client, "b")
            await eventually(
                lambda: client.get(NETWORKS, "real"),
                lambda item: item.status.allocator.epoch > first.status.allocator.epoch,
            )
            await add_nics(client, "c")
            listing = await eventually(
                lambda: client.list(NICS, PLACE), lambda found: served(found.items, 3 * NICS_EACH)
            )
            assert len({ip for item in listing.items for ip in item.status.ips}) == 3 * NICS_EACH
            network = await eventually(
                lambda: client.get(NETWORKS, "real"),
                lambda item: not item.status.grants and item.status.used == str(3 * NICS_EACH),
            )
            assert network.status.free == str(235 - 3 * NICS_EACH)
            for item in listing.items:
                await client.delete(NICS, item.metadata.name, PLACE)
            await client.delete(NETWORKS, "real")
            await eventually(partial(client.list, NETWORKS), lambda found: not found.items)
        finally:
            for manager in managers:
                manager.cancel()
            await asyncio.gather(*managers, return_exceptions=True)

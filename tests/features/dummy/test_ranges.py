"""What a cluster tells of the addresses of its services."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from lanloom.api.clusterranges import SERVICE_CIDRS, SERVICES, Taken
from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.features.dummy.reader import read_ranges
from lanloom.features.dummy.rules.model import Settings
from lanloom.features.dummy.rules.subnet import Ranges
from lanloom.kube.errors import ServerError
from lanloom.kube.ports import Client
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.virtual import run

SETTINGS = Settings(pod_cidrs=("10.42.0.0/16",), service_cidrs=("10.45.0.0/16",))
SAID = Taken("10.45.0.0/16", "the services (setting serviceCIDRs)")


def asked(fill: Callable[[LocalClient], Awaitable[None]]) -> Ranges:
    """What a server tells on which something was created."""

    async def main() -> Ranges:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        await fill(client)
        found = await read_ranges(client, (), SETTINGS)
        await engine.close()
        return found

    return run(main())


async def nothing(_client: LocalClient) -> None:
    """An empty server."""


async def services(client: LocalClient) -> None:
    """The service of the API server, and the kind that has the ranges."""
    spec = {"clusterIP": "10.43.0.1", "clusterIPs": ["10.43.0.1", "fd00:43::1"]}
    await client.create(SERVICES, {"metadata": {"name": "kubernetes"}, "spec": spec}, "default")
    await client.create(CRDS, manifest(SERVICE_CIDRS))
    body = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.43.0.0/16", "fd00:43::/112"]}}
    await client.create(SERVICE_CIDRS, body)


def test_nobody_need_tell() -> None:
    """Where there is neither ServiceCIDR nor service, the settings alone tell."""
    found = asked(nothing)
    assert found.services == (SAID,)
    assert found.pods == (Taken("10.42.0.0/16", "the pods (setting podCIDRs)"),)


def test_the_cluster_tells() -> None:
    """ServiceCIDRs and the addresses of the service `kubernetes` are counted, each once."""
    assert asked(services).services == (
        SAID,
        Taken("10.43.0.0/16", "the services (ServiceCIDR kubernetes)"),
        Taken("fd00:43::/112", "the services (ServiceCIDR kubernetes)"),
        Taken("10.43.0.1", "service default/kubernetes"),
        Taken("fd00:43::1", "service default/kubernetes"),
    )


def test_a_server_that_fails_is_no_answer() -> None:
    """Any error but that the kind is absent is the caller's to know."""

    class Failing(LocalClient):
        async def list(self, *_words: Any, **_options: Any) -> Any:
            raise ServerError(500, "InternalError", "no")

    engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
    client: Client = Failing(engine)
    with pytest.raises(ServerError):
        run(_read(client))


async def _read(client: Client) -> Ranges:
    return await read_ranges(client, (), SETTINGS)

"""Who refers to an isolated network, on the embedded server and on a real kube-apiserver, through their webhooks.

The embedded one drops `matchConditions`, as API servers before 1.28 do.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from lanloom.api.core import (
    CRDS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
    Pod,
)
from lanloom.api.crds import manifest
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from lanloom.nads.guard import reservations_of
from lanloom.runtime.identity import MANAGERS
from lanloom.runtime.webhookconfig import CONFIGURATION_NAME
from lanloom_embedded.local import LocalClient
from tests.harness.installing import ensure, prepare
from tests.harness.managers import asking_engine, leading
from tests.harness.servers.eventually import PatientClient, eventually
from tests.harness.servers.real import RealServer

pytestmark = pytest.mark.slow

SERVERS = ("embedded", pytest.param("real", marks=pytest.mark.realserver))


@pytest.fixture(scope="module")
def real(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver for this module alone."""
    with RealServer(real_binaries) as running:
        yield running


class Place(Struct, frozen=True):
    """A server with a manager that leads, and a network of the test's own, whose NAD has its name."""

    client: Client
    name: str
    keeps_conditions: bool

    async def nad(self) -> NetworkAttachmentDefinition:
        """The network's NAD."""
        return await self.client.get(NADS, self.name, "nets")

    async def add_pod(self, **metadata: str) -> Pod:
        """A pod on the network."""
        annotations = {"k8s.v1.cni.cncf.io/networks": f"nets/{self.name}"}
        containers = [{"name": "c", "image": "example.org/c"}]
        spec = {"containers": containers, "automountServiceAccountToken": False}
        body = {"metadata": {**metadata, "annotations": annotations}, "spec": spec}
        return await self.client.create(PODS, body, "default")

    async def pods_are_noted(self) -> None:
        """Waits until pods are reviewed: a server learns by itself for its own kinds what it is to ask of which
        webhook.
        """

        async def is_noted() -> bool:
            pod = await self.add_pod(generateName="asked-")
            await self.client.delete(PODS, pod.metadata.name, "default")
            return pod.metadata.uid in {item.uid for item in reservations_of(await self.nad())}

        await eventually(is_noted, bool)


NUMBERS = count(1)


@pytest.fixture(params=SERVERS)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each of the servers."""
    real = request.getfixturevalue("real") if request.param == "real" else None
    where = connected(real) if real is not None else embedded()
    keeps_conditions = real is not None and not real.is_older_than("1.28")
    async with where as client, managed(client):
        found = Place(client, f"red{next(NUMBERS)}", keeps_conditions)
        await ensure(client, NAMESPACES, {"metadata": {"name": "nets"}})
        spec = {"bridgeName": f"{found.name}-br", "nadName": found.name, "nadNamespace": "nets"}
        await client.create(DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": found.name}, "spec": spec})
        await eventually(found.nad, lambda _: True)
        await found.pods_are_noted()
        yield found


@asynccontextmanager
async def embedded() -> AsyncIterator[Client]:
    """An engine that calls webhooks over HTTPS."""
    async with asking_engine() as engine:
        yield LocalClient(engine)


@asynccontextmanager
async def connected(server: RealServer) -> AsyncIterator[Client]:
    """A client of a kube-apiserver."""
    async with PatientClient(load(str(server.kubeconfig))) as client:
        yield client


@asynccontextmanager
async def managed(client: Client) -> AsyncIterator[None]:
    """A manager that leads and whose webhooks are registered."""
    await prepare(client)
    await ensure(client, CRDS, manifest(VIRTUAL_MACHINES))
    kinds: tuple[Resource[Any], ...] = (NADS, DUMMY_CLUSTER_NETWORKS, VIRTUAL_MACHINES)
    for resource in kinds:
        await eventually(partial(client.list, resource), lambda _: True)
    async with leading(client, "kubernetes-admin"):
        yield


@pytest.mark.parametrize("metadata", [{"name": "a"}, {"generateName": "b-"}], ids=["name", "generateName"])
async def test_who_is_created_is_noted_by_the_uid_that_he_gets(
    place: Place, metadata: dict[str, str]
) -> None:
    """A review of a creation tells the uid and the name that the object has when it is stored."""
    pod = await place.add_pod(**metadata)
    notes = {item.uid: item for item in reservations_of(await place.nad())}
    assert notes[pod.metadata.uid].title == f"Pod default/{pod.metadata.name}"
    assert notes[pod.metadata.uid].version == 0


async def test_who_is_changed_is_noted_by_the_version_that_he_had(place: Place) -> None:
    """A review of a change tells the version that it is based on."""
    body = {"metadata": {"name": "db"}, "spec": {"template": {"spec": {}}}}
    made = await place.client.create(VIRTUAL_MACHINES, body, "default")
    networks = [{"name": "n", "multus": {"networkName": f"nets/{place.name}"}}]
    patch = {"spec": {"template": {"spec": {"networks": networks}}}}
    await place.client.patch(VIRTUAL_MACHINES, "db", patch, "default")
    notes = {item.uid: item for item in reservations_of(await place.nad())}
    assert notes[made.metadata.uid].version == int(made.metadata.resource_version)


async def test_only_a_server_with_conditions_is_told_to_refuse(place: Place) -> None:
    """Where matchConditions are dropped, no pods depend on whether a manager answers."""
    found = (await place.client.get(VALIDATING_WEBHOOKS, CONFIGURATION_NAME)).webhooks
    policies = {item["name"]: (item["failurePolicy"], "matchConditions" in item) for item in found}
    references = ("Fail", True) if place.keeps_conditions else ("Ignore", False)
    assert policies == {
        "validate.lanloom.io": ("Fail", place.keeps_conditions),
        "validate.harvester.lanloom.io": ("Fail", False),
        "references.lanloom.io": references,
    }


@pytest.mark.parametrize("place", SERVERS[1:], indirect=True)
async def test_statuses_of_managers_are_not_reviewed(place: Place, real: RealServer, tmp_path: Path) -> None:
    """A server with conditions stores what the manager's account writes, and has every other status reviewed."""
    await place.client.create(NETWORKS, {"metadata": {"name": place.name}, "spec": {"subnets": []}})
    await _set_epoch(place.client, place.name, 1000)
    with pytest.raises(Forbidden, match="can't decrease"):
        await _set_epoch(place.client, place.name, 1)
    config = yaml.safe_load(real.kubeconfig.read_text())
    config["users"][0]["user"] |= {"as": MANAGERS[0], "as-groups": ["system:masters"]}
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    async with PatientClient(load(str(own))) as client:
        with nullcontext() if place.keeps_conditions else pytest.raises(Forbidden, match="can't decrease"):
            await _set_epoch(client, place.name, 1)


async def _set_epoch(client: Client, name: str, epoch: int) -> None:
    status = {"status": {"allocator": {"epoch": epoch}}}
    await client.patch(NETWORKS, name, status, subresource="status")


async def test_nobody_comes_onto_a_network_that_goes(place: Place) -> None:
    """While a network is being deleted and still used, those who refer to it are refused."""
    await place.add_pod(name="old")
    await place.client.delete(DUMMY_CLUSTER_NETWORKS, place.name)
    await eventually(place.nad, lambda item: DRAINING in item.metadata.annotations)
    with pytest.raises(Forbidden, match="is being deleted"):
        await place.add_pod(name="new")

"""The migration way over HTTP, on the embedded server and on a real kube-apiserver with kinds like KubeVirt's."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lanloom.api.core import CRDS, NAMESPACES, NODES, PODS
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.meta import Condition
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.features.liveupdate.manager.controllers import LiveUpdateManager
from lanloom.features.liveupdate.manager.informers import machine_informers, swap_informers
from lanloom.features.liveupdate.manager.rawmachines import RAW_INSTANCES
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.conditions import find
from lanloom.kube.errors import AlreadyExists, KubeError
from lanloom.kube.events import Recorder
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.loading import load
from lanloom.processes.definitions import manifests
from tests.embedded.cases.kit.ground import embedded_server
from tests.features.liveupdate.definitions import KINDS, definition
from tests.features.liveupdate.objects import (
    MIGRATABLE,
    PLACE,
    POD_INTERFACE,
    POD_NETWORK,
    devices,
    instance,
    interface,
    launcher,
    machine,
    nad,
    network,
)
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

Raw = dict[str, Any]

PATIENCE = 60.0
KEPT: Raw = {"x": None, "y": [None, {"z": 0}], "w": ""}
"""Unknown fields, with nulls, as any version of KubeVirt may have them."""


@pytest.fixture(scope="module")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded server."""
    with embedded_server(tmp_path_factory.mktemp("embedded")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="module")
def real_kubeconfig(real_binaries: Path) -> Iterator[Path]:
    """The kubeconfig of a kube-apiserver."""
    with RealServer(real_binaries) as server:
        yield server.kubeconfig


REAL = pytest.param("real", marks=[pytest.mark.realserver, pytest.mark.slow])


@pytest.fixture(params=["embedded", REAL])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[HttpClient]:
    """An administrator of either server, which knows KubeVirt's kinds, two NADs and two nodes."""
    kubeconfig: Path = request.getfixturevalue(f"{request.param}_kubeconfig")
    async with HttpClient(load(str(kubeconfig))) as made:
        for crd in (*manifests(), *map(definition, KINDS)):
            await _create(made, CRDS, crd)
        await _create(made, NAMESPACES, {"metadata": {"name": PLACE}})
        for name in ("node1", "node2"):
            await _create(made, NODES, {"metadata": {"name": name}})
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await made.patch(NODES, name, ready, subresource="status")
        for resource in (*KINDS, NADS):
            await eventually(partial(_is_served, made, resource), bool, PATIENCE)
        for name in ("old", "new"):
            await _create(made, NADS, nad(name), PLACE)
        yield made


async def _create(client: HttpClient, resource: Any, body: Raw, namespace: str = "") -> None:
    try:
        await client.create(resource, body, namespace)
    except AlreadyExists:
        return


async def _is_served(client: HttpClient, resource: Any) -> bool:
    try:
        await client.list(resource, PLACE)
    except KubeError:
        return False
    return True


@asynccontextmanager
async def managed(client: HttpClient) -> AsyncIterator[None]:
    """A manager that leads."""
    shared = Informers(client, Random(1))
    recorder = Recorder(client, "lanloom-manager", "test", now=time.time, rng=Random(2))
    manager = LiveUpdateManager(
        client,
        machine_informers(shared, swap_informers(shared)),
        recorder,
        LiveUpdateSettings(),
        now=time.time,
        rng=Random(3),
    )

    async def live() -> None:
        async with asyncio.TaskGroup() as group:
            for informer in shared.all():
                group.create_task(informer.run())
            await all_synced(shared.all())
            group.create_task(manager.run())

    task = asyncio.create_task(live())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def spec(nad_name: str, *more: Raw, **fields: Any) -> Raw:
    """The spec of a machine on a NAD, with fields that are unknown here."""
    networks = [POD_NETWORK, network("blue", nad_name) | {"unknown": KEPT}]
    networks += [network(item["name"], "old") for item in more]
    return devices([POD_INTERFACE, interface("blue", unknown=KEPT), *more], networks, later=KEPT, **fields)


class Running:
    """A running machine of that name on the NAD `old`."""

    def __init__(self, client: HttpClient, name: str) -> None:
        self.client = client
        self.name = name

    async def start(self) -> None:
        """Create its objects, as KubeVirt does."""
        made = await self.client.create(VIRTUAL_MACHINES, machine(spec("old"), self.name), PLACE)
        raw = instance(spec("old"), self.name, owner=made.metadata.uid)
        raw["status"] |= {
            "guestOSInfo": KEPT,
            "conditions": [MIGRATABLE | {"lastProbeTime": None, "unknown": KEPT}],
        }
        uid = (await self.client.create(VIRTUAL_MACHINE_INSTANCES, raw, PLACE)).metadata.uid
        pod = launcher(uid, {"blue": "vms/old"}, name=self.name)
        pod["spec"] |= {"serviceAccountName": "default", "automountServiceAccountToken": False}
        created = await self.client.create(PODS, pod, PLACE)
        status = {"status": {"phase": "Running"}}
        await self.client.patch(PODS, created.metadata.name, status, PLACE, subresource="status")

    async def edit(self, wanted: Raw) -> None:
        """Edit its template."""
        steps = [{"op": "replace", "path": "/spec/template/spec", "value": wanted}]
        await self.client.json_patch(VIRTUAL_MACHINES, self.name, steps, PLACE)

    async def owner(self) -> VirtualMachine:
        """The VirtualMachine."""
        return await self.client.get(VIRTUAL_MACHINES, self.name, PLACE)

    async def instance(self) -> VirtualMachineInstance:
        """The instance."""
        return await self.client.get(VIRTUAL_MACHINE_INSTANCES, self.name, PLACE)

    async def condition(self, type: str) -> Condition | None:
        """A condition of the instance."""
        return find((await self.instance()).status.conditions, type)

    async def migrations(self) -> list[str]:
        """The names of its migrations."""
        found = (await self.client.list(MIGRATIONS, PLACE)).items
        return [item.metadata.name for item in found if item.spec.vmi_name == self.name]

    async def until_migrations(self, count: int) -> None:
        """Wait for as many migrations."""
        await eventually(self.migrations, lambda names: len(names) == count, PATIENCE)


@pytest.mark.slow
async def test_edit_migrates(client: HttpClient) -> None:
    """An edit leads to a migration, and to nothing else: unknown fields and nulls of others stay as they were."""
    found = Running(client, "swap")
    await found.start()
    before = await client.get(RAW_INSTANCES, "swap", PLACE)
    async with managed(client):
        await found.edit(spec("new"))
        await found.until_migrations(1)

        async def told() -> tuple[Condition | None, Condition | None]:
            own = await found.condition("NetworksCurrent")
            return own, find((await found.owner()).status.conditions, "NetworksCurrent")

        await eventually(
            told,
            lambda item: item[0] is not None and item[0].reason == "Migrating" and item[0] == item[1],
            PATIENCE,
        )
    after = await client.get(RAW_INSTANCES, "swap", PLACE)
    before.spec["networks"][1]["multus"]["networkName"] = "new"
    assert after.spec == before.spec
    kept = [item for item in after.status["conditions"] if item["type"] == "LiveMigratable"]
    assert kept == before.status["conditions"]
    assert {key: item for key, item in after.status.items() if key != "conditions"} == {
        key: item for key, item in before.status.items() if key != "conditions"
    }
    assert find((await found.owner()).status.conditions, "RestartRequired") is None


@pytest.mark.slow
async def test_taken_back(client: HttpClient) -> None:
    """An edit that is taken back deletes the migration, and the condition goes."""
    found = Running(client, "back")
    await found.start()
    async with managed(client):
        await found.edit(spec("new"))
        await found.until_migrations(1)
        await found.edit(spec("old"))
        await found.until_migrations(0)
        await eventually(lambda: found.condition("MigrationRequired"), lambda item: item is None, PATIENCE)


@pytest.mark.slow
async def test_hot_plug_beside_a_swap(client: HttpClient) -> None:
    """A new interface is copied with all fields, and the running pod asks for it next to the old NAD of the other."""
    found = Running(client, "plug")
    await found.start()
    fresh = interface("fresh", unknown=KEPT, macAddress="02:00:00:00:00:09")
    async with managed(client):
        await found.edit(spec("new", fresh))
        await found.until_migrations(1)
        pod = await eventually(
            lambda: client.get(PODS, "virt-launcher-plug-node1", PLACE),
            lambda item: "02:00:00:00:00:09" in item.metadata.annotations[MULTUS_NETWORKS],
            PATIENCE,
        )
    after = await client.get(RAW_INSTANCES, "plug", PLACE)
    assert after.spec["domain"]["devices"]["interfaces"][-1] == fresh
    asked = json.loads(pod.metadata.annotations[MULTUS_NETWORKS])
    assert [item["name"] for item in asked] == ["old", "old"]


@pytest.mark.slow
async def test_restart_required(client: HttpClient) -> None:
    """An edit of an unknown field asks for a restart as long as it is there."""
    found = Running(client, "restart")
    await found.start()

    async def needed() -> bool:
        return find((await found.owner()).status.conditions, "RestartRequired") is not None

    async def started() -> bool:
        return "liveupdate.lanloom.io/started-from" in (await found.instance()).metadata.annotations

    async with managed(client):
        await eventually(started, bool, PATIENCE)
        await found.edit(spec("old") | {"later": {"x": 1}})
        await eventually(needed, bool, PATIENCE)
        await found.edit(spec("old"))
        await eventually(needed, lambda answer: not answer, PATIENCE)
    assert await found.migrations() == []

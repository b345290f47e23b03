"""Who uses a network, on a real kube-apiserver: its forms of the objects, and its word on what it does not serve."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import CRDS, NAMESPACES, PODS
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import all_synced
from lanloom.kube.loading import load
from lanloom.nads.users import NadUsers, list_live_users
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import READY_TIMEOUT, RealServer
from tests.nads.users.cluster import informers_of
from tests.nads.users.objects import notes

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

Raw = dict[str, Any]

NAD = Key("users", "net")
LABELS = {"app": "web"}
TEMPLATE: Raw = {
    "metadata": {"labels": LABELS, "annotations": notes("net")},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}
RUNNING: Raw = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
JOB: Raw = {"template": {**TEMPLATE, "spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}}
MACHINE: Raw = {"template": {"spec": {"networks": [{"name": "nic", "multus": {"networkName": "net"}}]}}}

RESTARTS = 3
ANSWERS = 10


@pytest.fixture
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A server for one test alone, on which there is no KubeVirt at first."""
    with RealServer(real_binaries) as server:
        yield server


@asynccontextmanager
async def _client(server: RealServer) -> AsyncIterator[HttpClient]:
    async with HttpClient(load(str(server.kubeconfig))) as client:
        yield client


async def test_every_kind(server: RealServer) -> None:
    """Each kind is found in the form in which a real server keeps it, where KubeVirt is not there and where it is."""
    async with _client(server) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "users"}})
        bodies: tuple[tuple[Resource[Any], Raw], ...] = (
            (DEPLOYMENTS, RUNNING),
            (STATEFUL_SETS, RUNNING | {"serviceName": "web"}),
            (DAEMON_SET_TEMPLATES, RUNNING),
            (REPLICA_SETS, RUNNING),
            (JOBS, JOB),
        )
        for resource, spec in bodies:
            await client.create(resource, {"metadata": {"name": "web"}, "spec": spec}, "users")
        await client.create(PODS, {**TEMPLATE, "metadata": TEMPLATE["metadata"] | {"name": "web"}}, "users")
        kinds = {resource.kind for resource, _ in bodies} | {"Pod"}
        try:
            schedule: Raw = {"schedule": "@daily", "jobTemplate": {"spec": JOB}}
            await client.create(CRON_JOBS, {"metadata": {"name": "web"}, "spec": schedule}, "users")
            kinds.add("CronJob")
        except NotFound:  # before Kubernetes 1.21 there is only a v1beta1
            pass
        assert {user.kind for user in (await list_live_users(client)).users_of(NAD)} == kinds
        await _add_machine(client)
        users = await eventually(lambda: list_live_users(client), lambda _: True)
        assert {user.kind for user in users.users_of(NAD)} == kinds | {"VirtualMachine"}


async def _add_machine(client: HttpClient) -> None:
    """KubeVirt's kinds and, once they are served, a machine that uses the network."""
    for defined in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
        await client.create(CRDS, manifest(defined))
    machine = {"metadata": {"name": "web"}, "spec": MACHINE}
    await eventually(lambda: client.create(VIRTUAL_MACHINES, machine, "users"), lambda _: True)
    # What watches takes a kind that is not served for one of which there are no objects, and asks again much later.
    await eventually(lambda: client.list(VIRTUAL_MACHINE_INSTANCES), lambda _: True)


async def test_a_server_that_starts(server: RealServer) -> None:
    """While a server starts it is not reported that a machine is gone: not by a look, and not by what was watched."""
    async with _client(server) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "users"}})
        await _add_machine(client)
        informers = informers_of(client)
        users = NadUsers(client, informers, time.monotonic)
        tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
        try:
            await all_synced(informers.all())
            for _ in range(RESTARTS):
                server.kill("kube-apiserver")
                server.start("kube-apiserver")
                assert await _answers(client, users) > 0
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _answers(client: HttpClient, users: NadUsers) -> int:
    """Asks without a pause until the server has answered some times; how often it did not know."""
    unknown, known = 0, 0
    async with asyncio.timeout(READY_TIMEOUT):
        while known < ANSWERS:
            assert "VirtualMachine" in {user.kind for user in users.users_of(NAD)}
            try:
                found = (await list_live_users(client)).users_of(NAD)
            except KubeError:
                unknown += 1
                continue
            assert "VirtualMachine" in {user.kind for user in found}
            known += 1
    return unknown

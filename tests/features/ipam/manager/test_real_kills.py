"""Managers as processes on a real kube-apiserver; the leader is killed again and again in a rush for addresses."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import CRDS, LEASES, NAMESPACES
from lanloom.api.ipam import NETWORKS, NICS, Nic
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import AlreadyExists, ApiError, KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.ports import Listing
from lanloom.processes.definitions import manifests
from tests.harness.installing import install_webhooks
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer, free_ports

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]

LEASE, PLACE = "lanloom-manager", "default"
COUNT, KILLS = 300, 4
PATIENCE = 120.0
"""Seconds until something that does not happen is a failure; managers that start on a busy machine take their time."""


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver for this module alone, because the webhooks would reach every other test's objects."""
    with RealServer(real_binaries) as running:
        yield running


class Managers:
    """Two processes `lanloom manager`, with their webhooks; one that is killed is started again."""

    def __init__(self, kubeconfig: Path, logs: Path) -> None:
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._numbers = itertools.count(1)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """One more."""
        name, ports = f"manager-{next(self._numbers)}", free_ports(2)
        words = [
            str(Path(sys.executable).with_name("lanloom")),
            "manager",
            "--kubeconfig",
            str(self._kubeconfig),
        ]
        words += ["--identity", name, "--user", "kubernetes-admin", "--webhook-address", "127.0.0.1"]
        words += ["--webhook-port", str(ports[0]), "--metrics-address", f"127.0.0.1:{ports[1]}"]
        with (self._logs / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(words, stdout=log, stderr=log)

    def runs(self, name: str | None) -> bool:
        """Whether that one was started and not killed."""
        return name in self._running

    def kill(self, name: str) -> None:
        """SIGKILL."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        """All of them."""
        for name in tuple(self._running):
            self.kill(name)


async def persist(client: HttpClient, name: str) -> None:
    """Make a NIC, again and again while no webhook answers."""
    spec = {"owner": {"kind": "Instance", "name": name}, "network": "rush", "ips": ["pool"]}
    while True:
        try:
            await client.create(NICS, {"metadata": {"name": name}, "spec": spec}, PLACE)
        except AlreadyExists:
            return
        except KubeError:
            await asyncio.sleep(0.2)


async def overthrow(client: HttpClient, managers: Managers) -> None:
    """Kill the leader and free its lease, for which the other one would have to wait else."""
    lease = await eventually(
        lambda: client.get(LEASES, LEASE, LANLOOM_NAMESPACE),
        lambda item: managers.runs(item.spec.holder_identity),
        PATIENCE,
    )
    managers.kill(lease.spec.holder_identity or "")
    body = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    await eventually(lambda: client.patch(LEASES, LEASE, body, LANLOOM_NAMESPACE), lambda _: True, PATIENCE)
    managers.start()


def served(nics: tuple[Nic, ...]) -> list[str]:
    """The addresses that were given."""
    return [ip for item in nics for ip in item.status.ips]


async def wait_for(client: HttpClient, count: int) -> None:
    """Return when so many addresses were given; no two of them are ever the same."""

    def enough(nics: Listing[Nic]) -> bool:
        found = served(nics.items)
        assert len(set(found)) == len(found)
        return len(found) >= count

    await eventually(lambda: client.list(NICS, PLACE), enough, PATIENCE)


async def begun(client: HttpClient, epoch: int) -> None:
    """Return when the leader of that epoch gives addresses; those before it may have given all that were asked for."""
    await eventually(
        partial(client.get, NETWORKS, "rush"), lambda item: item.status.allocator.epoch >= epoch, PATIENCE
    )


async def test_leaders_that_are_killed_in_a_rush(server: RealServer, tmp_path: Path) -> None:
    """Three hundred NICs get an address each while four leaders are killed, and nothing is given twice or lost."""
    managers = Managers(server.kubeconfig, tmp_path)
    async with HttpClient(load(str(server.kubeconfig))) as client:
        for crd in manifests():
            await client.create(CRDS, crd)
        await client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        await install_webhooks(client)
        try:
            managers.start()
            managers.start()
            pools = [{"range": "10.0.0.0/22"}]
            body = {
                "metadata": {"name": "rush"},
                "spec": {"subnets": [{"cidr": "10.0.0.0/16", "pools": pools}]},
            }

            async def network() -> Any:
                with suppress(ApiError):
                    await client.create(NETWORKS, body)
                return await client.get(NETWORKS, "rush")

            await eventually(network, lambda item: item.status.allocator.epoch > 0, PATIENCE)
            rush = asyncio.gather(*(persist(client, f"nic{number}") for number in range(COUNT)))
            for number in range(KILLS):
                await wait_for(client, (2 * number + 1) * COUNT // (2 * KILLS))
                await overthrow(client, managers)
                await begun(client, number + 2)
            await rush
            await wait_for(client, COUNT)
            settled = await eventually(
                lambda: client.get(NETWORKS, "rush"),
                lambda item: not item.status.grants and item.status.used == str(COUNT),
                PATIENCE,
            )
            assert int(settled.status.free) == 1024 - COUNT - 1  # and the network address
        finally:
            managers.end()

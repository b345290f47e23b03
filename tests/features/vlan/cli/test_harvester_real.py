"""`lanloom harvester` on a real kube-apiserver, with Harvester's manager, webhook and agent as the lab plays them."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, NODES, VALIDATING_WEBHOOKS
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, HOST_NETWORK_CONFIGS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.lookup import list_or_empty
from lanloom.node.ports import Link
from lanloom.runtime.certificates import issue
from lanloom_lab.harvester.definitions import install, install_accounts, uninstall
from lanloom_lab.harvester.links import Step
from lanloom_lab.harvester.processes import Webhook, run_agent, run_manager
from lanloom_lab.harvester.server import WebhookServer
from tests.cli.cluster import Cluster
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.cluster import cluster_network, host_network, node, vlan_config
from tests.harness.harvester import apply, plant_installers
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.slow, pytest.mark.realserver]

IPS = {"node1": "10.36.0.1/24"}


@pytest.fixture
def real(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver without any request so far."""
    with RealServer(real_binaries) as running:
        yield running


class Links:
    """A fake host as Harvester's agent changes it."""

    def __init__(self) -> None:
        self.host = FakeHost("node1", switch=FakeSwitch(), now=time.time)
        plant_installers(self.host, "172.31.0.1/24")

    async def read(self) -> Mapping[str, Link]:
        """As the port says."""
        return dict(self.host.kernel.state().links)

    async def apply(self, *steps: Step) -> None:
        """As the port says."""
        for step in steps:
            apply(self.host, step)

    async def lease(self, link: str) -> str:
        """As the port says."""
        raise NotImplementedError(link)


class Programs:
    """Harvester's programs on the server, and the reports that Lanloom's agent of node1 would write."""

    def __init__(self, client: HttpClient, links: Links) -> None:
        self._client = client
        self._links = links
        self._tasks: list[asyncio.Task[None]] = []
        self._server: WebhookServer | None = None

    async def start(self) -> None:
        """Start them, as Harvester's chart does; the administrator is in place of their account."""
        bundle = issue(["127.0.0.1"], time.time())
        webhook = Webhook(self._client, Random(1))
        self._server = WebhookServer(bundle, webhook.answer)
        url = await self._server.start()
        self._tasks = [
            asyncio.create_task(webhook.run(url, bundle.ca)),
            asyncio.create_task(run_manager(self._client, Random(2))),
            asyncio.create_task(run_agent(self._client, "node1", self._links, Random(3))),
        ]

    async def stop(self) -> None:
        """End them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    async def report(self, mode: str, *interfaces: dict[str, Any]) -> None:
        """Write what node1 reports of cluster-1."""
        status = {
            "clusterNetwork": "cluster-1",
            "node": "node1",
            "mode": mode,
            "conditions": [{"type": "ready", "status": "True"}],
            "interfaces": list(interfaces),
        }
        body: dict[str, Any] = {"metadata": {"name": report_name("cluster-1", "node1")}}
        with suppress(AlreadyExists):
            await self._client.create(CLUSTER_NETWORK_NODES, body)
        name = body["metadata"]["name"]
        await self._client.patch(CLUSTER_NETWORK_NODES, name, {"status": status}, subresource="status")


async def test_adopt_and_hand_over_on_a_real_server(real: RealServer) -> None:
    """Finalizers, webhook configurations and HostNetworkConfigs go and come as on the embedded server."""
    cluster = Cluster(real.kubeconfig)

    async def lanloom(*words: str) -> tuple[int, str]:
        done = await asyncio.to_thread(cluster.lanloom, "harvester", *words, columns=200)
        return done.exit_code, done.output

    async with HttpClient(load(str(real.kubeconfig))) as client:
        for kind in (NADS, CLUSTER_NETWORK_NODES):
            await client.create(CRDS, manifest(kind))
        await client.create(NODES, node("node1", ready=True))
        await install(client)
        programs = Programs(client, links := Links())

        async def served() -> bool:
            kinds: tuple[Resource[Any], ...] = (
                VLAN_CONFIGS,
                NADS,
                HOST_NETWORK_CONFIGS,
                CLUSTER_NETWORK_NODES,
            )
            for kind in kinds:
                await client.list(kind)
            return True

        await eventually(served, bool)
        await programs.start()
        try:
            await harvesters(client, links)
            await programs.report("beside")
            status, printed = await lanloom("adopt", "--dry-run")
            assert (status, "wait until Harvester's network controller" in printed) == (3, True)
            every = {"nodes", "vlanconfigs", "clusternetworks", "hostnetworkconfigs"}
            await eventually(partial(held, client), lambda found: found == every)
        finally:
            await programs.stop()
        await uninstall(client)
        await programs.report("alone")
        status, printed = await lanloom("adopt")
        assert (status, "asks for the node addresses" in printed) == (3, True), printed
        assert await held(client) == set()
        assert not (await client.list(VALIDATING_WEBHOOKS)).items
        interface = {"vlanId": 36, "name": "cluster-1-br.36", "network": "default/storage", "mode": "static"}
        await programs.report("alone", {**interface, "state": "Ready"})
        assert (await lanloom("adopt"))[0] == 0
        assert not await list_or_empty(client, HOST_NETWORK_CONFIGS)
        nad = await client.get(NADS, "storage", "default")
        assert json.loads(nad.metadata.annotations[names.NODE_IP_MAP]) == IPS
        await install_accounts(client)
        await programs.start()
        try:
            await programs.report("beside", {**interface, "state": "Ready"})
            await eventually(lambda: statuses(client), bool)
            status, printed = await lanloom("hand-over", "--host-network-configs")
            assert (status, "released VLAN 36" in printed) == (3, True), printed
            await programs.report("beside")
            assert (await lanloom("hand-over", "--host-network-configs"))[0] == 0
            (config,) = await list_or_empty(client, HOST_NETWORK_CONFIGS)
            assert config.spec.ips == IPS
        finally:
            await programs.stop()


async def harvesters(client: HttpClient, links: Links) -> None:
    """A cluster network with a HostNetworkConfig, as Harvester's programs have made them."""

    async def registered() -> bool:
        return bool((await client.list(VALIDATING_WEBHOOKS)).items)

    await eventually(registered, bool)
    await client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
    # Its webhook sees what was created a moment later, and refuses until then.
    await eventually(lambda: client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1")), bool)
    await eventually(lambda: statuses(client), bool)
    storage = host_network("storage", vid=36, mode="static")
    storage["spec"] |= {"ips": IPS}
    await eventually(lambda: client.create(HOST_NETWORK_CONFIGS, storage), bool)

    async def carried() -> bool:
        found = links.host.kernel.links.get("cluster-1-br.36")
        return found is not None and found.addresses == (IPS["node1"],) and "nodes" in await held(client)

    await eventually(carried, bool)


async def statuses(client: HttpClient) -> bool:
    """Whether the uplink is reported."""
    return bool((await client.list(VLAN_STATUSES)).items)


async def held(client: HttpClient) -> set[str]:
    """The kinds of which an object has a finalizer of Harvester's."""
    kinds: tuple[Resource[Any], ...] = (NODES, VLAN_CONFIGS, CLUSTER_NETWORKS, HOST_NETWORK_CONFIGS)
    return {
        kind.plural
        for kind in kinds
        for item in await list_or_empty(client, kind)
        for finalizer in item.metadata.finalizers
        if finalizer.startswith(names.HARVESTER_FINALIZERS)
    }

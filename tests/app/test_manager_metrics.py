"""What a manager shows of itself while it works, read over HTTP."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lanloom.api.core import CRDS, NAMESPACES, NODES
from lanloom.api.crds import manifests
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.local import LocalClient
from lanloom.apiserver.webhooks import HttpsWebhooks
from lanloom.app.manager import Manager, ManagerSettings
from lanloom.app.managermetrics import ManagerMetrics
from lanloom.app.probes import pages
from lanloom.kube.errors import Forbidden
from lanloom.kube.webhookcall import HttpsPoster
from tests.app.probing import Watched, serving_pages
from tests.vlan.cluster import cluster_network, node, vlan_config


class Scene:
    """A server in this process, and a manager that is not running yet."""

    def __init__(self, client: LocalClient, shown: Watched, manager: Manager) -> None:
        self.client = client
        self.shown = shown
        self.manager = manager
        self.running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the manager; returns when its webhooks are registered."""
        self.running = asyncio.create_task(self.manager.run())
        async with asyncio.timeout(30):
            await self.manager.ready.wait()

    async def stop(self) -> None:
        """Ends it."""
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """The server has Lanloom's CRDs and namespace, and asks webhooks over HTTPS."""
    poster = HttpsPoster()
    engine = Engine(MemoryStorage(), now=time.time, rng=random.Random(1), webhooks=HttpsWebhooks(poster))
    await engine.start()
    client = LocalClient(engine)
    for manifest in manifests():
        await client.create(CRDS, manifest)
    await client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    metrics = ManagerMetrics()
    settings = ManagerSettings(identity="test", host="127.0.0.1", port=0, local=True)
    manager = Manager(client, settings, now=time.time, rng=random.Random(1), metrics=metrics)
    async with serving_pages(pages(metrics.missing, metrics.exposition)) as shown:
        each = Scene(client, shown, manager)
        try:
            yield each
        finally:
            await each.stop()
            await poster.close()
            await engine.close()


async def test_a_manager_says_what_it_waits_for() -> None:
    """Until its informers have read the cluster and its webhooks serve a manager is not ready, and names each."""
    async with scene() as each:
        missing = await each.shown.missing()
        assert "not ready: nodes have not been read from the API server yet" in missing
        assert "not ready: the webhooks do not serve yet" in missing
        await each.start()
        await each.shown.until_ready()


async def test_leadership_and_certificate_are_shown() -> None:
    """The replica that leads says so while it does, and when its certificate ends."""
    async with scene() as each:
        assert await each.shown.value("lanloom_leader") == 0
        await each.start()
        assert await each.shown.value("lanloom_leader") == 1
        until = await each.shown.value("lanloom_webhook_certificate_expiry_timestamp_seconds")
        assert until > time.time() + 300 * 86_400
        await each.stop()
        assert await each.shown.value("lanloom_leader") == 0


async def test_admission_is_counted_by_verdict() -> None:
    """What the webhooks allowed and refused is counted by resource, with the time that it took."""
    async with scene() as each:
        await each.start()
        await each.client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        with pytest.raises(Forbidden):
            await each.client.create(CLUSTER_NETWORKS, cluster_network("a-name-that-is-too-long"))
        labels = {"webhook": "validate", "resource": "clusternetworks"}
        assert await each.shown.value("lanloom_admission_reviews_total", **labels, verdict="refused") == 1
        assert await each.shown.value("lanloom_admission_reviews_total", **labels, verdict="allowed") >= 1
        assert (
            await each.shown.value("lanloom_admission_review_duration_seconds_count", webhook="validate") >= 2
        )


async def test_cluster_networks_and_their_nodes_are_shown() -> None:
    """A cluster network's conditions, the nodes that report of it, and why some are not ready."""
    async with scene() as each:
        await each.start()
        await each.client.create(NODES, node("node1", ready=True))
        await each.client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await each.client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        labels = {
            "network.harvesterhci.io/node": "node1",
            "network.harvesterhci.io/clusternetwork": "cluster-1",
        }
        await each.client.create(VLAN_STATUSES, {"metadata": {"name": "report", "labels": labels}})
        condition = {"type": "ready", "status": "False", "reason": "UplinkMissing", "message": "no eth1"}
        status = {"clusterNetwork": "cluster-1", "node": "node1", "conditions": [condition]}
        await each.client.patch(VLAN_STATUSES, "report", {"status": status}, subresource="status")
        names = {"cluster_network": "cluster-1", "condition": "ready"}
        await each.shown.until_value(1, "lanloom_nodes_not_ready", **names, reason="UplinkMissing")
        assert await each.shown.value("lanloom_nodes_reporting", cluster_network="cluster-1") == 1
        assert await each.shown.value("lanloom_cluster_network_ready", **names) == 0
        good = condition | {"status": "True", "reason": "UplinkReady"}
        await each.client.patch(
            VLAN_STATUSES, "report", {"status": {"conditions": [good]}}, subresource="status"
        )
        await each.shown.until_value(0, "lanloom_nodes_not_ready", **names)
        await each.shown.until_value(1, "lanloom_cluster_network_ready", **names)
        done = {"controller": "clusternetwork", "outcome": "done"}
        assert await each.shown.value("lanloom_reconcile_duration_seconds_count", **done) >= 1

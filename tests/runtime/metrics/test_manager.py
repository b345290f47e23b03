"""What a manager shows of itself while it works, read over HTTP."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode, ClusterNetworkNodeStatus
from lanloom.api.core import NODES
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    ClusterNetworkStatus,
)
from lanloom.api.meta import Condition
from lanloom.kube.errors import Forbidden
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client, WatchEvent
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom.processes.metrics import ManagerMetrics
from lanloom.runtime.probes import pages
from lanloom_embedded.local import LocalClient
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    node,
    vlan_config,
)
from tests.harness.installing import prepare
from tests.harness.managers import asking_engine
from tests.harness.servers.eventually import eventually
from tests.runtime.metrics.probing import (
    Samples,
    Watched,
    samples,
    serving_pages,
)


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
        async with asyncio.timeout(60):
            await self.manager.ready.wait()

    async def stop(self) -> None:
        """Ends it."""
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """The server has Lanloom's CRDs and namespace, and asks webhooks over HTTPS."""
    async with asking_engine() as engine:
        client = LocalClient(engine)
        await prepare(client)
        metrics = ManagerMetrics()
        settings = ManagerSettings(identity="test", host="127.0.0.1", port=0, local=True)
        manager = Manager(client, settings, now=time.time, rng=random.Random(1), metrics=metrics)
        async with serving_pages(pages(metrics.missing, metrics.exposition)) as shown:
            each = Scene(client, shown, manager)
            try:
                yield each
            finally:
                await each.stop()


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


@pytest.mark.slow
async def test_cluster_networks_and_their_nodes_are_shown() -> None:
    """A cluster network's conditions, the nodes that report of it, and why some are not ready."""
    async with scene() as each:
        await each.start()
        await each.client.create(NODES, node("node1", ready=True))
        await each.client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await each.client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        await eventually(
            partial(each.client.get, VLAN_CONFIGS, "one"),
            lambda item: item.metadata.annotations.get(names.MATCHED_NODES) == '["node1"]',
        )
        labels = {
            "network.harvesterhci.io/node": "node1",
            "network.harvesterhci.io/clusternetwork": "cluster-1",
        }
        await each.client.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": "report", "labels": labels}})
        condition = {"type": "ready", "status": "False", "reason": "UplinkMissing", "message": "no eth1"}
        status = {"clusterNetwork": "cluster-1", "node": "node1", "conditions": [condition]}
        await each.client.patch(CLUSTER_NETWORK_NODES, "report", {"status": status}, subresource="status")
        ready = {"cluster_network": "cluster-1", "condition": "ready"}
        await each.shown.until_value(1, "lanloom_nodes_not_ready", **ready, reason="UplinkMissing")
        assert await each.shown.value("lanloom_nodes_reporting", cluster_network="cluster-1") == 1
        assert await each.shown.value("lanloom_cluster_network_ready", **ready) == 0
        good = condition | {"status": "True", "reason": "UplinkReady"}
        await each.client.patch(
            CLUSTER_NETWORK_NODES, "report", {"status": {"conditions": [good]}}, subresource="status"
        )
        await each.shown.until_value(0, "lanloom_nodes_not_ready", **ready)
        await each.shown.until_value(1, "lanloom_cluster_network_ready", **ready)
        done = {"controller": "clusternetwork", "outcome": "done"}
        await each.shown.until_at_least(1, "lanloom_reconcile_duration_seconds_count", **done)


@pytest.mark.parametrize("released", [["node1", "node2"], ["node1..node2"], ["node1..node2", "node2"]])
def test_the_progress_of_a_roll_out_is_shown(released: list[str]) -> None:
    """Of a network with a roll-out policy it is shown how many nodes may carry it, how many do, and that it stopped."""
    state = {"revision": "new", "released": released, "stopped": "node2 failed"}
    staged = cluster_network(
        "staged", **{names.ROLLOUT: '{"maxUnavailable": 1}', names.ROLLOUT_STATE: json.dumps(state)}
    )
    reports = [
        ClusterNetworkNode(
            status=ClusterNetworkNodeStatus(cluster_network="staged", node=f"node{number}", revision=revision)
        )
        for number, revision in enumerate(("new", "old", "old"), 1)
    ]
    networks = cluster_of([staged, cluster_network("plain")]).networks
    shown = exposed(networks, reports)
    labels = frozenset({("cluster_network", "staged")})
    assert shown["lanloom_rollout_nodes_released", labels] == 2
    assert shown["lanloom_rollout_nodes_updated", labels] == 1
    assert shown["lanloom_rollout_stopped", labels] == 1
    assert not [key for key in shown if ("cluster_network", "plain") in key[1]]


def test_a_roll_out_that_is_through_is_everywhere() -> None:
    """Once every node is released, as many are shown as report of the network."""
    state = {"revision": "new", "released": ["*"]}
    staged = cluster_network("staged", **{names.ROLLOUT: "{}", names.ROLLOUT_STATE: json.dumps(state)})
    reports = [
        ClusterNetworkNode(
            status=ClusterNetworkNodeStatus(cluster_network="staged", node=f"node{number}", revision="new")
        )
        for number in range(3)
    ]
    shown = exposed(cluster_of([staged]).networks, reports)
    labels = frozenset({("cluster_network", "staged")})
    assert (
        shown["lanloom_rollout_nodes_released", labels] == shown["lanloom_rollout_nodes_updated", labels] == 3
    )


def test_reports_of_networks_that_do_not_exist_are_not_shown() -> None:
    """A report that names no cluster network of this cluster makes no series."""
    report = ClusterNetworkNode(status=ClusterNetworkNodeStatus(cluster_network="nonsense", node="node1"))
    assert not [key for key in exposed((), [report]) if ("cluster_network", "nonsense") in key[1]]


def test_a_network_without_uplinks_is_nobodys_alert() -> None:
    """The cluster network of an isolated network is not counted as one that is not ready: no node is to carry it."""
    idle = Condition(type="ready", status="False", reason="NoNodes")
    status = ClusterNetworkStatus(conditions=(idle,))
    (plain,) = cluster_of([cluster_network("plain")]).networks
    plain = replace(plain, status=status)
    made = replace(plain, metadata=replace(plain.metadata, name="dummy", labels={UID_LABEL: "u"}))
    told = {dict(labels).get("cluster_network") for _, labels in exposed([plain, made], ())}
    assert "plain" in told
    assert "dummy" not in told


def test_reviews_of_unknown_resources_share_a_series() -> None:
    """A client of the webhooks' port can't make series by inventing resources."""
    metrics = ManagerMetrics()
    for number in range(100):
        metrics.review("validate", f"invention{number}", "failed", 0.1)
    shown = samples(metrics.exposition().decode())
    labels = frozenset({("webhook", "validate"), ("resource", "other"), ("verdict", "failed")})
    assert shown["lanloom_admission_reviews_total", labels] == 100


def exposed(networks: Iterable[ClusterNetwork], reports: Iterable[ClusterNetworkNode]) -> Samples:
    """What a manager with these in its stores shows."""
    metrics = ManagerMetrics()
    nobody, rng = cast(Client, None), random.Random(0)
    followed: Informer[ClusterNetwork] = Informer(nobody, CLUSTER_NETWORKS, rng=rng)
    reporting: Informer[ClusterNetworkNode] = Informer(nobody, CLUSTER_NETWORK_NODES, rng=rng)
    for _ in followed.store.replace(networks):
        pass
    for number, report in enumerate(reports):
        meta = replace(report.metadata, name=f"report{number}")
        reporting.store.apply(WatchEvent("ADDED", replace(report, metadata=meta)))
    metrics.features["vlan"].show(followed, reporting)
    return samples(metrics.exposition().decode())

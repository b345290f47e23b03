"""What an agent shows of itself while it works, read over HTTP."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any

import pytest

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.core import CRDS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.meta import Condition
from lanloom.api.multus import NADS
from lanloom.features import FEATURES
from lanloom.features.dummy.rules.hostbridge import alias_of
from lanloom.kube.ports import Client
from lanloom.node.ports import Link
from lanloom.processes.agent import run_agent
from lanloom.processes.definitions import manifests
from lanloom.processes.metrics import AgentMetrics
from lanloom.runtime.feature import Feature
from lanloom.runtime.probes import pages
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.cluster import (
    Cluster,
    cluster_network,
    cluster_of,
    create,
    nad,
    node,
    vlan_config,
)
from tests.runtime.metrics.probing import (
    Watched,
    ask,
    samples,
    serving_pages,
)

VLAN = 2012


class Scene:
    """An agent on a host in memory, on a server in this process."""

    def __init__(
        self,
        client: Client,
        host: FakeHost,
        shown: Watched,
        metrics: AgentMetrics,
        features: Sequence[Feature] = FEATURES,
    ) -> None:
        self.client = client
        self.host = host
        self.shown = shown
        self._metrics = metrics
        self._features = features
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the agent."""
        work = run_agent(
            self.client,
            self.host.host,
            cluster="test",
            now=time.time,
            rng=random.Random(2),
            metrics=self._metrics,
            features=self._features,
        )
        self._task = asyncio.create_task(work)

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def cluster(**network: Any) -> Cluster:
    """cluster-1 on node1, with one VLAN."""
    return cluster_of(
        [
            node("node1"),
            cluster_network("cluster-1"),
            vlan_config("one", "cluster-1"),
            nad("storage", "cluster-1", VLAN, **network),
        ]
    ).managed()


@asynccontextmanager
async def scene(
    *,
    dhcp: str = "",
    network_manager: bool = True,
    start: bool = True,
    features: Sequence[Feature] = FEATURES,
) -> AsyncIterator[Scene]:
    """An agent that has just been started, or is yet to be; `dhcp` is the subnet in which VLAN 2012 has a server."""
    engine = Engine(MemoryStorage(), now=time.time, rng=random.Random(1))
    await engine.start()
    client = LocalClient(engine)
    for manifest in manifests():
        await client.create(CRDS, manifest)
    switch = FakeSwitch({VLAN: dhcp} if dhcp else {})
    host = FakeHost("node1", ("eth0", "eth1"), switch=switch, now=time.time)
    if not network_manager:
        host.daemon.stop()
    metrics = AgentMetrics(features)
    async with serving_pages(pages(metrics.missing, metrics.exposition)) as shown:
        each = Scene(client, host, shown, metrics, features)
        try:
            if start:
                each.start()
            yield each
        finally:
            await each.stop()
            await engine.close()


@pytest.mark.parametrize(
    "names",
    [
        names
        for count in (1, 2, 3)
        for names in combinations(("vlan", "ipam", "dummy"), count)
        if "vlan" not in names or count == 3
    ],
)
async def test_an_agent_is_ready_with_any_features(names: tuple[str, ...]) -> None:
    """An agent whose features read nothing of the cluster is ready, too, and needs no NetworkManager without VLANs."""
    features = [feature for feature in FEATURES if feature.name in names]
    async with scene(features=features, network_manager="vlan" in names) as each:
        await each.shown.until_ready()


async def test_an_agent_says_what_it_waits_for() -> None:
    """Before it has read the cluster and looked at its host an agent is alive and not ready, and says why."""
    async with scene(start=False) as each:
        assert await each.shown.missing() == [
            "not ready: it is starting",
            "not ready: the host has not been read yet",
        ]
        assert (await ask(each.shown.port, "/healthz")).status == 200
        each.start()
        await each.shown.until_ready()
        assert await each.shown.value("lanloom_informer_synced") == 6


async def test_without_network_manager_an_agent_is_not_ready() -> None:
    """NetworkManager's absence is the reason that an agent gives; once it runs the agent is ready."""
    async with scene(network_manager=False) as each:
        fault = ["not ready: NetworkManager is not running; start it: systemctl start NetworkManager"]
        await each.shown.until(each.shown.missing, lambda missing: missing == fault)
        assert await each.shown.value("lanloom_agent_network_manager_up") == 0
        each.host.daemon.start(after_reboot=False)
        await each.shown.until_ready()
        assert await each.shown.value("lanloom_agent_network_manager_up") == 1


@pytest.mark.slow
async def test_work_on_a_node_is_counted() -> None:
    """Making a VLAN network shows as looks, steps, a profile, reconciles and an interface that is ready."""
    async with scene() as each:
        await create(each.client, cluster(mode="static", addresses={"node1": "192.168.1.5/24"}))
        show = each.shown
        await show.until_value(1, "lanloom_agent_interfaces", cluster_network="cluster-1", state="Ready")
        assert await show.value("lanloom_agent_network_ready", cluster_network="cluster-1") == 2
        assert await show.value("lanloom_agent_link_dumps_total") >= 2
        for step in ("EnsureBond", "EnsureBridge", "SetMaster", "AddVlans"):
            assert await show.value("lanloom_agent_link_changes_total", step=step) >= 1
        assert await show.value("lanloom_agent_profile_writes_total", verb="write") == 1
        assert await show.value("lanloom_agent_network_manager_requests_total", verb="load") >= 1
        labels = {"controller": "vlan-agent", "outcome": "later"}
        await show.until_at_least(1, "lanloom_reconcile_duration_seconds_count", **labels)
        assert await show.value("lanloom_informer_objects", resource=NADS.full_name) == 1


@pytest.mark.slow
async def test_repairs_are_counted_by_kind() -> None:
    """What another program changed on the node, and the agent put right, is counted by what it was."""
    async with scene() as each:
        await create(each.client, cluster(mode="static", addresses={"node1": "192.168.1.5/24"}))
        await each.shown.until_value(1, "lanloom_agent_interfaces", state="Ready")
        assert await each.shown.value("lanloom_agent_repairs_total") == 0
        each.host.drop_vlan("cluster-1-bo", VLAN)
        await each.shown.until_value(1, "lanloom_agent_repairs_total", kind="vlan-id")
        (file,) = [name for name in each.host.directory.files if name.startswith("cluster-1")]
        each.host.remove_file(file)
        await each.shown.until_value(1, "lanloom_agent_repairs_total", kind="profile")


async def test_bridges_without_a_network_are_counted() -> None:
    """A bridge whose isolated network is no more is taken away when its node comes back, and counted."""
    async with scene(start=False) as each:
        await create(each.client, cluster())
        each.host.plant_link(
            Link(name="dummy-br", index=0, kind="bridge", up=True, alias=alias_of("2f1c7f8e"))
        )
        each.start()
        await each.shown.until_value(1, "lanloom_agent_isolated_bridges_removed_total")
        assert "dummy-br" not in each.host.kernel.links
        labels = {"controller": "bridge-sweeper", "outcome": "done"}
        await each.shown.until_at_least(1, "lanloom_reconcile_duration_seconds_count", **labels)


def test_a_rollback_is_counted() -> None:
    """A network that the agent took back to its former form counts as a rollback, once, and as a failure."""
    metrics = AgentMetrics()
    condition = Condition(type="ready", status="False", reason="RolledBack")
    for _ in range(3):
        metrics.features["vlan"].report(
            {"cluster-1": ClusterNetworkNodeStatus(cluster_network="cluster-1", conditions=(condition,))}
        )
    shown = samples(metrics.exposition().decode())
    assert shown["lanloom_agent_rollbacks_total", frozenset()] == 1
    assert shown["lanloom_agent_failures_total", frozenset({("reason", "RolledBack")})] == 1


def test_what_is_on_its_way_is_no_failure() -> None:
    """A network that is being built, or that waits for its turn, is not counted as failed."""
    metrics = AgentMetrics()
    conditions = tuple(
        Condition(type="ready", status="False", reason=reason) for reason in ("Configuring", "Held")
    )
    interface = VlanInterface(vlan_id=7, name="x", state="Pending", reason="Activating")
    metrics.features["vlan"].report(
        {"a": ClusterNetworkNodeStatus(conditions=conditions, interfaces=(interface,))}
    )
    assert not [key for key in samples(metrics.exposition().decode()) if "failures" in key[0]]


@pytest.mark.slow
async def test_leases_are_shown() -> None:
    """A lease that the node holds is counted, with the time at which it ends."""
    async with scene(dhcp="192.168.1.0/24") as each:
        await create(each.client, cluster(mode="dhcp"))
        await each.shown.until_value(1, "lanloom_agent_dhcp_leases", cluster_network="cluster-1")
        assert await each.shown.value("lanloom_agent_dhcp_lease_expiry_timestamp_seconds") > time.time()


async def test_a_failure_is_counted_once_while_it_lasts() -> None:
    """A failure counts when it begins; that it goes on, and that it ends, does not."""
    async with scene() as each:
        await create(each.client, cluster(mode="static", addresses={"node2": "192.168.1.5/24"}))
        labels = {"reason": "MissingAddress"}
        await each.shown.until_value(1, "lanloom_agent_failures_total", **labels)
        before = await each.shown.value("lanloom_reconcile_duration_seconds_count")
        each.host.unplug("eth0")
        each.host.plug("eth0")
        await each.client.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"labels": {"a": "b"}}})
        await each.shown.until(
            lambda: each.shown.value("lanloom_reconcile_duration_seconds_count"), lambda now: now > before
        )
        await each.shown.until_value(1, "lanloom_agent_interfaces", reason="MissingAddress")
        assert await each.shown.value("lanloom_agent_failures_total", **labels) == 1

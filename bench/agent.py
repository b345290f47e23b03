"""What an agent does on a node that needs nothing: no write, and one look at the kernel.

Measured on a host in memory, under a virtual clock.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from bench.report import Row
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS
from lanloom.features.vlan.agent import VlanAgent
from lanloom.features.vlan.informers import agent_informers
from lanloom.kube.informers import Informers
from lanloom.node.ports import Host
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.cluster import (
    CLUSTER,
    Cluster,
    cluster_network,
    cluster_of,
    create,
    nad,
    node,
    vlan_config,
)
from tests.harness.virtual import run

NODES = ("node1", "node2", "node3")
NETWORKS = 2
VLANS = 50
"""Of each cluster network, all with node addresses."""

WAKES = 100
WRITES = ("apply", "write", "remove", "load", "activate", "reapply", "create", "patch", "delete")


def rows() -> Iterator[Row]:
    """Yield rows of writes, and of looks at the kernel."""
    calls, milliseconds = run(_quiet_reconciles())
    scene = f"{NETWORKS * VLANS} VLANs with addresses, {WAKES} reconciles"
    yield Row(
        name="no-change agent reconcile: writes",
        measured=sum(calls[name] for name in WRITES),
        limit=0,
        unit="writes",
        note=f"links, files, NetworkManager and API together; {scene}",
    )
    yield Row(
        name="no-change agent reconcile: looks at the kernel",
        measured=calls["dump"] / WAKES,
        limit=1,
        unit="dump",
        note=f"{milliseconds:.1f} ms of CPU each on a host in memory; {scene}",
    )


class Counted:
    """A port whose calls are counted by name."""

    def __init__(self, port: Any, calls: Counter[str]) -> None:
        self._port = port
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._port, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._calls[name] += 1
            return method(*arguments, **options)

        return call


def quiet_cluster() -> Cluster:
    """Cluster networks on every node, with VLANs that have an address on each."""
    documents = [node(name) for name in NODES]
    for number in range(1, NETWORKS + 1):
        name = f"cluster-{number}"
        documents += [cluster_network(name), vlan_config(f"{name}-all", name, nics=(f"eth{number}",))]
        for vid in range(100, 100 + VLANS):
            addresses = {item: f"10.{number}.{vid}.{index}/24" for index, item in enumerate(NODES, 1)}
            documents.append(nad(f"{name}-vlan{vid}", name, vid, mode="static", addresses=addresses))
    return cluster_of(documents).managed()


async def _quiet_reconciles() -> tuple[Counter[str], float]:
    """Return what an agent called in reconciles that had nothing to do, and milliseconds of CPU for each."""
    now = asyncio.get_running_loop().time
    engine = Engine(MemoryStorage(), now=now, rng=Random(0))
    await engine.start()
    client = LocalClient(engine)
    for manifest in manifests():
        await client.create(CRDS, manifest)
    await create(client, quiet_cluster())
    calls: Counter[str] = Counter()
    fake = FakeHost("node1", ("eth0", "eth1", "eth2"), switch=FakeSwitch(), now=now)
    async with _agent(Counted(client, calls), _counted_host(fake.host, calls), now) as agent:
        await asyncio.sleep(60)
        reports = (await client.list(CLUSTER_NETWORK_NODES)).items
        assert sum(len(report.status.interfaces) for report in reports) == NETWORKS * VLANS, reports
        calls.clear()
        before, started = fake.writes, time.process_time()
        for _ in range(WAKES):
            agent.wake()
            await asyncio.sleep(0.001)
        spent = time.process_time() - started
        assert fake.writes == before
        seen = calls.copy()
    await engine.close()
    return seen, spent / WAKES * 1000


def _counted_host(host: Host, calls: Counter[str]) -> Host:
    ports = (host.links, host.profiles, host.network_manager)
    links, profiles, manager = (Counted(port, calls) for port in ports)
    state, runtime = (Counted(port, calls) for port in (host.state, host.runtime))
    return Host(host.name, links, profiles, manager, state=state, runtime=runtime)


@asynccontextmanager
async def _agent(client: Any, host: Host, now: Callable[[], float]) -> AsyncIterator[VlanAgent]:
    """Provide the agent of a host, running."""
    rng = Random(0)
    informers = agent_informers(Informers(client, rng), host.name)
    agent = VlanAgent(client, host, informers, cluster=CLUSTER, now=now, rng=rng)
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    tasks.append(asyncio.create_task(agent.run()))
    try:
        yield agent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

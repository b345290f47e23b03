"""A change that reaches the nodes of a large cluster in stages.

`python -m bench.largerollout 5000` rolls a change of a cluster network out to so many nodes, a tenth of them at a time,
and shows what the manager writes and what that brings every agent. The engine, the manager and stand-ins for agents
run in one process in virtual time; a stand-in reports that it takes the change up within a second after its node was
released, and that it has it after 5 to 15 seconds.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from random import Random
from typing import Any

from bench.agent import Counted
from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNodeStatus
from lanloom.api.core import CRDS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork
from lanloom.api.multus import NADS
from lanloom.features.vlan.agent.publisher import NODE_REPORTS, ReportWriter
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.rules.rollout.policy import rollout_state
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE, ReleasedNodes
from lanloom.kube.conditions import ConditionStatus, set_condition
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import Change, MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config
from tests.harness.virtual import run

NETWORK = "cn0"


class Fleet:
    """Stand-ins for the agents of all nodes, which report what they were released for."""

    def __init__(self, client: Any, nodes: list[str], rng: Random) -> None:
        own: Any = _Own()
        self._reporters = {name: ReportWriter(client, name, NODE_REPORTS, own) for name in nodes}
        self._carried: dict[str, str] = {}
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()

    def network_changed(self, _old: ClusterNetwork | None, new: ClusterNetwork | None) -> None:
        """Let all that are released now take the change up."""
        if new is None:
            return
        state = rollout_state(new)
        released = ReleasedNodes(state.released)
        for name in self._reporters:
            if name in released and self._carried.get(name) != state.revision:
                self._carried[name] = state.revision
                task = asyncio.get_running_loop().create_task(self._report(name, state.revision))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _report(self, name: str, revision: str) -> None:
        await asyncio.sleep(self._rng.random())
        await self._publish(name, revision, "False", "Activating")
        await asyncio.sleep(5 + 10 * self._rng.random())
        await self._publish(name, revision, "True", "Fine")

    async def _publish(self, name: str, revision: str, status: ConditionStatus, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        conditions = set_condition((), type="ready", status=status, reason=reason, generation=1, now=now)
        report = ClusterNetworkNodeStatus(
            cluster_network=NETWORK, node=name, revision=revision, conditions=conditions
        )
        await self._reporters[name].publish({NETWORK: report})


class _Own:
    """The reports that a stand-in would have read: none, because the writer remembers what it wrote."""

    def __init__(self) -> None:
        self.store = self

    def get(self, _key: Any) -> None:
        """Return no report."""

    def items(self) -> tuple[Any, ...]:
        """Return no reports."""
        return ()


async def roll_out(count: int) -> dict[str, float]:
    """Return what a change cost that reached so many nodes in stages."""
    now = asyncio.get_running_loop().time
    engine = Engine(MemoryStorage(), now=now, rng=Random(0))
    await engine.start()
    admin = LocalClient(engine)
    nodes = [f"node{number}" for number in range(count)]
    for manifest in manifests():
        await admin.create(CRDS, manifest)
    for name in nodes:
        await admin.create(NODES, node(name))
    body = cluster_network(NETWORK)
    body["metadata"].setdefault("annotations", {})[names.ROLLOUT] = json.dumps({"maxUnavailable": "10%"})
    await admin.create(CLUSTER_NETWORKS, body)
    await admin.create(VLAN_CONFIGS, vlan_config(NETWORK, NETWORK, nics=("eth1",)))
    await admin.create(NADS, nad("blue", NETWORK, 2), "default")
    calls: Counter[str] = Counter()
    rng, client = Random(0), Counted(admin, calls)
    informers = vlan_informers(Informers(client, rng))
    recorder = Recorder(client, "bench", "bench", now=now, rng=rng)
    manager = VlanManager(client, informers, recorder, now=now, rng=rng)
    fleet = Fleet(admin, nodes, rng)
    informers.cluster_networks.on_change(fleet.network_changed)
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    tasks.append(asyncio.create_task(manager.run()))
    await all_synced(informers.all())
    await _finished(admin)
    writes, largest, size = 0, 0, 0

    def note(change: Change) -> None:
        nonlocal writes, largest, size
        if change.resource.plural == CLUSTER_NETWORKS.plural and change.after is not None:
            length = len(json.dumps(change.after.raw()))
            writes, largest, size = writes + 1, max(largest, length), size + length

    engine.ledger.listen(note)
    calls.clear()
    spent, began = time.process_time(), now()
    await admin.patch(NADS, "blue", {"spec": nad("blue", NETWORK, 3)["spec"]}, "default")
    await asyncio.sleep(5)
    await _finished(admin)
    found = {
        "seconds": now() - began,
        "writes of the ClusterNetwork": writes,
        "KB of the largest": largest / 1e3,
        "KB to each agent": size / 1e3,
        "requests of the manager": calls.total(),
        "CPU s of all but agents": time.process_time() - spent,
    }
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await engine.close()
    return found


async def _finished(admin: LocalClient) -> None:
    for _ in range(10_000):
        network = await admin.get(CLUSTER_NETWORKS, NETWORK)
        if EVERY_NODE in rollout_state(network).released:
            return
        await asyncio.sleep(1)
    raise TimeoutError((await admin.list(CLUSTER_NETWORK_NODES)).items[:1])


def main(count: int) -> None:
    """Show the figures."""
    print(json.dumps(run(roll_out(count)), indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5000)

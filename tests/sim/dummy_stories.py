"""One course of events with isolated networks, from a seed to its end."""

import asyncio
import copy
from functools import cache
from random import Random
from typing import Any

from lanloom.api.core import PODS, VALIDATING_WEBHOOKS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.admission import WEBHOOKS
from lanloom.nads.admission import WEBHOOKS as REFERENCES
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.conditions import stale
from tests.harness.servers.filled import add_kinds, filled
from tests.harness.virtual import run
from tests.sim.course import check, check_processes, disturb, ending, rest
from tests.sim.dummy import DummyCluster
from tests.sim.dummy_clients import ALL_OF_THEM, Protections
from tests.sim.dummy_judge import Verifier
from tests.sim.dummy_nodes import Nodes, add_nodes
from tests.sim.dummy_users import PLACE, Users

ACTS = 50


def play(seed: int, protections: Protections = ALL_OF_THEM) -> Verifier:
    """Plays a seed. Raises Harm, and AssertionError for whatever else is wrong."""
    return run(_play(seed, copy.deepcopy(_first_storage()), protections), rng=Random(f"order {seed}"))


@cache
def _first_storage() -> MemoryStorage:
    """A server that knows the kinds and the webhooks, with nodes; made once, because CRDs take their time."""

    async def fill(admin: LocalClient) -> None:
        await add_kinds(admin, LANLOOM_NAMESPACE, BRIDGES_NAMESPACE, PLACE)
        await add_nodes(admin)
        validating = webhook_configurations((*WEBHOOKS, *REFERENCES), _url)[1]
        await admin.create(VALIDATING_WEBHOOKS, validating)

    return filled(fill)


def _url(path: str) -> dict[str, str]:
    return {"url": f"https://lanloom{path}"}


async def _play(seed: int, storage: MemoryStorage, protections: Protections) -> Verifier:
    cluster = DummyCluster(seed, storage, protections)
    nodes = asyncio.create_task(Nodes(cluster.admin, Random(f"nodes {seed}")).run())
    try:
        async with ending(cluster):
            await cluster.start()
            await cluster.served.wait()
            users = Users(cluster, Random(f"users {seed}"))
            users.begin()
            await disturb(cluster, users.act(ACTS))
            await users.settle()
            await _rest(cluster)
            await users.leave()
            await _rest(cluster, nothing_left=True)
            check(cluster.witness.harm)
            check_processes(cluster.processes.values())
    finally:
        nodes.cancel()
    return cluster.witness


async def _rest(cluster: DummyCluster, *, nothing_left: bool = False) -> None:
    await rest(lambda: _complaints(cluster, nothing_left), cluster.witness.harm, [15] * 40)


async def _complaints(cluster: DummyCluster, nothing_left: bool) -> list[str]:
    """Everything that is not as it should be when all is quiet."""
    networks = (await cluster.admin.list(DUMMY_CLUSTER_NETWORKS)).items
    alive = {item.metadata.uid for item in networks}
    found = [f"{item.metadata.name} is still there: {item.status}" for item in networks if nothing_left]
    for item in networks:
        leaves = item.metadata.deletion_timestamp is not None
        used = bool(cluster.witness.users_of(item.spec.nad))
        wanted = "DeletionBlocked" if leaves and used else "gone" if leaves else "Ready"
        if item.status.phase != wanted:
            found.append(f"{item.metadata.name} should be {wanted}: {item.status}")
    nads = (await cluster.admin.list(NADS)).items
    # A NAD may be written after its network is gone, by a request that was long on its way. Its users keep it.
    used_orphans = {
        nad.metadata.labels.get(UID_LABEL) for nad in nads if cluster.witness.users_of(nad.metadata.key)
    }
    made: tuple[Resource[Any], ...] = (NADS, DAEMON_SETS, PODS, CLUSTER_NETWORKS)
    for resource in made:
        for each in (await cluster.admin.list(resource)).items:
            owner = each.metadata.labels.get(UID_LABEL)
            if owner is not None and owner not in alive and (nothing_left or owner not in used_orphans):
                found.append(f"{resource.kind} {each.metadata.key} is left over")
    return found + await stale(cluster.admin, DUMMY_CLUSTER_NETWORKS)

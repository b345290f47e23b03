"""One course of events with machines, from a seed to its end."""

import asyncio
import copy
from functools import cache
from random import Random

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, NAMESPACES, NODES
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.definitions import KINDS, definition
from tests.harness.conditions import stale
from tests.harness.servers.filled import filled
from tests.harness.virtual import run
from tests.sim.vm import VmCluster
from tests.sim.vm_clients import ALL_OF_THEM, Protections
from tests.sim.vm_judge import Witness, complaints, reason_of
from tests.sim.vm_kubevirt import NODES as NODE_NAMES
from tests.sim.vm_state import PLACE
from tests.sim.vm_users import Users

ACTS = 12


class Harm(AssertionError):
    """A machine lost a network, or a port had two owners."""


def play(seed: int, protections: Protections = ALL_OF_THEM) -> Witness:
    """Play a seed. Raises Harm, and AssertionError for whatever else is wrong."""
    companion = seed % 2 == 1
    storage = copy.deepcopy(_first_storage(companion))
    return run(_play(seed, storage, companion, protections), rng=Random(f"order {seed}"))


@cache
def _first_storage(companion: bool) -> MemoryStorage:
    """A server that knows the kinds, with nodes; made once, because CRDs take their time."""

    async def fill(admin: LocalClient) -> None:
        for resource in KINDS:
            await admin.create(CRDS, definition(resource))
        for resource in (NETWORK_SWAPS, NADS, LANS, CLUSTER_NETWORK_NODES, CLUSTER_NETWORKS, NETWORKS, NICS):
            await admin.create(CRDS, manifest(resource))
        await admin.create(NAMESPACES, {"metadata": {"name": PLACE}})
        for name in NODE_NAMES:
            await admin.create(NODES, {"metadata": {"name": name}})
            status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await admin.patch(NODES, name, status, subresource="status")
        if companion:
            await admin.create(NAMESPACES, {"metadata": {"name": "kubevirt"}})
            updates = {"workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]}}
            body = {
                "metadata": {"name": "kubevirt"},
                "spec": updates,
                "status": {"observedKubeVirtVersion": "v1.9.0"},
            }
            await admin.create(KUBEVIRTS, body, "kubevirt")
            await admin.patch(
                KUBEVIRTS, "kubevirt", {"status": body["status"]}, "kubevirt", subresource="status"
            )

    return filled(fill)


async def _play(seed: int, storage: MemoryStorage, companion: bool, protections: Protections) -> Witness:
    cluster = VmCluster(seed, storage, companion=companion, protections=protections)
    try:
        await cluster.start()
        users = Users(cluster, Random(f"users {seed}"))
        await users.begin()
        await asyncio.sleep(3)
        chaos = asyncio.create_task(cluster.misfortunes())
        await users.act(ACTS)
        chaos.cancel()
        await asyncio.gather(chaos, return_exceptions=True)
        await cluster.heal()
        await users.rest()
        await _rest(cluster)
        cluster.check()
    except BaseException as error:
        error.add_note("\n".join(cluster.journal[-300:]))
        raise
    finally:
        await cluster.close()
    return cluster.witness


async def _rest(cluster: VmCluster) -> None:
    """Wait until nothing is wrong. What is left then is what is wrong."""
    found: list[str] = ["nobody has looked"]
    for seconds in (5, 10, 15, *([30] * 20)):
        if cluster.witness.harm:
            raise Harm(cluster.witness.harm[0])
        await asyncio.sleep(seconds)
        cluster.check()
        found = list(complaints(cluster.state, lambda key: _reasons(cluster, key)))
        found += await stale(cluster.admin, NETWORK_SWAPS)
        if not found:
            return
    raise AssertionError("\n".join(found))


def _reasons(cluster: VmCluster, key: Key) -> str:
    vm = cluster.state.machines[key]
    return reason_of(vm, cluster.state.instances.get(key), ("NetworksCurrent", "RestartRequired"))

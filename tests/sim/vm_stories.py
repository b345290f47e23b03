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
from lanloom_lab.kubevirt.installed import install
from lanloom_lab.kubevirt.releases import RELEASES, installation
from tests.features.liveupdate.definitions import KINDS, definition
from tests.harness.conditions import stale
from tests.harness.servers.filled import filled
from tests.harness.virtual import run
from tests.sim.course import disturb, ending, rest
from tests.sim.vm import Beside, VmCluster
from tests.sim.vm_clients import ALL_OF_THEM, Protections
from tests.sim.vm_judge import Verifier, complaints, reason_of
from tests.sim.vm_kubevirt import NODES as NODE_NAMES
from tests.sim.vm_state import PLACE
from tests.sim.vm_users import MACHINES, Users

ACTS = 12


BESIDE = ("1.9", "main", "1.8+gate", "main", "1.9", "1.8", "main", "1.9", "1.8+gate", "1.7")
"""The releases of KubeVirt that two of three seeds run alongside, in turn. In a fifth of these it is replaced."""

METHODS = (("LiveMigrate",), ("LiveMigrate", "Evict"), ("Evict",), ())


def beside_of(seed: int) -> Beside:
    """Return what a seed runs alongside: nothing, or a release with one of the sets of methods."""
    if seed % 3 == 0:
        return Beside("none")
    number = seed * 2 // 3
    immovable = MACHINES[:1] if number % 3 else ()
    return Beside(BESIDE[number % len(BESIDE)], METHODS[number // len(BESIDE) % len(METHODS)], immovable)


def play(seed: int, protections: Protections = ALL_OF_THEM, beside: Beside | None = None) -> Verifier:
    """Play a seed. Raises Harm, and AssertionError for whatever else is wrong."""
    chosen = beside or beside_of(seed)
    storage = copy.deepcopy(_first_storage(chosen.release, chosen.methods))
    return run(_play(seed, storage, chosen, protections), rng=Random(f"order {seed}"))


@cache
def _first_storage(release: str, methods: tuple[str, ...]) -> MemoryStorage:
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
        played = RELEASES[release]
        if played is not None:
            await admin.create(NAMESPACES, {"metadata": {"name": "kubevirt"}})
            body = installation(played, methods)
            await admin.create(KUBEVIRTS, body, "kubevirt")
            status = {"status": body["status"]}
            await admin.patch(KUBEVIRTS, "kubevirt", status, "kubevirt", subresource="status")

    return filled(fill)


async def _play(seed: int, storage: MemoryStorage, beside: Beside, protections: Protections) -> Verifier:
    cluster = VmCluster(seed, storage, beside, protections)
    cluster.note(f"beside KubeVirt {beside.release}, {beside.methods}, immovable {beside.immovable}")
    updates = beside.installed is not None and seed % 5 == 1
    async with ending(cluster):
        await cluster.start()
        users = Users(cluster, Random(f"users {seed}"))
        await users.begin()
        await asyncio.sleep(3)
        others = [_update_kubevirt(cluster, Random(f"updates {seed}"))] if updates else []
        await disturb(cluster, users.act(ACTS), *others)
        await users.rest()
        await _rest(cluster)
        cluster.check()
    return cluster.witness


async def _update_kubevirt(cluster: VmCluster, rng: Random) -> None:
    """KubeVirt is updated, and taken back, and its gate and its methods are changed, while machines move."""
    while True:
        await asyncio.sleep(rng.expovariate(1 / 10.0))
        release, methods = rng.choice(BESIDE), rng.choice(METHODS)
        cluster.note(f"KubeVirt is {release} from now on, {methods}")
        found = Beside(release, methods).installed
        assert found is not None
        cluster.kubevirt.replace(found)
        await install(cluster.admin, release, methods)


async def _rest(cluster: VmCluster) -> None:
    async def look() -> list[str]:
        cluster.check()
        found = list(complaints(cluster.state, lambda key: _reasons(cluster, key)))
        return found + await stale(cluster.admin, NETWORK_SWAPS)

    await rest(look, cluster.witness.harm, (5, 10, 15, *([30] * 20)))


def _reasons(cluster: VmCluster, key: Key) -> str:
    vm = cluster.state.machines[key]
    return reason_of(vm, cluster.state.instances.get(key), ("NetworksCurrent", "RestartRequired"))

"""What a refusal costs against an accepted request, among 1,400 networks, 16 at once.

The webhook's verdict alone, on the engine in the same process: HTTPS is the same for both (`bench.admission`). What is
refused depends on the cluster, so something has to be read again. All requests are dry runs, which change nothing.
"""

import asyncio
import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from bench.report import Row
from lanloom.api.admission import AdmissionRequest
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, NODES
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachine
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.reader import store_reader, vm_informer
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.informers import Informers
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import Raw, network, report, vm
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.harness.admission import request

NETWORKS = 1_400
WITH_ADDRESSES = 400
VMS = 400
AT_ONCE = 16
REQUESTS = 96
ROUNDS = 3
LIMIT = 3.0
"""Times an accepted request."""

_NAMES = ("node1", "node2", "node3")


def rows() -> Iterator[Row]:
    """Yield a VLAN that is taken, a ClusterNetwork that is not there, a network in use."""
    yield from asyncio.run(_rows())


class Pair(NamedTuple):
    """Seconds for one of many accepted and of many refused requests: one process answers all of them."""

    accepted: float
    refused: float

    @property
    def ratio(self) -> float:
        """How many times as long as an accepted request a refused one takes."""
        return self.refused / self.accepted


async def _rows() -> list[Row]:
    engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
    await engine.start()
    client = LocalClient(engine)
    await _fill(client)
    found = []
    async with asyncio.TaskGroup() as group:
        admission, tasks = await _admission(client, group)
        accepted = request(NADS, network(vid=3999), None)
        for title, refused in _refused():
            pairs = [
                Pair(await _measure(admission, accepted, True), await _measure(admission, refused, False))
                for _ in range(ROUNDS)
            ]
            found.append(_row(title, sorted(pairs, key=lambda pair: pair.ratio)[ROUNDS // 2]))
        for task in tasks:
            task.cancel()
    await engine.close()
    return found


def _refused() -> Iterator[tuple[str, AdmissionRequest]]:
    yield "a VLAN that is taken", request(NADS, network(vid=2))
    yield "a ClusterNetwork that is not there", request(NADS, network(cluster_network="nowhere"))
    yield "the deletion of a network in use", request(NADS, None, _owner(0))


def _row(title: str, pair: Pair) -> Row:
    return Row(
        name=f"refusal of {title}, {AT_ONCE} at once, against an accepted request",
        measured=pair.ratio,
        limit=LIMIT,
        unit="×",
        note=f"median of {ROUNDS}; {NETWORKS} networks; {pair.refused * 1000:.2f} ms against "
        f"{pair.accepted * 1000:.2f} ms",
    )


def _owner(number: int) -> Raw:
    return nad(f"owner-{number}", "cluster-1", number + 2, mode="dhcp" if number < WITH_ADDRESSES else "")


async def _fill(client: LocalClient) -> None:
    for crd in [*manifests(), manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES)]:
        await client.create(CRDS, crd)
    for name in _NAMES:
        await client.create(NODES, node(name))
        body = report("cluster-1", name)
        await client.create(CLUSTER_NETWORK_NODES, body)
        status: Any = {"status": body["status"]}
        await client.patch(CLUSTER_NETWORK_NODES, body["metadata"]["name"], status, subresource="status")
    await client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
    await client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
    for number in range(NETWORKS):
        await client.create(NADS, _owner(number), "default")
    for number in range(VMS):
        await client.create(VIRTUAL_MACHINE_INSTANCES, vm(f"vm-{number}", f"owner-{number}"), "default")


async def _admission(
    client: LocalClient, group: asyncio.TaskGroup
) -> tuple[VlanAdmission, list[asyncio.Task[None]]]:
    rng = Random(1)
    shared = Informers(client, rng)
    informers, vms = vlan_informers(shared), vm_informer(shared)
    machines: Informer[VirtualMachine] = shared.get(VIRTUAL_MACHINES, optional=True)
    followed = (*informers.all(), vms, machines)
    tasks = [group.create_task(informer.run()) for informer in followed]
    await all_synced(followed)
    return VlanAdmission(client, store_reader(informers, vms, machines), lambda _pod: ""), tasks


async def _measure(admission: VlanAdmission, asked: AdmissionRequest, allowed: bool) -> float:
    """Seconds for each request; 16 are always under way."""
    left = iter(range(REQUESTS))

    async def ask() -> None:
        for _ in left:
            verdict = await admission.validate(replace(asked, dry_run=True))
            assert verdict.allowed == allowed, verdict.message

    started = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return (time.perf_counter() - started) / REQUESTS

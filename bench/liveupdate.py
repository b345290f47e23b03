"""Live update among 5,000 running machines: from the edit of one to its migration, and a look at all of them.

The engine, its storage and the manager's part are in one process; requests are calls, not HTTP. Each machine has an
instance and a launcher pod on one of 100 nodes, and two networks. The edits follow each other: the migration of one is
over before the next, because only so many may run at once. The guests' gaps are measured in `livegap`.
"""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

from bench.cost import Stopwatch, kept_waiting
from bench.report import Row
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, NAMESPACES, NODES, PODS, Pod
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachineInstance,
)
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.api.reading import convert
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.manager import build
from lanloom.features.liveupdate.metrics import LiveUpdateMetrics
from lanloom.features.liveupdate.rules.evaluation import evaluate
from lanloom.features.liveupdate.rules.launcher import launcher_of
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client
from lanloom.runtime.context import ManagerContext
from lanloom.runtime.exposition import CollectorRegistry
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import Change, MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.definitions import KINDS, definition
from tests.features.liveupdate.objects import PLACE, instance, launcher, machine, network_status, on

MACHINES = 5_000
NODE_COUNT = 100
NAD_COUNT = 50
EDITS = 300
ROUNDS = 5

Raw = dict[str, Any]


_OTHER_KINDS: tuple[Resource[Any], ...] = (
    NETWORK_SWAPS,
    NADS,
    LANS,
    LAN_NODES,
    CLUSTER_NETWORKS,
    CLUSTER_NETWORK_NODES,
    NETWORKS,
    NICS,
)
"""The kinds that the manager's part follows alongside KubeVirt's."""


def rows() -> Iterator[Row]:
    """Edits, then evaluations."""
    yield from asyncio.run(_edits())
    yield _evaluations()


def nads_of(number: int, shift: int = 0) -> dict[str, str]:
    """Return the NADs of a machine; `shift` moves its second NIC to another one."""
    return {"blue": f"net{number % NAD_COUNT}", "red": f"net{(number + 7 + shift) % NAD_COUNT}"}


def _titles(number: int, shift: int = 0) -> dict[str, str]:
    return {name: f"{PLACE}/{nad}" for name, nad in nads_of(number, shift).items()}


def node_of(number: int) -> str:
    """Return the node of a machine."""
    return f"node{number % NODE_COUNT}"


class _Request(NamedTuple):
    """A migration that the manager has requested: when, and how long this process was kept waiting by then."""

    at: float
    kept: float
    migration: str
    machine: str


class _Wait(NamedTuple):
    """Milliseconds without those in which other programs had the processors, and by the clock."""

    own: float
    by_clock: float


class Cluster:
    """The server with its machines, and what the manager has requested."""

    def __init__(self, machines: int = MACHINES) -> None:
        self._machines = machines
        self.engine = Engine(MemoryStorage(), now=time.time, rng=Random(1))
        self.client = LocalClient(self.engine)
        self.requested: asyncio.Queue[_Request] = asyncio.Queue()

    async def furnish(self) -> None:
        """Kinds, nodes, networks and machines."""
        await self.engine.start()
        for resource in KINDS:
            await self.client.create(CRDS, definition(resource))
        for kind in _OTHER_KINDS:
            await self.client.create(CRDS, manifest(kind))
        await self.client.create(NAMESPACES, {"metadata": {"name": PLACE}})
        for number in range(NODE_COUNT):
            await self.client.create(NODES, {"metadata": {"name": node_of(number)}})
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await self.client.patch(NODES, node_of(number), ready, subresource="status")
        for number in range(NAD_COUNT):
            config = f'{{"type": "bridge", "bridge": "lan-br", "vlan": {number + 2}}}'
            body = {"metadata": {"name": f"net{number}"}, "spec": {"config": config}}
            await self.client.create(NADS, body, PLACE)
        for number in range(self._machines):
            await self._start(number)
        self.engine.ledger.listen(self._hear)

    async def _start(self, number: int) -> None:
        name, spec = f"vm{number}", on(nads_of(number))
        owner = (await self.client.create(VIRTUAL_MACHINES, machine(spec, name), PLACE)).metadata.uid
        body = instance(spec, name, owner=owner, nodeName=node_of(number))
        uid = (await self.client.create(VIRTUAL_MACHINE_INSTANCES, body, PLACE)).metadata.uid
        pod = launcher(uid, _titles(number), name=name, node=node_of(number))
        await self.client.create(PODS, pod, PLACE)

    def _hear(self, change: Change) -> None:
        if change.resource.plural == MIGRATIONS.plural and change.before is None and change.after is not None:
            raw = change.after.raw()
            name, machine = raw["metadata"]["name"], raw["spec"]["vmiName"]
            kept = kept_waiting(os.getpid())
            self.requested.put_nowait(_Request(time.perf_counter(), kept, name, machine))

    @asynccontextmanager
    async def managed(self, client: Client | None = None) -> AsyncIterator[float]:
        """Provide a manager that leads, with its CPU seconds, from when it has looked at every machine.

        Its requests go by `client` if one is given.
        """
        rng, asking = Random(1), client or self.client
        context = ManagerContext(
            client=asking,
            recorder=Recorder(asking, "lanloom-manager", "bench", now=time.time, rng=rng),
            now=time.time,
            rng=rng,
            observe=lambda *_words: None,
            settings={},
            metrics={"liveupdate": LiveUpdateMetrics(CollectorRegistry())},
            identity="bench",
            user="",
        )
        part = build(context)
        informers = context.informers.all()
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        await all_synced(informers)
        stopwatch = Stopwatch()
        tasks.append(asyncio.create_task(part.run()))
        while True:
            await asyncio.sleep(0.01)
            if not any(controller.depth for controller in part.controllers):
                break
        yield stopwatch.cost().cpu
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def edit(self, number: int) -> _Wait:
        """Another NAD for a machine, and how long its migration takes to be there. It succeeds then."""
        path = "/spec/template/spec/networks/2/multus/networkName"
        step = {"op": "replace", "path": path, "value": nads_of(number, 1)["red"]}
        name = f"vm{number}"
        began, kept = time.perf_counter(), kept_waiting(os.getpid())
        await self.client.json_patch(VIRTUAL_MACHINES, name, [step], PLACE)
        request = await asyncio.wait_for(self.requested.get(), 30)
        assert request.machine == name
        await self._migrate(number, request.migration)
        by_clock = request.at - began
        return _Wait((by_clock - (request.kept - kept)) * 1e3, by_clock * 1e3)

    async def _migrate(self, number: int, migration: str) -> None:
        pod = f"virt-launcher-vm{number}-{node_of(number)}"
        change = {"metadata": {"annotations": {NETWORK_STATUS: network_status(_titles(number, 1))}}}
        await self.client.patch(PODS, pod, change, PLACE)
        done = {"status": {"phase": "Succeeded"}}
        await self.client.patch(MIGRATIONS, migration, done, PLACE, subresource="status")
        await asyncio.sleep(0.05)  # whatever follows from it is no part of the next edit


async def _edits() -> list[Row]:
    cluster = Cluster()
    await cluster.furnish()
    gc.collect()
    gc.freeze()
    async with cluster.managed() as look:
        stopwatch = Stopwatch()
        waits = [await cluster.edit(number * 16 % MACHINES + number % 16) for number in range(EDITS)]
        cost = stopwatch.cost().each(EDITS)
    own, by_clock = map(sorted, zip(*waits, strict=True))
    await cluster.engine.close()
    gc.unfreeze()
    return [
        Row(
            name=f"from the edit of a VM to its migration object among {MACHINES:,} VMs, p99",
            measured=own[EDITS * 99 // 100],
            limit=100,
            unit="ms",
            note=f"while it had a processor: median {own[EDITS // 2]:.1f} ms, slowest of {EDITS} {own[-1]:.1f} ms; "
            f"by the clock median {by_clock[EDITS // 2]:.1f} ms, p99 {by_clock[EDITS * 99 // 100]:.1f} ms; "
            f"with the end of the migration {cost.cpu * 1e3:.1f} ms of CPU, server included",
        ),
        Row(
            name=f"a manager that takes over looks at {MACHINES:,} VMs: CPU time",
            measured=look,
            limit=5,
            unit="s",
            note="the watches are in sync before; nothing is written",
        ),
    ]


def _evaluations() -> Row:
    found: list[tuple[VirtualMachineInstance, Pod]] = []
    for number in range(MACHINES):
        name, spec = f"vm{number}", on(nads_of(number))
        raw = instance(spec, name, nodeName=node_of(number))
        raw["metadata"]["uid"] = f"uid{number}"
        pod = launcher(f"uid{number}", _titles(number, number % 2), name=name, node=node_of(number))
        found.append((convert(raw, VirtualMachineInstance), convert(pod, Pod)))
    gc.collect()
    best, needed = min(_evaluate(found) for _ in range(ROUNDS))
    assert needed == MACHINES // 2
    return Row(
        name=f"evaluation of {MACHINES:,} VMIs: CPU time",
        measured=best * 1e3,
        limit=100,
        unit="ms",
        note=f"network-status of each launcher pod is read; every second VMI needs a migration; best of {ROUNDS}",
    )


def _evaluate(found: list[tuple[VirtualMachineInstance, Pod]]) -> tuple[float, int]:
    stopwatch, needed = Stopwatch(), 0
    for vmi, pod in found:
        needed += evaluate(vmi, launcher_of(vmi, (pod,))).need != "none"
    return stopwatch.cost().cpu, needed

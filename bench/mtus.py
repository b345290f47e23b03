"""What it costs that 5,000 machines of one VLAN have an MTU each by NADs: the worst case, as many NADs as machines.

One process under a virtual clock: the embedded engine and the real manager, and the rules of an agent. The manager's
requests are counted, watches and lists of the start aside. CPU is compared within the run: the last NADs with the
first. So is that of a process of its own with all features and webhooks (`lanloom serve`): a NAD that does not concern
one feature may cost much in another.
"""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.agent import Counted
from bench.cost import cpu_of
from bench.report import Row
from lanloom.api.core import CRDS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.kube.events import Recorder
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.cluster import cluster_network, cluster_of, nad, node, vlan_config
from tests.harness.virtual import run as run_virtually

MACHINES, VLAN = 5_000, 100
SMALLEST = 1_280
PART = 500
"""So many NADs are timed at the beginning and at the end."""

NETWORK, NODE = "cn", "node1"
CALLS, GROWTH = 1.0, 1.3
REST_SECONDS = 3.0
"""Real seconds after which a server has done what follows from a NAD."""

LANLOOM = Path(sys.executable).with_name("lanloom")
_WRITES = ("create", "patch", "delete")


def rows() -> Iterator[Row]:
    """Yield the manager's work for each NAD, how it grows, and the work on a node."""
    calls, seconds = run_virtually(_made())
    what = f"{MACHINES:,} NADs of one VLAN, an MTU each"
    yield Row(
        name=f"{what}: manager's API calls for each",
        measured=calls.total() / MACHINES,
        limit=CALLS,
        unit="calls",
        note=", ".join(f"{count} {verb}" for verb, count in calls.items()) or "none",
    )
    for name, (first, last) in (
        (f"CPU of server and manager for the last {PART}, against the first {PART}", seconds),
        ("the same of a server with all features and webhooks", _served()),
    ):
        yield Row(
            name=f"{what}: {name}",
            measured=last / first,
            limit=GROWTH,
            unit="×",
            note=f"{_ms(last)} against {_ms(first)} for each",
        )
    one, _ = _desired(1)
    all_, took = _desired(MACHINES)
    yield Row(
        name=f"{what}: what else a node has than with one of them",
        measured=sum(left != right for left, right in zip(one, all_, strict=True)),
        limit=0,
        unit="",
        note=f"an agent finds that in {took * 1000:.0f} ms of CPU",
    )


def _ms(seconds: float) -> str:
    return f"{seconds / PART * 1000:.1f} ms"


def _nads(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield nad(f"vm{number}", NETWORK, VLAN, config={"mtu": SMALLEST + number})


def _uplink() -> tuple[dict[str, Any], dict[str, Any]]:
    link = {"linkAttributes": {"mtu": SMALLEST + MACHINES}}
    uplink = {"nics": ["eth1"], "bondOptions": {"mode": "active-backup"}, **link}
    return cluster_network(NETWORK), vlan_config(NETWORK, NETWORK, uplink=uplink)


def _desired(count: int) -> tuple[tuple[NodeNetwork, ...], float]:
    """Return what a node should have of so many NADs, and the seconds of CPU that this takes."""
    cluster = cluster_of([node(NODE), *_uplink(), *_nads(count)]).managed()
    began = time.process_time()
    found = cluster.on_node(NODE)
    return found, time.process_time() - began


async def _made() -> tuple[Counter[str], tuple[float, float]]:
    """Return the manager's writes for all NADs, and the seconds of CPU for the first and for the last of them."""
    now = asyncio.get_running_loop().time
    engine = Engine(MemoryStorage(), now=now, rng=Random(0))
    await engine.start()
    admin = LocalClient(engine)
    for manifest in manifests():
        await admin.create(CRDS, manifest)
    network, config = _uplink()
    await admin.create(NODES, node(NODE))
    await admin.create(CLUSTER_NETWORKS, network)
    await admin.create(VLAN_CONFIGS, config)
    calls: Counter[str] = Counter()
    client: Any = Counted(admin, calls)
    rng = Random(0)
    informers = vlan_informers(Informers(client, rng))
    recorder = Recorder(client, "bench", "bench", now=now, rng=rng)
    manager = VlanManager(client, informers, recorder, now=now, rng=rng)
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    tasks.append(asyncio.create_task(manager.run()))
    await all_synced(informers.all())
    await asyncio.sleep(30)
    calls.clear()
    try:
        seconds = await _add_all(admin)
        await asyncio.sleep(60)
        return Counter({verb: calls[verb] for verb in _WRITES if calls[verb]}), seconds
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.close()


async def _add_all(admin: LocalClient) -> tuple[float, float]:
    """Make the NADs, ten in a second; return the CPU for the first and for the last."""

    async def mark() -> float:
        return time.process_time()

    return await _timed(admin, mark, 0.1)


async def _timed(
    admin: Client, mark: Callable[[], Awaitable[float]], pause: float = 0.0
) -> tuple[float, float]:
    """Make the NADs, with a pause after each; return the CPU for the first and for the last, by marks of it."""
    marks = dict.fromkeys((0, PART, MACHINES - PART, MACHINES), 0.0)
    for number, body in enumerate(_nads(MACHINES)):
        if number in marks:
            marks[number] = await mark()
        await admin.create(NADS, body, "default")
        await asyncio.sleep(pause)
    marks[MACHINES] = await mark()
    return marks[PART] - marks[0], marks[MACHINES] - marks[MACHINES - PART]


def _served() -> tuple[float, float]:
    """Return the CPU of a whole server for the first NADs and for the last."""
    with TemporaryDirectory() as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        words = ("serve", "--data", f"{directory}/data.db", "--kubeconfig", str(kubeconfig))
        with subprocess.Popen([LANLOOM, *words], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                if "ready" not in server.stdout.readline():
                    raise RuntimeError("lanloom serve ended before it served anything")
                return asyncio.run(_add_to(kubeconfig, server.pid))
            finally:
                server.terminate()


async def _add_to(kubeconfig: Path, server: int) -> tuple[float, float]:
    async def mark() -> float:
        await asyncio.sleep(REST_SECONDS)
        return cpu_of(server)

    network, config = _uplink()
    async with HttpClient(load(str(kubeconfig))) as client:
        await client.create(NODES, node(NODE))
        await client.create(CLUSTER_NETWORKS, network)
        await client.create(VLAN_CONFIGS, config)
        return await _timed(client, mark)

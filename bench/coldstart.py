"""What it takes a manager to be there again in a cluster with 10,000 NADs.

The real Manager as a process of its own against a real `lanloom serve`, over HTTPS: from the start of the interpreter
until its webhooks are registered and every cluster network and VlanConfig has been looked at. Next to it, in the same
process, what can't be saved: listing and decoding the NADs once. A first manager, which is not measured, writes all
that is derived from the NADs; a cluster has that when its manager is started again.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from bench.processes import printed
from bench.report import Row
from lanloom.api import names
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.api.nadconfig import cluster_network_of
from lanloom.kube.controller import Controller, Outcome
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from lanloom.kube.loading import load
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom.processes.metrics import ManagerMetrics
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.harness.installing import install_webhooks

UPLINKS = 50
VLANS = 200
"""Of each cluster network, so 10,000 NADs."""

WITH_ADDRESSES = 164
"""Of these: every fiftieth VLAN id has static addresses, every other fifth none, and the rest are by DHCP."""

NODE_NAMES = [f"node{number}" for number in range(1, 9)]
LIMIT_SECONDS = 5.0
"""Of the manager's CPU time."""

ROUNDS = 3
"""The best round counts: whatever else the machine does can only take away from a figure."""

_WRITERS = 32
_FIRST_PATIENCE, _PATIENCE = 1800.0, 300.0
_PAUSE = 2.0
"""Seconds between two looks at what is written; each one reads all NADs."""

_CARRIED = f"{names.PREFIX}l3connectivity-"
"""How keys on a cluster network begin of which there is one for each of its NADs with node addresses."""


class Watched(ManagerMetrics):
    """Metrics that also know when every object has been looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: set[tuple[str, str]] = set()
        self.queues: tuple[Controller[Any], ...] = ()
        self.complete = asyncio.Event()

    def follow(self, informers: Iterable[Informer[Any]], controllers: Iterable[Controller[Any]]) -> None:
        """Remembers the queues."""
        self.queues = tuple(controllers)
        super().follow(informers, self.queues)

    def reconcile(self, controller: str, _key: Hashable, seconds: float, outcome: Outcome) -> None:
        """Take note of one reconcile."""
        super().reconcile(controller, _key, seconds, outcome)
        if outcome in ("done", "later"):
            self.expected.discard((controller, str(_key)))
        if not self.expected:
            self.complete.set()


def rows() -> Iterator[Row]:
    """CPU seconds, and how many bare lists that is."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name, _server(Path(name)) as kubeconfig:
        asyncio.run(_fill(kubeconfig))
        printed([sys.executable, "-m", "bench.coldstart", "prepare", kubeconfig], 2 * _FIRST_PATIENCE)
        best = min((_start(kubeconfig) for _ in range(ROUNDS)), key=lambda item: item["cpu"])
    bare, cpu = best["bare"], best["cpu"]
    yield Row(
        name=f"cold start of a manager with {UPLINKS * VLANS:,} NADs, CPU time",
        measured=cpu,
        limit=LIMIT_SECONDS,
        unit="s",
        note=f"best of {ROUNDS}; {cpu / bare:.1f} × listing and decoding them once ({bare:.2f} s); "
        f"{best['seconds']:.1f} s by the clock",
    )


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    kubeconfig = str(directory / "kubeconfig")
    words = ["serve", "--data", str(directory / "data"), "--kubeconfig", kubeconfig, "--no-manager"]
    server = subprocess.Popen(
        [sys.executable, "-m", "lanloom", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        server.stdout.readline()
        yield kubeconfig
    finally:
        server.terminate()
        server.wait()


def _start(kubeconfig: str) -> dict[str, float]:
    """One manager's start, in a process of its own."""
    words = [sys.executable, "-m", "bench.coldstart", "measure", kubeconfig, str(time.monotonic())]
    figures: dict[str, float] = json.loads(printed(words, 2 * _PATIENCE))
    return figures


async def _fill(kubeconfig: str) -> None:
    async with HttpClient(load(kubeconfig)) as client:
        for name in NODE_NAMES:
            await client.create(NODES, node(name))
        for number in range(UPLINKS):
            name = f"cn{number}"
            await client.create(CLUSTER_NETWORKS, cluster_network(name))
            await client.create(VLAN_CONFIGS, vlan_config(name, name, nics=(f"eth{number}",)))
        bodies = iter([_nad(f"cn{number}", vid) for number in range(UPLINKS) for vid in range(2, 2 + VLANS)])

        async def write() -> None:
            for body in bodies:
                await client.create(NADS, body, "default")

        await asyncio.gather(*(write() for _ in range(_WRITERS)))


def _nad(uplink: str, vid: int) -> dict[str, Any]:
    """Return a NAD as clusters hold it, with what kubectl adds."""
    title = f"{uplink}-{vid}"
    if vid % 50 == 0:
        addresses = {name: f"10.{vid}.0.{number}/24" for number, name in enumerate(NODE_NAMES, 10)}
        body = nad(title, uplink, vid, mode="static", addresses=addresses)
    else:
        body = nad(title, uplink, vid, mode="dhcp" if vid % 5 else "")
    body["metadata"]["annotations"] |= {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(body)}
    return body


async def measure(kubeconfig: str, began: float) -> dict[str, float]:
    """One start; `began` is the monotonic time at which this process was started."""
    metrics = Watched()
    uplinks = [f"cn{number}" for number in range(UPLINKS)]
    metrics.expected = {(kind, name) for kind in ("vlanconfig", "clusternetwork") for name in uplinks}
    async with HttpClient(load(kubeconfig)) as client:
        async with _managing(client, metrics) as manager, asyncio.timeout(_PATIENCE):
            await manager.ready.wait()
            await metrics.complete.wait()
            figures = {"seconds": time.monotonic() - began, "cpu": time.process_time()}
        started = time.process_time()
        await client.list(NADS)
        figures["bare"] = time.process_time() - started
        if missing := await _missing(client):  # a manager that left something out would be fast, too
            raise RuntimeError(missing)
    return figures


async def prepare(kubeconfig: str) -> None:
    """Make a first start, which goes on until everything that is derived is there."""
    metrics = Watched()
    async with HttpClient(load(kubeconfig)) as client, _managing(client, metrics):
        deadline = time.monotonic() + _FIRST_PATIENCE
        while any(queue.depth for queue in metrics.queues) or (missing := await _missing(client)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {_FIRST_PATIENCE:.0f} s of a first start {missing}")
            await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def _managing(client: HttpClient, metrics: Watched) -> AsyncIterator[Manager]:
    """Provide a manager at work; it gives its lease back at the end."""
    identity = f"bench-{os.getpid()}"
    settings = ManagerSettings(identity=identity, host="127.0.0.1", port=0, local=True)
    await install_webhooks(client)
    manager = Manager(client, settings, now=time.time, rng=Random(), metrics=metrics)
    async with asyncio.TaskGroup() as group:  # so that no task waits for a manager that failed
        running = group.create_task(manager.run())
        yield manager
        running.cancel()


async def _missing(client: HttpClient) -> str:
    """Return what of that which a manager derives is not there yet; empty if all is. Others' NADs do not count."""
    networks = (await client.list(CLUSTER_NETWORKS)).items
    carried = sum(key.startswith(_CARRIED) for item in networks for key in item.metadata.annotations)
    configs = (await client.list(VLAN_CONFIGS)).items
    matched = sum(names.MATCHED_NODES in item.metadata.annotations for item in configs)
    uplinks = {f"cn{number}" for number in range(UPLINKS)}
    nads = [item for item in (await client.list(NADS)).items if cluster_network_of(item) in uplinks]
    labelled = sum(names.READY_LABEL in item.metadata.labels for item in nads)
    found = (len(nads), carried, labelled, matched)
    if found == (UPLINKS * VLANS, UPLINKS * WITH_ADDRESSES, UPLINKS * VLANS, UPLINKS):
        return ""
    return (
        f"there are {len(nads):,} NADs, {carried:,} of them in annotations and {labelled:,} with a label; "
        f"{matched} VlanConfigs know their nodes"
    )


if __name__ == "__main__":
    import logging

    import structlog
    import uvloop

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if sys.argv[1] == "prepare":
        uvloop.run(prepare(sys.argv[2]))
    else:
        print(json.dumps(uvloop.run(measure(sys.argv[2], float(sys.argv[3])))))

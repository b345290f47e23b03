"""How soon a manager is there again in a cluster with 10,000 NADs.

The real Manager as a process of its own against a real `lanloom serve`, over HTTPS: from the start of the interpreter
until its webhooks are registered and every cluster network and VlanConfig has been looked at. Beside it, in the same
process, what nobody can save: listing and decoding the NADs once.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from bench.report import Row
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.l3keys import decode
from lanloom.api.multus import NADS
from lanloom.app.manager import Manager, ManagerSettings
from lanloom.app.metrics.manager import ManagerMetrics
from lanloom.kube.config import load
from lanloom.kube.controller import Controller, Outcome
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from tests.vlan.cluster import cluster_network, nad, node, vlan_config

UPLINKS = 50
VLANS = 200
"""Of each cluster network, so 10,000 NADs."""

WITH_ADDRESSES = 164
"""Of these: every fiftieth VLAN id has static addresses, every other fifth none, and the rest are by DHCP."""

NODE_NAMES = [f"node{number}" for number in range(1, 9)]
LIMIT_SECONDS = 5.0
ROUNDS = 3
"""The best round counts: whatever else the machine does can only take away from a figure."""

_WRITERS = 32
_PATIENCE = 120.0


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
        """Takes note of one reconcile."""
        super().reconcile(controller, _key, seconds, outcome)
        if outcome in ("done", "later"):
            self.expected.discard((controller, str(_key)))
        if not self.expected:
            self.complete.set()


def rows() -> Iterator[Row]:
    """Seconds, and how many bare lists that is."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name, _server(Path(name)) as kubeconfig:
        asyncio.run(_fill(kubeconfig))
        _start(kubeconfig)  # writes what is derived; a cluster has that when its manager is started again
        best = min((_start(kubeconfig) for _ in range(ROUNDS)), key=lambda item: item["seconds"])
    bare, cpu = best["bare"], best["cpu"]
    yield Row(
        name=f"cold start of a manager with {UPLINKS * VLANS:,} NADs",
        measured=best["seconds"],
        limit=LIMIT_SECONDS,
        unit="s",
        note=f"{best['seconds'] / bare:.1f} × listing and decoding them once ({bare:.2f} s); {cpu:.1f} s of CPU",
    )


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    kubeconfig = str(directory / "kubeconfig")
    words = ["serve", "--data", str(directory / "data"), "--kubeconfig", kubeconfig, "--no-manager"]
    server = subprocess.Popen(
        [sys.executable, "-m", "lanloom.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
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
    words = [sys.executable, "-m", "bench.coldstart", kubeconfig, str(time.monotonic())]
    answer = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=_PATIENCE).stdout
    figures: dict[str, float] = json.loads(answer)
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
    """A NAD as clusters hold it, with what kubectl adds."""
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
    names = [f"cn{number}" for number in range(UPLINKS)]
    metrics.expected = {(kind, name) for kind in ("vlanconfig", "clusternetwork") for name in names}
    settings = ManagerSettings(identity=f"bench-{began}", host="127.0.0.1", port=0, local=True)
    async with HttpClient(load(kubeconfig)) as client:
        manager = Manager(client, settings, now=time.time, rng=Random(), metrics=metrics)
        running = asyncio.create_task(manager.run())
        async with asyncio.timeout(_PATIENCE):
            await manager.ready.wait()
            await metrics.complete.wait()
            figures = {"seconds": time.monotonic() - began, "cpu": time.process_time()}
            while any(queue.depth for queue in metrics.queues):  # noqa: ASYNC110 - at the first of all starts labels are written
                await asyncio.sleep(0.5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        started = time.monotonic()
        nads = (await client.list(NADS)).items
        figures["bare"] = time.monotonic() - started
        await _check(client, len(nads))
        return figures


async def _check(client: HttpClient, nads: int) -> None:
    """A manager that left something out would be fast, too."""
    networks = (await client.list(CLUSTER_NETWORKS)).items
    carried = sum(len(decode(item.metadata.annotations)) for item in networks)
    if (nads, carried) != (UPLINKS * VLANS, UPLINKS * WITH_ADDRESSES):
        raise RuntimeError(f"there are {nads} NADs, of which {carried} have node addresses")


if __name__ == "__main__":
    import logging

    import structlog
    import uvloop

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(json.dumps(uvloop.run(measure(sys.argv[1], float(sys.argv[2])))))

"""How long nodes take from an applied NetworkAttachmentDefinition to their addresses: the real thing, on a lab.

The baseline is NetworkManager alone: on all three nodes at once, `nmcli connection up` activates the same profile
again, which asks for a lease, or looks for another host with the address, as for the first time. The start of `nmcli`
is part of it.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench.report import Row
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.cli.cluster import connect
from lanloom.features.vlan.rules.report.status import READY
from lanloom.kube.conditions import is_true
from lanloom.kube.ports import Client
from lanloom_lab import client, examples
from lanloom_lab.client import capture
from lanloom_lab.demo import DHCP, NODES, STATIC, UPLINKS
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done
from lanloom_lab.start import Options, start

ROUNDS = 7
LIMIT = 1.2
PAUSE = 0.02
STEP_SECONDS = 60.0

NETWORK = "cluster-1"
ACTIVATE = """
name=$(nmcli -g NAME connection show --active | grep 2012)
date +%s%N
nmcli connection up "$name" >&2
date +%s%N
"""


def rows() -> Iterator[Row]:
    """Yield the ratio for leases, and that for static addresses."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        layout = Layout(Path(name) / "state")
        try:
            start(layout, Options(3), lambda line: None)
            for what, file in (("a lease", DHCP), ("its static address", STATIC)):
                ours, bare = asyncio.run(measure(layout, file))
                note = f"{median(ours):.2f} s against {median(bare):.2f} s by the clock"
                yield Row(
                    name=f"from an applied NAD until each of three nodes has {what}, against NetworkManager alone",
                    measured=median(ours) / median(bare),
                    limit=LIMIT,
                    unit="×",
                    note=f"{note}, medians of {ROUNDS} by turns",
                )
        finally:
            asyncio.run(client.down(layout, keep=False))


async def measure(layout: Layout, file: str) -> tuple[list[float], list[float]]:
    """Return the seconds by Lanloom, and by NetworkManager alone. Raises LabError, KubeError."""
    async with connect(str(layout.kubeconfig)) as api:
        await examples.apply(api, *UPLINKS[:1])
        await _until(api, _is_ready)
        ours, bare = [], []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await examples.apply(api, file)
            await _until(api, _has_address)
            ours.append(time.perf_counter() - begin)
            bare.append(await _alone(layout))
            await examples.delete(api, file)
            await _until(api, _has_none)
        return ours, bare


async def _alone(layout: Layout) -> float:
    return max(await asyncio.gather(*(_activate(layout, node) for node in NODES)))


async def _activate(layout: Layout, node: str) -> float:
    status, output = await capture(layout, node, "sh", "-c", ACTIVATE)
    if status:
        raise RuntimeError(f"NetworkManager on {node}: {output}")
    begin, *_, end = output.split()
    return (int(end) - int(begin)) / 1e9


async def _until(api: Client, is_done: Callable[[ClusterNetworkNode], bool]) -> None:
    """Wait until the report of each node is as it should be."""

    async def done() -> bool:
        everything = (await api.list(CLUSTER_NETWORK_NODES)).items
        reports = [item for item in everything if item.status.cluster_network == NETWORK]
        return len(reports) == len(NODES) and all(map(is_done, reports))

    async with asyncio.timeout(STEP_SECONDS):
        await until_done(done, PAUSE)


def _is_ready(item: ClusterNetworkNode) -> bool:
    return is_true(item.status.conditions, READY)


def _has_address(item: ClusterNetworkNode) -> bool:
    return any(found.state == "Ready" and found.address for found in item.status.interfaces)


def _has_none(item: ClusterNetworkNode) -> bool:
    return not item.status.interfaces

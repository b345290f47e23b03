"""A cluster for tests of commands: an embedded server in this process, with objects but without agents."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    VlanConfig,
)
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.status import L3_READY, READY
from lanloom.features.vlan.views.objects import VlanObjects, read_objects
from lanloom.kube.conditions import find
from lanloom.kube.http import HttpClient
from tests.cli.serving import ATTEMPTS, typing
from tests.embedded.test_serve import serving
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.views.fixture import NODES as NODE_NAMES
from tests.features.vlan.views.fixture import STATIC
from tests.harness.servers.eventually import eventually


class Done(Struct, frozen=True):
    """How a command ended."""

    status: int
    output: str
    errors: str


class Served:
    """A running cluster with three nodes, cluster-1 on all of them, and static addresses on its VLAN 2012."""

    def __init__(self, client: HttpClient, kubeconfig: Path) -> None:
        self.client = client
        self._kubeconfig = kubeconfig

    async def lanloom(self, *words: str, given: str = "", environment: Mapping[str, str] = {}) -> Done:
        """Runs a command against the cluster, on a terminal of 80 columns."""
        own = {"KUBECONFIG": str(self._kubeconfig), "COLUMNS": "80", "HOME": "/nonexistent"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lanloom",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **own, **environment},
        )
        output, errors = await process.communicate(given.encode())
        assert process.returncode is not None
        return Done(process.returncode, output.decode(), errors.decode())

    async def offered(self, typed: str) -> list[str]:
        """What a shell is offered for a line; one that comes to nothing, for it gives up soon, is typed again."""
        for _ in range(ATTEMPTS):
            if found := (await self.lanloom(environment=typing(typed))).output.split():
                return found
        return []

    async def everything(self) -> VlanObjects:
        """Every object of the cluster that VLAN networks are made from."""
        return await read_objects(self.client)

    async def tell(self, report: ClusterNetworkNode) -> None:
        """Writes a node's report, as its agent would."""
        metadata = {"name": report.metadata.name, "labels": report.metadata.labels}
        await self.client.create(CLUSTER_NETWORK_NODES, {"metadata": metadata})
        await self.client.patch(
            CLUSTER_NETWORK_NODES,
            report.metadata.name,
            {"status": msgspec.to_builtins(report.status)},
            subresource="status",
        )


@asynccontextmanager
async def served(directory: Path, *reports: ClusterNetworkNode) -> AsyncIterator[Served]:
    """The cluster, when its manager has looked at the objects and at `reports`, one of each node, and is at rest."""
    async with serving(directory) as config, HttpClient(config) as client:
        cluster = Served(client, directory / "kubeconfig")
        for index, name in enumerate(NODE_NAMES):
            await client.create(NODES, node(name, address=f"10.0.0.{index + 1}"))
        await client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        # Before the reports: those of nodes that the manager has not seen would be deleted.
        await eventually(partial(client.get, VLAN_CONFIGS, "one"), _matches_all_nodes)
        for report in reports:
            await cluster.tell(report)
        # Before the NAD: the label of one that came earlier would follow ten seconds later.
        await eventually(partial(client.get, CLUSTER_NETWORKS, "cluster-1"), _is_ready)
        body = nad("vlan2012", "cluster-1", 2012, mode="static", addresses=STATIC)
        await client.create(NADS, body, "default")
        await _settled(client)
        yield cluster


def _matches_all_nodes(config: VlanConfig) -> bool:
    text = config.metadata.annotations.get(names.MATCHED_NODES, "[]")
    return set(msgspec.json.decode(text)) == set(NODE_NAMES)


def _is_ready(network: ClusterNetwork) -> bool:
    found = find(network.status.conditions, READY)
    return found is not None and found.status == "True"


async def _settled(client: HttpClient) -> None:
    """Waits until the manager has written all that it derives."""

    async def is_written() -> bool:
        network = await client.get(CLUSTER_NETWORKS, "cluster-1")
        labels = (await client.get(NADS, "vlan2012", "default")).metadata.labels
        derived = any("l3connectivity" in key for key in network.metadata.annotations)
        told = find(network.status.conditions, L3_READY) is not None
        return derived and told and labels.get(names.READY_LABEL) == "true"

    await eventually(is_written, bool)

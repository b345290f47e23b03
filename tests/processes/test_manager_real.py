"""The manager with its webhooks on a real kube-apiserver.

Of its own, because the webhooks would reach every other test's objects.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, NODES
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.features.vlan.admission.requests import machine
from tests.harness.installing import ensure, prepare
from tests.harness.managers import leading
from tests.harness.servers.eventually import PatientClient, eventually
from tests.harness.servers.real import RealServer

pytestmark = pytest.mark.realserver

EXAMPLES = Path(__file__).parents[2] / "examples"
RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource for resource in (CLUSTER_NETWORKS, VLAN_CONFIGS, NADS)
}


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver for this module alone."""
    with RealServer(real_binaries) as running:
        yield running


@asynccontextmanager
async def managed(server: RealServer) -> AsyncIterator[HttpClient]:
    """A client of a server on which a manager leads, with three nodes."""
    async with PatientClient(load(str(server.kubeconfig))) as client:
        await prepare(client)
        for node in ("node1", "node2", "node3"):
            await ensure(
                client, NODES, {"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}}
            )
        for resource in RESOURCES.values():
            await eventually(partial(client.list, resource), lambda _: True)
        async with leading(client):
            yield client


async def example(client: HttpClient, name: str) -> None:
    """Creates the objects of an example, or makes them say what it says."""
    for document in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()):
        meta, resource = document["metadata"], RESOURCES[document["kind"]]
        try:
            await client.patch(resource, meta["name"], document, meta.get("namespace", ""))
        except NotFound:
            await client.create(resource, document, meta.get("namespace", ""))


async def report_uplink(client: HttpClient, node: str) -> None:
    """Says what the agent of `node` says when the uplink of cluster-1 works."""
    name = report_name("cluster-1", node)
    await ensure(client, CLUSTER_NETWORK_NODES, {"metadata": {"name": name}})
    conditions = [{"type": "ready", "status": "True"}]
    status = {"clusterNetwork": "cluster-1", "node": node, "conditions": conditions}
    await client.patch(CLUSTER_NETWORK_NODES, name, {"status": status}, subresource="status")


async def test_networks_are_derived_on_a_real_kube_apiserver(server: RealServer) -> None:
    """A NAD with L3 connectivity becomes annotations of its ClusterNetwork, which go when the NAD goes."""
    async with managed(server) as client:
        await example(client, "cluster-1")
        matched, nodes = "network.harvesterhci.io/matched-nodes", '["node1", "node2", "node3"]'
        await eventually(
            lambda: client.get(VLAN_CONFIGS, "vlanconfig-1"),
            lambda item: item.metadata.annotations.get(matched) == nodes,
        )
        await report_uplink(client, "node1")

        async def applied() -> ClusterNetwork:
            with suppress(Forbidden):  # the manager's view lags behind the report
                await example(client, "vlan2012-dhcp")
            return await client.get(CLUSTER_NETWORKS, "cluster-1")

        mode = "network.harvesterhci.io/mode-default-vlan2012"
        await eventually(applied, lambda item: item.metadata.annotations.get(mode) == "dhcp")
        await example(client, "changes/vlan2012-static")
        await eventually(
            lambda: client.get(CLUSTER_NETWORKS, "cluster-1"),
            lambda item: item.metadata.annotations.get(mode) == "static",
        )
        await client.delete(NADS, "vlan2012", "default")
        await eventually(
            lambda: client.get(CLUSTER_NETWORKS, "cluster-1"),
            lambda item: mode not in item.metadata.annotations,
        )


async def test_webhooks_refuse_on_a_real_kube_apiserver(server: RealServer) -> None:
    """A NAD of a cluster network that does not exist is refused with a message that names it."""
    async with managed(server) as client:
        config = '{"cniVersion":"0.3.1","type":"bridge","bridge":"nowhere-br","vlan":7}'
        body = {"metadata": {"name": "lost", "namespace": "default"}, "spec": {"config": config}}
        with pytest.raises(
            Forbidden, match='its cluster network "nowhere" does not exist; create the ClusterNetwork'
        ):
            await client.create(NADS, body, "default")


async def test_vms_keep_what_they_use_on_a_real_kube_apiserver(server: RealServer) -> None:
    """While a VM runs, its network and its uplink are not deleted; a stopped one still keeps its network."""
    async with HttpClient(load(str(server.kubeconfig))) as client:
        kinds: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES)
        for kind in kinds:
            await ensure(client, CRDS, manifest(kind))
            await eventually(partial(client.list, kind), lambda _: True)
    async with managed(server) as client:
        await example(client, "cluster-1")
        config = '{"cniVersion":"0.3.1","type":"bridge","bridge":"cluster-1-br","vlan":7}'
        await client.create(NADS, {"metadata": {"name": "used"}, "spec": {"config": config}}, "default")
        body = {
            "metadata": {"name": "web"},
            "spec": {"networks": [{"name": "nic", "multus": {"networkName": "used"}}]},
            "status": {"phase": "Running", "nodeName": "node1"},
        }
        await client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")
        await refused(client, NADS.path("default", "used"), "the VMs default/web use it; stop them first")
        await refused(client, VLAN_CONFIGS.path("", "vlanconfig-1"), "node1 would lose the cluster network")
        await client.delete(VIRTUAL_MACHINE_INSTANCES, "web", "default")
        await client.delete(VLAN_CONFIGS, "vlanconfig-1")
        await client.create(VIRTUAL_MACHINES, machine("web", "used"), "default")
        await refused(
            client, NADS.path("default", "used"), "because the VirtualMachines default/web name it in"
        )
        await client.delete(VIRTUAL_MACHINES, "web", "default")
        await client.delete(NADS, "used", "default")


async def refused(client: HttpClient, path: str, why: str) -> None:
    """Waits until a deletion is refused, which is only tried: the manager must have seen the VM first."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.request("DELETE", path, query={"dryRun": "All"})
            except Forbidden as refusal:
                assert why in str(refusal)
                return
            await asyncio.sleep(0.05)

"""Devices and CNI programs on a real node: kubelet registers and allocates, containerd's pods reach the data plane."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from lanloom.api.core import CRDS, NODES
from lanloom.api.crds import manifest
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.lan import FEATURE
from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.kubelet.plugins import DevicePlugins
from lanloom.features.lan.agent.ports import MACVTAP, VETH, Device
from lanloom.features.lan.rules.nads import WantedNad
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.runtime.cni.programs import program
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import serving
from tests.harness.cniagent import shim
from tests.harness.nodes.node import BRIDGE, CNI_PLUGINS, DEVICE_PLUGINS, RealNode, with_nads
from tests.harness.nodes.pods import Pods, container_of, node_ready
from tests.harness.nodes.programs import NodePrograms
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(600)]

MACHINE, POD = Device("red", MACVTAP), Device("red", VETH)


@pytest.fixture(scope="module")
def lan_node(
    node_programs: NodePrograms,
    nodes_server: RealServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealNode]:
    """A node with Multus's part and the CNI programs, for which the agent listens outside."""
    directory = tmp_path_factory.mktemp("node")
    network = with_nads(BRIDGE)
    with RealNode("node1", node_programs, nodes_server.kubeconfig, directory, network) as node:
        for name in FEATURE.cni:
            node.write(f"{CNI_PLUGINS}/{name}", program(Path("/run/cni.sock"), shim()), mode=0o755)
        yield node


@pytest.fixture
async def client(nodes_server: RealServer) -> AsyncIterator[HttpClient]:
    """The administrator's client."""
    client = HttpClient(load(str(nodes_server.kubeconfig)))
    yield client
    await client.close()


async def test_pods_get_spokes(lan_node: RealNode, client: HttpClient) -> None:
    """Devices are allocatable, also after kubelet's restart; pods get theirs by NAD, resource and CNI."""
    await client.create(CRDS, manifest(NADS))
    spokes = FakeSpokes(["red"])
    lan_node.enclosure.run("mknod", "/run/tap1", "c", "1", "5")
    spokes.taps[MACHINE.id] = "/run/tap1"
    plugins = DevicePlugins(spokes, lan_node.enclosure.root(DEVICE_PLUGINS), first_retry=0.1)
    task = asyncio.create_task(plugins.run())
    try:
        async with serving(lan_node.enclosure.root("/run/cni.sock"), LanCni(spokes)):
            await _allocatable(lan_node, client, {MACHINE.resource: "1", POD.resource: "1"})
            await eventually(partial(client.list, NADS), lambda _: True)
            for mode in (MACVTAP, VETH):
                await _create_nad(client, WantedNad(Key("default", Device("red", mode).nad), "red", mode))
            pods = Pods(client)
            networks = {"k8s.v1.cni.cncf.io/networks": MACHINE.nad}
            machine = await pods.run("machine", lan_node, annotations=networks, resources=(MACHINE.resource,))
            assert "1,   5" in lan_node.exec(container_of(machine), "ls", "-l", "/run/tap1")
            networks = {"k8s.v1.cni.cncf.io/networks": POD.nad}
            await pods.run("pod", lan_node, annotations=networks, resources=(POD.resource,))
            assert {each.device for each in spokes.attached.values()} == {MACHINE, POD}
            assert {each.pod for each in spokes.attached.values()} == {"default/machine", "default/pod"}
            lan_node.stop_kubelet()
            await _forget(lan_node, client)
            lan_node.start_kubelet()
            await node_ready(client, lan_node)
            await _allocatable(lan_node, client, {MACHINE.resource: "1", POD.resource: "1"})
            assert spokes.allocated == [MACHINE, POD]
            await pods.delete("machine", lan_node)
            await pods.delete("pod", lan_node)
            assert not spokes.attached
            spokes.take("red")
            await _allocatable(lan_node, client, {MACHINE.resource: "0", POD.resource: "0"})
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _create_nad(client: HttpClient, nad: WantedNad) -> None:
    body = {
        "apiVersion": NADS.api_version,
        "kind": NADS.kind,
        "metadata": {"name": nad.key.name, "annotations": {RESOURCE_NAME: nad.resource}},
        "spec": {"config": nad.config},
    }
    await client.request("POST", NADS.path(nad.key.namespace), body)


async def _allocatable(node: RealNode, client: HttpClient, expected: dict[str, str]) -> None:
    """Wait until the node's status has these resources."""

    async def look() -> dict[str, str]:
        found = await client.request("GET", NODES.path("", node.name))
        status: dict[str, str] = found["status"].get("allocatable", {})
        return {name: count for name, count in status.items() if name in expected}

    await eventually(look, lambda found: found == expected, 120)


async def _forget(node: RealNode, client: HttpClient) -> None:
    """Take the devices out of the node's status, so that only a kubelet that runs can put them back."""
    gone = dict.fromkeys((MACHINE.resource, POD.resource))
    patch = {"status": {"allocatable": gone, "capacity": gone}}
    await client.patch(NODES, node.name, patch, subresource="status")

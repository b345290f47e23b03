"""Nodes of a lab whose API server does not answer, and pods that another one replaced."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lanloom.kube.errors import Invalid, TransportError
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from lanloom_lab import protocol
from lanloom_lab.layout import LabRecord, Layout, NodeRecord
from lanloom_lab.nodes import Nodes
from lanloom_lab.plan import NodeSpec
from lanloom_lab.workloads.devicemanager import CHECKPOINT, DeviceManager
from lanloom_lab.workloads.hosts import Machines
from lanloom_lab.workloads.kubelet import pod_is_there
from lanloom_lab.workloads.pods import PODS


class Inner:
    """A kernel that does what it is asked, and keeps it."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def ask(self, request: object) -> protocol.Done:
        """As InnerClient does."""
        self.asked.append(type(request))
        return protocol.Done()


class DeadRegistry:
    """A registry whose API server died."""

    async def report(self, _node: NodeSpec, *, ready: bool) -> None:
        """Fail."""
        raise TransportError("connection refused")


async def test_a_node_comes_back_from_a_reboot_without_the_api_server(tmp_path: Path) -> None:
    """A reboot that meets a dead API server powers the node on again, and then tells of the server."""
    node, machines, inner = NodeRecord(NodeSpec("node1", 1), "token"), Machines(), Inner()
    layout = Layout(tmp_path)
    layout.make()
    layout.kubeconfig.write_text("clusters: [{cluster: {certificate-authority-data: ''}}]")
    machines.started("node1", node.spec.address)
    before = machines.boot("node1")
    kernel: Any = inner
    registry: Any = DeadRegistry()
    nodes = Nodes(layout, LabRecord((), nodes=(node,)), kernel, registry, machines)
    with pytest.raises(TransportError):
        await nodes.act("reboot", "node1")
    assert inner.asked == [protocol.PowerOff, protocol.PowerOn]
    assert machines.boot("node1") not in (None, before)
    with pytest.raises(TransportError):
        await nodes.act("reboot", "node1")


async def test_a_status_for_a_pod_that_was_replaced_is_dropped() -> None:
    """What a kubelet writes of a pod reaches no other one of its name, and is no error; others are."""
    loop = asyncio.get_running_loop()
    engine = Engine(MemoryStorage(), now=loop.time, rng=Random(1))
    await engine.start()
    client = LocalClient(engine)
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    with pod_is_there():
        await client.patch(PODS, "p", {"metadata": {"uid": "former", "annotations": {"a": "b"}}}, "default")
    with pod_is_there():
        await client.patch(PODS, "gone", {"metadata": {"uid": "former"}}, "default")
    with pytest.raises(Invalid), pod_is_there():
        await client.patch(PODS, "p", {"metadata": {"annotations": {"a b c": ""}}}, "default")
    assert not (await client.get(PODS, "p", "default")).metadata.annotations
    await engine.close()


@pytest.mark.parametrize("content", ["", '{"u', '{"u": {}}'])
async def test_a_checkpoint_that_a_power_cut_left_is_no_end(tmp_path: Path, content: str) -> None:
    """A device manager starts with a checkpoint that is cut, as with one that is whole."""
    (tmp_path / CHECKPOINT).write_text(content)
    manager = DeviceManager(tmp_path)
    await manager.start()
    await manager.stop()

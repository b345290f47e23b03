"""Nodes of a lab whose API server does not answer, and pods that another one replaced."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lanloom.api.core import NODES
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import Invalid, KubeError, ServerError, TransportError
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from lanloom_lab import protocol
from lanloom_lab.layout import LabRecord, Layout, NodeRecord
from lanloom_lab.nodes import RETRY_SECONDS, Nodes, Registry
from lanloom_lab.plan import NodeSpec
from lanloom_lab.workloads.devicemanager import CHECKPOINT, DeviceManager
from lanloom_lab.workloads.hosts import Machines
from lanloom_lab.workloads.kubelet import pod_is_there
from lanloom_lab.workloads.pods import PODS
from tests.harness import virtual
from tests.harness.interceptor import Interceptor, Request


class Inner:
    """A kernel that does what it is asked, and keeps it."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def ask(self, request: object) -> protocol.Done:
        """As InnerClient does."""
        self.asked.append(type(request))
        return protocol.Done()


class Away(Interceptor):
    """An API server that is away, or refuses everything, as long as there is an `error`."""

    def __init__(self, inner: LocalClient) -> None:
        super().__init__(inner)
        self.error: KubeError | None = None

    async def send(self, request: Request) -> Any:
        if self.error is not None:
            raise self.error
        return await super().send(request)


@pytest.mark.parametrize(
    "error", [TransportError("connection refused"), ServerError(503, "ServiceUnavailable", "starting")]
)
def test_a_node_comes_back_from_a_reboot_without_the_api_server(tmp_path: Path, error: KubeError) -> None:
    """A reboot that meets a dead API server powers the node on again, and tells of it; later its Node is Ready."""
    virtual.run(_reboots(tmp_path, error))


async def _reboots(tmp_path: Path, error: KubeError) -> None:
    loop = asyncio.get_running_loop()
    engine = Engine(MemoryStorage(), now=loop.time, rng=Random(1))
    await engine.start()
    client = Away(LocalClient(engine))
    node, machines, inner = NodeRecord(NodeSpec("node1", 1), "token"), Machines(), Inner()
    layout = Layout(tmp_path)
    layout.make()
    layout.kubeconfig.write_text("clusters: [{cluster: {certificate-authority-data: ''}}]")
    machines.started("node1", node.spec.address)
    before = machines.boot("node1")
    kernel: Any = inner
    registry = Registry(client, loop.time)
    telling = asyncio.create_task(registry.run())
    await registry.report(node.spec, ready=True)
    client.error = error
    nodes = Nodes(layout, LabRecord((), nodes=(node,)), kernel, registry, machines)
    with pytest.raises(type(error)):
        await nodes.act("reboot", "node1")
    assert inner.asked == [protocol.PowerOff, protocol.PowerOn]
    assert machines.boot("node1") not in (None, before)
    with pytest.raises(type(error)):
        await nodes.act("stop", "node1")
    with pytest.raises(type(error)):
        await nodes.act("start", "node1")
    await asyncio.sleep(600)
    client.error = None
    await asyncio.sleep(2 * RETRY_SECONDS)
    found = await client.get(NODES, "node1")
    assert is_true(found.status.conditions, "Ready")
    telling.cancel()
    await engine.close()


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

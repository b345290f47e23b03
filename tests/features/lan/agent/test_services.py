"""What an agent serves of its LANs, as its options say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from lanloom.features.lan.agent.metrics import LanAgentMetrics
from lanloom.features.lan.agent.options import LanAgentSettings
from lanloom.features.lan.agent.services import serve_spokes
from lanloom.runtime.cni import CniSettings
from lanloom_lab.workloads.devicemanager import DeviceManager
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import Node, config


class Watched(LanAgentMetrics):
    """Metrics that tell when the socket is there."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)
        self.ready = asyncio.Event()

    def serves(self, there: bool) -> None:
        """As the metrics do."""
        super().serves(there)
        if there:
            self.ready.set()

    def value(self, name: str, **labels: str) -> float | None:
        """A series."""
        return self.registry.get_sample_value(name, labels)


@asynccontextmanager
async def served(
    spokes: FakeSpokes, cni: CniSettings | None, plugins: Path | None, metrics: LanAgentMetrics
) -> AsyncIterator[None]:
    """An agent's services, until the block ends."""
    settings = LanAgentSettings(device_plugins=plugins)
    task = asyncio.create_task(serve_spokes(spokes, cni, settings, metrics))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_all_is_served_and_counted(node: Node, spokes: FakeSpokes, tmp_path: Path) -> None:
    """CNI programs are answered, devices registered, and both are counted."""
    metrics, kubelet = Watched(), DeviceManager(tmp_path / "dp")
    await kubelet.start()
    settings = CniSettings(socket=tmp_path / "cni.sock")
    async with served(spokes, settings, tmp_path / "dp", metrics):
        await metrics.ready.wait()
        await kubelet.until(lambda: len(kubelet.plugins) == 4)
        await node.runtime.add(config())
        await kubelet.until(lambda: kubelet.allocatable("macvtap.k8slan.io/k8slan-mac-red") == 1)
        await kubelet.allocate("pod", "macvtap.k8slan.io/k8slan-mac-red")
        calls = {"program": "macvtap", "command": "ADD", "code": "0"}
        assert metrics.value("lanloom_agent_lan_cni_calls_total", **calls) == 1
        assert metrics.value("lanloom_agent_lan_cni_up") == 1
        assert metrics.value("lanloom_agent_lan_devices") == 4
        assert metrics.value("lanloom_agent_lan_allocations_total", status="0") == 1
        await kubelet.stop()


async def test_nothing_is_served_that_was_not_asked_for(spokes: FakeSpokes) -> None:
    """An agent without a socket and without kubelet's directory has nothing to serve, and ends nothing."""
    metrics = Watched()
    await serve_spokes(spokes, None, LanAgentSettings(), metrics)
    assert not metrics.ready.is_set()

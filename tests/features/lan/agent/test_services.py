"""What an agent serves of its LANs, as its options say."""

import asyncio
from pathlib import Path

from lanloom.features.lan import FEATURE
from lanloom.features.lan.agent import cni_service, serve_devices
from lanloom.features.lan.agent.metrics import LanAgentMetrics
from lanloom.features.lan.agentoptions import LanAgentSettings
from lanloom.runtime.cni.programs import CniSettings
from lanloom.runtime.cni.server import keep_serving
from lanloom.runtime.exposition import CollectorRegistry
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


async def test_all_is_served_and_counted(node: Node, spokes: FakeSpokes, tmp_path: Path) -> None:
    """CNI programs are answered, devices registered, and both are counted."""
    metrics, kubelet = Watched(), DeviceManager(tmp_path / "dp")
    await kubelet.start()
    settings = LanAgentSettings(device_plugins=tmp_path / "dp")
    service = cni_service(spokes, CniSettings(socket=node.socket), settings, metrics)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(keep_serving(node.socket, dict.fromkeys(FEATURE.cni, service))),
            group.create_task(serve_devices(spokes, settings, metrics)),
        ]
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
        for task in tasks:
            task.cancel()


async def test_no_devices_without_kubelet_s_directory(spokes: FakeSpokes) -> None:
    """An agent without kubelet's directory has nothing to serve, and ends nothing."""
    await serve_devices(spokes, LanAgentSettings(), Watched())

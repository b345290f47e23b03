"""What a node offers of its LANs: the CNI programs' socket, and the devices for kubelet, both on the spokes' port.

Their modules are loaded when they run, so an agent without LANs' programs and devices does not carry them.
"""

import asyncio

import structlog

from lanloom.features.lan.agent.metrics import LanAgentMetrics
from lanloom.features.lan.agent.options import LanAgentSettings
from lanloom.features.lan.agent.ports import SpokesPort
from lanloom.runtime.cni import CniSettings

RETRY_SECONDS = 10.0
"""After the socket could not be made."""

log = structlog.get_logger(__name__)


async def serve_spokes(
    spokes: SpokesPort, cni: CniSettings | None, settings: LanAgentSettings, metrics: LanAgentMetrics
) -> None:
    """Serve until cancelled what the agent was told to serve."""
    async with asyncio.TaskGroup() as group:
        if cni is not None:
            group.create_task(_serve_cni(spokes, cni, settings, metrics))
        if settings.device_plugins is not None:
            from lanloom.features.lan.agent.kubelet.plugins import DevicePlugins

            plugins = DevicePlugins(
                spokes, settings.device_plugins, observe=metrics.allocated, on_registered=metrics.registered
            )
            group.create_task(plugins.run())


async def _serve_cni(
    spokes: SpokesPort, cni: CniSettings, settings: LanAgentSettings, metrics: LanAgentMetrics
) -> None:
    """What fails here is logged and tried again: the LANs that there are don't depend on it."""
    from lanloom.features.lan.agent.cni import LanCni, cni_socket
    from lanloom.features.lan.agent.ipam import Ipam
    from lanloom.features.lan.agent.ipamviews import IpamViews
    from lanloom.features.lan.agent.programs import lan_socket

    path = lan_socket(cni.socket)
    ipam = Ipam(cni.programs, settings.ipam_programs, views=IpamViews(cni.socket.parent, cni.state))
    answers = LanCni(spokes, ipam, observe=metrics.called)
    complained = ""
    while True:
        metrics.serves(False)
        try:
            await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
            await cni_socket(path, answers, on_ready=lambda: metrics.serves(True)).run()
        except OSError as error:
            if str(error) != complained:
                log.error("lan-cni-not-served", socket=str(path), error=str(error))
            complained = str(error)
        await asyncio.sleep(RETRY_SECONDS)

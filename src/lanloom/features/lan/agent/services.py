"""Offer a node's LANs: answers for the CNI programs, and the devices for kubelet, both on the spokes' port."""

from collections.abc import Mapping
from types import MappingProxyType

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.ipam import Ipam
from lanloom.features.lan.agent.ipamviews import IpamViews
from lanloom.features.lan.agent.metrics import LanAgentMetrics
from lanloom.features.lan.agent.ports import SpokesPort
from lanloom.features.lan.agentoptions import LanAgentSettings
from lanloom.runtime.cni.programs import CniSettings
from lanloom.runtime.cni.server import CniService


def cni_service(
    spokes: SpokesPort,
    cni: CniSettings,
    settings: LanAgentSettings,
    metrics: LanAgentMetrics,
    local: Mapping[str, CniService] = MappingProxyType({}),
) -> CniService:
    """Return the answers for the programs; `local` are IPAM programs that this process answers itself."""
    views = IpamViews(cni.socket.parent, cni.state)
    ipam = Ipam(cni.programs, settings.ipam_programs, views=views, local=local)
    return CniService(answer=LanCni(spokes, ipam).answer, called=metrics.called, serves=metrics.serves)


async def serve_devices(spokes: SpokesPort, settings: LanAgentSettings, metrics: LanAgentMetrics) -> None:
    """Offer the devices until cancelled, if the agent has the option of kubelet's directory."""
    if settings.device_plugins is None:
        return
    from lanloom.features.lan.agent.kubelet.plugins import DevicePlugins

    plugins = DevicePlugins(
        spokes, settings.device_plugins, observe=metrics.allocated, on_registered=metrics.registered
    )
    await plugins.run()

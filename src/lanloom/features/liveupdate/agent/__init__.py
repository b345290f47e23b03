"""The node's side of live update: finds the port of a NIC, moves it, announces it, and says where it is.

Only an agent with the option of the directory of pods' namespaces has a part of it: the one that keeps LANs, as it may
enter them.
"""

from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.features.liveupdate.agent.kernel import PortKernel
from lanloom.features.liveupdate.agent.links import NetlinkPorts
from lanloom.features.liveupdate.agent.mover import Mover
from lanloom.features.liveupdate.agent.multus import MultusReader, unknown
from lanloom.features.liveupdate.agent.records import MoveRecords
from lanloom.features.liveupdate.agent.swaps import SwapAgent
from lanloom.features.liveupdate.agentoptions import SwapAgentSettings
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.ports import LAN_PLACES, MULTUS, Port

PORT_KERNEL: Port[PortKernel] = Port("a node's kernel, as far as ports of machines go")
"""Provided before the part is built by those who play a node; otherwise the kernel is this machine's."""


def build(context: AgentContext) -> AgentPart:
    """Keep the ports of the node's swaps."""
    settings = context.setting("liveupdate", SwapAgentSettings())
    directory = settings.namespaces
    if settings.cni_config is not None:
        context.provide(MULTUS, MultusReader(settings.cni_config).read)
    if directory is None:
        return AgentPart()
    node, records = context.host.name, MoveRecords(context.host.state)
    kernel = context.find(PORT_KERNEL) or NetlinkPorts((directory,))
    metrics = context.metrics["liveupdate"]
    mover = Mover(kernel, records, lambda: context.find(LAN_PLACES), context.find(MULTUS) or unknown)
    agent = SwapAgent(
        context.client,
        context.informers.get(NETWORK_SWAPS, optional=True),
        mover,
        records,
        node=node,
        now=context.now,
        rng=context.rng,
        gap=metrics.moved,
        observe=context.observe,
        recorder=context.recorder,
    )
    return AgentPart(run=agent.run, controllers=(agent.controller,))

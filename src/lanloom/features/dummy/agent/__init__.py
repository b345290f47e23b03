"""The host's side of isolated networks: `bridge` keeps one bridge, `garbage` removes those without a network.

A process of `lanloom dummy bridge` runs for each network on each node. It loads this module, too, so what only an agent
needs is imported where it is used.
"""

import asyncio
from typing import TYPE_CHECKING

from lanloom.features.dummy.agent import links  # the kernel's adapter of its steps

if TYPE_CHECKING:
    from lanloom.runtime.context import AgentContext, AgentPart

__all__ = ["build", "links"]


def build(context: "AgentContext") -> "AgentPart":
    """Build the part of an agent."""
    from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
    from lanloom.features.dummy.agent.garbage import BridgeGarbageCollector
    from lanloom.kube.informer import Informer
    from lanloom.runtime.context import AgentPart

    # Optional: the node's other networks do not wait for this kind, nor for the right to read it.
    networks = Informer(context.client, DUMMY_CLUSTER_NETWORKS, rng=context.rng, optional=True)
    collector = BridgeGarbageCollector(
        context.client,
        context.host.links,
        networks,
        rng=context.rng,
        observe=context.observe,
        on_removed=context.metrics["dummy"].removed,
    )

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(networks.run())
            group.create_task(collector.run())

    return AgentPart(run=run, controllers=collector.controllers)

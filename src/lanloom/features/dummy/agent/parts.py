"""All of isolated networks that runs in an agent's process, and what it measures."""

import asyncio

from prometheus_client import CollectorRegistry, Counter

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.features.dummy.agent.garbage import BridgeGarbageCollector
from lanloom.kube.informer import Informer
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.metrics import FeatureMetrics


class DummyAgentMetrics(FeatureMetrics):
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._bridges_removed = Counter(
            "lanloom_agent_isolated_bridges_removed",
            "Bridges of isolated networks that are no more, taken away.",
            registry=registry,
        )

    def removed(self) -> None:
        """Counts a bridge of an isolated network that is no more, taken away."""
        self._bridges_removed.inc()


def build(context: AgentContext) -> AgentPart:
    """Removes the bridges of isolated networks that are gone."""
    # Without isolated networks, or rights to read them, a node's VLANs are kept all the same: nothing waits for these.
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

"""The agent's part of VLAN networks: uplinks, bridges, VLAN ids and addresses of one node; `loop` is its life."""

from collections.abc import Hashable

from lanloom.features.vlan.agent.loop import VlanAgent
from lanloom.features.vlan.informers import agent_informers
from lanloom.kube.controller import Outcome
from lanloom.runtime.context import AgentContext, AgentPart

__all__ = ["VlanAgent", "build"]

HOST_CONTROLLER = "vlan-agent"


def build(context: AgentContext) -> AgentPart:
    """Keep the node's uplinks, bridges, VLAN ids and profiles."""
    metrics = context.metrics["vlan"]

    def observe(controller: str, key: Hashable, seconds: float, outcome: Outcome) -> None:
        context.observe(controller, str(key), seconds, outcome)
        if controller == HOST_CONTROLLER:
            metrics.reconciled(outcome)

    agent = VlanAgent(
        context.client,
        context.host,
        agent_informers(context.informers, context.host.name),
        cluster=context.cluster,
        now=context.now,
        rng=context.rng,
        observe=observe,
        on_report=metrics.report,
        on_repair=metrics.repair,
    )
    return AgentPart(run=agent.run, controllers=agent.controllers)

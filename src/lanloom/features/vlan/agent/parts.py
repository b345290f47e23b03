"""All of VLAN networks that runs in an agent's process."""

from collections.abc import Hashable

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.features.vlan.agent import AgentInformers, VlanAgent
from lanloom.features.vlan.mode import harvester_informer
from lanloom.features.vlan.rules.names import node_label
from lanloom.kube.controller import Outcome
from lanloom.kube.informers import Informers
from lanloom.runtime.context import AgentContext, AgentPart

HOST_CONTROLLER = "vlan-agent"


def agent_informers(informers: Informers, node: str) -> AgentInformers:
    """What an agent watches: networks and their uplinks, NADs of a cluster network, its own node's reports."""
    own = f"{names.NODE_LABEL}={node_label(node)}"
    return AgentInformers(
        cluster_networks=informers.get(CLUSTER_NETWORKS),
        configs=informers.get(VLAN_CONFIGS),
        nads=informers.get(NADS, labels=names.CLUSTER_NETWORK_LABEL),
        statuses=informers.get(CLUSTER_NETWORK_NODES, labels=own),
        vlan_statuses=informers.get(VLAN_STATUSES, labels=own),
        harvester=harvester_informer(informers),
    )


def build(context: AgentContext) -> AgentPart:
    """Keeps the node's uplinks, bridges, VLAN ids and profiles."""
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

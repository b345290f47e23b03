"""The agent process: one node's links, profiles and NetworkManager, kept as the cluster's objects say."""

import asyncio
import random
from collections.abc import Callable

from lanloom.api import names
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.app.cni import CniSettings, serve_cni
from lanloom.app.metrics.agent import AgentMetrics
from lanloom.app.metrics.observed import observed
from lanloom.dummy.agent.sweeper import Sweeper
from lanloom.kube.informer import Informer, all_synced, freeze_memory
from lanloom.kube.ports import Client
from lanloom.node.ports import Host
from lanloom.vlan.agent import AgentInformers, VlanAgent
from lanloom.vlan.rules.names import node_label


def agent_informers(client: Client, node: str, rng: random.Random) -> AgentInformers:
    """What an agent watches: networks and their uplinks, NADs of a cluster network, its own node's reports."""
    return AgentInformers(
        cluster_networks=Informer(client, CLUSTER_NETWORKS, rng=rng),
        configs=Informer(client, VLAN_CONFIGS, rng=rng),
        nads=Informer(client, NADS, rng=rng, labels=names.CLUSTER_NETWORK_LABEL),
        statuses=Informer(client, VLAN_STATUSES, rng=rng, labels=f"{names.NODE_LABEL}={node_label(node)}"),
    )


async def run_agent(
    client: Client,
    host: Host,
    *,
    cluster: str,
    now: Callable[[], float],
    rng: random.Random,
    metrics: AgentMetrics | None = None,
    cni: CniSettings | None = None,
) -> None:
    """Runs a node's agent until cancelled; `metrics` shows how it fares. Without `cni` it answers no CNI plugin."""
    metrics = metrics or AgentMetrics()
    host = observed(host, metrics)
    informers = agent_informers(client, host.name, rng)
    agent = VlanAgent(
        client,
        host,
        informers,
        cluster=cluster,
        now=now,
        rng=rng,
        observe=metrics.reconcile,
        on_report=metrics.report,
        on_repair=metrics.repair,
    )
    # Without isolated networks, or rights to read them, a node's VLANs are kept all the same: nothing waits for these.
    isolated = Informer(client, DUMMY_CLUSTER_NETWORKS, rng=rng, optional=True)
    sweeper = Sweeper(
        client,
        host.links,
        isolated,
        rng=rng,
        observe=metrics.reconcile,
        on_removed=metrics.isolated_bridge_removed,
    )
    metrics.follow(informers.all(), (*agent.controllers, *sweeper.controllers))
    async with asyncio.TaskGroup() as group:
        for informer in informers.all():
            group.create_task(informer.run())
        group.create_task(agent.run())
        group.create_task(isolated.run())
        group.create_task(sweeper.run())
        if cni is not None:
            serving = serve_cni(
                client, host.name, cni, now=now, rng=rng, observe=metrics.cni_call, on_part=metrics.cni_part
            )
            group.create_task(serving)
        await all_synced(informers.all())
        freeze_memory()

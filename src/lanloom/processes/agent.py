"""The agent process: the features' parts on one node, and their CNI programs in the runtime's directory."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lanloom.features import FEATURES
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced, freeze_memory
from lanloom.kube.ports import Client
from lanloom.node.ports import Host
from lanloom.processes.metrics import AgentMetrics, observed
from lanloom.runtime.cni import CniSettings, keep_installed
from lanloom.runtime.context import AgentContext
from lanloom.runtime.feature import Feature, cni_programs, in_order, load


async def run_agent(
    client: Client,
    host: Host,
    *,
    cluster: str,
    now: Callable[[], float],
    rng: random.Random,
    metrics: AgentMetrics | None = None,
    cni: CniSettings | None = None,
    settings: Mapping[str, Any] = {},
    features: Sequence[Feature] = FEATURES,
) -> None:
    """Run a node's agent until cancelled; `metrics` shows its health. Without `cni` it serves no CNI plugin.

    `settings` are those of features by their names.
    """
    metrics = metrics or AgentMetrics(features)
    context = AgentContext(
        client=client,
        recorder=Recorder(client, "lanloom-agent", host.name, now=now, rng=rng),
        host=observed(host, metrics),
        cluster=cluster,
        cni=cni,
        on_cni_part=metrics.cni_part,
        now=now,
        rng=rng,
        observe=metrics.reconcile,
        settings=settings,
        metrics=metrics.features,
    )
    built = {feature.name: load(feature.agent)(context) for feature in in_order(features) if feature.agent}
    parts = tuple(built.values())
    informers = context.informers.all()
    metrics.follow(informers, tuple(controller for part in parts for controller in part.controllers))
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())
        for part in parts:
            group.create_task(part.run())
        if cni is not None and cni.programs is not None:
            serving = [each for each in features if each.name not in built or built[each.name].serves_cni]
            programs = cni_programs(serving, cni.socket)
            group.create_task(keep_installed(programs, cni.programs, metrics.cni_part))
        await all_synced(informers)
        freeze_memory()

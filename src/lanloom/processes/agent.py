"""The agent process: the features' parts on one node, and their CNI programs in the runtime's directory."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lanloom.features import FEATURES
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced, freeze_memory
from lanloom.kube.ports import Client
from lanloom.node.ports import Host
from lanloom.processes.metrics import AgentMetrics, observed
from lanloom.runtime.cni.programs import CniSettings, PartObserver, keep_installed, program
from lanloom.runtime.cni.server import keep_serving
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.feature import Feature, cni_socket, in_order, load


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
        if cni is not None:
            for work in _cni_tasks(built, features, cni, metrics.cni_part):
                group.create_task(work)
        await all_synced(informers)
        freeze_memory()


def _cni_tasks(
    parts: Mapping[str, AgentPart], features: Sequence[Feature], cni: CniSettings, on_part: PartObserver
) -> Iterator[Coroutine[Any, Any, None]]:
    """Answer the programs of the features that do, on one socket, and keep them installed."""
    answers = {name: part.cni for name, part in parts.items() if part.cni is not None}
    serving = [feature for feature in features if feature.name in answers]
    programs = {name: answers[feature.name] for feature in serving for name in feature.cni}
    if not programs:
        return
    socket = cni_socket(serving, cni.socket)
    yield keep_serving(socket, programs, partial(on_part, "socket"))
    if cni.programs is not None:
        yield keep_installed(programs, partial(program, socket), cni.programs, on_part)

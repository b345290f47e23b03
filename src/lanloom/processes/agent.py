"""The agent process: the features' parts on one node, and their CNI programs in the runtime's directory."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client
from lanloom.kube.store import freeze_memory
from lanloom.node.ports import Host
from lanloom.processes.cnicleanup import CniCleanup
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
    daemon_set: str = "",
) -> None:
    """Run a node's agent until cancelled; `metrics` shows its health. Without `cni` it serves no CNI plugin.

    `settings` are those of features by their names. CNI programs go at the end if that is the end of `daemon_set`.
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
            cleanup = CniCleanup(client, daemon_set, _attaching(parts), rng) if daemon_set else None
            for work in _cni_tasks(built, features, cni, metrics.cni_part, cleanup):
                group.create_task(work)
        await all_synced(informers)
        freeze_memory()


def _attaching(parts: Iterable[AgentPart]) -> tuple[Resource[Any], ...]:
    return tuple(kind for part in parts if part.cni is not None for kind in part.attaching)


def _cni_tasks(
    parts: Mapping[str, AgentPart],
    features: Sequence[Feature],
    cni: CniSettings,
    on_part: PartObserver,
    cleanup: CniCleanup | None,
) -> Iterator[Coroutine[Any, Any, None]]:
    """Answer the programs of the features that do, on one socket, and keep them installed while they are needed."""
    answers = {name: part.cni for name, part in parts.items() if part.cni is not None}
    serving = [feature for feature in features if feature.name in answers]
    programs = {name: answers[feature.name] for feature in serving for name in feature.cni}
    if not programs:
        return
    socket = cni_socket(serving, cni.socket)
    yield keep_serving(socket, programs, partial(on_part, "socket"))
    if cni.programs is not None:
        yield keep_programs(tuple(programs), socket, cni.programs, on_part, cleanup)


async def keep_programs(
    names: tuple[str, ...], socket: Path, directory: Path, on_part: PartObserver, cleanup: CniCleanup | None
) -> None:
    """Keep the programs of the agent that listens at `socket` installed until the end of its installation."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_installed(names, partial(program, socket), directory, on_part))
            if cleanup is not None:
                group.create_task(cleanup.run())
    finally:
        if cleanup is not None:
            await cleanup.end(directory, names, socket)

"""The agent process: the features' parts on one node, and their CNI programs in the runtime's directory, to the end.

The CNI programs go with the agent that put them there. An agent that ends may be replaced by one of another version a
moment later, and until then a DEL must find its program. What tells is the agent's DaemonSet: it outlives each pod but
those of an uninstallation. It is followed, because the rights of the agent often go at the same moment. Its deletion
may also leave the pods to another DaemonSet, so nothing is done before the agent ends.

A runtime runs the program again when it deletes a pod, and fails without. So the programs stay where objects are left
whose pods they may have attached; what can't be known counts as left.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features import FEATURES
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client
from lanloom.kube.store import freeze_memory
from lanloom.node.ports import Host
from lanloom.processes.metrics import AgentMetrics, observed
from lanloom.runtime.cni.programs import CniSettings, PartObserver, keep_installed, program, remove
from lanloom.runtime.cni.server import keep_serving
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.feature import Feature, cni_socket, in_order, load

log = structlog.get_logger(__name__)

ASK_SECONDS = 3.0
"""How long the end of an agent may wait for the API server."""


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


class CniCleanup:
    """Follow the agent's DaemonSet, `name`. `kinds` are those whose objects' pods the programs attach."""

    def __init__(self, client: Client, name: str, kinds: Sequence[Resource[Any]], rng: random.Random) -> None:
        self._client = client
        self._kinds = kinds
        self._informer = Informer(
            client,
            DAEMON_SETS,
            rng=rng,
            namespace=LANLOOM_NAMESPACE,
            fields=f"metadata.name={name}",
            title="own DaemonSet",
        )
        self._informer.on_change(self._changed)
        self._gone, self._back = asyncio.Event(), asyncio.Event()
        self._left = "it is not known whether pods are attached"

    async def run(self) -> None:
        """Follow the DaemonSet until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            while True:
                await self._gone.wait()
                left = await self._ask()
                self._left = self._left if left is None else left
                await self._back.wait()

    async def end(self, directory: Path, names: Sequence[str], socket: Path) -> None:
        """Remove the programs of this agent, if its installation ends. Call it when `run` was cancelled."""
        if not self._gone.is_set():
            return
        left = await self._ask()
        left = self._left if left is None else left
        if left:
            log.warning("cni-programs-stay", directory=str(directory), programs=names, because=left)
            return
        removed = [name for name in names if remove(directory, name, socket)]
        log.info("cni-programs-removed", directory=str(directory), programs=removed)

    def _changed(self, _old: DaemonSet | None, new: DaemonSet | None) -> None:
        gone = new is None or new.metadata.is_deleting
        (self._gone if gone else self._back).set()
        (self._back if gone else self._gone).clear()

    async def _ask(self) -> str | None:
        """Say what is left that needs the programs; empty for nothing, None where the server does not answer."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                for kind in self._kinds:
                    for item in await list_or_empty(self._client, kind):
                        return f"{kind.kind} {item.metadata.key} exists"
        except (KubeError, TimeoutError):
            return None
        return ""


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

"""The controllers of live update, on the leader.

The migration way: `informers` is what is watched, `context` what all share, the mode of the cluster among it.
`machines` reconciles one machine, `updater` requests and aborts migrations, `writer` changes objects of KubeVirt, and
`controllers` is what wakes them.
The in-place way: `swaps` and `swapreader`. `build` puts both together.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from lanloom.api.core import PODS
from lanloom.api.lan import LAN_NODES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.workloads import strip_pod
from lanloom.features.liveupdate.admission import LiveUpdateAdmission
from lanloom.features.liveupdate.manager.controllers import LiveUpdateManager
from lanloom.features.liveupdate.manager.informers import SwapInformers, machine_informers, swap_informers
from lanloom.features.liveupdate.manager.isolation import IsolationReports
from lanloom.features.liveupdate.manager.swapreader import SwapReader
from lanloom.features.liveupdate.manager.swaps import SwapManager, Swaps
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.refusalreports import RefusalEvents, referring
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.identity import Managers, pod_node
from lanloom.runtime.ports import MACHINE_ADDRESSES


def build(context: ManagerContext) -> ManagerPart:
    """Build the controllers. The feature's setting is a `LiveUpdateSettings`."""
    informers, metrics = swap_informers(context.informers), context.metrics["liveupdate"]
    manager = LiveUpdateManager(
        context.client,
        machine_informers(context.informers, informers),
        context.recorder,
        context.setting("liveupdate", LiveUpdateSettings()),
        now=context.now,
        rng=context.rng,
        act=metrics.act,
        observe=context.observe,
    )
    isolation = IsolationReports(
        context.client,
        context.informers.get(LAN_NODES, optional=True),
        context.recorder,
        context.setting("liveupdate", LiveUpdateSettings()).isolation,
        now=context.now,
        rng=context.rng,
        observe=context.observe,
    )
    modes = manager.modes
    metrics.show(informers.swaps, informers.instances, lambda: modes.latest.name if modes.latest else "")
    swaps = _swap_parts(context, informers)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run())
            group.create_task(swaps.manager.run())
            group.create_task(isolation.run())

    return ManagerPart(
        run=run,
        controllers=(*manager.controllers, swaps.manager.controller, isolation.controller),
        admission=swaps.admission,
    )


class _SwapParts(NamedTuple):
    """The controller of swaps, for the leader, and the webhooks."""

    manager: SwapManager
    admission: LiveUpdateAdmission


def _swap_parts(context: ManagerContext, informers: SwapInformers) -> _SwapParts:
    # The feature that manages addresses gives those of the new network.
    client, metrics = context.client, context.metrics["liveupdate"]
    settings = context.setting("liveupdate", LiveUpdateSettings())
    isolation = settings.isolation
    reader = SwapReader(client, informers, now=context.now, isolation=isolation)
    swaps = Swaps(
        client,
        reader,
        context.recorder,
        now=context.now,
        addresses=context.find(MACHINE_ADDRESSES),
        ended=metrics.ended,
    )
    node_of_pod = partial(pod_node, context.informers.get(PODS, transform=strip_pod).store)
    return _SwapParts(
        SwapManager(
            informers,
            reader,
            swaps,
            rng=context.rng,
            observe=context.observe,
            refusals=RefusalEvents(context.recorder, referring(NETWORK_SWAPS, informers.swaps.store)),
        ),
        LiveUpdateAdmission(
            client,
            informers.swaps,
            Managers(client, context.user).include,
            node_of_pod,
            context.in_flight,
            isolation,
            refuse_edits=settings.refuse_edits,
        ),
    )

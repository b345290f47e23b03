"""The composition of live update in a manager."""

import asyncio

from lanloom.features.liveupdate.manager.controllers import LiveUpdateManager
from lanloom.features.liveupdate.manager.informers import machine_informers
from lanloom.features.liveupdate.manager.swapparts import swap_parts
from lanloom.features.liveupdate.manager.swapreader import swap_informers
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.runtime.context import ManagerContext, ManagerPart


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
    modes = manager.modes
    metrics.show(informers.swaps, informers.instances, lambda: modes.latest.name if modes.latest else "")
    swaps = swap_parts(context, informers)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run())
            group.create_task(swaps.manager.run())

    return ManagerPart(
        run=run,
        controllers=(*manager.controllers, swaps.manager.controller),
        admission=swaps.admission,
    )

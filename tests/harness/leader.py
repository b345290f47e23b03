"""A manager with all features in this process, without webhooks: its context, and its life as the leader."""

import asyncio
import random

from lanloom.features import FEATURES
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client
from lanloom.processes.metrics import ManagerMetrics
from lanloom.runtime.context import ManagerContext
from lanloom.runtime.feature import in_order, load


def manager_context(client: Client) -> ManagerContext:
    """Return what a manager with all features is built from."""
    rng, now = random.Random(1), asyncio.get_running_loop().time
    metrics = ManagerMetrics(FEATURES)
    return ManagerContext(
        client=client,
        recorder=Recorder(client, "lanloom-manager", "test", now=now, rng=rng),
        identity="test",
        user="",
        now=now,
        rng=rng,
        observe=metrics.reconcile,
        settings={},
        metrics=metrics.features,
    )


async def lead(client: Client) -> None:
    """Run all features until cancelled."""
    context = manager_context(client)
    parts = [load(feature.manager)(context) for feature in in_order(FEATURES) if feature.manager]
    async with asyncio.TaskGroup() as group:
        for informer in context.informers.all():
            group.create_task(informer.run())
        group.create_task(context.invalid.run())
        for part in parts:
            group.create_task(part.run())

"""Isolated networks in the manager: they are created, kept correct, and removed once they have no users.

`build` composes the manager's part. `controllers` are what wakes a reconcile, `networks` reconciles with what `reader`
observes. `settings` follows the ConfigMap, and creates the network that exists by default.
"""

import asyncio

from lanloom.features.dummy.admission import DummyAdmission, NetworkClaims
from lanloom.features.dummy.manager.controllers import DummyManager
from lanloom.features.dummy.manager.settings import DefaultNetwork, DummySettings
from lanloom.features.dummy.reader import StoreReader, dummy_informers
from lanloom.features.dummy.rules.flags import Flags
from lanloom.nads.manager import NAD_USERS
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.identity import Managers
from lanloom.runtime.ports import NAD_CLAIMS


def build(context: ManagerContext) -> ManagerPart:
    """Build settings, controllers, the default network, and webhooks.

    The feature's setting are the `Flags` of the command line and the environment.
    """
    client, rng, now, shared = context.client, context.rng, context.now, context.informers
    given = context.setting("dummy", Flags())
    settings = DummySettings(shared, identity=context.identity, given=given)
    informers = dummy_informers(shared)
    users = context.need(NAD_USERS)
    manager = DummyManager(
        client,
        informers,
        users,
        context.recorder,
        settings.current,
        now=now,
        rng=rng,
        observe=context.observe,
    )
    settings.on_change(manager.enqueue_all)
    default = DefaultNetwork(client, settings, rng=rng)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run())
            group.create_task(default.run())
            group.create_task(settings.run(context.recorder))

    reader = StoreReader(informers, users, settings.current)
    context.provide(NAD_CLAIMS, NetworkClaims(client, reader))
    context.metrics["dummy"].show(informers.dcns, users)
    return ManagerPart(
        run=run,
        controllers=manager.controllers,
        admission=DummyAdmission(
            client, reader, Managers(client, context.user).include, context.in_flight, now=now
        ),
    )

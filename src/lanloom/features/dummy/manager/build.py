"""The composition of isolated networks in a manager; it alone knows all the parts."""

import asyncio

from lanloom.features.dummy.admission import DummyAdmission
from lanloom.features.dummy.manager.controllers import DummyManager
from lanloom.features.dummy.manager.default import DefaultNetwork
from lanloom.features.dummy.manager.reader import StoreReader, dummy_informers
from lanloom.features.dummy.manager.settings import DummySettings
from lanloom.features.dummy.port import SharedUsers
from lanloom.features.dummy.rules.flags import Flags
from lanloom.features.dummy.users import Users, user_informers
from lanloom.runtime.context import NAD_USERS, ManagerContext, ManagerPart
from lanloom.runtime.identity import Managers


def build(context: ManagerContext) -> ManagerPart:
    """Build settings, controllers, the default network, and webhooks.

    The feature's setting are the `Flags` of the command line and the environment.
    """
    client, rng, now, shared = context.client, context.rng, context.now, context.informers
    given = context.setting("dummy", Flags())
    settings = DummySettings(shared, identity=context.identity, given=given)
    informers = dummy_informers(shared)
    users = Users(user_informers(shared), now)
    context.provide(NAD_USERS, SharedUsers(client, users, now))
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
    context.metrics["dummy"].show(informers.dcns, users)
    return ManagerPart(
        run=run,
        controllers=manager.controllers,
        admission=DummyAdmission(client, reader, Managers(client, context.user).include, now=now),
    )

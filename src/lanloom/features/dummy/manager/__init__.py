"""Isolated networks in the manager: they are created, kept correct, and removed once nobody uses them.

`build` composes the manager's part. `controllers` are what wakes a reconcile, `networks` reconciles with what `reader`
observes. `settings` follows the ConfigMap, and creates the network that exists by default.
"""

import asyncio
from collections.abc import Callable, Container

from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.dummy.admission import DummyAdmission
from lanloom.features.dummy.manager.controllers import DummyManager
from lanloom.features.dummy.manager.settings import DefaultNetwork, DummySettings
from lanloom.features.dummy.reader import StoreReader, dummy_informers
from lanloom.features.dummy.rules.flags import Flags
from lanloom.kube.ports import Client
from lanloom.nads.guard import (
    REQUEST_SECONDS,
    VersionOf,
    closing,
    reservations_of,
    unsettled,
)
from lanloom.nads.users import Handler, LiveUsers, Users, shared_live_users, user_informers
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.identity import Managers
from lanloom.runtime.ports import NAD_USERS, NadRequest


class UsersAt:
    """A `NadUse` of one view. `seen` may know more than the view; `now` is in seconds since the epoch."""

    def __init__(self, view: Users | LiveUsers, seen: VersionOf, now: Callable[[], float]) -> None:
        self._view = view
        self._seen = seen
        self._now = now

    def users_of(self, nad: Key, of: Callable[[str], bool] = lambda _namespace: True) -> tuple[str, ...]:
        """Everything that uses a NAD or may use it, each once, for messages; `of` tells which namespaces count."""
        return tuple(str(user) for user in self._view.users_of(nad) if of(user.namespace))

    def users_on(self, nad: Key, nodes: Container[str]) -> tuple[str, ...]:
        """Return those of the users that run on one of these nodes, for messages."""
        users = self._view.users_of(nad)
        return tuple(str(user) for user in users if any(node in nodes for node in user.nodes))

    def user_of(self, pod: Key) -> str:
        """Return the user that a pod is, or is a part of, without what refers to the NAD in its stead."""
        return str(self._view.user_of(pod))

    def requests_of(self, nad: NetworkAttachmentDefinition) -> tuple[NadRequest, ...]:
        """Return requests that may still be stored; where that can't be read, that there may be some."""
        now = self._now()
        try:
            found = unsettled(reservations_of(nad), self._seen, now)
        except ValueError:
            return (NadRequest("requests that can't be read", now + REQUEST_SECONDS),)
        return tuple(NadRequest(item.title, item.until) for item in found)


class SharedUsers(UsersAt):
    """A `NadUsers`: the manager's own view of users, offered to other features."""

    def __init__(self, client: Client, users: Users, now: Callable[[], float]) -> None:
        super().__init__(users, users.seen, now)
        self._users = users
        self._read = shared_live_users(client)

    def is_used(self, nad: Key) -> bool:
        """Return whether a NAD has users, which takes as long for many as for few."""
        return self._users.is_used(nad)

    def on_change(self, handler: Handler) -> None:
        """Call `handler` with the NADs whose users may have changed; None for those of any NAD."""
        self._users.on_change(handler)

    def closing(self, nad: NetworkAttachmentDefinition) -> dict[str, str]:
        """Return the annotations by which a guarded NAD gets no new users, as far as it does not have them."""
        return closing(nad, self._users.seen, self._now())

    async def live(self) -> UsersAt:
        """Return the users as the API server has them now. Raises KubeError where that can't be known."""
        view = await self._read.get()

        def seen(uid: str) -> int | None:
            known = (self._users.seen(uid), view.seen(uid))
            return max((version for version in known if version is not None), default=None)

        return UsersAt(view, seen, self._now)


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

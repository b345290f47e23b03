"""How Harvester's processes react: handlers by kind, with a finalizer for each that has to clean up.

Citations in this package are paths of harvester/network-controller-harvester at 2e5cbea. A handler with `on_remove`
puts the finalizer `wrangler.cattle.io/NAME` on each object, and takes it off when it is through with a deleted one
(vendor/github.com/rancher/wrangler/v3/pkg/generic/remove.go). The first handler takes it off for all: every agent has
the same name. Objects are written whole there, so a write of an object that has changed meanwhile is refused, and tried
again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any, TypeVar

from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.controller import Controller
from lanloom.kube.errors import KubeError, NotFound, TransportError
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from lanloom.kube.store import Store
from lanloom_lab.harvester.rules import Refusal

T = TypeVar("T", bound=Object)
Handler = Callable[[T], Awaitable[None]]

FINALIZER = "wrangler.cattle.io/"

DELAY_SECONDS = 0.05
"""From an event to its handlers: what other watches have to tell of the same moment is known by then."""

SEEN_SECONDS = 0.5
"""Until a finalizer goes: the agents of other nodes see the deletion before that, as they do in a real cluster."""


class NotYetError(TransportError):
    """Something could not be done now, and is tried again, as a handler that returns an error is."""


class Wrangler:
    """The handlers of one process. Register them, then `run`."""

    def __init__(self, client: Client, rng: Random) -> None:
        self.client = client
        self._rng = rng
        self._informers: dict[str, Informer[Any]] = {}
        self._controllers: dict[str, Controller[Key]] = {}
        self._handlers: dict[str, list[Handler[Any]]] = {}

    def store(self, resource: Resource[T]) -> Store[T]:
        """Return the objects of a kind; it is followed from now on."""
        plural = resource.plural
        if plural not in self._informers:
            informer = self._informers[plural] = Informer(self.client, resource, rng=self._rng, optional=True)
            controller = Controller(plural, partial(self._reconcile, plural), rng=self._rng)
            self._controllers[plural], self._handlers[plural] = controller, []

            def changed(old: Object | None, new: Object | None) -> None:
                if (item := new or old) is not None:
                    controller.enqueue(item.metadata.key)

            informer.on_change(changed)
        return self._informers[plural].store

    def on_change(self, resource: Resource[T], handler: Handler[T]) -> None:
        """Call a handler with each object that has changed, those in deletion, too."""
        self.store(resource)
        self._handlers[resource.plural].append(handler)

    def on_remove(self, name: str, resource: Resource[T], handler: Handler[T]) -> None:
        """Call a handler with each object in deletion before it goes."""
        self.on_change(resource, partial(self._live_and_die, FINALIZER + name, resource, handler))

    def enqueue(self, resource: Resource[Any], name: str) -> None:
        """Have the handlers look at an object again, if there is one."""
        self._controllers[resource.plural].enqueue(Key("", name))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())
            await self.synced()
            for controller in self._controllers.values():
                group.create_task(controller.run())

    async def synced(self) -> None:
        """Return when all objects were seen once."""
        await all_synced(tuple(self._informers.values()))

    async def update(self, resource: Resource[T], item: T, patch: Mapping[str, Any]) -> None:
        """Write what a handler made of an object. Raises Conflict if it has changed since. Raises KubeError."""
        meta = item.metadata
        version = {"resourceVersion": meta.resource_version}
        whole = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        await self.client.patch(resource, meta.name, whole, meta.namespace)

    async def _reconcile(self, plural: str, key: Key) -> None:
        await asyncio.sleep(DELAY_SECONDS)
        trouble: Exception | None = None
        for handler in self._handlers[plural]:
            item = self._informers[plural].store.get(key)
            if item is None:
                return
            try:
                await handler(item)
            except (KubeError, Refusal) as error:  # one that fails does not keep the others from it
                trouble = trouble or error
        if trouble is not None:
            raise NotYetError(str(trouble))

    async def _live_and_die(
        self, finalizer: str, resource: Resource[T], handler: Handler[T], item: T
    ) -> None:
        meta = item.metadata
        has = finalizer in meta.finalizers
        if not meta.is_deleting and not has:
            await self.update(resource, item, {"metadata": {"finalizers": [*meta.finalizers, finalizer]}})
        elif meta.is_deleting and has:
            await handler(item)
            await asyncio.sleep(SEEN_SECONDS)
            left = [other for other in meta.finalizers if other != finalizer]
            try:
                await self.update(resource, item, {"metadata": {"finalizers": left}})
            except NotFound:
                return

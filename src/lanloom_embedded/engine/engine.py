"""The engine: everything that an API server does, behind plain method calls.

The HTTP front and the in-process client both end here. All methods must be called in one event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from lanloom.api.meta import Key
from lanloom.runtime.https.errors import NotFound
from lanloom_embedded.authz import Authorizer
from lanloom_embedded.builtin import BUILTINS
from lanloom_embedded.engine.admission import Admission, NoWebhooks, WebhookCaller
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.cleanup import (
    NAME_LABEL,
    Cleanup,
    CrdStrategy,
    NamespaceStrategy,
    put_name_label,
)
from lanloom_embedded.engine.definitions import Definitions
from lanloom_embedded.engine.deletion import Deleted, Deleter
from lanloom_embedded.engine.feed import CHANGES
from lanloom_embedded.engine.gc import GarbageCollector
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.reads import (
    NEWEST,
    ListOptions,
    Page,
    Reader,
    Selection,
)
from lanloom_embedded.engine.sqlite import data_file
from lanloom_embedded.engine.storage import Storage, Stored, full
from lanloom_embedded.engine.strategies import Registry
from lanloom_embedded.engine.watching import Watch
from lanloom_embedded.engine.writes import Transform, Writer
from lanloom_embedded.escalation import Escalation
from lanloom_embedded.kinds import (
    CRDS,
    NAMESPACES,
    Raw,
    ServedKind,
)

_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Engine:
    """An API server without its HTTP. `start` before use; `close` ends it, with all acknowledged writes kept."""

    def __init__(
        self,
        storage: Storage,
        *,
        now: Callable[[], float],
        rng: Random,
        webhooks: WebhookCaller | None = None,
        history: int = CHANGES,
        tick: float = 0.0,
    ) -> None:
        """`tick` is the least time between two wakings of a resource's watches, in seconds."""
        self.ledger = Ledger(storage, history, tick)
        self.registry = Registry(BUILTINS)
        self._admission = Admission(
            self.ledger, self.registry, webhooks or NoWebhooks(), lambda: self._writer.new_uid()
        )
        self.authorizer = Authorizer(self.ledger)
        escalation = Escalation(self.ledger, self.authorizer)
        self._writer = Writer(self.ledger, self.registry, self._admission, now, rng, escalation.check)
        self._deleter = Deleter(self.ledger, self._admission, now)
        self._reader = Reader(self.ledger)
        self.registry.override(CRDS, CrdStrategy)
        self.registry.override(NAMESPACES, NamespaceStrategy)
        self._definitions = Definitions(self.ledger, self.registry, self._writer, now)
        parts = (self.ledger, self.registry, self._deleter, self._writer)
        self._controllers = (GarbageCollector(*parts, rng), Cleanup(*parts, self._definitions, now, rng))
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Bring the first namespaces and set the server's own controllers to work."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(controller.run()) for controller in self._controllers]
        namespaces = self.registry.any_version(NAMESPACES)
        if namespaces is None:
            raise ValueError("the built-in kinds lack Namespace")
        for name in _FIRST_NAMESPACES:
            if self.ledger.latest(NAMESPACES, Key("", name)) is None:
                await self.create(namespaces, "", {"metadata": {"name": name}}, Call(webhooks=False))
        await self._label_namespaces(namespaces)

    async def _label_namespaces(self, kind: ServedKind) -> None:
        """Label the namespaces of a database that is older than the label by which selectors name them."""
        for state in self.ledger.table(NAMESPACES).select(""):
            if state.labels.get(NAME_LABEL) != state.key.name:
                namespace = full(kind, state)
                put_name_label(namespace)
                await self.ledger.write(NAMESPACES, state.key, namespace)

    async def close(self) -> None:
        """End the controllers, wait for commits on their way, and let go of the storage."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.ledger.close()

    async def backup(self) -> bytes:
        """Return a data file with all that is committed now, made in a thread of its own."""
        return await asyncio.to_thread(data_file, self.ledger.snapshot())

    def get(self, kind: ServedKind, namespace: str, name: str, version: str = "") -> Stored:
        """One object, not older than `version`. Raises NotFound, BadRequest, Timeout."""
        return self._reader.get(kind, namespace, name, version)

    def has(self, kind: ServedKind, namespace: str, name: str) -> bool:
        """Return whether there is such an object."""
        return self.ledger.latest(kind.key, Key(namespace, name)) is not None

    def list_page(self, kind: ServedKind, selection: Selection, options: ListOptions = NEWEST) -> Page:
        """Return a page of a list. Raises BadRequest, Expired, Timeout."""
        return self._reader.list_page(kind, selection, options)

    def watch(
        self,
        kind: ServedKind,
        selection: Selection,
        resource_version: str = "",
        *,
        initial: bool | None = None,
    ) -> Watch:
        """Return a watch from a version on; without one it begins with the objects that are there. Raises Expired.

        `initial` says whether it begins with them in spite of a version, or not although there is none.
        """
        return Watch(self.ledger, kind, selection, resource_version, initial=initial)

    async def create(self, kind: ServedKind, namespace: str, body: Raw, call: Call) -> Stored:
        """Create an object."""
        state = await self._writer.create(kind, namespace, body, call)
        await self._settle(kind, state, call)
        return state

    async def update(
        self, kind: ServedKind, namespace: str, name: str, body: Raw, call: Call, subresource: str = ""
    ) -> tuple[Stored, bool]:
        """Replace an object; the second value says whether that created it."""
        state, created = await self._writer.update(kind, namespace, name, body, call, subresource)
        await self._settle(kind, state, call)
        return state, created

    async def patch(
        self, kind: ServedKind, namespace: str, name: str, apply: Transform, call: Call, subresource: str = ""
    ) -> Stored:
        """Change an object; `apply` gives a patched copy of the object that it gets."""
        state = await self._writer.patch(kind, namespace, name, apply, call, subresource)
        await self._settle(kind, state, call)
        return state

    async def apply(
        self, kind: ServedKind, namespace: str, name: str, body: Raw, call: Call, subresource: str = ""
    ) -> tuple[Stored, bool]:
        """Apply a configuration to an object; the second value says whether that created it."""
        state, created = await self._writer.apply(kind, namespace, name, body, call, subresource)
        await self._settle(kind, state, call)
        return state, created

    async def delete(
        self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions, call: Call
    ) -> Deleted:
        """Delete an object, or mark it for deletion."""
        return await self._deleter.delete(kind, namespace, name, options, call)

    async def delete_collection(
        self, kind: ServedKind, selection: Selection, options: DeleteOptions, call: Call
    ) -> Sequence[Stored]:
        """Delete all objects of a selection; return their last states."""
        last: list[Stored] = []
        for state in self.list_page(kind, selection).items:
            try:
                await self._deleter.delete(kind, state.key.namespace, state.key.name, options, call)
            except NotFound:
                continue
            last.append(state)
        return last

    async def _settle(self, kind: ServedKind, state: Stored, call: Call) -> None:
        """Accept or refuse a CRD before the answer to its writer."""
        if kind.key == CRDS and not call.dry_run:
            await self._definitions.settle(state.key.name, call)

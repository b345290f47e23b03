"""The garbage collector: objects go when the last of their owners has gone.

It knows the owners of objects from the committed changes, and looks at an object again whenever something that matters
to it has happened. Whether an object goes is decided on its current state, so that any order of events ends alike.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import TypeVar

import structlog

from lanloom.api.meta import Key, ObjectMeta, OwnerReference
from lanloom.kube.controller import WorkQueue
from lanloom.runtime.https import errors
from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.engine.calls import COLLECTOR, Call, DeleteOptions, Propagation
from lanloom_embedded.engine.deletion import FOREGROUND, ORPHAN, Deleter
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.engine.strategies import Registry
from lanloom_embedded.engine.writes import Transform, Writer
from lanloom_embedded.kinds import GroupPlural, Raw

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


async def work(queue: WorkQueue[K], attend: Callable[[K], Awaitable[None]]) -> None:
    """Attend to keys until it is cancelled."""
    while True:
        key = await queue.get()
        try:
            await attend(key)
            queue.forget(key)
        except StatusError as error:
            # A webhook refuses, or an object changed meanwhile: both may pass.
            log.info("tried in vain", key=str(key), error=error.message)
            queue.add_rate_limited(key)
        finally:
            queue.done(key)


_Item = tuple[GroupPlural, Key]


class OwnerGraph:
    """Which objects exist, and which owners they name. Kept up to date by `note`."""

    def __init__(self) -> None:
        self._items: dict[str, _Item] = {}
        self._dependents: defaultdict[str, set[_Item]] = defaultdict(set)

    def record(self, item: _Item, before: ObjectMeta | None, after: ObjectMeta | None) -> None:
        """Take in a change of an object."""
        if before is not None:
            self._items.pop(before.uid, None)
            for owner in before.owner_references:
                self._dependents[owner.uid].discard(item)
                if not self._dependents[owner.uid]:
                    del self._dependents[owner.uid]
        if after is not None:
            self._items[after.uid] = item
            for owner in after.owner_references:
                self._dependents[owner.uid].add(item)

    def item(self, uid: str) -> _Item | None:
        """Return the object of that uid, if it is there."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[_Item]:
        """Return the objects that name this uid as an owner, in a fixed order."""
        return sorted(self._dependents.get(uid, ()))


class GarbageCollector:
    """Deletes dependents without owners, and carries out the propagation policies."""

    def __init__(
        self, ledger: Ledger, registry: Registry, deleter: Deleter, writer: Writer, rng: Random
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._deleter = deleter
        self._writer = writer
        self._queue: WorkQueue[_Item] = WorkQueue(rng)
        self._graph = OwnerGraph()

    async def run(self) -> None:
        """Work until it is cancelled."""
        for resource in self._ledger.resources():
            for state in self._ledger.table(resource).select(""):
                self._graph.record((resource, state.key), None, state.meta())
                self._queue.add((resource, state.key))
        self._ledger.listen(self._on_change)
        await work(self._queue, self._attend)

    def _on_change(self, change: Change) -> None:
        before = change.before.meta() if change.before is not None else None
        after = change.after.meta() if change.after is not None else None
        item = (change.resource, change.key)
        self._graph.record(item, before, after)
        if after is not None and (after.owner_references or after.deletion_timestamp):
            self._queue.add(item)
        for meta in (before, after):
            if meta is not None and (after is None or meta.deletion_timestamp):
                self._add_neighbours(meta)

    def _add_neighbours(self, meta: ObjectMeta) -> None:
        """Add the owners and dependents of an object that goes to the queue."""
        for dependent in self._graph.dependents(meta.uid):
            self._queue.add(dependent)
        for reference in meta.owner_references:
            owner = self._graph.item(reference.uid)
            if owner is not None:
                self._queue.add(owner)

    async def _attend(self, item: _Item) -> None:
        state = self._ledger.get(*item)
        if state is None:
            return
        meta = state.meta()
        if meta.deletion_timestamp is None:
            await self._check_owners(item, meta)
        elif ORPHAN in meta.finalizers:
            for dependent in self._graph.dependents(meta.uid):
                await self._patch(dependent, _without_owners({meta.uid}))
            await self._patch(item, _without_finalizer(ORPHAN))
        elif FOREGROUND in meta.finalizers:
            await self._delete_dependents(item, meta)

    async def _delete_dependents(self, item: _Item, meta: ObjectMeta) -> None:
        """Foreground deletion: those that block go before their owner."""
        blocked = False
        for dependent in self._graph.dependents(meta.uid):
            state = self._ledger.get(*dependent)
            if state is None:
                continue
            blocked |= any(
                owner.uid == meta.uid and bool(owner.block_owner_deletion)
                for owner in state.meta().owner_references
            )
            self._queue.add(dependent)
        if not blocked:
            await self._patch(item, _without_finalizer(FOREGROUND))

    async def _check_owners(self, item: _Item, meta: ObjectMeta) -> None:
        """Delete an object whose owners are gone or wait for it to go; forget such owners if others live."""
        if not meta.owner_references or self._is_unsure(meta):
            return
        waiting = {owner.uid for owner in meta.owner_references if self._waits(owner)}
        gone = {owner.uid for owner in meta.owner_references if not self._lives(item, owner)}
        if len(waiting | gone) < len({owner.uid for owner in meta.owner_references}):
            if waiting or gone:
                await self._patch(item, _without_owners(waiting | gone))
            return
        propagation: Propagation = ""
        if waiting and self._graph.dependents(meta.uid):
            propagation = "Foreground"
        await self._delete(item, meta, propagation)

    def _is_unsure(self, meta: ObjectMeta) -> bool:
        """Return whether an owner is of a kind that isn't served: it is unknown whether it lives."""
        for owner in meta.owner_references:
            group, _, version = owner.api_version.rpartition("/")
            if self._registry.find_kind(group, version, owner.kind) is None:
                return True
        return False

    def _lives(self, item: _Item, owner: OwnerReference) -> bool:
        found = self._graph.item(owner.uid)
        return (
            found is not None
            and found[1].namespace in ("", item[1].namespace)
            and found[1].name == owner.name
        )

    def _waits(self, owner: OwnerReference) -> bool:
        found = self._graph.item(owner.uid)
        state = self._ledger.get(*found) if found is not None else None
        if state is None or not owner.block_owner_deletion:
            return False
        meta = state.meta()
        return meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers

    async def _delete(self, item: _Item, meta: ObjectMeta, propagation: Propagation) -> None:
        resource, key = item
        kind = self._registry.any_version(resource)
        if kind is None:
            return
        options = DeleteOptions(uid=meta.uid, propagation=propagation)
        try:
            await self._deleter.delete(kind, key.namespace, key.name, options, Call(COLLECTOR))
        except errors.NotFound:
            return

    async def _patch(self, item: _Item, change: Transform) -> None:
        resource, key = item
        kind = self._registry.any_version(resource)
        if kind is None:
            return
        try:
            await self._writer.patch(kind, key.namespace, key.name, change, Call(COLLECTOR))
        except errors.NotFound:
            return


def _without_finalizer(finalizer: str) -> Transform:
    def change(obj: Raw) -> Raw:
        kept = [each for each in obj["metadata"].get("finalizers", ()) if each != finalizer]
        return {**obj, "metadata": {**obj["metadata"], "finalizers": kept}}

    return change


def _without_owners(uids: set[str]) -> Transform:
    def change(obj: Raw) -> Raw:
        kept = [each for each in obj["metadata"].get("ownerReferences", ()) if each["uid"] not in uids]
        return {**obj, "metadata": {**obj["metadata"], "ownerReferences": kept}}

    return change

"""What goes with a namespace or with a CRD: its objects, before it goes itself."""

from random import Random

from lanloom.api.meta import Key
from lanloom.apiserver import errors
from lanloom.apiserver.engine import crds
from lanloom.apiserver.engine.calls import CLEANUP, Call, DeleteOptions
from lanloom.apiserver.engine.definitions import Definitions
from lanloom.apiserver.engine.deletion import CRD_FINALIZER, Deleter
from lanloom.apiserver.engine.ledger import Ledger
from lanloom.apiserver.engine.registry import Registry
from lanloom.apiserver.engine.stored import Change, Stored
from lanloom.apiserver.engine.workers import work
from lanloom.apiserver.engine.writes import Writer
from lanloom.apiserver.kinds import CRDS, NAMESPACES, GroupPlural, Raw
from lanloom.kube.queue import WorkQueue

_Container = tuple[GroupPlural, str]


class Cleanup:
    """Empties namespaces and CRDs that are being deleted, and lets them go when they are empty."""

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        deleter: Deleter,
        writer: Writer,
        definitions: Definitions,
        rng: Random,
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._deleter = deleter
        self._writer = writer
        self._definitions = definitions
        self._queue: WorkQueue[_Container] = WorkQueue(rng)

    async def run(self) -> None:
        """Works until it is cancelled."""
        self._ledger.listen(self._notice)
        for resource in (NAMESPACES, CRDS):
            for state in self._ledger.shelf(resource).select(""):
                self._queue.add((resource, state.key.name))
        await work(self._queue, self._attend)

    def _notice(self, change: Change) -> None:
        if change.resource in (NAMESPACES, CRDS):
            self._queue.add((change.resource, change.key.name))
            if change.resource == CRDS and change.after is None and change.before is not None:
                # The names of the one that has gone are free for others.
                for name in self._definitions.in_group(change.before.raw()["spec"]["group"]):
                    self._queue.add((CRDS, name))
        elif change.after is None:
            if change.key.namespace:
                self._queue.add((NAMESPACES, change.key.namespace))
            self._queue.add((CRDS, str(change.resource)))

    async def _attend(self, container: _Container) -> None:
        resource, name = container
        state = self._ledger.latest(resource, Key("", name))
        if state is None:
            return
        if resource == CRDS:
            await self._definitions.settle(name)
            await self._empty_crd(state)
        elif state.meta().deletion_timestamp is not None:
            await self._empty_namespace(name)

    async def _empty_namespace(self, name: str) -> None:
        left = 0
        refusals: list[errors.StatusError] = []
        for resource in self._ledger.resources():
            kind = self._registry.any_version(resource)
            if kind is not None and kind.namespaced:
                left += await self._delete_all(resource, name, refusals)
        if refusals:
            raise refusals[0]
        kind = self._registry.any_version(NAMESPACES)
        if not left and kind is not None:
            await self._writer.patch(kind, "", name, _without_content, Call(CLEANUP), subresource="finalize")

    async def _empty_crd(self, state: Stored) -> None:
        crd = state.raw()
        if not crds.is_cleaning_up(crd):
            return
        refusals: list[errors.StatusError] = []
        left = await self._delete_all(crds.resource_of(crd), "", refusals)
        if refusals:
            raise refusals[0]
        if left:
            return
        kind = self._registry.any_version(CRDS)
        if kind is not None:
            await self._writer.patch(kind, "", state.key.name, _without_cleanup, Call(CLEANUP))

    async def _delete_all(
        self, resource: GroupPlural, namespace: str, refusals: list[errors.StatusError]
    ) -> int:
        """Deletes the objects; returns how many are still held back by something.

        Why others could not be deleted is added to `refusals`: nothing stays because something else has to.
        """
        kind = self._registry.any_version(resource)
        if kind is None:
            return 0
        left = 0
        for state in self._ledger.shelf(resource).select(namespace):
            try:
                deleted = await self._deleter.delete(
                    kind, state.key.namespace, state.key.name, DeleteOptions(), Call(CLEANUP)
                )
            except errors.NotFound:
                continue
            except errors.StatusError as error:
                refusals.append(error)
                continue
            left += not deleted.gone
        return left


def _without_content(namespace: Raw) -> Raw:
    return {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": []}}


def _without_cleanup(crd: Raw) -> Raw:
    meta = crd["metadata"]
    kept = [each for each in meta.get("finalizers", ()) if each != CRD_FINALIZER]
    return {**crd, "metadata": {**meta, "finalizers": kept}}

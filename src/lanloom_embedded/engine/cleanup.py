"""Namespaces and CustomResourceDefinitions, which contain other objects: their rules, and their deletion.

Their objects are deleted before they go themselves. A namespace reports in its conditions what it waits for, with the
types and reasons of Kubernetes.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random

from msgspec import Struct

from lanloom.api.meta import Key
from lanloom.kube.controller import WorkQueue
from lanloom.runtime.https import errors
from lanloom_embedded import syntax
from lanloom_embedded.builtin import definition_types, places_of_rules
from lanloom_embedded.engine import definitions
from lanloom_embedded.engine.calls import CLEANUP, Call, DeleteOptions
from lanloom_embedded.engine.definitions import Definitions, merge_conditions
from lanloom_embedded.engine.deletion import CRD_FINALIZER, Deleter
from lanloom_embedded.engine.gc import work
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.storage import Change, Stored
from lanloom_embedded.engine.strategies import BuiltinStrategy, Registry, check_readable
from lanloom_embedded.engine.writes import Writer
from lanloom_embedded.kinds import (
    CRDS,
    NAMESPACES,
    GroupPlural,
    Raw,
    ServedKind,
)
from lanloom_embedded.schema import unknown_formats

_SHOWN = 5
"""Reasons that a condition lists; of the others it tells the number."""


class Remaining(Struct, kw_only=True):
    """The remainder of a clean-up: objects by resource and by finalizer, and why some could not be deleted."""

    objects: dict[GroupPlural, int]
    finalizers: dict[str, int]
    refusals: list[str]


def waiting(namespace: Raw, left: Remaining, now: float) -> Raw:
    """Return the namespace with conditions that say what it waits for."""
    status = namespace.get("status") or {}
    conditions = [_failure(left.refusals), _content(left.objects), _finalizers(left.finalizers)]
    return {**namespace, "status": {**status, "conditions": merge_conditions(status, conditions, now)}}


def _failure(refusals: list[str]) -> Raw:
    distinct = list(dict.fromkeys(refusals))
    more = f"; and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    message = f"Objects that could not be deleted ({len(refusals)}): {'; '.join(distinct[:_SHOWN])}{more}"
    return _condition(
        "NamespaceDeletionContentFailure",
        bool(refusals),
        ("ContentDeletionFailed", message),
        ("ContentDeleted", "Every object could be deleted, or is about to go"),
    )


def _content(objects: dict[GroupPlural, int]) -> Raw:
    listed = _counted((str(resource), count) for resource, count in objects.items())
    return _condition(
        "NamespaceContentRemaining",
        bool(objects),
        ("SomeResourcesRemain", f"Objects are left: {listed}"),
        ("ContentRemoved", "No object is left"),
    )


def _finalizers(finalizers: dict[str, int]) -> Raw:
    listed = _counted(finalizers.items())
    return _condition(
        "NamespaceFinalizersRemaining",
        bool(finalizers),
        ("SomeFinalizersRemain", f"Objects have finalizers: {listed}"),
        ("ContentHasNoFinalizers", "No object waits for a finalizer"),
    )


def _condition(type: str, on: bool, yes: tuple[str, str], no: tuple[str, str]) -> Raw:
    reason, message = yes if on else no
    return {"type": type, "status": str(on), "reason": reason, "message": message}


def _counted(items: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(items))


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
        now: Callable[[], float],
        rng: Random,
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._deleter = deleter
        self._writer = writer
        self._definitions = definitions
        self._now = now
        self._queue: WorkQueue[_Container] = WorkQueue(rng)

    async def run(self) -> None:
        """Work until it is cancelled."""
        self._ledger.listen(self._on_change)
        for resource in (NAMESPACES, CRDS):
            for state in self._ledger.table(resource).select(""):
                self._queue.add((resource, state.key.name))
        await work(self._queue, self._attend)

    def _on_change(self, change: Change) -> None:
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
            await self._definitions.settle(name, Call())
            await self._empty_crd(state)
        elif state.meta().deletion_timestamp is not None:
            await self._empty_namespace(name)

    async def _empty_namespace(self, name: str) -> None:
        left, refusals = 0, list[errors.StatusError]()
        for resource in self._ledger.resources():
            kind = self._registry.any_version(resource)
            if kind is not None and kind.namespaced:
                left += await self._delete_all(resource, name, refusals)
        kind = self._registry.any_version(NAMESPACES)
        if kind is None:
            return
        if left or refusals:
            await self._report_refusals(kind, name, refusals)
        else:
            await self._writer.patch(kind, "", name, _without_content, Call(CLEANUP), subresource="finalize")
        if refusals:
            raise refusals[0]

    async def _report_refusals(self, kind: ServedKind, name: str, refusals: list[errors.StatusError]) -> None:
        """Report in the namespace's conditions what it waits for."""
        left = Remaining(objects={}, finalizers={}, refusals=[error.message for error in refusals])
        for resource in self._ledger.resources():
            for state in self._ledger.table(resource).select(name):
                left.objects[resource] = left.objects.get(resource, 0) + 1
                for finalizer in state.meta().finalizers:
                    left.finalizers[finalizer] = left.finalizers.get(finalizer, 0) + 1
        now = self._now()
        with suppress(errors.NotFound):
            await self._writer.patch(
                kind, "", name, lambda item: waiting(item, left, now), Call(CLEANUP), subresource="status"
            )

    async def _empty_crd(self, state: Stored) -> None:
        crd = state.raw()
        if not definitions.is_cleaning_up(crd):
            return
        refusals: list[errors.StatusError] = []
        left = await self._delete_all(definitions.resource_of(crd), "", refusals)
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
        """Delete the objects; return how many are still held back by something.

        Why others could not be deleted is added to `refusals`: nothing stays because something else has to.
        """
        kind = self._registry.any_version(resource)
        if kind is None:
            return 0
        left = 0
        for state in self._ledger.table(resource).select(namespace):
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


NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(BuiltinStrategy):
    """Namespaces are held back by `spec.finalizers`, which only the finalize path changes."""

    def __init__(self, kind: ServedKind) -> None:
        super().__init__(kind)
        self.name_rule = syntax.dns_label

    def decode(self, obj: Raw) -> list[str]:
        """Every namespace has its name as a label, so that selectors can name it."""
        unknown = super().decode(obj)
        put_name_label(obj)
        return unknown

    def prepare_create(self, obj: Raw) -> None:
        """Make a new namespace active; the clean-up must agree before it goes."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        put_name_label(obj)

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Keep the specification but on the finalize path."""
        super().prepare_update(obj, old, subresource)
        if subresource == "finalize":
            obj["status"] = old.get("status", {})
        else:
            obj["spec"] = old.get("spec", {})


def put_name_label(namespace: Raw) -> None:
    """Label a namespace with its name, whatever a client wants there."""
    meta = namespace["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**meta.get("labels", {}), NAME_LABEL: name}


class CrdStrategy(BuiltinStrategy):
    """CRDs remember every version in which objects may be stored; the rest of the status comes after the write."""

    def decode(self, obj: Raw) -> list[str]:
        """Return the CRD. Raises BadRequest for values of wrong types: nothing here may look into it."""
        unknown = super().decode(obj)
        check_readable(self._kind, definition_types(self._kind, obj))
        return unknown

    def prepare_create(self, obj: Raw) -> None:
        """Mark a new CRD as not accepted yet."""
        super().prepare_create(obj)
        obj["status"] = definitions.first_status(obj["spec"])

    def warnings(self, obj: Raw, old: Raw | None) -> list[str]:
        """Return warnings of formats of texts that are not checked, and of rules that are not enforced."""
        versions = obj["spec"].get("versions") or ()
        schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
        formats = [each for schema in schemas if schema for each in unknown_formats(schema)]
        unknown = [f'unrecognized format "{each}"' for each in dict.fromkeys(formats)]
        return unknown + [
            f"{place}: rules in CEL are not enforced by this server" for place in places_of_rules(obj)
        ]

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Keep the status but on its own path, and record a new storage version."""
        super().prepare_update(obj, old, subresource)
        if not subresource:
            obj["status"] = definitions.with_stored_version(obj.get("status") or {}, obj.get("spec") or {})

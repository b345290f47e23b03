"""How an object goes: at once, or marked first when something has to happen before.

Finalizers hold an object back, and so does the grace that a running pod gets. Propagation policies become the
finalizers `orphan` and `foregroundDeletion`, which the garbage collector takes off.
"""

from collections.abc import Callable

from msgspec import Struct

from lanloom.api.meta import Key, ObjectMeta, rfc3339
from lanloom.runtime.https import errors
from lanloom_embedded.engine.admission import Admission
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.storage import Stored, full, stored
from lanloom_embedded.engine.webhooks import Attributes
from lanloom_embedded.kinds import (
    CRDS,
    NAMESPACES,
    GroupPlural,
    Raw,
    ServedKind,
)

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_PODS = GroupPlural("", "pods")
_DEFAULT_POD_GRACE = 30
_PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class Deleted(Struct, frozen=True):
    """The result of a deletion: the object's last or marked state, and whether it is gone."""

    state: Stored
    gone: bool


class Deleter:
    """Deletes objects, one at a time."""

    def __init__(self, ledger: Ledger, admission: Admission, now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._admission = admission
        self._now = now

    async def delete(
        self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions, call: Call
    ) -> Deleted:
        """Delete or mark an object. Raises NotFound, Conflict (preconditions), Forbidden."""
        key = Key(namespace, name)
        while True:
            current = self._ledger.latest(kind.key, key)
            if current is None:
                raise errors.not_found(kind.resource, name)
            _check_preconditions(kind, current, options)
            await self._admit(kind, current, call)
            if self._ledger.latest(kind.key, key) is current:
                return await self._apply(kind, current, options, call)

    async def _admit(self, kind: ServedKind, current: Stored, call: Call) -> None:
        key = current.key
        if kind.key == NAMESPACES and key.name in _PERMANENT_NAMESPACES:
            raise errors.forbidden(kind.resource, key.name, "this namespace may not be deleted")
        attributes = Attributes(
            kind=kind,
            operation="DELETE",
            namespace=key.namespace,
            name=key.name,
            old=full(kind, current),
            options={"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
        )
        await self._admission.mutate(attributes, call, lambda _: None)
        await self._admission.validate(attributes, call)

    async def _apply(self, kind: ServedKind, current: Stored, options: DeleteOptions, call: Call) -> Deleted:
        obj, meta = full(kind, current), current.meta()
        finalizers = _finalizers(kind, meta, options)
        grace = _grace(kind, obj, options)
        held = bool(finalizers) or _content_holds(kind, obj)
        if not held and not grace:
            return Deleted(current if call.dry_run else await self._remove(kind, current, obj), True)
        marked = _marked(obj, finalizers, grace, self._now())
        if kind.key == NAMESPACES:
            marked["status"] = {**marked.get("status", {}), "phase": "Terminating"}
            del marked["metadata"]["deletionGracePeriodSeconds"]
        if marked == obj:
            await self._ledger.settle(kind.key, current.key)
            return Deleted(current, False)
        if call.dry_run:
            return Deleted(stored(marked, current.version), False)
        return Deleted(await self._ledger.write(kind.key, current.key, marked), False)

    async def _remove(self, kind: ServedKind, current: Stored, obj: Raw) -> Stored:
        """Remove an object; a pod is marked first, as for every end of a pod. Returns its last state."""
        marked = _marked(obj, [], 0, self._now())
        if kind.key == _PODS and marked != obj:
            current = await self._ledger.write(kind.key, current.key, marked)
            latest = self._ledger.latest(kind.key, current.key)
            if latest is None or latest.meta().uid != current.meta().uid:
                return current  # another deletion came first
        return await self._ledger.write(kind.key, current.key, None)


def _check_preconditions(kind: ServedKind, current: Stored, options: DeleteOptions) -> None:
    if options.uid and options.uid != current.meta().uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({current.meta().uid}). The object might have been deleted and then recreated"
        )
        raise errors.conflict(kind.qualified_kind, current.key.name, why)
    if options.resource_version and options.resource_version != str(current.version):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({current.version}). The object might have been modified"
        )
        raise errors.conflict(kind.qualified_kind, current.key.name, why)


def _finalizers(kind: ServedKind, meta: ObjectMeta, options: DeleteOptions) -> list[str]:
    """Return the finalizers once the propagation policy has its say."""
    finalizers = list(meta.finalizers)
    if kind.key == CRDS and meta.deletion_timestamp is None and CRD_FINALIZER not in finalizers:
        finalizers.append(CRD_FINALIZER)
    if not options.propagation:
        return finalizers
    finalizers = [each for each in finalizers if each not in (ORPHAN, FOREGROUND)]
    if options.propagation == "Orphan":
        finalizers.append(ORPHAN)
    elif options.propagation == "Foreground":
        finalizers.append(FOREGROUND)
    return finalizers


def _grace(kind: ServedKind, obj: Raw, options: DeleteOptions) -> int:
    """Return the seconds that a pod's node has for stopping it; a pod without a node, or an ended one, need not be
    stopped.
    """
    if kind.key != _PODS:
        return 0
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_period_seconds is not None:
        wanted = options.grace_period_seconds
    else:
        wanted = int(spec.get("terminationGracePeriodSeconds") or _DEFAULT_POD_GRACE)
    already = obj["metadata"].get("deletionGracePeriodSeconds")
    return wanted if already is None else min(wanted, int(already))


def _content_holds(kind: ServedKind, obj: Raw) -> bool:
    return kind.key == NAMESPACES and bool(obj.get("spec", {}).get("finalizers"))


def _marked(obj: Raw, finalizers: list[str], grace: int, now: float) -> Raw:
    meta = dict(obj["metadata"])
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = rfc3339(now + grace)
        if "generation" in meta:
            meta["generation"] += 1
    elif grace < meta.get("deletionGracePeriodSeconds", 0):
        meta["deletionTimestamp"] = rfc3339(now + grace)
    meta["deletionGracePeriodSeconds"] = grace
    meta["finalizers"] = finalizers
    if not finalizers:
        del meta["finalizers"]
    return {**obj, "metadata": meta}

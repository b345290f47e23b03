"""How an object gets its next state: create, update and patch.

The order of steps is the real server's: decode (prune, defaults), mutating admission, what the server sets,
validation, validating admission, commit. Where admission takes time, the object may have changed meanwhile;
then a request that named a resourceVersion conflicts, and one that didn't is tried again on the new state.
"""

import uuid
from collections.abc import Callable
from random import Random

from msgspec import structs

from lanloom.api.meta import Key
from lanloom.api.times import rfc3339
from lanloom.apiserver import errors, fields
from lanloom.apiserver.engine import metadata
from lanloom.apiserver.engine.admission import NAMESPACES, Admission
from lanloom.apiserver.engine.calls import Call
from lanloom.apiserver.engine.ledger import Ledger
from lanloom.apiserver.engine.registry import Registry
from lanloom.apiserver.engine.stored import Stored, full, stored
from lanloom.apiserver.engine.strategies import Strategy
from lanloom.apiserver.engine.webhooks import Attributes
from lanloom.apiserver.kinds import Raw, ServedKind

Transform = Callable[[Raw], Raw]

_ATTEMPTS = 20
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_PREFIX_LIMIT = 63 - _SUFFIX_LENGTH


class Writer:
    """Creates and changes objects."""

    def __init__(
        self, ledger: Ledger, registry: Registry, admission: Admission, now: Callable[[], float], rng: Random
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._admission = admission
        self._now = now
        self._rng = rng

    def new_uid(self) -> str:
        """A random UUID."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def create(self, kind: ServedKind, namespace: str, body: Raw, call: Call) -> Stored:
        """Creates an object. Raises AlreadyExists, Invalid, Forbidden, NotFound (its namespace)."""
        strategy = self._registry.strategy(kind)
        obj = self._decode(kind, strategy, body, call)
        _place(kind, obj["metadata"], namespace)
        name = obj["metadata"].get("name", "")
        self._check_namespace(kind, namespace, name)
        asked = Attributes(
            kind=kind,
            operation="CREATE",
            namespace=namespace,
            name=name,
            object=obj,
            options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        )
        obj = await self._admission.mutate(asked, call, strategy.decode) or obj
        self._fill_new(obj, strategy)
        found = metadata.check_new(obj["metadata"], kind.namespaced, strategy.name_rule)
        found += strategy.check(obj, None)
        name = obj["metadata"].get("name", "")
        if found:
            raise errors.invalid(kind.qualified_kind, name, found)
        strategy.settle(obj)
        await self._admission.validate(_with(asked, obj), call)
        self._check_namespace(kind, namespace, name)
        key = Key(namespace, name)
        if self._ledger.latest(kind.key, key) is not None:
            raise errors.already_exists(kind.resource, name)
        if call.dry_run:
            return stored(obj, 0)
        return await self._ledger.write(kind.key, key, obj)

    async def update(
        self, kind: ServedKind, namespace: str, name: str, body: Raw, call: Call, subresource: str = ""
    ) -> tuple[Stored, bool]:
        """Replaces an object (PUT); the second value says whether that created it."""
        strategy = self._registry.strategy(kind)
        new = self._decode(kind, strategy, body, call)
        _check_identity(kind, new["metadata"], namespace, name)
        if strategy.create_on_update and self._ledger.latest(kind.key, Key(namespace, name)) is None:
            return await self.create(kind, namespace, new, call), True
        if not strategy.unconditional_update and not new["metadata"].get("resourceVersion"):
            found = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(kind.qualified_kind, name, [found])
        options: Raw = {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
        return await self._modify(
            kind, Key(namespace, name), lambda _: new, call, subresource, options
        ), False

    async def patch(
        self, kind: ServedKind, namespace: str, name: str, apply: Transform, call: Call, subresource: str = ""
    ) -> Stored:
        """Changes an object by a patch; `apply` gives the patched copy of what it gets."""
        strategy = self._registry.strategy(kind)

        def transform(old: Raw) -> Raw:
            new = self._decode(kind, strategy, apply(old), call)
            _check_identity(kind, new["metadata"], namespace, name)
            return new

        options: Raw = {"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1"}
        return await self._modify(kind, Key(namespace, name), transform, call, subresource, options)

    async def _modify(
        self, kind: ServedKind, key: Key, transform: Transform, call: Call, subresource: str, options: Raw
    ) -> Stored:
        for _ in range(_ATTEMPTS):
            current = self._ledger.latest(kind.key, key)
            if current is None:
                raise errors.not_found(kind.resource, key.name)
            old = full(kind, current)
            asked = Attributes(
                kind=kind,
                operation="UPDATE",
                namespace=key.namespace,
                name=key.name,
                subresource=subresource,
                object=transform(full(kind, current)),
                old=old,
                options=options,
            )
            new = await self._next_state(asked, current, call)
            if self._ledger.latest(kind.key, key) is current:
                return await self._commit(kind, key, current, old, new, call)
        raise errors.conflict(kind.resource, key.name)

    async def _next_state(self, asked: Attributes, current: Stored, call: Call) -> Raw:
        """The object as it is to be stored, all checks passed."""
        kind, strategy, old = asked.kind, self._registry.strategy(asked.kind), asked.old or {}
        submitted = asked.object or {}
        new = await self._admission.mutate(asked, call, strategy.decode) or submitted
        meta = new["metadata"]
        _check_precondition(kind, meta, current)
        strategy.prepare_update(new, old, asked.subresource)
        meta = new["metadata"]
        metadata.carry_over(meta, old["metadata"])
        if strategy.generation and _wanted(new, kind.has_status) != _wanted(old, kind.has_status):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        found = metadata.check_update(meta, old["metadata"]) + strategy.check(new, old)
        if found:
            raise errors.invalid(kind.qualified_kind, current.key.name, found)
        if not asked.subresource:
            strategy.settle(new)
        await self._admission.validate(_with(asked, new), call)
        return new

    async def _commit(
        self, kind: ServedKind, key: Key, current: Stored, old: Raw, new: Raw, call: Call
    ) -> Stored:
        meta = new["metadata"]
        meta["resourceVersion"] = str(current.version)
        if call.dry_run:
            return stored(new, current.version)
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and _is_last_touch(new):
            await self._ledger.write(kind.key, key, None)
            return stored(new, current.version)
        if new == old:
            await self._ledger.settle(kind.key, key)
            return current
        return await self._ledger.write(kind.key, key, new)

    def _decode(self, kind: ServedKind, strategy: Strategy, body: Raw, call: Call) -> Raw:
        _check_type(kind, body)
        obj = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
        obj["metadata"] = metadata.clean(body.get("metadata"))
        unknown = strategy.decode(obj)
        if unknown and call.field_validation == "Strict":
            raise _unknown_fields(kind, unknown)
        if call.field_validation == "Warn":
            call.warnings.extend(f'unknown field "{path}"' for path in unknown)
        return obj

    def _fill_new(self, obj: Raw, strategy: Strategy) -> None:
        strategy.prepare_create(obj)
        meta = obj["metadata"]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"):
            meta.pop(name, None)
        meta["uid"] = self.new_uid()
        meta["creationTimestamp"] = rfc3339(self._now())
        if strategy.generation:
            meta["generation"] = 1
        if not meta.get("name") and meta.get("generateName"):
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
            meta["name"] = meta["generateName"][:_PREFIX_LIMIT] + suffix

    def _check_namespace(self, kind: ServedKind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        found = self._ledger.latest(NAMESPACES, Key("", namespace))
        if found is None:
            raise errors.not_found("namespaces", namespace)
        if found.meta().deletion_timestamp is not None:
            raise errors.terminating(kind.resource, name, namespace)


def _check_type(kind: ServedKind, body: Raw) -> None:
    version = body.get("apiVersion") or kind.api_version
    named = body.get("kind") or kind.kind
    if version != kind.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if named != kind.kind:
        raise errors.BadRequest(
            f'{named} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"converting ({version}, Kind={named}) to {kind.api_version}, Kind={kind.kind} is not possible"
        )


def _unknown_fields(kind: ServedKind, unknown: list[str]) -> errors.BadRequest:
    listed = ", ".join(f'unknown field "{path}"' for path in unknown)
    return errors.BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {listed}"
    )


def _place(kind: ServedKind, meta: Raw, namespace: str) -> None:
    """Puts a new object into the namespace of the request."""
    given = meta.get("namespace", "")
    if given and given != namespace and kind.namespaced:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if kind.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


def _check_identity(kind: ServedKind, meta: Raw, namespace: str, name: str) -> None:
    """The object of an update must be the one that the URL names."""
    given = meta.setdefault("name", name)
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    place = meta.get("namespace", namespace)
    if kind.namespaced and place != namespace:
        raise errors.BadRequest(
            f"the namespace of the object ({place}) does not match the namespace on the URL ({namespace})"
        )
    if kind.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


def _check_precondition(kind: ServedKind, meta: Raw, current: Stored) -> None:
    """Optimistic locking: a version or uid that the request names must be the current one."""
    wanted = meta.get("resourceVersion")
    if wanted and wanted != str(current.version):
        raise errors.conflict(kind.resource, current.key.name)
    uid, actual = meta.get("uid"), current.meta().uid
    if uid and uid != actual:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise errors.conflict(kind.resource, current.key.name, why)


def _wanted(obj: Raw, has_status: bool) -> Raw:
    """What of an object its generation counts."""
    ignored = ("metadata", "status") if has_status else ("metadata",)
    return {name: value for name, value in obj.items() if name not in ignored}


def _is_last_touch(obj: Raw) -> bool:
    """Whether nothing holds back an object that is being deleted: grace has run out, a namespace is empty."""
    return not obj["metadata"].get("deletionGracePeriodSeconds") and not (
        obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and obj.get("spec", {}).get("finalizers")
    )


def _with(asked: Attributes, obj: Raw) -> Attributes:
    return structs.replace(asked, object=obj)

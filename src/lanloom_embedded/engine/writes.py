"""How an object gets its next state: create, update and patch.

The order of steps is the real server's: decode (prune, defaults), mutating admission, what the server sets,
validation, the check of what is granted, validating admission, commit. Where admission takes time, the object may have
changed meanwhile; then a request that named a resourceVersion conflicts, and one that didn't is tried again on the new
state.
"""

import copy
import uuid
from collections.abc import Callable
from random import Random

import msgspec
from msgspec import structs

from lanloom.api.admission import UserInfo
from lanloom.api.meta import Key, rfc3339
from lanloom.runtime.https import errors
from lanloom.runtime.https.bodies import check_object
from lanloom_embedded.apply.managers import Managers, Owner, apply, configuration, entries, first, updated
from lanloom_embedded.engine import metadata
from lanloom_embedded.engine.admission import Admission
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.metadata import (
    check_identity,
    check_patched_type,
    check_type,
    check_uid,
    check_version,
    place_new,
    require_version,
    unknown_fields,
)
from lanloom_embedded.engine.storage import Stored, full, stored
from lanloom_embedded.engine.strategies import Registry, Strategy
from lanloom_embedded.engine.webhooks import Attributes
from lanloom_embedded.kinds import NAMESPACES, Raw, ServedKind

Transform = Callable[[Raw], Raw]

_ATTEMPTS = 20
_UNKNOWN_FIELDS = 100
"""Unknown fields that are named, as in kube-apiserver."""
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_PREFIX_LIMIT = 63 - _SUFFIX_LENGTH


class Writer:
    """Creates and changes objects."""

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        admission: Admission,
        now: Callable[[], float],
        rng: Random,
        check_grant: Callable[[Attributes, UserInfo], None],
    ) -> None:
        """`check_grant` raises Forbidden for an object by which its writer would get more rights."""
        self._ledger = ledger
        self._registry = registry
        self._admission = admission
        self._now = now
        self._rng = rng
        self._check_grant = check_grant

    def new_uid(self) -> str:
        """Return a random UUID."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def create(
        self, kind: ServedKind, namespace: str, body: Raw, call: Call, managers: Managers | None = None
    ) -> Stored:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden, NotFound (its namespace).

        `managers` own its fields, if an apply creates it.
        """
        obj = await self._first_state(kind, namespace, body, call)
        if managers is not None:
            obj["metadata"]["managedFields"] = entries(managers)
        key = Key(namespace, obj["metadata"]["name"])
        # Admission took its time: the namespace may have gone, the name may be taken.
        self._check_namespace(kind, namespace, key.name)
        if self._ledger.latest(kind.key, key) is not None:
            raise self._taken(kind, key)
        if call.dry_run:
            return stored(obj, 0)
        return await self._ledger.write(kind.key, key, obj)

    async def _first_state(self, kind: ServedKind, namespace: str, body: Raw, call: Call) -> Raw:
        """Return the object as it is to be stored, all checks passed."""
        strategy = self._registry.strategy(kind)
        check_type(kind, body)
        obj = self._decode(kind, strategy, body, call)
        place_new(kind, obj["metadata"], namespace)
        name = obj["metadata"].get("name", "")
        self._check_namespace(kind, namespace, name)
        if "create" not in kind.verbs:
            # Objects of a kind that goes can still be changed, whatever its verbs say: their finalizers must go too.
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(kind.resource, name, why)
        attributes = Attributes(
            kind=kind,
            operation="CREATE",
            namespace=namespace,
            name=name,
            object=obj,
            options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        )
        obj = await self._admission.mutate(attributes, call, strategy.decode) or obj
        _check_size(kind, name, obj)
        place_new(kind, obj["metadata"], namespace)
        self._fill_new(obj, strategy)
        found = metadata.check_new(obj["metadata"], kind.namespaced, strategy.name_rule)
        found += strategy.check(obj, None)
        if found:
            raise errors.invalid(kind.qualified_kind, obj["metadata"].get("name", ""), found)
        self._check_grant(_with(attributes, obj), call.user)
        call.warnings.add(strategy.warnings(obj, None))
        await self._admission.validate(_with(attributes, obj), call)
        return obj

    async def update(
        self, kind: ServedKind, namespace: str, name: str, body: Raw, call: Call, subresource: str = ""
    ) -> tuple[Stored, bool]:
        """Replace an object (PUT); the second value says whether that created it."""
        strategy = self._registry.strategy(kind)
        check_type(kind, body)
        new = self._decode(kind, strategy, body, call)
        check_identity(kind, new["metadata"], namespace, name)
        key = Key(namespace, name)
        current = self._ledger.latest(kind.key, key)
        if current is None and strategy.create_on_update:
            return await self.create(kind, namespace, new, call), True
        if current is None:
            raise errors.not_found(kind.resource, name)
        if not strategy.unconditional_update:
            require_version(kind, new["metadata"], name)
        check_uid(kind, new["metadata"], current)

        def transform(_: Raw) -> Raw:
            # Later steps change what they are given, and may come again.
            return copy.deepcopy(new)

        return await self._modify(kind, key, transform, call, subresource), False

    async def patch(
        self, kind: ServedKind, namespace: str, name: str, apply: Transform, call: Call, subresource: str = ""
    ) -> Stored:
        """Change an object by a patch; `apply` gives the patched copy of what it gets."""
        strategy = self._registry.strategy(kind)

        def transform(old: Raw) -> Raw:
            # What a stricter schema has left of the object is no client's doing: the patch answers for what it brings.
            strategy.decode(old)
            patched = apply(old)
            check_patched_type(kind, patched)
            new = self._decode(kind, strategy, patched, call)
            check_identity(kind, new["metadata"], namespace, name)
            return new

        return await self._modify(kind, Key(namespace, name), transform, call, subresource)

    async def apply(
        self, kind: ServedKind, namespace: str, name: str, body: Raw, call: Call, subresource: str = ""
    ) -> tuple[Stored, bool]:
        """Apply a configuration (server-side apply); the second value says whether that created the object.

        Raises Conflict where another manager owns a field that it changes, unless by force.
        """
        strategy = self._registry.strategy(kind)
        check_type(kind, body)
        config = configuration(kind, body, namespace, name, subresource)
        check_identity(kind, metadata.clean(config["metadata"], kind.kind), namespace, name)
        owner, now = Owner(call.manager, "Apply", kind.api_version, subresource), rfc3339(self._now())
        if self._ledger.latest(kind.key, Key(namespace, name)) is None:
            if subresource:
                raise errors.not_found(kind.resource, name)
            made = await self.create(kind, namespace, config, call, first(kind.schema, config, owner, now))
            return made, True
        owners: list[Managers] = []

        def transform(old: Raw) -> Raw:
            strategy.decode(old)
            applied = apply(kind.schema, old, config, owner, force=call.force, now=now)
            new = self._decode(kind, strategy, applied.object, call)
            check_identity(kind, new["metadata"], namespace, name)
            owners.append(applied.managers)
            return new

        key = Key(namespace, name)
        return await self._modify(
            kind, key, transform, call, subresource, lambda _old, _new: owners[-1]
        ), False

    async def _modify(
        self,
        kind: ServedKind,
        key: Key,
        transform: Transform,
        call: Call,
        subresource: str,
        managers: Callable[[Raw, Raw], Managers] | None = None,
    ) -> Stored:
        for _ in range(_ATTEMPTS):
            current = self._ledger.latest(kind.key, key)
            if current is None:
                raise errors.not_found(kind.resource, key.name)
            old = full(kind, current)
            attributes = Attributes(
                kind=kind,
                operation="UPDATE",
                namespace=key.namespace,
                name=key.name,
                subresource=subresource,
                object=transform(full(kind, current)),
                old=old,
                options={"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
            )
            new = await self._next_state(attributes, current, call)
            if managers is not None or old["metadata"].get("managedFields"):
                owners = managers or self._updating(kind, call, subresource)
                new["metadata"]["managedFields"] = entries(owners(old, new))
            if self._ledger.latest(kind.key, key) is current:
                return await self._commit(kind, key, current, old, new, call)
        raise errors.conflict(kind.resource, key.name)

    def _updating(self, kind: ServedKind, call: Call, subresource: str) -> Callable[[Raw, Raw], Managers]:
        """Return who owns the fields after a write that is no apply."""
        owner, now = Owner(call.manager, "Update", kind.api_version, subresource), rfc3339(self._now())
        return lambda old, new: updated(kind.schema, old, new, owner, now)

    async def _next_state(self, attributes: Attributes, current: Stored, call: Call) -> Raw:
        """Return the object as it is to be stored, all checks passed."""
        kind, strategy, old = attributes.kind, self._registry.strategy(attributes.kind), attributes.old or {}
        submitted = attributes.object or {}
        new = await self._admission.mutate(attributes, call, strategy.decode) or submitted
        _check_size(kind, current.key.name, new, old)
        check_version(kind, new["metadata"], current)
        strategy.prepare_update(new, old, attributes.subresource)
        meta = new["metadata"]
        metadata.carry_over(meta, old["metadata"])
        meta["resourceVersion"] = str(current.version)
        if strategy.generation and _is_new_wish(kind, strategy, new, old):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        found = metadata.check_update(meta, old["metadata"])
        found += strategy.check(new, old, attributes.subresource)
        if found:
            raise errors.invalid(kind.qualified_kind, current.key.name, found)
        self._check_grant(_with(attributes, new), call.user)
        call.warnings.add(strategy.warnings(new, old))
        await self._admission.validate(_with(attributes, new), call)
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
        obj = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
        obj["metadata"] = metadata.clean(body.get("metadata"), kind.kind)
        unknown = sorted([*metadata.unknown(body.get("metadata")), *strategy.decode(obj)])[:_UNKNOWN_FIELDS]
        if unknown and call.field_validation == "Strict":
            raise unknown_fields(kind, unknown)
        if call.field_validation == "Warn":
            call.warnings.add(f'unknown field "{path}"' for path in unknown)
        return obj

    def _fill_new(self, obj: Raw, strategy: Strategy) -> None:
        meta = obj["metadata"]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            meta.pop(name, None)
        meta["uid"] = self.new_uid()
        meta["creationTimestamp"] = rfc3339(self._now())
        if strategy.generation:
            meta["generation"] = 1
        if not meta.get("name") and meta.get("generateName"):
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
            meta["name"] = meta["generateName"][:_PREFIX_LIMIT] + suffix
        strategy.prepare_create(obj)

    def _taken(self, kind: ServedKind, key: Key) -> errors.AlreadyExists:
        error = errors.already_exists(kind.resource, key.name)
        there = self._ledger.latest(kind.key, key)
        if there is not None and there.meta().deletion_timestamp is not None:
            error.message = f"object is being deleted: {error.message}"
        return error

    def _check_namespace(self, kind: ServedKind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        found = self._ledger.latest(NAMESPACES, Key("", namespace))
        if found is None:
            raise errors.not_found("namespaces", namespace)
        if found.meta().deletion_timestamp is not None:
            raise errors.terminating(kind.resource, name, namespace)


def _check_size(kind: ServedKind, name: str, new: Raw, old: Raw | None = None) -> None:
    """Refuse what is too large to be stored. An object that is too large already may stay so, but not grow."""
    data = msgspec.json.encode(new)
    try:
        check_object(kind.kind, name, data)
    except errors.StatusError:
        if old is None or len(data) > len(msgspec.json.encode(old)):
            raise


def _is_new_wish(kind: ServedKind, strategy: Strategy, new: Raw, old: Raw) -> bool:
    """Whether what is wanted differs from before, other than by what the kind's schema now leaves out or fills in."""
    wanted = _wanted(new, kind.has_status)
    if wanted == _wanted(old, kind.has_status):
        return False
    decoded = copy.deepcopy(old)
    strategy.decode(decoded)
    return wanted != _wanted(decoded, kind.has_status)


def _wanted(obj: Raw, has_status: bool) -> Raw:
    """Return the parts of an object that its generation counts."""
    ignored = ("metadata", "status") if has_status else ("metadata",)
    return {name: value for name, value in obj.items() if name not in ignored}


def _is_last_touch(obj: Raw) -> bool:
    """Return whether nothing holds back an object that is being deleted: grace has run out, a namespace is empty."""
    return not obj["metadata"].get("deletionGracePeriodSeconds") and not (
        obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and obj.get("spec", {}).get("finalizers")
    )


def _with(attributes: Attributes, obj: Raw) -> Attributes:
    return structs.replace(attributes, object=obj)

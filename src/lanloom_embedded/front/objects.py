"""Requests on objects: each verb of the API as a call of the engine."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors, fields
from lanloom_embedded import tables
from lanloom_embedded.authz import Attempt
from lanloom_embedded.engine.calls import (
    Call,
    DeleteOptions,
    FieldValidation,
    Propagation,
)
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import ListOptions, Page, Selection
from lanloom_embedded.engine.writes import Transform
from lanloom_embedded.front import bodies
from lanloom_embedded.front.exchange import (
    Exchange,
    Target,
    check_address,
    integer,
    is_true,
)
from lanloom_embedded.front.rendering import (
    Renderer,
    encode,
    negotiate,
    plain,
)
from lanloom_embedded.front.watches import Streams
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.patches import json_patch, merge_patch, strategic_merge_patch

_KIND = "DeleteOptions"
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


async def delete_options(exchange: Exchange, user: UserInfo) -> tuple[Call, DeleteOptions]:
    """Read the preconditions and options of a deletion. Raises BadRequest, Invalid.

    With a body, those in the query count for nothing, as at a kube-apiserver.
    """
    body = await bodies.read(exchange.receive, exchange.share)
    if not body.strip():
        return call_of(exchange, user), _options(_Given(), exchange.query)
    wanted = _read(await bodies.object_in(body, exchange.share, exchange.header(b"content-type"), _KIND))
    return call_of(exchange, user, wanted.dryRun or ()), _options(wanted, {})


def call_of(exchange: Exchange, user: UserInfo, dry_run: Sequence[str] | None = None) -> Call:
    """Read the options of a writing request; `dry_run` is that of its body, if it has one. Raises Invalid."""
    options = _OPTIONS.get(exchange.method, "DeleteOptions")
    validation = exchange.query.get("fieldValidation", "") or "Warn"
    if validation not in _FIELD_VALIDATIONS:
        raise _bad_option(options, fields.not_supported("fieldValidation", validation, _FIELD_VALIDATIONS))
    if dry_run is None:
        dry_run = [exchange.query["dryRun"]] if exchange.query.get("dryRun") else ()
    return Call(
        user,
        _dry_run(options, dry_run),
        cast(FieldValidation, validation),
        exchange.warnings,
        manager=_manager(exchange),
        force=is_true(exchange.query.get("force", "")),
    )


_MANAGER_LONGEST = 128


def _manager(exchange: Exchange) -> str:
    """Return who a client says that it is: the manager of fields, else the program by its User-Agent."""
    named = exchange.query.get("fieldManager", "")
    program = exchange.header(b"user-agent").partition("/")[0]
    return (named or program or "unknown")[:_MANAGER_LONGEST]


def _dry_run(options: str, values: Sequence[str]) -> bool:
    if any(value != "All" for value in values):
        raise _bad_option(options, fields.not_supported("dryRun", list(values), ("All",)))
    return bool(values)


def _bad_option(options: str, found: fields.FieldError) -> errors.Invalid:
    return errors.invalid(f"{options}.meta.k8s.io", "", [found])


class _Preconditions(Struct):
    uid: str | None = None
    resourceVersion: str | None = None


class _Given(Struct):
    """DeleteOptions as they stand in a body."""

    kind: str | None = None
    gracePeriodSeconds: int | None = None
    preconditions: _Preconditions | None = None
    orphanDependents: bool | None = None
    propagationPolicy: str | None = None
    dryRun: list[str] | None = None


def _read(given: Raw) -> _Given:
    """Return the options in a body, all of the right type. Raises BadRequest."""
    if (given.get("kind") or _KIND) != _KIND:
        raise errors.BadRequest(f"the body of a deletion must be {_KIND}, not {given['kind']}")
    try:
        return msgspec.convert(given, _Given)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"{_KIND} can't be read: {error}; correct the field's type") from None


def _options(given: _Given, query: Mapping[str, str]) -> DeleteOptions:
    preconditions = given.preconditions or _Preconditions()
    grace = given.gracePeriodSeconds
    if grace is None and "gracePeriodSeconds" in query:
        grace = integer(query, "gracePeriodSeconds")
    return DeleteOptions(
        uid=preconditions.uid or "",
        resource_version=preconditions.resourceVersion or "",
        propagation=_propagation(given, query),
        grace_period_seconds=grace,
    )


def _propagation(given: _Given, query: Mapping[str, str]) -> Propagation:
    field = "propagationPolicy"
    wanted = given.propagationPolicy or query.get(field, "")
    orphan = given.orphanDependents
    if wanted and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise _bad_option(_KIND, fields.invalid(field, wanted, why))
    if wanted not in ("", *_PROPAGATIONS):
        raise _bad_option(_KIND, fields.not_supported(field, wanted, (*_PROPAGATIONS, "nil")))
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return cast(Propagation, wanted)


_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_NOT_OLDER = "NotOlderThan"
_RETURNED = frozenset({"pods", "serviceaccounts"})
"""Kinds whose deletion is answered with the object instead of a Status."""


class Objects:
    """Answers requests on objects of served kinds."""

    def __init__(self, engine: Engine, renderer: Renderer, streams: Streams) -> None:
        self._engine = engine
        self._renderer = renderer
        self._streams = streams

    async def serve(
        self, exchange: Exchange, kind: ServedKind, target: Target, verb: str, user: UserInfo
    ) -> None:
        """Answer one request. Raises StatusError before anything is sent."""
        check_address(kind, target, verb)
        if kind.deprecated:
            exchange.warnings.add([kind.deprecated])
        namespace = target.namespace if kind.namespaced else ""
        match verb:
            case "get":
                form = negotiate(exchange.header(b"accept"))
                version = exchange.query.get("resourceVersion", "")
                state = self._engine.get(kind, namespace, target.name, version)
                await exchange.answer(self._renderer.one(kind, state, form, _include(exchange)), form=form)
            case "list":
                await self._list(exchange, kind, namespace)
            case "watch":
                with self._streams.share(user.username):
                    await self._watch(exchange, kind, namespace)
            case "create":
                await self._create(exchange, kind, namespace, user)
            case "update":
                await self._update(exchange, kind, namespace, target, user)
            case "patch":
                await self._patch(exchange, kind, namespace, target, user)
            case "delete":
                await self._delete(exchange, kind, namespace, target.name, user)
            case _:
                await self._delete_collection(exchange, kind, namespace, user)

    async def _list(self, exchange: Exchange, kind: ServedKind, namespace: str) -> None:
        form = negotiate(exchange.header(b"accept"))
        query = exchange.query
        options = ListOptions(
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            limit=integer(query, "limit"),
            continue_token=query.get("continue", ""),
        )
        page = self._engine.list_page(kind, _selection(query, namespace), options)
        await exchange.answer(self._renderer.page(kind, page, form, _include(exchange)), form=form)

    async def _watch(self, exchange: Exchange, kind: ServedKind, namespace: str) -> None:
        form = negotiate(exchange.header(b"accept"))
        _check_watch(exchange.query)
        selection = _selection(exchange.query, namespace)
        version = exchange.query.get("resourceVersion", "")
        asked = exchange.query.get("sendInitialEvents", "")
        initial = is_true(asked) if asked else None
        try:
            watch = self._engine.watch(kind, selection, version, initial=initial)
        except errors.Expired as error:
            await self._streams.refuse(exchange, error)
            return
        await self._streams.serve(exchange, watch, form, _include(exchange))

    async def _create(self, exchange: Exchange, kind: ServedKind, namespace: str, user: UserInfo) -> None:
        form = negotiate(exchange.header(b"accept"))
        call = call_of(exchange, user)
        body = await exchange.read_object(kind.kind)
        state = await self._engine.create(kind, namespace, body, call)
        shown = self._renderer.one(kind, state, form)
        await exchange.answer(shown, code=201, form=form)

    async def _update(
        self, exchange: Exchange, kind: ServedKind, namespace: str, target: Target, user: UserInfo
    ) -> None:
        form = negotiate(exchange.header(b"accept"))
        call = call_of(exchange, user)
        body = await exchange.read_object(kind.kind)
        state, created = await self._engine.update(
            kind, namespace, target.name, body, call, target.subresource
        )
        code = 201 if created else 200
        shown = self._renderer.one(kind, state, form)
        await exchange.answer(shown, code=code, form=form)

    async def _patch(
        self, exchange: Exchange, kind: ServedKind, namespace: str, target: Target, user: UserInfo
    ) -> None:
        form = negotiate(exchange.header(b"accept"))
        call = call_of(exchange, user)
        media_type = exchange.header(b"content-type").partition(";")[0].strip()
        if media_type == _APPLY_PATCH:
            await self._apply(exchange, kind, namespace, target, call)
            return
        if "force" in exchange.query:
            why = "may not be specified for non-apply patch"
            raise _bad_option("PatchOptions", fields.forbidden("force", why))
        apply = await _patch_transform(kind, media_type, exchange)
        state = await self._engine.patch(kind, namespace, target.name, apply, call, target.subresource)
        await exchange.answer(self._renderer.one(kind, state, form), form=form)

    async def _apply(
        self, exchange: Exchange, kind: ServedKind, namespace: str, target: Target, call: Call
    ) -> None:
        """Apply a configuration, which may create the object: then that must be allowed too."""
        form = negotiate(exchange.header(b"accept"))
        if not exchange.query.get("fieldManager"):
            raise _bad_option("PatchOptions", fields.required("fieldManager", "is required for apply patch"))
        body = await bodies.object_in(
            await bodies.read(exchange.receive, exchange.share), exchange.share, bodies.YAML, kind.kind
        )
        if not self._engine.has(kind, namespace, target.name):
            attempt = Attempt(
                verb="create", group=kind.group, resource=kind.plural, namespace=namespace, name=target.name
            )
            self._engine.authorizer.check(call.user, attempt)
        state, created = await self._engine.apply(
            kind, namespace, target.name, body, call, target.subresource
        )
        shown = self._renderer.one(kind, state, form)
        await exchange.answer(shown, code=201 if created else 200, form=form)

    async def _delete(
        self, exchange: Exchange, kind: ServedKind, namespace: str, name: str, user: UserInfo
    ) -> None:
        form = plain(exchange.header(b"accept"))
        call, options = await delete_options(exchange, user)
        deleted = await self._engine.delete(kind, namespace, name, options, call)
        if deleted.gone and str(kind.key) not in _RETURNED:
            body = encode(_deletion_status(kind, name, deleted.state.meta().uid), form)
        else:
            body = self._renderer.one(kind, deleted.state, form)
        await exchange.answer(body, form=form)

    async def _delete_collection(
        self, exchange: Exchange, kind: ServedKind, namespace: str, user: UserInfo
    ) -> None:
        form = plain(exchange.header(b"accept"))
        call, options = await delete_options(exchange, user)
        selection = _selection(exchange.query, namespace)
        states = await self._engine.delete_collection(kind, selection, options, call)
        page = Page(states, self._engine.ledger.version)
        await exchange.answer(self._renderer.page(kind, page, form), form=form)


def _check_watch(query: Mapping[str, str]) -> None:
    field = "resourceVersionMatch"
    match, initial = query.get(field, ""), query.get("sendInitialEvents", "")
    found: list[fields.FieldError] = []
    if initial and match != _NOT_OLDER:
        why = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
        found.append(fields.forbidden(field, why))
    if match and not initial:
        why = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        found.append(fields.forbidden(field, why))
    if match and match != _NOT_OLDER:
        found.append(fields.not_supported(field, match, (_NOT_OLDER,)))
    if found:
        raise errors.invalid("ListOptions.meta.k8s.io", "", found)


def _selection(query: Mapping[str, str], namespace: str) -> Selection:
    return Selection(namespace, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""))


def _include(exchange: Exchange) -> tables.Include:
    match exchange.query.get("includeObject", ""):
        case "" | "Metadata":
            return "Metadata"
        case "Object":
            return "Object"
        case "None":
            return "None"
        case other:
            raise errors.BadRequest(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{other}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )


async def _patch_transform(kind: ServedKind, media_type: str, exchange: Exchange) -> Transform:
    appliers: dict[str, Callable[[Raw, Any], Raw]] = {_JSON_PATCH: json_patch, _MERGE_PATCH: merge_patch}
    if kind.builtin:
        appliers[_STRATEGIC_PATCH] = lambda old, patch: strategic_merge_patch(old, patch, kind.schema or {})
    if media_type not in appliers:
        raise errors.unsupported_media_type([*appliers, _APPLY_PATCH])
    patch = await bodies.read_patch(exchange.receive, exchange.share)
    return lambda old: appliers[media_type](old, patch)


def _deletion_status(kind: ServedKind, name: str, uid: str) -> Raw:
    details = {"name": name, "group": kind.group, "kind": kind.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {field: value for field, value in details.items() if value},
    }

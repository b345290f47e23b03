"""Requests on objects: each verb of the API as a call of the engine."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from lanloom.api.admission import UserInfo
from lanloom.apiserver import errors, fields, tables
from lanloom.apiserver.engine.calls import Call, DeleteOptions, FieldValidation, Propagation
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.reads import ListOptions, Page, Selection
from lanloom.apiserver.engine.writes import Transform
from lanloom.apiserver.front import bodies
from lanloom.apiserver.front.accept import negotiate, plain
from lanloom.apiserver.front.exchange import Exchange
from lanloom.apiserver.front.rendering import Renderer, encode
from lanloom.apiserver.front.requests import Target, integer
from lanloom.apiserver.front.watches import Streams
from lanloom.apiserver.kinds import Raw, ServedKind
from lanloom.apiserver.patches import json_patch, merge_patch, strategic_merge_patch

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_PROPAGATIONS = 'DeletionPropagation need to be one of "Foreground", "Background", "Orphan" or nil'
_FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")


class Objects:
    """Answers requests on objects of served kinds."""

    def __init__(self, engine: Engine, renderer: Renderer, streams: Streams) -> None:
        self._engine = engine
        self._renderer = renderer
        self._streams = streams

    async def serve(
        self, exchange: Exchange, kind: ServedKind, target: Target, verb: str, user: UserInfo
    ) -> None:
        """Answers one request. Raises StatusError before anything is sent."""
        _check_verb(kind, target, verb)
        namespace = target.namespace if kind.namespaced else ""
        match verb:
            case "get":
                form = negotiate(exchange.header(b"accept"))
                state = self._engine.get(kind, namespace, target.name)
                await exchange.answer(self._renderer.one(kind, state, form, _include(exchange)), form=form)
            case "list":
                await self._list(exchange, kind, namespace)
            case "watch":
                await self._watch(exchange, kind, namespace, target.name)
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

    async def _watch(self, exchange: Exchange, kind: ServedKind, namespace: str, name: str) -> None:
        form = negotiate(exchange.header(b"accept"))
        selection = _selection(exchange.query, namespace, name)
        version = exchange.query.get("resourceVersion", "")
        try:
            watch = self._engine.watch(kind, selection, version)
        except errors.Expired as error:
            await self._streams.refuse(exchange, error)
            return
        await self._streams.serve(exchange, watch, form, _include(exchange))

    async def _create(self, exchange: Exchange, kind: ServedKind, namespace: str, user: UserInfo) -> None:
        form = negotiate(exchange.header(b"accept"))
        call = call_of(exchange, user)
        body = bodies.decode_object(await bodies.read(exchange.receive), exchange.header(b"content-type"))
        state = await self._engine.create(kind, namespace, body, call)
        shown = self._renderer.one(kind, state, form)
        await exchange.answer(shown, code=201, form=form)

    async def _update(
        self, exchange: Exchange, kind: ServedKind, namespace: str, target: Target, user: UserInfo
    ) -> None:
        form = negotiate(exchange.header(b"accept"))
        call = call_of(exchange, user)
        body = bodies.decode_object(await bodies.read(exchange.receive), exchange.header(b"content-type"))
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
        apply = _patch_transform(kind, media_type, await bodies.read(exchange.receive))
        state = await self._engine.patch(kind, namespace, target.name, apply, call, target.subresource)
        await exchange.answer(self._renderer.one(kind, state, form), form=form)

    async def _delete(
        self, exchange: Exchange, kind: ServedKind, namespace: str, name: str, user: UserInfo
    ) -> None:
        form = plain(exchange.header(b"accept"))
        call, options = await self._delete_options(exchange, user)
        deleted = await self._engine.delete(kind, namespace, name, options, call)
        if deleted.gone:
            body = encode(_deletion_status(kind, name, deleted.state.meta().uid), form)
        else:
            body = self._renderer.one(kind, deleted.state, form)
        await exchange.answer(body, form=form)

    async def _delete_collection(
        self, exchange: Exchange, kind: ServedKind, namespace: str, user: UserInfo
    ) -> None:
        form = plain(exchange.header(b"accept"))
        call, options = await self._delete_options(exchange, user)
        selection = _selection(exchange.query, namespace)
        states = await self._engine.delete_collection(kind, selection, options, call)
        page = Page(states, self._engine.ledger.version)
        await exchange.answer(self._renderer.page(kind, page, form), form=form)

    async def _delete_options(self, exchange: Exchange, user: UserInfo) -> tuple[Call, DeleteOptions]:
        body = await bodies.read(exchange.receive)
        given = bodies.decode_object(body, exchange.header(b"content-type")) if body.strip() else {}
        call = call_of(exchange, user)
        call.dry_run = call.dry_run or _dry_run(given.get("dryRun") or ())
        return call, _options(given, exchange.query)


def call_of(exchange: Exchange, user: UserInfo) -> Call:
    """What comes with every writing request. Raises BadRequest."""
    query = exchange.query
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in _FIELD_VALIDATIONS:
        raise errors.BadRequest(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        )
    dry_run = _dry_run([query["dryRun"]] if query.get("dryRun") else ())
    return Call(user, dry_run, cast(FieldValidation, validation), exchange.warnings)


def _dry_run(values: Any) -> bool:
    for value in values:
        if value != "All":
            raise errors.BadRequest(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return bool(values)


def _check_verb(kind: ServedKind, target: Target, verb: str) -> None:
    if target.subresource:
        if not _has_subresource(kind, target.subresource):
            raise errors.NotFound("the server could not find the requested resource", details={})
        if verb not in ("get", "patch", "update"):
            raise errors.MethodNotAllowed(
                "the server does not allow this method on the requested resource", details={}
            )
    elif verb not in kind.verbs or (verb == "create" and target.name):
        raise errors.MethodNotAllowed(
            "the server does not allow this method on the requested resource", details={}
        )


def _has_subresource(kind: ServedKind, subresource: str) -> bool:
    return (subresource == "status" and kind.has_status) or (
        subresource == "finalize" and str(kind.key) == "namespaces"
    )


def _selection(query: Mapping[str, str], namespace: str, name: str = "") -> Selection:
    return Selection(namespace, name, query.get("labelSelector", ""), query.get("fieldSelector", ""))


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
                f'unrecognized includeObject value "{other}": must be one of None, Metadata, Object'
            )


def _patch_transform(kind: ServedKind, media_type: str, body: bytes) -> Transform:
    appliers: dict[str, Callable[[Raw, Any], Raw]] = {_JSON_PATCH: json_patch, _MERGE_PATCH: merge_patch}
    if kind.builtin:
        appliers[_STRATEGIC_PATCH] = lambda old, patch: strategic_merge_patch(old, patch, kind.schema or {})
    if media_type == _APPLY_PATCH:
        raise errors.UnsupportedMediaType(
            "this server does not offer server-side apply: use kubectl apply without --server-side, "
            f"or a patch of type {_MERGE_PATCH}"
        )
    if media_type not in appliers:
        raise errors.unsupported_media_type([*appliers])
    patch = bodies.decode(body, bodies.JSON)
    return lambda old: appliers[media_type](old, patch)


def _options(given: Raw, query: Mapping[str, str]) -> DeleteOptions:
    preconditions = given.get("preconditions") or {}
    propagation = given.get("propagationPolicy") or query.get("propagationPolicy", "")
    orphan = given.get("orphanDependents")
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        raise errors.invalid(
            "DeleteOptions.meta.k8s.io",
            "",
            [fields.invalid("propagationPolicy", propagation, _PROPAGATIONS)],
        )
    if orphan is not None and not propagation:
        propagation = "Orphan" if orphan else "Background"
    grace = given.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = integer(query, "gracePeriodSeconds")
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=cast(Propagation, propagation),
        grace_period_seconds=grace,
    )


def _deletion_status(kind: ServedKind, name: str, uid: str) -> Raw:
    details = {"name": name, "group": kind.group, "kind": kind.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {field: value for field, value in details.items() if value},
    }

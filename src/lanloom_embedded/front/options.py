"""What comes with a writing request beside its object: parameters, and DeleteOptions in a body."""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors, fields
from lanloom_embedded.engine.calls import (
    Call,
    DeleteOptions,
    FieldValidation,
    Propagation,
)
from lanloom_embedded.front import bodies
from lanloom_embedded.front.exchange import Exchange
from lanloom_embedded.front.requests import integer
from lanloom_embedded.kinds import Raw

_KIND = "DeleteOptions"
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


async def delete_options(exchange: Exchange, user: UserInfo) -> tuple[Call, DeleteOptions]:
    """What a deletion supposes and wants. Raises BadRequest, Invalid."""
    body = await bodies.read(exchange.receive)
    content_type = exchange.header(b"content-type")
    given = await bodies.object_in(body, content_type, "DeleteOptions") if body.strip() else {}
    call = call_of(exchange, user)
    wanted = _read(given)
    call.dry_run = call.dry_run or _dry_run("DeleteOptions", wanted.dryRun or ())
    return call, _options(wanted, exchange.query)


def call_of(exchange: Exchange, user: UserInfo) -> Call:
    """What comes with every writing request. Raises Invalid."""
    options = _OPTIONS.get(exchange.method, "DeleteOptions")
    validation = exchange.query.get("fieldValidation", "") or "Warn"
    if validation not in _FIELD_VALIDATIONS:
        raise _bad_option(options, fields.not_supported("fieldValidation", validation, _FIELD_VALIDATIONS))
    dry_run = _dry_run(options, [exchange.query["dryRun"]] if exchange.query.get("dryRun") else ())
    return Call(user, dry_run, cast(FieldValidation, validation), exchange.warnings)


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
    """The options in a body, all of the right type. Raises BadRequest."""
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

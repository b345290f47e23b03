"""What comes with a writing request beside its object: parameters, and DeleteOptions in a body."""

from collections.abc import Mapping, Sequence
from typing import cast

from lanloom.api.admission import UserInfo
from lanloom.apiserver import errors, fields
from lanloom.apiserver.engine.calls import Call, DeleteOptions, FieldValidation, Propagation
from lanloom.apiserver.front import bodies
from lanloom.apiserver.front.exchange import Exchange
from lanloom.apiserver.front.requests import integer
from lanloom.apiserver.kinds import Raw

_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


async def delete_options(exchange: Exchange, user: UserInfo) -> tuple[Call, DeleteOptions]:
    """What a deletion supposes and wants. Raises BadRequest, Invalid."""
    body = await bodies.read(exchange.receive)
    content_type = exchange.header(b"content-type")
    given = bodies.decode_object(body, content_type, "DeleteOptions") if body.strip() else {}
    call = call_of(exchange, user)
    call.dry_run = call.dry_run or _dry_run("DeleteOptions", given.get("dryRun") or ())
    return call, _options(given, exchange.query)


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


def _options(given: Raw, query: Mapping[str, str]) -> DeleteOptions:
    if given.get("kind", "DeleteOptions") != "DeleteOptions":
        raise errors.BadRequest(f"the body of a deletion must be DeleteOptions, not {given['kind']}")
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = integer(query, "gracePeriodSeconds")
    if grace is not None and not isinstance(grace, int):
        raise errors.BadRequest("gracePeriodSeconds of DeleteOptions must be a whole number")
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=_propagation(given, query),
        grace_period_seconds=grace,
    )


def _propagation(given: Raw, query: Mapping[str, str]) -> Propagation:
    field = "propagationPolicy"
    wanted = given.get(field) or query.get(field, "")
    orphan = given.get("orphanDependents")
    if wanted and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise _bad_option("DeleteOptions", fields.invalid(field, wanted, why))
    if wanted not in ("", *_PROPAGATIONS):
        raise _bad_option("DeleteOptions", fields.not_supported(field, wanted, (*_PROPAGATIONS, "nil")))
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return cast(Propagation, wanted)

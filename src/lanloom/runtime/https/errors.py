"""What the API server answers when it refuses: Kubernetes' Status objects, in Kubernetes' words.

    StatusError                any refusal; carries the whole Status
    ├── BadRequest             400
    ├── Unauthorized           401
    ├── Forbidden              403
    ├── NotFound               404
    ├── MethodNotAllowed       405
    ├── NotAcceptable          406
    ├── AlreadyExists          409, reason AlreadyExists
    ├── Conflict               409, reason Conflict
    ├── Expired                410: a resourceVersion or a continue token is too old
    ├── EntityTooLarge         413
    ├── UnsupportedMediaType   415
    ├── Invalid                422, with a cause for every field
    ├── TooManyRequests        429: a share of the server is used up
    ├── InternalError          500
    ├── Timeout                504
    └── InsufficientStorage    507: the disk is full; deletions are accepted

`resource` below is the plural with its group (`leases.coordination.k8s.io`, or `pods`), `kind` the
kind with its group (`Lease.coordination.k8s.io`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lanloom.runtime.https.fields import FieldError

STALE = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """A refusal. `code` is the HTTP code, `reason` the CamelCase word that programs look at."""

    code = 500
    reason = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details) if details is not None else None
        self.code = code if code is not None else type(self).code
        self.reason = reason if reason is not None else type(self).reason

    def status(self) -> dict[str, Any]:
        """Return the Status object of the answer's body."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class BadRequest(StatusError):
    """The request itself is malformed."""

    code = 400
    reason = "BadRequest"


class Unauthorized(StatusError):
    """No credentials, or wrong ones."""

    code = 401
    reason = "Unauthorized"

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(StatusError):
    """The user may not do this, or an admission rule forbids it."""

    code = 403
    reason = "Forbidden"


class NotFound(StatusError):
    """No such object, or no such resource."""

    code = 404
    reason = "NotFound"


class MethodNotAllowed(StatusError):
    """The resource doesn't know this verb."""

    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(StatusError):
    """None of the media types that the client accepts can be written."""

    code = 406
    reason = "NotAcceptable"


class AlreadyExists(StatusError):
    """An object of that name is there already."""

    code = 409
    reason = "AlreadyExists"


class Conflict(StatusError):
    """The object is not in the state that the request supposes."""

    code = 409
    reason = "Conflict"


class Expired(StatusError):
    """A resourceVersion or a continue token is too old; list again."""

    code = 410
    reason = "Expired"


class EntityTooLarge(StatusError):
    """The request's body is too large."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    """The request's body has a format that can't be read."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(StatusError):
    """The object breaks a rule of its schema or of a validator."""

    code = 422
    reason = "Invalid"


class TooManyRequests(StatusError):
    """The client holds its share of the server already. `details` says after how many seconds to try again."""

    code = 429
    reason = "TooManyRequests"


class InternalError(StatusError):
    """The server failed, or a webhook did that must not."""

    code = 500
    reason = "InternalError"


class Timeout(StatusError):
    """The request took too long."""

    code = 504
    reason = "Timeout"


class InsufficientStorage(StatusError):
    """The disk is full."""

    code = 507
    reason = "InsufficientStorage"


def not_found(resource: str, name: str) -> NotFound:
    """Return the error for a name that no object has."""
    return NotFound(f"{resource} {_quoted(name)} not found", details=_details(resource, name))


def no_such_resource() -> NotFound:
    """Return the error for a path of a known group and version at which no resource is served."""
    return NotFound("the server could not find the requested resource", details={})


def already_exists(resource: str, name: str) -> AlreadyExists:
    """Return the error for a name that is taken."""
    return AlreadyExists(f"{resource} {_quoted(name)} already exists", details=_details(resource, name))


def conflict(resource: str, name: str, why: str = STALE) -> Conflict:
    """Return the error for an object that changed since it was read, or a precondition that doesn't hold."""
    message = f"Operation cannot be fulfilled on {resource} {_quoted(name)}: {why}"
    return Conflict(message, details=_details(resource, name))


def forbidden(resource: str, name: str, why: str) -> Forbidden:
    """Return the error for what the user may not do to an object, or, with an empty name, to the whole resource."""
    subject = f"{resource} {_quoted(name)}" if name else resource
    return Forbidden(f"{subject} is forbidden: {why}", details=_details(resource, name))


def terminating(resource: str, name: str, namespace: str) -> Forbidden:
    """Return the error for a new object in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


def forbidden_path(why: str) -> Forbidden:
    """Return the error for a path, which is no resource, that the user may not ask for."""
    return Forbidden(f"forbidden: {why}", details={})


def invalid(kind: str, name: str, errors: Iterable[FieldError]) -> Invalid:
    """Return the error for an object that breaks these rules."""
    found = list(errors)
    details = _details(kind, name)
    if found:
        details["causes"] = [error.cause() for error in found]
    summary = aggregate([str(error) for error in found])
    message = f"{kind} {_quoted(name)} is invalid" + (f": {summary}" if summary else "")
    return Invalid(message, details=details)


def method_not_allowed(resource: str, action: str) -> MethodNotAllowed:
    """Return the error for an action (`patch`, `watch`, …) that the resource doesn't support."""
    message = f"{action} is not supported on resources of kind {_quoted(resource)}"
    return MethodNotAllowed(message, details=_details(resource, ""))


def wrong_method() -> MethodNotAllowed:
    """Return the error for an HTTP method that nothing at this address understands."""
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def unsupported_media_type(accepted: Sequence[str]) -> UnsupportedMediaType:
    """Return the error for a body of an unknown format; `accepted` are the media types that can be read."""
    listed = ", ".join(accepted)
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )


def not_acceptable(accepted: Sequence[str]) -> NotAcceptable:
    """Return the error for a client that accepts no format that can be written."""
    return NotAcceptable(f"only the following media types are accepted: {', '.join(accepted)}")


def too_large(limit: int) -> EntityTooLarge:
    """Return the error for a body that is larger than `limit` bytes."""
    return EntityTooLarge(f"Request entity too large: limit is {limit}")


def internal(why: str) -> InternalError:
    """Return the error for a server that failed for this reason."""
    return InternalError(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


def disk_full(why: str) -> InsufficientStorage:
    """Return the error for a change for which there is no space; `why` names the disk."""
    return InsufficientStorage(
        f"{why}: delete objects, or free space on that disk. Deletions are accepted, and other writes are again when "
        "there is space",
        details={"causes": [{"message": why}]},
    )


def aggregate(messages: Sequence[str]) -> str:
    """Return several messages as one, as Kubernetes joins them: the same one is said once."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _details(qualified: str, name: str) -> dict[str, Any]:
    kind, _, group = qualified.partition(".")
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

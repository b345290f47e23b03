"""What can go wrong between Lanloom and an API server.

KubeError
├── ConfigError            a kubeconfig or in-cluster configuration that can't be used
├── TransportError         no answer, or none that can be read
│   ├── UnreadableObjects  a list with objects that are none of their kind
│   └── Unreachable        refused, reset, timed out, not TLS
│       └── SilentWatch    a watch on which nothing came for too long
└── ApiError               the server answered with a Status
    ├── BadRequest         400
    ├── Unauthorized       401
    ├── Forbidden          403, or an admission webhook that refused with 5xx
    ├── NotFound           404
    ├── Conflict           409, reason Conflict: the resourceVersion is not current
    ├── AlreadyExists      409, reason AlreadyExists
    ├── Gone               410: the resourceVersion or continue token is too old
    ├── Invalid            422: validation, or an admission webhook with that code
    └── ServerError        429 and 5xx: worth another try later
"""

import re
from collections.abc import Sequence
from typing import Any

from lanloom.api.reading import Unreadable

TOO_MANY_REQUESTS = 429


class KubeError(Exception):
    """Base of every error of this package.

    `reported` says that the log has it already that the whole server is away (`lanloom.kube.outage`).
    """

    reported = False


class ConfigError(KubeError):
    """A kubeconfig or in-cluster configuration that can't be used; the message names the file and the field."""


class TransportError(KubeError):
    """The server gave no answer; whether it acted on the request is unknown."""


class UnreadableObjects(TransportError):
    """A list holds objects that can't be read; the message names the first ones and says why."""

    def __init__(self, objects: Sequence[Unreadable]) -> None:
        shown = "; ".join(f"{item.key}: {item.why}" for item in objects[:3])
        more = f"; and {len(objects) - 3} more" if len(objects) > 3 else ""
        super().__init__(f"the server sent objects that can't be read: {shown}{more}")
        self.objects = tuple(objects)


class Unreachable(TransportError):
    """There is no connection to the server, or it broke."""

    @property
    def is_away(self) -> bool:
        """Whether nothing answers at the server's address."""
        return CANNOT_CONNECT in str(self)


CANNOT_CONNECT = "cannot connect to "
"""What the messages of connections say where nothing answers, before the place."""


class SilentWatch(Unreachable):
    """A watch was silent for longer than a server is that is there; the connection may be half open."""


class ApiError(KubeError):
    """The server refused. `status` is the wire Status object, `code` its HTTP code, `reason` its CamelCase reason.

    `asked` is the full name of the resource of the request, empty for one without types; `namespaced` says of a list
    whether its objects are in namespaces.
    """

    asked = ""
    namespaced = False

    def __init__(self, code: int, reason: str, message: str, status: dict[str, Any] | None = None) -> None:
        super().__init__(message or f"{code} {reason}")
        self.code = code
        self.reason = reason
        self.message = message
        self.status = status if status is not None else {}


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: no credentials, or wrong ones."""

    def __str__(self) -> str:
        return f"{super().__str__()}: check the token or the client certificate of the kubeconfig"


class Forbidden(ApiError):
    """403: the user may not do this, or an admission webhook refused it."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""

    def is_of(self, name: str) -> bool:
        """Return whether the server says that there is no object of that name.

        Else it knows no such resource, perhaps only not yet: a kube-apiserver that starts says so of custom resources
        whose objects are all there.
        """
        return self._named == name

    @property
    def names_object(self) -> bool:
        """Whether the server says that there is no such object, rather than no such resource."""
        return bool(self._named)

    @property
    def _named(self) -> object:
        details = self.status.get("details")
        return details.get("name") if isinstance(details, dict) else None


class Conflict(ApiError):
    """409: the object changed since it was read; read it again and retry."""


class AlreadyExists(ApiError):
    """409: an object of that name is there already."""


class Gone(ApiError):
    """410: the version asked for is compacted away; list again."""


class Invalid(ApiError):
    """422: the object breaks a rule of its schema or of a validator."""


class ServerError(ApiError):
    """429 or 5xx: the server can't answer now; retry with back-off."""


_DENIED = re.compile(r'admission webhook "[^"]+" denied the request')
"""How the API server reports a webhook that refused. Harvester's webhooks refuse with the code 500."""

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    410: Gone,
    422: Invalid,
}


def from_status(code: int, status: dict[str, Any]) -> ApiError:
    """Return the error for an HTTP code and the Status object that came with it (which may be empty)."""
    reason = str(status.get("reason", ""))
    message = str(status.get("message", ""))
    if code == 409:
        kind: type[ApiError] = AlreadyExists if reason == "AlreadyExists" else Conflict
    elif code >= 500 and _DENIED.match(message):
        kind = Forbidden
    elif code == TOO_MANY_REQUESTS or code >= 500:
        kind = ServerError
    else:
        kind = _BY_CODE.get(code, ApiError)
    return kind(code, reason, message, status)

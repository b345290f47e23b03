"""The context of every request: its user and options, and the warnings that go with its answer."""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct, field

from lanloom.api.admission import UserInfo

_MOST = 4096
"""Of more distinct texts the later ones are not kept: their headers would be larger than all may be."""


class Warnings:
    """The warnings of one request, each distinct text once, in the order in which they came."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, texts: Iterable[str]) -> None:
        """Add texts but for empty and known ones. Once no further text is kept, the rest is not looked at."""
        for text in texts:
            if len(self._texts) == _MOST:
                return
            if text:
                self._texts.setdefault(text)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]

SYSTEM = UserInfo(username="system:lanloom:apiserver", groups=("system:masters",))
"""The server itself."""


def _controller(name: str) -> UserInfo:
    """Return the account that the controller has in a cluster.

    Webhooks must not take it for another identity of the server.
    """
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return UserInfo(username=f"system:serviceaccount:kube-system:{name}", groups=groups)


CLEANUP = _controller("namespace-controller")
"""The user that empties namespaces and CRDs."""

COLLECTOR = _controller("generic-garbage-collector")
"""The garbage collector."""


class Call(Struct):
    """One request. Admission and validation add to `warnings`, which the client gets with the answer.

    Without `webhooks` no admission webhook is asked: that is for what the server itself needs to start. A webhook that
    is down could otherwise keep the server down in which alone it can be removed.

    `manager` is who owns the fields that change. With `force` an apply takes them from others.
    """

    user: UserInfo = SYSTEM
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    warnings: Warnings = field(default_factory=Warnings)
    webhooks: bool = True
    manager: str = "unknown"
    force: bool = False


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """Preconditions and options of a deletion (meta/v1 DeleteOptions). Empty texts and None mean not given."""

    uid: str = ""
    resource_version: str = ""
    propagation: Propagation = ""
    grace_period_seconds: int | None = None

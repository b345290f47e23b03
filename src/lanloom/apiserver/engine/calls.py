"""What comes with every request beside its object: who asks, and how."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from lanloom.api.admission import UserInfo

FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]

SYSTEM = UserInfo(username="system:lanloom:apiserver", groups=("system:masters",))
"""The server itself."""


def _controller(name: str) -> UserInfo:
    """The account that the controller has in a cluster: webhooks must not take it for whoever else the server is."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return UserInfo(username=f"system:serviceaccount:kube-system:{name}", groups=groups)


CLEANUP = _controller("namespace-controller")
"""What empties namespaces and CRDs."""

COLLECTOR = _controller("generic-garbage-collector")
"""The garbage collector."""


class Call(Struct):
    """One request. Admission and validation add to `warnings`, which the client gets with the answer."""

    user: UserInfo = SYSTEM
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    warnings: list[str] = field(default_factory=list)

    def warn(self, texts: Iterable[str]) -> None:
        """Add warnings, each of them once."""
        self.warnings.extend(text for text in texts if text not in self.warnings)


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """What a deletion supposes and wants (meta/v1 DeleteOptions). Empty texts and None mean not given."""

    uid: str = ""
    resource_version: str = ""
    propagation: Propagation = ""
    grace_period_seconds: int | None = None

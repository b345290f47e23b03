"""The context of every request: its user and options, and the warnings that go with its answer."""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct, field

from lanloom.api.admission import UserInfo

_TOTAL_CHARACTERS = 4096
_CUT_CHARACTERS = 256
_MOST = _TOTAL_CHARACTERS
"""Of more distinct texts, each of a character at least, the later ones can't be told."""


class Warnings:
    """The warnings of one request, in the order in which they came, bounded as kube-apiserver bounds them.

    Each distinct text is reported once. While all texts together have at most 4,096 characters, they are reported in
    full; beyond that, each is cut to 256 characters and only the first ones are reported, as many as reach 4,096.
    """

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, texts: Iterable[str]) -> None:
        """Add texts but for empty and known ones. Once no further text can be told, the rest is not looked at."""
        for text in texts:
            if len(self._texts) == _MOST:
                return
            if text:
                self._texts.setdefault(text)

    def __iter__(self) -> Iterator[str]:
        if sum(map(len, self._texts)) <= _TOTAL_CHARACTERS:
            yield from self._texts
            return
        characters = 0
        for text in self._texts:
            yield text[:_CUT_CHARACTERS]
            characters += min(len(text), _CUT_CHARACTERS)
            if characters >= _TOTAL_CHARACTERS:
                return


FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]

SYSTEM = UserInfo(username="system:lanloom:apiserver", groups=("system:masters",))
"""The server itself."""


def _controller(name: str) -> UserInfo:
    """The account that the controller has in a cluster: webhooks must not take it for whoever else the server is."""
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
    """

    user: UserInfo = SYSTEM
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    warnings: Warnings = field(default_factory=Warnings)
    webhooks: bool = True


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """Preconditions and options of a deletion (meta/v1 DeleteOptions). Empty texts and None mean not given."""

    uid: str = ""
    resource_version: str = ""
    propagation: Propagation = ""
    grace_period_seconds: int | None = None

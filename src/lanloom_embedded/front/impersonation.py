"""Impersonation: a request in the name of another user, by the headers `Impersonate-…` (`kubectl --as`).

The rules are those of kube-apiserver. Each part of the other identity needs the verb `impersonate`: on `users` or
`serviceaccounts`, on each of `groups`, and on `uids` and `userextras/KEY` of authentication.k8s.io. Nothing of the
requester's own identity is left afterwards.
"""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from msgspec import Struct

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors
from lanloom_embedded.authz import Attempt, Authorizer
from lanloom_embedded.tokens import AUTHENTICATED

ANONYMOUS_NAME = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"

_AUTHENTICATION = "authentication.k8s.io"
_PREFIX = b"impersonate-"
_EXTRA = b"impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_SERVICE_ACCOUNTS = "system:serviceaccounts"

Header = tuple[bytes, bytes]


class _Wanted(Struct, frozen=True, kw_only=True):
    """The identity that a request asks for."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


def effective_user(requester: UserInfo, headers: Iterable[Header], authorizer: Authorizer) -> UserInfo:
    """The user as whom a request runs: the requester, unless it asks for another one.

    Header names are in lower case. Raises Forbidden if the requester may not impersonate, BadRequest for headers that
    make no identity.
    """
    found = [(name, value) for name, value in headers if name.startswith(_PREFIX)]
    if not found:
        return requester
    wanted = _read(found)
    if not wanted.user:
        if wanted == _Wanted():
            return requester
        raise errors.BadRequest(
            "the request has Impersonate-Group, Impersonate-Uid or Impersonate-Extra headers without Impersonate-User; "
            "name the user to impersonate (kubectl --as)"
        )
    for attempt in _attempts(wanted):
        authorizer.check(requester, attempt)
    return UserInfo(username=wanted.user, uid=wanted.uid, groups=_groups(wanted), extra=wanted.extra)


def _read(headers: Iterable[Header]) -> _Wanted:
    user = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for name, raw in headers:
        value = _text(name, raw)
        if name == b"impersonate-user":
            user = user or value
        elif name == b"impersonate-uid":
            uid = uid or value
        elif name == b"impersonate-group":
            groups.append(value)
        elif name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA).decode("latin-1")).lower()
            extra[key] = (*extra.get(key, ()), value)
    return _Wanted(user=user, uid=uid, groups=tuple(groups), extra=extra)


def _text(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise errors.BadRequest(f"the header {name.decode('latin-1')} is not valid UTF-8") from None


def _attempts(wanted: _Wanted) -> Iterator[Attempt]:
    """What the requester must be allowed to do, in the order in which kube-apiserver asks."""
    account = _service_account(wanted.user)
    if account is None:
        yield Attempt(verb="impersonate", resource="users", name=wanted.user)
    else:
        namespace, name = account
        yield Attempt(verb="impersonate", resource="serviceaccounts", namespace=namespace, name=name)
    for group in wanted.groups:
        yield Attempt(verb="impersonate", resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attempt(
                verb="impersonate", group=_AUTHENTICATION, resource="userextras", subresource=key, name=value
            )
    if wanted.uid:
        yield Attempt(verb="impersonate", group=_AUTHENTICATION, resource="uids", name=wanted.uid)


def _service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name stands for."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None


def _groups(wanted: _Wanted) -> tuple[str, ...]:
    """The groups, with those that every user of the kind has."""
    groups = wanted.groups
    account = _service_account(wanted.user)
    if account is not None and not groups:
        groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{account[0]}")
    if wanted.user == ANONYMOUS_NAME:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    known = AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return groups if known else (*groups, AUTHENTICATED)

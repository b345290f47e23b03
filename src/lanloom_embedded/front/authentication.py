"""The user of a request: by its bearer token, and by the headers `Impersonate-…` (`kubectl --as`).

Tokens are in a file of kube-apiserver's static format. A line is `token,user,uid,"group1,group2"`. The file is read
again when it changes, so that tokens of new nodes need no restart. Tokens are looked up by their digest, so the time
that takes says nothing about a token's text.

The rules of impersonation are those of kube-apiserver. Each part of the other identity needs the verb `impersonate`: on
`users` or `serviceaccounts`, on each of `groups`, and on `uids` and `userextras/KEY` of authentication.k8s.io. Nothing
of the requester's own identity is left afterwards.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors
from lanloom_embedded.authz import Attempt, Authorizer

AUTHENTICATED = "system:authenticated"
_CHECK_SECONDS = 0.5


def parse_tokens(text: str) -> dict[bytes, UserInfo]:
    """Return the users of a token file by their tokens' digests. Raises ValueError, which names the line."""
    users: dict[bytes, UserInfo] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        if len(row) < 3 or not row[0] or not row[1]:
            raise ValueError(f'line {number} is not `token,user,uid,"group1,group2"`')
        groups = tuple(group.strip() for group in row[3].split(",")) if len(row) > 3 and row[3] else ()
        users[digest(row[0])] = user(row[1], row[2], groups)
    return users


def user(name: str, uid: str, groups: tuple[str, ...]) -> UserInfo:
    """Return an authenticated user."""
    return UserInfo(username=name, uid=uid, groups=(*groups, AUTHENTICATED))


def digest(token: str) -> bytes:
    """Return the key of a token."""
    return hashlib.sha256(token.encode()).digest()


class TokenFile:
    """The users of a token file, if there is one, and of tokens given directly.

    A file that became unreadable or malformed leaves the users as they were, and `report` gets the reason.
    """

    def __init__(
        self,
        path: Path | None,
        fixed: Mapping[str, UserInfo],
        clock: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._path = path
        self._fixed = {digest(token): who for token, who in fixed.items()}
        self._clock = clock
        self._report = report
        self._users: dict[bytes, UserInfo] = dict(self._fixed)
        self._seen: tuple[int, int] | None = None
        self._complaint = ""
        self._checked = float("-inf")

    def find(self, token: str) -> UserInfo | None:
        """Return the user of a token."""
        if self._path is not None and self._clock() - self._checked >= _CHECK_SECONDS:
            self._checked = self._clock()
            self._refresh(self._path)
        return self._users.get(digest(token))

    def _refresh(self, path: Path) -> None:
        try:
            status = path.stat()
            seen = (status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return
            self._seen = seen
            self._users = {**parse_tokens(path.read_text()), **self._fixed}
            self._complaint = ""
        except (OSError, ValueError) as error:
            complaint = f"tokens are not read from {path}: {error}"
            if complaint != self._complaint:  # else each request with a token would write a line
                self._report(complaint)
            self._complaint = complaint


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
    """Return the user that a request runs as: the requester, unless it asks for another one.

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
    """Return the permissions that the requester needs, in kube-apiserver's order."""
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
    """Return the groups, with those that every user of the kind has."""
    groups = wanted.groups
    account = _service_account(wanted.user)
    if account is not None and not groups:
        groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{account[0]}")
    if wanted.user == ANONYMOUS_NAME:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    known = AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return groups if known else (*groups, AUTHENTICATED)

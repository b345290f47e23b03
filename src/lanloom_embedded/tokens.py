"""Who a bearer token stands for, from a file in kube-apiserver's static format.

A line is `token,user,uid,"group1,group2"`. The file is read again when it changes, so that tokens of new nodes
need no restart. Tokens are looked up by their digest: the time that takes says nothing about a token's text.
"""

import csv
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from lanloom.api.admission import UserInfo

AUTHENTICATED = "system:authenticated"
_CHECK_SECONDS = 0.5


def parse_tokens(text: str) -> dict[bytes, UserInfo]:
    """The users of a token file by their tokens' digests. Raises ValueError, which names the line."""
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
    """An authenticated user."""
    return UserInfo(username=name, uid=uid, groups=(*groups, AUTHENTICATED))


def digest(token: str) -> bytes:
    """What a token is looked up by."""
    return hashlib.sha256(token.encode()).digest()


class TokenFile:
    """The users of a token file, if there is one, and of tokens given directly.

    A file that became unreadable or malformed leaves the users as they were, and `complain` is told why.
    """

    def __init__(
        self,
        path: Path | None,
        fixed: Mapping[str, UserInfo],
        clock: Callable[[], float],
        complain: Callable[[str], None],
    ) -> None:
        self._path = path
        self._fixed = {digest(token): who for token, who in fixed.items()}
        self._clock = clock
        self._complain = complain
        self._users: dict[bytes, UserInfo] = dict(self._fixed)
        self._seen: tuple[int, int] | None = None
        self._checked = float("-inf")

    def find(self, token: str) -> UserInfo | None:
        """The user of a token."""
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
        except (OSError, ValueError) as error:
            self._complain(f"tokens are not read from {path}: {error}")

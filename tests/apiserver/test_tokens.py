"""Bearer tokens from a file that may change at any time."""

import os
from pathlib import Path

import pytest

from lanloom.apiserver.tokens import TokenFile, digest, parse_tokens, user

ROOT = user("root", "", ("system:masters",))


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_lines_are_token_user_uid_and_groups() -> None:
    """A line names a token's user, uid and groups; every user is authenticated."""
    users = parse_tokens('t1,alice,1,"testers,admins"\n\nt2,bob,2\n')
    assert users[digest("t1")].groups == ("testers", "admins", "system:authenticated")
    assert users[digest("t2")].username == "bob"


@pytest.mark.parametrize("text", ["t1,alice", "t1,,1", ",alice,1"])
def test_broken_line_is_named(text: str) -> None:
    """A line without token, user or uid is an error that says which line it is."""
    with pytest.raises(ValueError, match="line 2"):
        parse_tokens("t,bob,2\n" + text)


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A token that is added holds soon, one that is removed no longer does."""
    path, clock = tmp_path / "tokens", Clock()
    path.write_text("t1,alice,1\n")
    tokens = TokenFile(path, {"fixed": ROOT}, clock, pytest.fail)
    assert tokens.find("t1") is not None
    path.write_text("t2,bob,2\n")
    os.utime(path, ns=(1, 1))
    clock.now += 1
    found = tokens.find("t2")
    assert found is not None
    assert found.username == "bob"
    assert tokens.find("t1") is None
    assert tokens.find("fixed") == ROOT


def test_file_that_becomes_unreadable_leaves_the_users_as_they_were(tmp_path: Path) -> None:
    """A broken or missing file is complained about, and those who were let in still are."""
    path, clock, complaints = tmp_path / "tokens", Clock(), list[str]()
    path.write_text("t1,alice,1\n")
    tokens = TokenFile(path, {}, clock, complaints.append)
    assert tokens.find("t1") is not None
    path.write_text("nonsense\n")
    clock.now += 1
    assert tokens.find("t1") is not None
    path.unlink()
    clock.now += 1
    assert tokens.find("t1") is not None
    assert len(complaints) == 2
    assert str(path) in complaints[0]


def test_server_without_a_file_knows_the_fixed_tokens_only() -> None:
    """Without a file only the given tokens hold."""
    tokens = TokenFile(None, {"fixed": ROOT}, Clock(), pytest.fail)
    assert tokens.find("fixed") == ROOT
    assert tokens.find("") is None

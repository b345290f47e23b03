"""Keyfiles are read as GKeyFile reads them, and Lanloom's mark is found in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.node.errors import ProfileError
from lanloom.node.keyfile import owner, parse
from tests.node.contract.profile import profile


def test_profile() -> None:
    """A profile is read into its sections."""
    sections = parse(profile(1, vid=2013))
    assert sections["vlan"] == {"id": "2013", "parent": "c-br", "flags": "1"}
    assert sections["connection"]["interface-name"] == "c-br.2013"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n\n[a]\n", {"a": {}}),
        ("[a]\nk=v\n[b]\n[a]\nl = w \n", {"a": {"k": "v", "l": "w"}, "b": {}}),
        ("[a]\nk=1\nk=2\n", {"a": {"k": "2"}}),
        ("[a]\nk=x=y\n", {"a": {"k": "x=y"}}),
        (r"[a]" + "\n" + r"k=\sa\tb\nc\\d\;e", {"a": {"k": " a\tb\nc\\d\\;e"}}),
    ],
)
def test_syntax(text: str, expected: dict[str, dict[str, str]]) -> None:
    """Comments, repeated sections and keys, blanks and escapes are as GKeyFile has them."""
    assert parse(text.encode()) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"k=v\n", "line 1"),
        (b"[a]\nbogus\n", "line 2"),
        (b"[a]\n=v\n", "line 2"),
        (b"[a]\nk=\\x\n", r"unknown escape: \\x"),
        (b"[a\n", "line 1"),
        (b"[a]\nk=\xff\n", "not UTF-8"),
    ],
)
def test_errors(content: bytes, message: str) -> None:
    """What is not a keyfile is refused, with the line's number."""
    with pytest.raises(ProfileError, match=message):
        parse(content)


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Any bytes are read or refused; the mark is looked for in all of them."""
    owner(content)


def test_owner() -> None:
    """The mark is the value of lanloom.owner in [user]; files without it, or that can't be read, have none."""
    assert owner(profile(vid=2012)) == "c/2012"
    assert owner(b"[user]\nother=1\n") == ""
    assert owner(b"[connection]\nlanloom.owner=c/1\n") == ""
    assert owner(b"\xff") == ""

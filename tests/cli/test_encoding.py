"""Output in encodings that don't have every character."""

import io
import json

import pytest

from lanloom.cli.console import console
from lanloom.cli.root import replace_unencodable


def stream(encoding: str) -> io.TextIOWrapper:
    """A file of that encoding."""
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)


def written(file: io.TextIOWrapper) -> str:
    """What was written there."""
    raw = file.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(file.encoding)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "~ name a -> b, ? ..."),
        ("latin-1", "~ name a -> b, é ..."),
        ("utf-8", "~ name a → b, é …"),
    ],
)
def test_what_an_encoding_does_not_have_is_shown_otherwise(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is printed whatever the locale is; an arrow becomes one of two characters, and JSON stays JSON."""
    file = stream(encoding)
    monkeypatch.setattr("sys.stdout", file)
    replace_unencodable()
    console().print("~ name a → b, é …")
    assert written(file).strip() == shown
    print(json.dumps({"text": "a → b"}, ensure_ascii=False))
    assert json.loads(written(file).splitlines()[-1])["text"] in ("a -> b", "a → b")


def test_streams_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a caller took standard output, nothing is done to it."""
    monkeypatch.setattr("sys.stdout", io.StringIO())
    replace_unencodable()
    console().print("→")

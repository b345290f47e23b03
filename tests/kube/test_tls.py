"""Files that exist in memory only."""

import os
from pathlib import Path

import pytest

from lanloom.kube.config import memory_file


def test_content_under_a_path() -> None:
    """The content can be read under the path, more than once, while the block lasts and not after."""
    content = b"\x00secret\n" * 100_000
    with memory_file(content) as path:
        assert Path(path).read_bytes() == content
        assert Path(path).read_bytes() == content
        assert str(Path(path).readlink()).startswith("/memfd:")
    with pytest.raises(FileNotFoundError):
        Path(path).read_bytes()


def test_nothing_is_left() -> None:
    """A block that fails leaves no open file."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), memory_file(b"x"):
            raise ZeroDivisionError
    assert len(os.listdir("/proc/self/fd")) == before

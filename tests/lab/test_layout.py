"""The files of a lab."""

import os
from pathlib import Path

import pytest

from lanloom.node.files import replace_at
from lanloom_lab.errors import AlreadyRunning, BadOption
from lanloom_lab.layout import (
    LabRecord,
    Layout,
    NodeRecord,
)
from lanloom_lab.plan import DEFAULT_DHCP, NodeSpec


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A lab's directories."""
    layout = Layout(tmp_path / "lab")
    layout.make()
    return layout


def test_a_lab_remembers(layout: Layout) -> None:
    """What was saved is loaded again."""
    record = LabRecord(DEFAULT_DHCP, 6443, (NodeRecord(NodeSpec("node1", 0), "secret", powered=False),))
    layout.save(record)
    assert layout.load() == record


def test_a_new_lab_remembers_nothing(layout: Layout) -> None:
    """A lab that was never started has no record."""
    assert layout.load() is None


def test_secrets_are_private(layout: Layout) -> None:
    """No other user can read a file with secrets, or look into the directory."""
    replace_at(layout.tokens, b"secret")
    assert layout.tokens.stat().st_mode & 0o077 == 0
    assert layout.state.stat().st_mode & 0o077 == 0


def test_a_lab_runs_once(layout: Layout) -> None:
    """A second run of a lab in one directory fails with a message about the first."""
    lock = layout.lock()
    assert layout.runs()
    with pytest.raises(AlreadyRunning, match="lab status"):
        layout.lock()
    os.close(lock)
    assert not layout.runs()


def test_removal_leaves_foreign_files(layout: Layout) -> None:
    """Removing a lab's files leaves what a user put next to them."""
    layout.save(LabRecord(DEFAULT_DHCP))
    (layout.logs / "serve.log").touch()
    foreign = layout.state / "thesis.tex"
    foreign.touch()
    layout.remove()
    assert list(layout.state.iterdir()) == [foreign]


def test_removal_is_complete(layout: Layout) -> None:
    """Of a lab without foreign files nothing is left."""
    layout.save(LabRecord(DEFAULT_DHCP))
    layout.remove()
    assert not layout.state.exists()


@pytest.mark.parametrize("name", ["a b", "a,b", 'a"b', "a$b", "ä"])
def test_a_path_that_a_kernel_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    """A state directory whose name can't be a word of a kernel's command line is refused."""
    with pytest.raises(BadOption, match="Choose a directory"):
        Layout(tmp_path / name)

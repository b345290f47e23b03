"""Files as versions of Ganeti write them, and what becomes of them, below tests/golden/ganeti.

LANLOOM_GOLDEN=rewrite writes what is expected again; read the diff before you commit it.
"""

import os
from pathlib import Path

import pytest

from lanloom.features.ipam.ganeti.formats.conversion import (
    downgrade_config,
    downgrade_runtime,
    upgrade_config,
    upgrade_runtime,
)
from lanloom.features.ipam.ganeti.formats.text import Changed
from lanloom.features.ipam.ganeti.formats.verify import verify_config, verify_runtime

ROOT = Path(__file__).parents[4] / "golden" / "ganeti"
REWRITE = os.environ.get("LANLOOM_GOLDEN") == "rewrite"
FILES = sorted(path for path in ROOT.glob("*/*") if path.suffix in (".data", ".runtime"))


def upgraded(path: Path) -> Changed:
    """What becomes of a file."""
    return (upgrade_config if path.suffix == ".data" else upgrade_runtime)(path.read_text())


def expect(path: Path, text: str) -> None:
    """Compare a text with a file, or write it there."""
    if REWRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_upgrade(path: Path) -> None:
    """An upgraded file is the one that is expected, and what was corrected is reported."""
    change = upgraded(path)
    expect(path.parent / "upgraded" / path.name, change.text)
    if path.suffix == ".data":
        notes = [*verify_config(path.read_text()), "", *change.notes, "", *verify_config(change.text)]
        expect(path.parent / "upgraded" / "notes.txt", "\n".join(notes) + "\n")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_upgrade_twice(path: Path) -> None:
    """What is upgraded already stays as it is."""
    change = upgraded(path)
    config = path.suffix == ".data"
    again = (upgrade_config if config else upgrade_runtime)(change.text)
    assert (again.text, again.networks, again.nics, again.notes) == (change.text, 0, 0, ())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_downgrade(path: Path) -> None:
    """A downgrade gives back the very bytes of before, where no reservation had to be corrected."""
    change = upgraded(path)
    back = (downgrade_config if path.suffix == ".data" else downgrade_runtime)(change.text)
    if not any("reserved" in note for note in change.notes):
        assert back.text == path.read_text()
    again = (upgrade_config if path.suffix == ".data" else upgrade_runtime)(back.text)
    assert again.text == change.text


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_upgraded_is_well(path: Path) -> None:
    """Reservations of an upgraded file are right."""
    verify = verify_config if path.suffix == ".data" else verify_runtime
    assert not [
        line for line in verify(upgraded(path).text) if "reserved, but" in line or "is not reserved" in line
    ]

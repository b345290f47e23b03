"""Damaged data are refused: which file, what is wrong in it, and what to do."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lanloom.api.meta import Key
from lanloom_embedded.engine.sqlite import SqliteStorage
from lanloom_embedded.engine.storage import Change, DataDamaged, StorageError, stored
from lanloom_embedded.kinds import GroupPlural
from tests.harness.examples import examples

THINGS = GroupPlural("example.com", "things")


def made(path: Path) -> Path:
    """A data file with an object that was changed, and without its mark."""

    async def make() -> None:
        storage = SqliteStorage(path)
        first, second = (stored({"metadata": {"name": "a"}, "data": version}, version) for version in (2, 3))
        await storage.commit([Change(THINGS, Key("", "a"), 2, None, first)], 1)
        await storage.commit([Change(THINGS, Key("", "a"), 3, first, second)], 1)
        await storage.close()

    asyncio.run(make())
    path.with_name(f"{path.name}-mark").unlink()
    return path


def change(statement: str, *values: object) -> Callable[[Path], None]:
    """Change rows of a file."""

    def apply(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.execute(statement, values)
            db.commit()

    return apply


def cut(size: int) -> Callable[[Path], None]:
    """Leave the beginning of a file."""
    return lambda path: os.truncate(path, size)


def spoil(path: Path) -> None:
    """Write over all pages but the first."""
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))


def overwrite(path: Path) -> None:
    """Put another file in its place."""
    path.write_text("no database" * 500)


DATA, BEFORE = "UPDATE objects SET data = ?", "UPDATE history SET before_data = ? WHERE version = 3"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no JSON": (change(DATA, b"{nonsense"), "things a can't be read"),
    "a list": (change(DATA, b"[]"), "things a can't be read"),
    "null": (change(DATA, b"null"), "things a can't be read"),
    "nothing": (change(DATA, b""), "things a can't be read"),
    "no text": (change(DATA, b'{"metadata": {"name": "\xff"}}'), "things a can't be read"),
    "a number": (change(DATA, 12), "things a can't be read"),
    "metadata of a wrong type": (change(DATA, b'{"metadata": 7}'), "things a can't be read"),
    "no metadata": (change(DATA, b"{}"), "things a has a row of something else"),
    "another object": (change(DATA, b'{"metadata": {"name": "b"}}'), "things a has a row of something else"),
    "a version that is none": (change("UPDATE objects SET version = 'x'"), "row of something else"),
    "no JSON in the history": (change(BEFORE, b"{"), "things a can't be read"),
    "no progress": (change("DELETE FROM progress"), "does not say its newest version"),
    "two of it": (change("INSERT INTO progress VALUES (1, 1)"), "does not say its newest version"),
    "progress that is none": (change("UPDATE progress SET version = 'x'"), "its newest version"),
    "no history": (change("DROP TABLE history"), "no such table"),
    "another column": (change("ALTER TABLE objects RENAME COLUMN data TO other"), "no such column"),
    "a cut header": (cut(50), ""),
    "a cut page": (cut(5000), "malformed"),
    "half of it": (cut(8192), "malformed"),
    "wrong pages": (spoil, "malformed"),
    "another file": (overwrite, "not a database"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_its_remedy(name: str, tmp_path: Path) -> None:
    """Whatever is wrong in the file, the refusal names file, place and remedy."""
    damage, words = DAMAGES[name]
    damage(made(tmp_path / "data"))
    with pytest.raises(DataDamaged) as refused:
        SqliteStorage(tmp_path / "data").load()
    assert words in str(refused.value)
    assert f"{tmp_path}/data is damaged" in str(refused.value)
    assert "put a copy that `lanloom backup` made in its place" in str(refused.value)


@settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
def test_no_byte_makes_the_start_fail_otherwise(tmp_path: Path, data: st.DataObject) -> None:
    """With any bytes of the file replaced, it loads or is refused as damaged."""
    path = tmp_path / "data"
    if not (whole := tmp_path / "whole").exists():
        made(path).rename(whole)
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    for former in tmp_path.glob("data*"):
        former.unlink()
    path.write_bytes(content)
    try:
        storage = SqliteStorage(path)
    except StorageError as error:
        assert str(path) in str(error)
        return
    try:
        storage.load()
    except DataDamaged as error:
        assert str(path) in str(error)
    finally:
        asyncio.run(storage.close())


@pytest.mark.slow
def test_the_exit_status_tells(tmp_path: Path) -> None:
    """`lanloom serve` ends with status 65 and the remedy, and without a traceback."""
    change(DATA, b"{nonsense")(made(tmp_path / "data"))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lanloom",
            "serve",
            "--data",
            tmp_path / "data",
            "--kubeconfig",
            tmp_path / "k",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == os.EX_DATAERR
    assert done.stderr.startswith(f"Error: {tmp_path}/data is damaged: things a can't be read")
    assert len(done.stderr.splitlines()) == 1

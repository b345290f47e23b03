"""What every storage promises: both implementations are held to the same tests."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lanloom.api.meta import Key
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.engine.sqlite import SqliteStorage
from lanloom.apiserver.engine.storage import Storage, StorageError
from lanloom.apiserver.engine.stored import Change, Stored, stored
from lanloom.apiserver.kinds import GroupPlural

THINGS = GroupPlural("example.com", "things")

Reopen = Callable[[], Storage]


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Opens the same storage, again and again; close the former one first."""
    memory = MemoryStorage()
    return lambda: memory if request.param == "memory" else SqliteStorage(tmp_path / "data")


def state(name: str, version: int, **data: str) -> Stored:
    """A state of one object."""
    return stored({"metadata": {"name": name, "labels": {"a": "b"}}, "data": data}, version)


def change(name: str, version: int, before: Stored | None, after: Stored | None) -> Change:
    """A step of one object."""
    return Change(THINGS, Key("", name), version, before, after)


async def test_new_storage_is_empty(reopen: Reopen) -> None:
    """A new storage has no objects and gives out versions after 1."""
    storage = reopen()
    assert storage.load().version == 1
    assert storage.load().objects == ()
    await storage.close()


async def test_committed_changes_are_found_again(reopen: Reopen) -> None:
    """After reopening, objects, version and history are what was committed."""
    first, second = state("a", 2, n="1"), state("a", 3, n="2")
    steps = [change("a", 2, None, first), change("a", 3, first, second), change("b", 4, None, state("b", 4))]
    storage = reopen()
    await storage.commit(steps[:2], 1)
    await storage.commit(steps[2:], 1)
    await storage.close()
    storage = reopen()
    snapshot = storage.load()
    assert snapshot.version == 4
    assert {kept.key.name: kept for _, kept in snapshot.objects} == {"a": second, "b": state("b", 4)}
    assert list(snapshot.history) == steps
    await storage.close()


async def test_steps_of_one_batch_keep_their_order(reopen: Reopen) -> None:
    """An object that is created, deleted and created again in one batch is there at the end."""
    first, again = state("a", 2), state("a", 4)
    steps = [change("a", 2, None, first), change("a", 3, first, None), change("a", 4, None, again)]
    storage = reopen()
    await storage.commit(steps, 1)
    await storage.close()
    storage = reopen()
    assert [kept for _, kept in storage.load().objects] == [again]
    assert list(storage.load().history) == steps
    await storage.close()


async def test_history_is_forgotten_up_to_the_compacted_version(reopen: Reopen) -> None:
    """Compaction drops changes, not objects."""
    storage = reopen()
    steps = [change(f"n{version}", version, None, state(f"n{version}", version)) for version in range(2, 7)]
    await storage.commit(steps[:4], 1)
    await storage.commit(steps[4:], 4)
    await storage.close()
    storage = reopen()
    snapshot = storage.load()
    assert snapshot.compacted == 4
    assert [kept.version for kept in snapshot.history] == [5, 6]
    assert len(snapshot.objects) == 5
    await storage.close()


async def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A file that is no database is refused by name, and stays as it is."""
    path = tmp_path / "data"
    path.write_text("these are not the objects that you look for" * 100)
    with pytest.raises(StorageError, match="data can't be used as the server's data"):
        SqliteStorage(path)
    assert path.read_text().startswith("these")


async def test_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """Data that a newer program wrote are refused with the advice to use that one."""
    with closing(sqlite3.connect(tmp_path / "data")) as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageError, match="start it with the newer Lanloom"):
        SqliteStorage(tmp_path / "data")


def modes(directory: Path) -> set[int]:
    """The rights of the files in a directory."""
    return {path.stat().st_mode & 0o777 for path in directory.iterdir()}


async def test_data_are_for_their_owner_only(tmp_path: Path) -> None:
    """The data file and what is beside it can be read by nobody else: secrets are in there."""
    storage = SqliteStorage(tmp_path / "data")
    await storage.commit([change("a", 2, None, state("a", 2))], 1)
    assert modes(tmp_path) == {0o600}
    await storage.close()


async def test_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A file in a directory that doesn't exist is refused by its name."""
    with pytest.raises(StorageError, match="missing/data can't be used"):
        SqliteStorage(tmp_path / "missing" / "data")

"""Storages keep what they acknowledge: in memory, in SQLite, next to lost files and on a full disk."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lanloom.api.meta import Key
from lanloom_embedded.engine.sidecars import HighWaterMark
from lanloom_embedded.engine.sqlite import SqliteStorage
from lanloom_embedded.engine.storage import Change, MemoryStorage, Storage, StorageError, Stored, stored
from lanloom_embedded.kinds import GroupPlural
from tests.embedded.engine import full_disk

THINGS = GroupPlural("example.com", "things")

Reopen = Callable[[], Storage]


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Open the same storage, again and again; close the former one first."""
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
    with pytest.raises(StorageError, match=r"data is damaged: file is not a database.*name another"):
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
    """The data file and what is next to it can be read by no other user: secrets are in there."""
    storage = SqliteStorage(tmp_path / "data")
    await storage.commit([change("a", 2, None, state("a", 2))], 1)
    assert modes(tmp_path) == {0o600}
    await storage.close()


async def test_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A file in a directory that doesn't exist is refused by its name."""
    with pytest.raises(StorageError, match="missing/data can't be used"):
        SqliteStorage(tmp_path / "missing" / "data")


LAST = 60


def creation(version: int) -> Change:
    """The creation of one object."""
    name = f"a{version}"
    return Change(
        THINGS, Key("", name), version, None, stored({"metadata": {"name": name}, "data": "x" * 900}, version)
    )


async def crashed(directory: Path) -> Path:
    """The files that a server leaves that was killed after many acknowledged writes."""
    running, left = directory / "running", directory / "left"
    running.mkdir()
    storage = SqliteStorage(running / "data")
    for version in range(2, LAST + 1):
        await storage.commit([creation(version)], 1)
    shutil.copytree(running, left)
    await storage.close()
    return left / "data"


def flip(path: Path) -> None:
    """Damages 64 bytes in the middle of a file."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Take the last third of a file away."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


async def test_killed_server_starts_with_all_it_acknowledged(tmp_path: Path) -> None:
    """Data whose log is whole are opened, with every acknowledged version."""
    storage = SqliteStorage(await crashed(tmp_path))
    assert storage.load().version == LAST
    await storage.close()


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink, lambda path: path.write_bytes(b"")])
async def test_damaged_or_missing_log_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Data that end before the last acknowledged write are refused: which write, which files, and what to do."""
    data = await crashed(tmp_path)
    damage(data.with_name("data-wal"))
    for _ in range(2):
        with pytest.raises(
            StorageError, match=rf"data ends at resourceVersion \d+, but {LAST} was ack"
        ) as refused:
            SqliteStorage(data)
        assert "data-wal is missing or damaged" in str(refused.value)
        assert f"Restore a backup, or remove {data}-mark" in str(refused.value)


async def test_damaged_log_is_kept(tmp_path: Path) -> None:
    """The log of refused data is kept under another name, for its owner only, and named in the refusal."""
    data = await crashed(tmp_path)
    journal = data.with_name("data-wal")
    flip(journal)
    content, kept = journal.read_bytes(), data.with_name("data-wal.damaged")
    with pytest.raises(StorageError, match=f"What is left of the log is in {kept}"):
        SqliteStorage(data)
    assert kept.read_bytes() == content
    assert kept.stat().st_mode & 0o777 == 0o600


async def test_missing_data_beside_a_mark_are_refused(tmp_path: Path) -> None:
    """A data file that is gone is not silently begun again."""
    data = await crashed(tmp_path)
    data.unlink()
    data.with_name("data-wal").unlink()
    with pytest.raises(StorageError, match="data ends at resourceVersion 1, but"):
        SqliteStorage(data)


async def test_removing_the_mark_accepts_the_loss(tmp_path: Path) -> None:
    """Without the mark the server goes on with what is there, and notices the next loss."""
    data = await crashed(tmp_path)
    flip(data.with_name("data-wal"))
    mark = data.with_name("data-mark")
    mark.unlink()
    storage = SqliteStorage(data)
    version = storage.load().version
    assert 1 < version < LAST
    assert HighWaterMark(mark).read() == version
    await storage.close()


@pytest.mark.parametrize("content", [b"", b"acknowledged 5 00000000\n" + b" " * 39 + b"\n", b"x" * 64])
async def test_mark_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    """A damaged mark is no permission to start: it is named, with what to do."""
    data = await crashed(tmp_path)
    mark = data.with_name("data-mark")
    mark.write_bytes(content)
    with pytest.raises(StorageError, match=f"remove {mark} to go on"):
        SqliteStorage(data)


async def test_data_without_a_mark_get_one(tmp_path: Path) -> None:
    """Data of a Lanloom that made no marks are opened, and have a mark from then on."""
    data = await crashed(tmp_path)
    data.with_name("data-mark").unlink()
    await SqliteStorage(data).close()
    assert HighWaterMark(data.with_name("data-mark")).read() == LAST


async def test_mark_follows_every_commit(tmp_path: Path) -> None:
    """When a commit is acknowledged, the mark holds its version, in a file whose size never changes."""
    storage, mark = SqliteStorage(tmp_path / "data"), HighWaterMark(tmp_path / "data-mark")
    assert mark.read() == 1
    size = mark.path.stat().st_size
    for version in (2, 3, 1_000_000_000_000_000_000):
        await storage.commit([creation(version)], 1)
        assert (mark.read(), mark.path.stat().st_size) == (version, size)
    await storage.close()
    assert mark.read() == 1_000_000_000_000_000_000


ROOT = Path(__file__).parents[3]
MOUNT = 'mount -t tmpfs -o size=32m tmpfs "$1" && shift && exec "$@"'


def on_a_small_disk(directory: Path, scenario: str) -> None:
    """Run a scenario of `full_disk` with a disk of 32 MiB at the directory, which no other process sees."""
    program = [sys.executable, "-m", full_disk.__name__, scenario, str(directory)]
    spaces = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "/bin/sh",
        "-euc",
        MOUNT,
        "sh",
        str(directory),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(
        [*spaces, *program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", full_disk.SCENARIOS)
def test_deletions_are_taken_on_a_full_disk(tmp_path: Path, scenario: str) -> None:
    """A full disk refuses writes by name, takes deletions, and takes writes again when there is space."""
    on_a_small_disk(tmp_path, scenario)

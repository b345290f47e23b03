"""A storage in one SQLite file, in which an acknowledged write survives the death of the process and of the machine.

Changes that come together share one transaction and so one fsync. The rows are written in the event loop (microseconds,
into SQLite's page cache); only COMMIT, which waits for the disk, runs in a thread. Writing rows in the thread too would
make it wait for the interpreter's lock at each row while the loop is busy.

The journal is WAL with synchronous=FULL: every commit is on disk when it returns. The file is locked for one process.
History rows hold what an object was *before* a change; what it was after is found in the next row or in the object.
"""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lanloom.api.meta import Key
from lanloom.apiserver.engine.storage import Snapshot, StorageError
from lanloom.apiserver.engine.stored import Change, Stored, restored
from lanloom.apiserver.kinds import GroupPlural

SCHEMA_VERSION = 1
"""`user_version` of the file. A file of a newer version is refused, so that no older program damages it."""

_SCHEMA = """
CREATE TABLE progress (version INTEGER NOT NULL, compacted INTEGER NOT NULL);
INSERT INTO progress VALUES (1, 1);
CREATE TABLE objects (
    api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (api_group, plural, namespace, name)
) WITHOUT ROWID;
CREATE TABLE history (
    version INTEGER PRIMARY KEY,
    api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    before_version INTEGER, before_data BLOB
);
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"
_NOTE = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteStorage:
    """Keeps changes in a file, which it creates if there is none. Raises StorageError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="commit")
        try:
            # Secrets are in there: the file, and what SQLite puts beside it, is for its owner only.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(self._explain(error)) from error
        try:
            self._prepare()
        except (sqlite3.Error, StorageError) as error:
            self._db.close()
            raise StorageError(self._explain(error)) from error

    def load(self) -> Snapshot:
        """What is kept. Raises StorageError."""
        try:
            version, compacted = self._db.execute("SELECT version, compacted FROM progress").fetchone()
            objects = self._load_objects()
            history = self._load_history(objects)
        except (sqlite3.Error, TypeError) as error:
            raise StorageError(self._explain(error)) from error
        kept = tuple((resource, state) for (resource, _), state in objects.items())
        return Snapshot(version, compacted, kept, history)

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keeps all changes or none; returns when they are on disk. Raises StorageError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._write(changes, compacted)
            await asyncio.get_running_loop().run_in_executor(self._executor, self._db.execute, "COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StorageError(self._explain(error)) from error

    async def close(self) -> None:
        """Closes the file and gives up its lock."""
        self._executor.shutdown()
        self._db.close()

    def _prepare(self) -> None:
        for pragma in (
            "locking_mode=EXCLUSIVE",
            "journal_mode=WAL",
            "synchronous=FULL",
            "wal_autocheckpoint=4000",
        ):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("BEGIN IMMEDIATE")
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found > SCHEMA_VERSION:
            raise StorageError(
                f"{self._path} has data of version {found}, and this Lanloom knows {SCHEMA_VERSION}: "
                "start it with the newer Lanloom that wrote the file"
            )
        if not found:
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._db.execute("COMMIT")

    def _write(self, changes: Sequence[Change], compacted: int) -> None:
        put = [
            (*_place(each), each.after.version, each.after.data) for each in changes if each.after is not None
        ]
        # Rows of one batch may speak of the same object: removals and settings keep their order.
        if len(put) == len(changes):
            self._db.executemany(_PUT, put)
        else:
            for change in changes:
                self._write_one(change)
        self._db.executemany(_NOTE, [_history_row(change) for change in changes])
        self._db.execute("UPDATE progress SET version = ?, compacted = ?", (changes[-1].version, compacted))
        self._db.execute("DELETE FROM history WHERE version <= ?", (compacted,))

    def _write_one(self, change: Change) -> None:
        if change.after is None:
            self._db.execute(_REMOVE, _place(change))
        else:
            self._db.execute(_PUT, (*_place(change), change.after.version, change.after.data))

    def _load_objects(self) -> dict[tuple[GroupPlural, Key], Stored]:
        rows = self._db.execute("SELECT api_group, plural, namespace, name, version, data FROM objects")
        return {
            (GroupPlural(group, plural), Key(namespace, name)): restored(data, version)
            for group, plural, namespace, name, version, data in rows
        }

    def _load_history(self, objects: dict[tuple[GroupPlural, Key], Stored]) -> tuple[Change, ...]:
        rows = self._db.execute(
            "SELECT version, api_group, plural, namespace, name, before_version, before_data "
            "FROM history ORDER BY version DESC"
        )
        newer: dict[tuple[GroupPlural, Key], Stored | None] = dict(objects)
        changes: list[Change] = []
        for version, group, plural, namespace, name, before_version, before_data in rows:
            resource, key = GroupPlural(group, plural), Key(namespace, name)
            before = None if before_data is None else restored(before_data, before_version)
            changes.append(Change(resource, key, version, before, newer.get((resource, key))))
            newer[resource, key] = before
        return tuple(reversed(changes))

    def _explain(self, error: Exception) -> str:
        if isinstance(error, StorageError):
            return str(error)
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return f"{self._path} is in use by another process: end that one first, or name another file"
        return f"{self._path} can't be used as the server's data: {error}"


def _place(change: Change) -> tuple[str, str, str, str]:
    return (*change.resource, *change.key)


def _history_row(change: Change) -> tuple[int, str, str, str, str, int | None, bytes | None]:
    before = change.before
    return (
        change.version,
        *_place(change),
        None if before is None else before.version,
        None if before is None else before.data,
    )

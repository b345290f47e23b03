"""A storage in one SQLite file, in which an acknowledged write survives the death of the process and of the machine.

Changes that come together share one transaction and so one fsync. The rows are written in the event loop (microseconds,
into SQLite's page cache); only COMMIT, which waits for the disk, runs in a thread. Writing rows in the thread too would
make it wait for the interpreter's lock at each row while the loop is busy.

The journal is WAL with synchronous=FULL: every commit is on disk when it returns. The file is locked for one process.
A mark next to it holds the newest acknowledged version: data that end before it are refused (`sidecars.py`).
A reserve of disk space is given up for deletions when the disk is full.
History rows hold what an object was *before* a change; what it was after is found in the next row or in the object.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import structlog

from lanloom.api.meta import Key
from lanloom.node.files import replace_at
from lanloom_embedded.engine.sidecars import HighWaterMark, Reserve
from lanloom_embedded.engine.storage import (
    Change,
    DataDamaged,
    DiskFull,
    Snapshot,
    StorageError,
    Stored,
    restored,
)
from lanloom_embedded.kinds import GroupPlural

log = structlog.get_logger(__name__)

SYNC_INTERVAL = 0.1
"""Seconds after a write in which the mark of the newest acknowledged version is on disk, too."""

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
PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"
_NOTE = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteStorage:
    """Keeps changes in a file, which it creates if there is none. Raises StorageError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._reserve = Reserve(sidecar_path(path, "reserve"))
        self.full = False
        self._mark = HighWaterMark(sidecar_path(path, "mark"))
        self._sync: asyncio.TimerHandle | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="mark")
        try:
            # Secrets are in there: the file, and what SQLite puts next to it, is for its owner only.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._fault(error) from error
        try:
            self._prepare()
        except (sqlite3.Error, OSError, ValueError, StorageError) as error:
            self._db.close()
            raise self._fault(error) from error
        self._take_reserve()

    def load(self) -> Snapshot:
        """Load the contents. Raises StorageError."""
        try:
            version, compacted = self._progress()
            objects = self._load_objects()
            history = self._load_history(objects)
        except (sqlite3.Error, ValueError) as error:
            raise self._fault(error) from error
        kept = tuple((resource, state) for (resource, _), state in objects.items())
        return Snapshot(version, compacted, kept, history)

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keep all changes or none; return when they are on disk. Raises StorageError, DiskFull."""
        async with self._lock:
            try:
                await self._transact(changes, compacted)
            except sqlite3.Error as error:
                if not _is_full(error):
                    raise self._fault(error) from error
                await self._commit_in_need(changes, error)
        self._acknowledge(changes[-1].version)

    async def make_room(self) -> None:
        """Give the disk what the file doesn't need, and take the reserve back. Where that fails, `full` stays."""
        async with self._lock:
            await self._in_thread(self._shrink)
            await self._in_thread(self._take_reserve)

    async def _commit_in_need(self, changes: Sequence[Change], error: sqlite3.Error) -> None:
        """Keep the changes on a full disk: without the history, and, for a deletion, with the space of the reserve.

        The history holds what was deleted: with it no deletion would free anything. The engine remembers it until the
        process ends.
        """
        before = changes[0].version - 1
        self.full = True
        await self._in_thread(self._shrink)
        await self._in_thread(self._take_reserve)
        if not self.full:
            with contextlib.suppress(sqlite3.Error):
                return await self._transact(changes, before)
        self.full = True
        if any(change.frees for change in changes):
            self._reserve.give_up()
            with contextlib.suppress(sqlite3.Error):
                return await self._transact(changes, before)
        raise DiskFull(f"the disk of {self._path} is full") from error

    async def _transact(self, changes: Sequence[Change], compacted: int) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._write(changes, compacted)
            await self._in_thread(lambda: self._db.execute("COMMIT"))
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _shorten_log(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _shrink(self) -> None:
        """Cut free pages off the file. That needs the space of the reserve: pages are moved by way of the log."""
        self._reserve.give_up()
        self._shorten_log()
        with contextlib.suppress(sqlite3.Error):
            self._db.executescript("PRAGMA incremental_vacuum")  # `execute` would cut off one page only
        self._shorten_log()

    def _take_reserve(self) -> None:
        try:
            self._reserve.take()
        except OSError as error:
            if not self.full:
                log.warning("no-reserve", path=str(self._path), error=str(error), writes="deletions only")
            self.full = True
        else:
            self.full = False

    async def close(self) -> None:
        """Close the file and give up its lock."""
        if self._sync is not None:
            self._sync.cancel()
        self._executor.shutdown()
        self._syncer.shutdown()
        self._mark.close()
        self._db.close()

    def _acknowledge(self, version: int) -> None:
        """Record a committed version. A mark that can't be written is reported: the write is safe without it."""
        try:
            self._mark.write(version)
        except OSError as error:
            log.error("mark-not-written", path=str(self._mark.path), version=version, error=str(error))
        if self._sync is None:
            self._sync = asyncio.get_running_loop().call_later(SYNC_INTERVAL, self._sync_soon)

    def _sync_soon(self) -> None:
        self._sync = None
        self._syncer.submit(self._sync_mark)

    def _sync_mark(self) -> None:
        try:
            self._mark.sync()
        except OSError as error:
            log.error("mark-not-synced", path=str(self._mark.path), error=str(error))

    def _prepare(self) -> None:
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if not found:
            # Of a file that has tables it would be a write, before it is known that the file may be written.
            self._db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("BEGIN IMMEDIATE")
        if found > SCHEMA_VERSION:
            raise StorageError(
                f"{self._path} has data of version {found}, and this Lanloom knows {SCHEMA_VERSION}: "
                "start it with the newer Lanloom that wrote the file"
            )
        version = self._progress()[0] if found else 1
        self._check_complete(version)
        if not found:
            create_tables(self._db)
        self._db.execute("COMMIT")
        self._mark.open(version)

    def _check_complete(self, version: int) -> None:
        """Refuse data that end before what was acknowledged. Raises DataDamaged, OSError."""
        try:
            acknowledged = self._mark.read()
        except ValueError as error:
            raise DataDamaged(
                f"{self._mark.path} can't be read ({error}), so that it is unknown whether {self._path} is complete: "
                f"restore a backup, or remove {self._mark.path} to go on with what {self._path} holds"
            ) from None
        if acknowledged <= version:
            return
        # Closing the data removes the log, in which what is lost to SQLite may still be found by other means.
        saved, kept = sidecar_path(self._path, "wal.damaged"), ""
        if (
            (journal := sidecar_path(self._path, "wal")).exists()
            and journal.stat().st_size
            and not saved.exists()
        ):
            replace_at(saved, journal.read_bytes())
            kept = f" What is left of the log is in {saved}."
        raise DataDamaged(
            f"{self._path} ends at resourceVersion {version}, but {acknowledged} was acknowledged: its write-ahead log "
            f"{journal} is missing or damaged, or the file was replaced by an older one, and later writes are lost. "
            f"Restore a backup, or remove {self._mark.path} to go on without them.{kept}"
        )

    def _write(self, changes: Sequence[Change], compacted: int) -> None:
        put = [
            (*_place(each), each.after.version, each.after.data) for each in changes if each.after is not None
        ]
        # Rows of one batch may speak of the same object: removals and settings keep their order.
        if len(put) == len(changes):
            self._db.executemany(PUT, put)
        else:
            for change in changes:
                self._write_one(change)
        self._db.executemany(_NOTE, [_history_row(change) for change in changes])
        self._db.execute(
            "UPDATE progress SET version = ?, compacted = max(compacted, ?)", (changes[-1].version, compacted)
        )
        self._db.execute("DELETE FROM history WHERE version <= ?", (compacted,))

    def _write_one(self, change: Change) -> None:
        if change.after is None:
            self._db.execute(_REMOVE, _place(change))
        else:
            self._db.execute(PUT, (*_place(change), change.after.version, change.after.data))

    def _progress(self) -> tuple[int, int]:
        """Return the newest version, and the newest one whose change is forgotten. Raises DataDamaged."""
        found = self._db.execute("SELECT version, compacted FROM progress").fetchall()
        if len(found) != 1 or not all(isinstance(each, int) for each in found[0]):
            raise self._damaged("it does not say its newest version")
        version, compacted = found[0]
        return version, compacted

    def _load_objects(self) -> dict[tuple[GroupPlural, Key], Stored]:
        rows = self._db.execute("SELECT api_group, plural, namespace, name, version, data FROM objects")
        return {
            (GroupPlural(*place[:2]), Key(*place[2:])): self._restored(place, version, data)
            for *place, version, data in rows
        }

    def _load_history(self, objects: dict[tuple[GroupPlural, Key], Stored]) -> tuple[Change, ...]:
        rows = self._db.execute(
            "SELECT version, api_group, plural, namespace, name, before_version, before_data "
            "FROM history ORDER BY version DESC"
        )
        newer: dict[tuple[GroupPlural, Key], Stored | None] = dict(objects)
        changes: list[Change] = []
        for version, *place, before_version, before_data in rows:
            resource, key = GroupPlural(*place[:2]), Key(*place[2:])
            before = None if before_data is None else self._restored(place, before_version, before_data)
            changes.append(Change(resource, key, version, before, newer.get((resource, key))))
            newer[resource, key] = before
        return tuple(reversed(changes))

    def _restored(self, place: list[str], version: int, data: bytes) -> Stored:
        """Return the object of a row. Raises DataDamaged."""
        _, plural, *names = place
        try:
            state = restored(data, version)
        except (ValueError, TypeError) as error:
            raise self._damaged(
                f"{plural} {'/'.join(filter(None, names))} can't be read ({error})"
            ) from error
        if state.key != Key(*names) or not isinstance(version, int):
            raise self._damaged(f"{plural} {'/'.join(filter(None, names))} has a row of something else")
        return state

    def _damaged(self, why: str) -> DataDamaged:
        return DataDamaged(
            f"{self._path} is damaged: {why}. Restore a backup: move {self._path} and the files next to it "
            f"({self._path.name}-*) away, and put a copy that `lanloom backup` made in its place. If it is no file of "
            "the server, name another one"
        )

    def _fault(self, error: Exception) -> StorageError:
        if isinstance(error, StorageError):
            return error
        text_is_wrong = isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error)
        if text_is_wrong or (isinstance(error, sqlite3.Error) and _code(error) in _DAMAGE):
            return self._damaged(str(error))
        if isinstance(error, sqlite3.Error) and _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StorageError(
                f"{self._path} is in use by another process: end that one first, or name another file"
            )
        return StorageError(f"{self._path} can't be used as the server's data: {error}")


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""The last is a table or column that is missing, since our statements are right."""


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_full(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_FULL


def create_tables(db: sqlite3.Connection) -> None:
    """Make the tables of a new data file, within the caller's transaction."""
    for statement in _SCHEMA.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def sidecar_path(path: Path, suffix: str) -> Path:
    """Return a file that belongs to a data file: `data-wal` for `data`."""
    return path.with_name(f"{path.name}-{suffix}")


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


VERSIONS_AHEAD = 1_000_000
"""How far the versions of a copy are ahead of its original.

The original goes on giving out versions after the copy was made. With a copy that starts beyond them no client
takes an old version for a new one: a request for changes since then has to list again.
"""


def data_file(snapshot: Snapshot) -> bytes:
    """Return the content of a data file with the objects of a snapshot, and without its history."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("BEGIN")
        create_tables(db)
        db.executemany(
            PUT, ((*resource, *state.key, state.version, state.data) for resource, state in snapshot.objects)
        )
        version = snapshot.version + VERSIONS_AHEAD
        db.execute("UPDATE progress SET version = ?, compacted = ?", (version, version))
        db.execute("COMMIT")
        return db.serialize()

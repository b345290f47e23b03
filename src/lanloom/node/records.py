"""Records in a directory of the agent's own: `/var/lib/lanloom` is kept, `/run/lanloom` is gone after a reboot."""

import asyncio
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from lanloom.node import files
from lanloom.node.errors import RecordError

LARGEST = 1 << 24
"""Bytes of a record, at most."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def check_record(name: str) -> None:
    """Raise RecordError unless `name` is that of a record, nothing that a path could mistake."""
    if not _NAME.fullmatch(name):
        raise RecordError(
            f"{name!r} is not a name for a record: lower-case letters, digits and dashes only, at most 63, "
            "not beginning with a dash"
        )


def check_size(name: str, content: bytes) -> None:
    """Raise RecordError for a content that could not be read again."""
    if len(content) > LARGEST:
        raise RecordError(f"the record {name} is too large: {len(content)} bytes, at most {LARGEST} are kept")


class RecordDirectory:
    """Records as files of `directory`, which is made when the first is written; one process at a time uses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()  # a sweep must not take the temporary file of another write that is under way

    async def read(self, name: str) -> bytes | None:
        """Read a record; None for one that is not there. Raises RecordError."""
        check_record(name)
        return await asyncio.to_thread(self._read, name)

    async def write(self, name: str, content: bytes) -> None:
        """Write a record whole, and remove the remains of a writer that died half-way. Raises RecordError."""
        check_record(name)
        check_size(name, content)
        await asyncio.to_thread(self._write, name, content)

    async def remove(self, name: str) -> None:
        """Remove a record; a missing one is no error. Raises RecordError."""
        check_record(name)
        await asyncio.to_thread(self._remove, name)

    async def names(self) -> tuple[str, ...]:
        """Implement the port. Files that can't be records are not listed."""
        return await asyncio.to_thread(self._names)

    def _names(self) -> tuple[str, ...]:
        with self._explained("list", "files"):
            try:
                with files.opened_directory(self._directory, follow=False) as directory:
                    _check_private(directory)
                    return tuple(name for name in files.names(directory) if _NAME.fullmatch(name))
            except FileNotFoundError:
                return ()

    def _read(self, name: str) -> bytes | None:
        with self._explained("read", name):
            try:
                opened = files.opened_directory(self._directory, follow=False)
                with opened as directory:
                    _check_private(directory)
                    found = files.content(directory, name, LARGEST)
                    if found is None and files.exists(directory, name):
                        raise OSError(errno.EINVAL, "it is not a plain file of a record's size")
                    return found
            except FileNotFoundError:
                return None

    def _write(self, name: str, content: bytes) -> None:
        with self._explained("write", name):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock, files.opened_directory(self._directory, follow=False) as directory:
                _check_private(directory)
                files.sweep(directory)
                files.replace(directory, name, content)

    def _remove(self, name: str) -> None:
        with self._explained("remove", name):
            try:
                with files.opened_directory(self._directory, follow=False) as directory:
                    _check_private(directory)
                    files.remove(directory, name)
            except FileNotFoundError:
                return

    @contextmanager
    def _explained(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"can't {verb} the record {name} in {self._directory}: {error.strerror}; check that this is a "
                "directory of the agent's own which no other user can write to, with free space"
            ) from error


def _check_private(directory: int) -> None:
    """Raise OSError where others could have put something into a record's place."""
    status = os.fstat(directory)
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise OSError(errno.EPERM, "others may write to the directory")

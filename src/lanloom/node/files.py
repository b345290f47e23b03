"""Small files of one directory, each whole or not at all, and changes of a directory.

Profiles and records are kept so. Every name is taken relative to the open directory and no symbolic link is followed,
so that planting one gains nothing of what this process may read and write. A file is written under a hidden
name, synced and renamed; what a writer that died left behind under such a name is removed by the next.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lanloom.node import inotify
from lanloom.node.inotify import Inotify

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.tmp-[0-9a-f]+")


def temporary_prefix(name: str) -> str:
    """Return the prefix of a file's temporary names: hidden, because such a file is half-written."""
    return f".{name}.tmp-"


@contextmanager
def opened_directory(path: Path, *, follow: bool = True) -> Iterator[int]:
    """Provide the descriptor of a directory, closed at the end; unless `follow`, a link in its place is an OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    directory = os.open(path, flags)
    try:
        yield directory
    finally:
        os.close(directory)


def content(directory: int, name: str, largest: int) -> bytes | None:
    """Return the content of a regular file.

    None for anything else, for a file that is not there, and beyond `largest`.
    """
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            return None
        with os.fdopen(file, "rb", closefd=False) as stream:
            return stream.read(largest)
    finally:
        os.close(file)


def exists(directory: int, name: str) -> bool:
    """Return whether there is anything of this name, be it a link that leads nowhere."""
    try:
        os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def names(directory: int) -> list[str]:
    """Return what is in the directory, in order."""
    return sorted(os.listdir(directory))


@contextmanager
def replacing(directory: int, name: str, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Provide a stream whose content takes the place of a file when the block ends.

    The file has this mode, and is synced with the directory.
    No other process can have made the draft, nor read it before it has its mode. Raises OSError; the old file is whole
    then, as it is after any other error in the block.
    """
    temporary = temporary_prefix(name) + secrets.token_hex(8)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    stream = os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "w+b")
    try:
        with stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)


def replace(directory: int, name: str, new: bytes) -> None:
    """Write a file with mode 0600, and sync it and the directory. Raises OSError; the old file is whole then."""
    with replacing(directory, name) as stream:
        stream.write(new)


def replace_at(path: Path, new: bytes, mode: int = 0o600) -> None:
    """Write a file of any directory so. Raises OSError; the old file is whole then."""
    with opened_directory(path.parent) as directory, replacing(directory, path.name, mode) as stream:
        stream.write(new)


def remove(directory: int, name: str) -> None:
    """Remove a file, or the link in its place, for good; a missing one is no error."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
        os.fsync(directory)


def sweep(directory: int, suffix: str = "") -> list[str]:
    """Remove what writers of files with this suffix left when they died; the names of all else, in order.

    No writer may be at work meanwhile.
    """
    kept = []
    for name in names(directory):
        leftover = _TEMPORARY.fullmatch(name)
        if leftover and leftover["name"].endswith(suffix):
            remove(directory, name)
        else:
            kept.append(name)
    return kept


_CHANGES = inotify.CREATE | inotify.DELETE | inotify.MOVED_TO | inotify.MOVED_FROM
_END = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.IGNORED


async def directory_changes(directory: Path, concerns: Callable[[str], bool]) -> AsyncGenerator[None, None]:
    """Yield once when the directory is watched, and whenever names that concern the caller may have come or gone.

    Raises OSError when it can't be watched, or goes away.
    """
    with Inotify() as watched:
        watched.watch(directory, _CHANGES | _END & ~inotify.IGNORED | inotify.ONLYDIR)
        yield
        while True:
            events = await watched.events()
            if any(event.mask & _END for event in events):
                raise OSError(errno.ENOENT, "the directory went away", str(directory))
            # An event without a name says that some were lost.
            if any(event.name is None or concerns(event.name) for event in events):
                yield

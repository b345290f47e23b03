"""Convert Ganeti's files in place: whole before, whole after, whatever happens in between, and the old one kept next to
it.

The new text is written to a file of its own in the same directory, synced, and renamed over the old one, which by then
has a second name: the backup is the very file of before, never a copy that may have been cut short. A crash can leave
such a second name, or a file of ours ending in `.new`, and nothing else.

All files of a conversion are checked before the first one is written.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.ganeti.formats.conversion import (
    downgrade_config,
    downgrade_runtime,
    upgrade_config,
    upgrade_runtime,
)
from lanloom.features.ipam.ganeti.formats.text import Changed
from lanloom.features.ipam.ganeti.formats.verify import (
    read_config,
    unknown_version,
    unmended,
    verify_config,
    verify_runtime,
)
from lanloom.refusals import Denied, Malformed, Refusal
from lanloom.text import quote

LARGEST = 1 << 30
"""Bytes; a file that is larger is none of Ganeti's."""

RUNTIME = ".runtime"
"""The end of the names of KVM runtime files in a directory."""


CONFIG = "config.data"
"""The name of Ganeti's configuration file."""


class Source(Struct, frozen=True):
    """A file as it was read."""

    path: Path
    text: str
    info: os.stat_result

    @property
    def mark(self) -> tuple[int, ...]:
        """The state of the file that changes with each write."""
        return _mark(self.info)


def find_files(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the files that are meant: those that are named, and the runtime files of directories. Raises Malformed."""
    found: dict[Path, None] = {}
    for path in paths:
        try:
            if path.is_dir():
                found |= dict.fromkeys(_runtime_files(path))
            else:
                found[path] = None
        except OSError as error:
            raise Malformed(f"can't read {_named(path)}: {error.strerror}") from None
    return tuple(found)


def _runtime_files(directory: Path) -> list[Path]:
    """Return the runtime files of a directory: none on a node where no machine runs. Raises OSError, Malformed."""
    names = sorted(item for item in directory.iterdir() if item.name.endswith(RUNTIME))
    if not names and (directory / CONFIG).exists():
        raise Malformed(
            f"{_named(directory)} has no files *{RUNTIME}; name {_named(directory / CONFIG)} itself"
        )
    return names


def read_file(path: Path) -> Source:
    """Return a regular file with text. Raises Malformed."""
    try:
        with _opened(path) as (descriptor, info):
            if info.st_size > LARGEST:
                raise Malformed(f"{_named(path)} is too large for a file of Ganeti")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read()
        return Source(path, content.decode(), info)
    except UnicodeDecodeError:
        raise Malformed(f"{_named(path)} is not UTF-8 text") from None
    except OSError as error:
        raise Malformed(f"can't read {_named(path)}: {error.strerror}") from None


def rewrite_file(source: Source, text: str, stamp: str) -> Path:
    """Put a new text into the place of the old one, and give the path of the backup. Raises Denied.

    `stamp` tells backups apart; one that is there is never overwritten. Mode and owner stay.
    """
    path = source.path
    try:
        with _opened(path) as (descriptor, _), _locked(descriptor, path):
            fresh = _written(source, text)
            try:
                if _mark(path.lstat()) != source.mark:
                    raise Denied(
                        f"{_named(path)} was changed by another process; nothing was written; try again"
                    )
                backup = _kept(path, stamp)
                os.replace(fresh, path)  # noqa: PTH105 (the pair with os.link)
            except BaseException:
                with suppress(FileNotFoundError):
                    fresh.unlink()
                raise
            _sync(path.parent)
    except OSError as error:
        raise Denied(f"can't write {_named(path)}: {error.strerror}") from None
    return backup


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Provide a regular file that is no symbolic link; opening never waits. Raises OSError, Malformed."""
    with suppress(FileNotFoundError):
        if path.is_symlink():
            raise Malformed(f"{_named(path)} is a symbolic link; name the file itself")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise Malformed(f"{_named(path)} is not a regular file")
        yield descriptor, info
    finally:
        os.close(descriptor)


@contextmanager
def _locked(descriptor: int, path: Path) -> Iterator[None]:
    """Lock against another run of this command. The administrator must have stopped Ganeti's daemons."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Denied(f"{_named(path)} is locked by another process; nothing was written") from None
    yield


def _written(source: Source, text: str) -> Path:
    """Return the new file under a name of its own, synced, with mode and owner of the old one. Raises OSError."""
    path = source.path.with_name(f".{source.path.name}.{os.getpid()}.new")
    with suppress(FileNotFoundError):
        path.unlink()  # of a process that died and had this number
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            if (source.info.st_uid, source.info.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), source.info.st_uid, source.info.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(source.info.st_mode))
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise
    return path


def _kept(path: Path, stamp: str) -> Path:
    """Give the file a second name, which nothing had. Raises OSError."""
    for number in range(1000):
        backup = path.with_name(f"{path.name}.bak-{stamp}" + (f".{number}" if number else ""))
        with suppress(FileExistsError):
            os.link(path, backup, follow_symlinks=False)
            return backup
    raise FileExistsError(None, "there are a thousand backups of this moment")


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mark(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _named(path: Path) -> str:
    """Return a path in a message."""
    text = str(path)
    return text if text.isprintable() else quote(text, 200)


T = TypeVar("T")
Direction = Literal["upgrade", "downgrade"]

_CONFIG: dict[Direction, Callable[[str], Changed]] = {
    "upgrade": upgrade_config,
    "downgrade": downgrade_config,
}
_RUNTIME: dict[Direction, Callable[[str], Changed]] = {
    "upgrade": upgrade_runtime,
    "downgrade": downgrade_runtime,
}


class Planned(Struct, frozen=True):
    """A file and what is to become of it."""

    source: Source
    change: Changed

    @property
    def differs(self) -> bool:
        """Whether there is anything to write."""
        return self.change.text != self.source.text


class Converted(Struct, frozen=True):
    """A file that was looked at; `backup` is None if nothing was written."""

    path: Path
    change: Changed
    differs: bool
    backup: Path | None = None


def plan(paths: tuple[Path, ...], direction: Direction, *, force: bool = False) -> tuple[Planned, ...]:
    """Compute the new text of each file. Raises Malformed and Denied, with every reason of every file.

    With `force` a file is upgraded although something stays wrong with it; its notes say what.
    """
    planned: list[Planned] = []
    wrong: list[Refusal] = []
    for path in find_files(paths):
        try:
            source = read_file(path)
            change = _converted(source, direction)
            wrong_there = _about(path, _wrong(direction, force), source.text)
            notes = (*change.notes, *(f"is incorrect and was not changed: {item}" for item in wrong_there))
            planned.append(Planned(source, replace(change, notes=notes)))
        except Refusal as error:
            wrong.append(error)
    if wrong:
        kind = Malformed if any(isinstance(error, Malformed) for error in wrong) else Denied
        raise kind("\n".join(map(str, wrong)))
    return tuple(planned)


def carry_out(planned: Planned, stamp: str, *, dry_run: bool) -> Converted:
    """Write one file, if it differs and this is no dry run. Raises Denied."""
    backup = None
    if planned.differs and not dry_run:
        backup = rewrite_file(planned.source, planned.change.text, stamp)
    return Converted(planned.source.path, planned.change, planned.differs, backup)


def verify(paths: tuple[Path, ...]) -> dict[Path, tuple[str, ...]]:
    """Return the faults of each file. Raises Malformed."""
    found: dict[Path, tuple[str, ...]] = {}
    for path in find_files(paths):
        source = read_file(path)
        check = verify_runtime if is_runtime(source.text) else verify_config
        found[path] = _about(path, check, source.text)
    return found


def is_runtime(text: str) -> bool:
    """Return whether a text looks like a KVM runtime file: those are arrays, a configuration is an object."""
    return text.lstrip(" \t\r\n").startswith("[")


def _wrong(direction: Direction, force: bool) -> Callable[[str], tuple[str, ...]]:
    """Find what is wrong with a text that is to be upgraded. Raises Malformed, Denied."""

    def find(text: str) -> tuple[str, ...]:
        if is_runtime(text):
            wrong = verify_runtime(text) if direction == "upgrade" else ()
        else:
            config = read_config(text)
            if not config.has_known_version:
                raise Denied(f"{unknown_version(config)}; nothing was written")
            wrong = tuple(unmended(config)) if direction == "upgrade" else ()
        if wrong and not force:
            what = "the file has errors; correct it with Ganeti, or use --force; nothing was written:"
            raise Denied("\n".join((what, *wrong)))
        return wrong

    return find


def _converted(source: Source, direction: Direction) -> Changed:
    convert = (_RUNTIME if is_runtime(source.text) else _CONFIG)[direction]
    return _about(source.path, convert, source.text)


def _about(path: Path, function: Callable[[str], T], text: str) -> T:
    """Apply a function to a text, its errors with the path. Raises Malformed, Denied."""
    try:
        return function(text)
    except Refusal as error:
        raise type(error)(f"{path}: {error}") from None

"""The directory of NetworkManager's keyfile profiles on a real host.

A profile appears whole or not at all: it is written under a hidden name, which NetworkManager does not load,
synced and renamed. NetworkManager acts on the directory as root, so nothing here follows a symbolic link or
takes a path.
"""

import asyncio
import os
import re
import secrets
import stat
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from asyncinotify import Inotify, Mask

from lanloom.node.errors import ProfileError
from lanloom.node.keyfile import owner

DEFAULT_DIRECTORY = Path("/etc/NetworkManager/system-connections")

SUFFIX = ".nmconnection"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*")
_LONGEST_NAME = 200
_LARGEST_FILE = 1 << 20


def check_name(name: str) -> None:
    """Raises ProfileError unless `name` is that of a profile file, nothing that a path or a shell could mistake."""
    if not _NAME.fullmatch(name) or not name.endswith(SUFFIX) or len(name) > _LONGEST_NAME:
        raise ProfileError(
            f"{name!r} is not a name for a profile: letters, digits and . _ : @ - only, not beginning with a dot, "
            f"ending in {SUFFIX}, at most {_LONGEST_NAME} characters"
        )


def foreign(name: str) -> ProfileError:
    """The refusal to touch a file without Lanloom's mark."""
    return ProfileError(
        f"won't touch the profile {name}: it does not carry Lanloom's mark; rename it, or remove it if it is not needed"
    )


def temporary_prefix(name: str) -> str:
    """How the temporary names of a profile begin: hidden, so that NetworkManager never loads a half-written file."""
    return f".{name}.tmp-"


_CHANGES = (
    Mask.CLOSE_WRITE
    | Mask.MOVED_TO
    | Mask.MOVED_FROM
    | Mask.DELETE
    | Mask.ATTRIB
    | Mask.DELETE_SELF
    | Mask.MOVE_SELF
    | Mask.ONLYDIR
)
_END = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED | Mask.UNMOUNT
_TEMPORARY = re.compile(r"\.(?P<name>.+\.nmconnection)\.tmp-[0-9a-f]+")


class ProfileDirectory:
    """Profiles in a directory. One agent at a time writes to it; others (operators, NetworkManager) may too."""

    def __init__(self, directory: Path = DEFAULT_DIRECTORY) -> None:
        self._directory = directory

    async def read(self) -> Mapping[str, bytes]:
        """As the port says. Leftovers of a writer that died half-way are removed."""
        return await asyncio.to_thread(self._read)

    async def write(self, name: str, content: bytes) -> None:
        """As the port says."""
        check_name(name)
        await asyncio.to_thread(self._write, name, content)

    async def remove(self, name: str) -> None:
        """As the port says."""
        check_name(name)
        await asyncio.to_thread(self._remove, name)

    async def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        try:
            with Inotify() as inotify:
                inotify.add_watch(self._directory, _CHANGES)
                async for event in inotify:
                    if event.mask & _END:
                        raise ProfileError(f"the directory {self._directory} went away; make it again")
                    if event.name is None or not event.name.name.startswith("."):
                        yield
        except OSError as error:
            raise ProfileError(
                f"can't watch {self._directory}: {error.strerror}; check that it exists"
            ) from error

    def _read(self) -> Mapping[str, bytes]:
        with self._opened("read the profiles") as directory:
            found = {}
            for name in sorted(os.listdir(directory)):  # noqa: PTH208 - of the open directory, not of a path
                if _TEMPORARY.fullmatch(name):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=directory)
                elif not name.startswith(".") and (content := _content(directory, name)) and owner(content):
                    found[name] = content
            return found

    def _write(self, name: str, content: bytes) -> None:
        with self._opened(f"write the profile {name}") as directory:
            _check_ours(directory, name)
            temporary = temporary_prefix(name) + secrets.token_hex(8)
            try:
                _write_synced(directory, temporary, content)
                os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            os.fsync(directory)

    def _remove(self, name: str) -> None:
        with self._opened(f"remove the profile {name}") as directory:
            _check_ours(directory, name)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
                os.fsync(directory)

    @contextmanager
    def _opened(self, what: str) -> Iterator[int]:
        try:
            directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                yield directory
            finally:
                os.close(directory)
        except OSError as error:
            raise ProfileError(
                f"can't {what} in {self._directory}: {error.strerror}; nothing was changed. "
                "Check that the directory exists, belongs to root and has free space"
            ) from error


def _content(directory: int, name: str) -> bytes | None:
    """The content of a regular file; None for anything else, or one that is too large to be a profile."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            return None
        with os.fdopen(file, "rb", closefd=False) as stream:
            return stream.read(_LARGEST_FILE)
    finally:
        os.close(file)


def _check_ours(directory: int, name: str) -> None:
    try:
        os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return
    content = _content(directory, name)
    if content is None or not owner(content):
        raise foreign(name)


def _write_synced(directory: int, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=directory), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())

"""The directory of NetworkManager's keyfile profiles on a real host.

A profile appears whole or not at all: it is written under a hidden name, which NetworkManager does not load,
synced and renamed. NetworkManager acts on the directory as root, so nothing here follows a symbolic link or
takes a path.
"""

import asyncio
import errno
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from lanloom.node import files, inotify
from lanloom.node.errors import ProfileError
from lanloom.node.inotify import Inotify, InotifyEvent
from lanloom.node.keyfile import owner
from lanloom.node.ports import BURST

SUFFIX = ".nmconnection"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*")
_LONGEST_NAME = 200
_LARGEST_FILE = 1 << 20


def check_name(name: str) -> None:
    """Raise ProfileError unless `name` is that of a profile file, nothing that a path or a shell could mistake."""
    if not _NAME.fullmatch(name) or not name.endswith(SUFFIX) or len(name) > _LONGEST_NAME:
        raise ProfileError(
            f"{name!r} is not a name for a profile: letters, digits and . _ : @ - only, not beginning with a dot, "
            f"ending in {SUFFIX}, at most {_LONGEST_NAME} characters"
        )


def foreign(name: str) -> ProfileError:
    """Return the refusal to touch a file without Lanloom's mark."""
    return ProfileError(
        f"won't touch the profile {name}: it does not carry Lanloom's mark; rename it, or remove it if it is not needed"
    )


_CHANGES = (
    inotify.CLOSE_WRITE
    | inotify.MOVED_TO
    | inotify.MOVED_FROM
    | inotify.DELETE
    | inotify.ATTRIB
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)
_END = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.IGNORED | inotify.UNMOUNT


class ProfileDirectory:
    """Profiles in a directory. One agent at a time writes to it; others (operators, NetworkManager) may too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()  # a sweep must not take the temporary file of a write of ours that is under way

    async def read(self) -> Mapping[str, bytes]:
        """Read every profile with Lanloom's mark, and remove the remains of a writer that died half-way."""
        return await asyncio.to_thread(self._read)

    async def write(self, name: str, content: bytes) -> None:
        """Write a profile whole; never over a file without Lanloom's mark. Raises ProfileError."""
        check_name(name)
        await asyncio.to_thread(self._write, name, content)

    async def remove(self, name: str) -> None:
        """Remove a profile with Lanloom's mark; a missing one is no error. Raises ProfileError."""
        check_name(name)
        await asyncio.to_thread(self._remove, name)

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield after each burst of changes in the directory. Raises ProfileError.

        Hidden files, such as those that become profiles by their renaming, don't count.
        """
        with self._watched() as watched:
            while True:
                if self._count(await watched.events()):
                    await asyncio.sleep(BURST)
                    self._count(watched.ready())
                    yield

    def _count(self, events: list[InotifyEvent]) -> int:
        return sum(self._counts(event) for event in events)

    def _counts(self, event: InotifyEvent) -> bool:
        if event.mask & _END:
            raise ProfileError(f"the directory {self._directory} went away; make it again")
        # Without a name it is the directory's own, or the kernel's word that more happened than it could tell.
        return event.name is None or not event.name.startswith(".")

    @contextmanager
    def _watched(self) -> Iterator[Inotify]:
        try:
            watched = Inotify()
        except OSError as error:
            raise self._unwatched(error) from error
        with watched:
            try:
                watched.watch(self._directory, _CHANGES)
            except OSError as error:
                raise self._unwatched(error) from error
            yield watched

    def _unwatched(self, error: OSError) -> ProfileError:
        remedy = "check that it is a directory that the agent may read"
        if error.errno in (errno.EMFILE, errno.ENOSPC):
            remedy = "raise the sysctls fs.inotify.max_user_instances and fs.inotify.max_user_watches"
        return ProfileError(f"can't watch {self._directory}: {error.strerror}; {remedy}")

    def _read(self) -> Mapping[str, bytes]:
        with self._opened("read the profiles") as directory:
            found = {}
            for name in files.sweep(directory, SUFFIX):
                content = None if name.startswith(".") else files.content(directory, name, _LARGEST_FILE)
                if content and owner(content):
                    found[name] = content
            return found

    def _write(self, name: str, content: bytes) -> None:
        with self._opened(f"write the profile {name}") as directory:
            _check_ours(directory, name)
            files.replace(directory, name, content)

    def _remove(self, name: str) -> None:
        with self._opened(f"remove the profile {name}") as directory:
            _check_ours(directory, name)
            files.remove(directory, name)

    @contextmanager
    def _opened(self, what: str) -> Iterator[int]:
        try:
            with self._lock, files.opened_directory(self._directory) as directory:
                yield directory
        except OSError as error:
            raise ProfileError(
                f"can't {what} in {self._directory}: {error.strerror}; nothing was changed. "
                "Check that the directory exists, belongs to root and has free space"
            ) from error


def _check_ours(directory: int, name: str) -> None:
    if files.exists(directory, name):
        content = files.content(directory, name, _LARGEST_FILE)
        if content is None or not owner(content):
            raise foreign(name)

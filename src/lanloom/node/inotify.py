"""Changes of a directory, by inotify(7): the few calls that Lanloom needs.

A library would look for libc by running other programs at the start of each agent, and takes a megabyte of it.
"""

import asyncio
import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO = 0x4, 0x8, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
UNMOUNT, IGNORED, ONLYDIR = 0x2000, 0x8000, 0x1000000
"""Of <linux/inotify.h>."""

_HEADER = struct.Struct("=iIII")
_BUFFER = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class InotifyEvent(NamedTuple):
    """A change; `name` is that of a file in the directory; None for the directory itself, or if events were lost."""

    mask: int
    name: str | None


class Inotify:
    """An instance of inotify; a context manager that closes it. Raises OSError."""

    def __init__(self) -> None:
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def watch(self, directory: Path, mask: int) -> None:
        """Report these changes of a directory from now on. Raises OSError."""
        _checked(_libc.inotify_add_watch(self._descriptor, os.fsencode(directory), ctypes.c_uint32(mask)))

    async def events(self) -> list[InotifyEvent]:
        """Wait for events, and return all that there are."""
        loop = asyncio.get_running_loop()
        while not (found := self.ready()):
            readable = asyncio.Event()
            loop.add_reader(self._descriptor, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._descriptor)
        return found

    def ready(self) -> list[InotifyEvent]:
        """Return the events that there are, without waiting."""
        found: list[InotifyEvent] = []
        while True:
            try:
                data = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return found
            found.extend(_decoded(data))


def _decoded(data: bytes) -> Iterator[InotifyEvent]:
    place = 0
    while place < len(data):
        _, mask, _, length = _HEADER.unpack_from(data, place)
        place += _HEADER.size
        name = data[place : place + length].rstrip(b"\0")
        place += length
        yield InotifyEvent(mask, os.fsdecode(name) if name else None)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result

"""Two small files next to the data file: the high-water mark, and a reserve of space.

The mark holds the newest acknowledged version, by which a lost write-ahead log is noticed. SQLite takes a write-ahead
log up to its first damaged frame, and a missing one for an empty one. SQLite can't know what was acknowledged; here it
would take acknowledged writes back without a word.

The mark is written after each commit and before its acknowledgement, so it is never ahead of the data. When the
process dies, it is exact: the kernel has it. It is synced in the background, ten times a second at most, so that no
write waits for a second access to the disk. When the machine dies, it may be that much behind. A sync for each write
would make each half as long again and gain little: a disk that loses a synced log would lose a synced mark, too.

The reserve is space on the disk that is kept for deletions. A deletion writes, too: its change goes to the write-ahead
log first. On a full disk nothing could be deleted, and so nothing would ever get free. The reserve is as large as the
log can be: once it is given up, the whole log fits into the data file, and the log begins again with that space.
"""

import os
import re
import zlib
from pathlib import Path

from lanloom.node.files import replace_at

_RECORD = re.compile(rb"acknowledged (\d{1,19}) ([0-9a-f]{8})\n *\n")
_LENGTH = 64
"""Bytes of the file: always the same, so that writing needs no space on the disk, and fewer than a sector."""


class HighWaterMark:
    """The mark of one data file. `path` is the mark's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def read(self) -> int:
        """Return the newest acknowledged version, 0 without a mark.

        Raises OSError, and ValueError for what is no mark.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        found = _RECORD.fullmatch(content)
        if found is None or _record(int(found[1])) != content:
            raise ValueError("it holds no version")
        return int(found[1])

    def open(self, version: int) -> None:
        """Open the mark for writing, and make it durable with this version if there is none. Raises OSError."""
        if not self.path.exists():
            replace_at(self.path, _record(version))
        self._file = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)

    def write(self, version: int) -> None:
        """Set the mark, in the kernel's cache. Raises OSError."""
        os.pwrite(self._file, _record(version), 0)

    def sync(self) -> None:
        """Wait until the mark is on disk. Raises OSError."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Sync the mark and close it."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1


def _record(version: int) -> bytes:
    digits = str(version).encode()
    text = b"acknowledged %s %08x\n" % (digits, zlib.crc32(digits))
    return text.ljust(_LENGTH - 1) + b"\n"


RESERVE = 16 * 1024 * 1024
"""Bytes of the reserve."""


class Reserve:
    """The reserve of one data file. `path` is the reserve's own, `size` in bytes."""

    def __init__(self, path: Path, size: int = RESERVE) -> None:
        self._path = path
        self._size = size

    def take(self) -> None:
        """Take the space, unless it is there already. Raises OSError when the disk has not enough."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(file, 0, self._size)
        except OSError:
            os.ftruncate(file, 0)
            raise
        finally:
            os.close(file)

    def give_up(self) -> None:
        """Give the space back to the disk."""
        self._path.unlink(missing_ok=True)

"""Files that exist in memory only, for libraries that take secrets by path (OpenSSL under Python's `ssl`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path under which this process can read `content` while the block lasts. Nothing reaches a disk."""
    descriptor = os.memfd_create("lanloom")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)

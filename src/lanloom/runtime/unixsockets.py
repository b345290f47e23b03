"""Listening Unix sockets of an agent: made in one step, for its own user alone."""

import os
import socket
from pathlib import Path


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def listen(path: Path) -> socket.socket:
    """Open a socket that replaces a dead agent's in one step; no other user can write to it at any moment."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(str(fresh))
        finally:
            os.umask(before)
        listening.listen(64)
        listening.setblocking(False)
        fresh.rename(path)
    except BaseException:
        listening.close()
        raise
    return listening

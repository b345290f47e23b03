"""Network namespaces: made, deleted, and entered for the time of one function.

A namespace is entered by a thread that runs nothing else and ends with the function, so no other code of the process
ever finds itself in it. The named ones are those of `ip netns`.
"""

import asyncio
import ctypes
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from lanloom.node.errors import NodeError

T = TypeVar("T")

DIRECTORY = Path("/run/netns")
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class Entering:
    """Calls functions in the namespace at `path` (`/run/netns/NAME`, `/proc/PID/ns/net`); see `netlink.InThread`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Call `function` in a thread that is in the namespace."""
        return asyncio.wrap_future(_in_thread(lambda: _entered(self._path, function)))


def call(path: Path, function: Callable[[], T]) -> T:
    """The result of `function`, called in the namespace at `path`; waits for it."""
    return _in_thread(lambda: _entered(path, function)).result()


@contextmanager
def namespace(name: str) -> Iterator[Path]:
    """A new named namespace, deleted at the end. What still holds it (a process, a socket) keeps it alive."""
    path = create(name)
    try:
        yield path
    finally:
        delete(name)


def create(name: str) -> Path:
    """Make a named namespace. Raises NodeError where it can't, FileExistsError where the name is taken."""
    DIRECTORY.mkdir(mode=0o755, exist_ok=True)
    path = DIRECTORY / name
    path.touch(exist_ok=False)
    try:
        _in_thread(lambda: _make(path)).result()
    except BaseException:
        path.unlink()
        raise
    return path


def delete(name: str) -> None:
    """Delete a named namespace; a missing one is no error."""
    path = DIRECTORY / name
    if not path.exists():
        return
    if _libc.umount2(bytes(path), MNT_DETACH) != 0:
        _raise(f"can't delete the network namespace {name}")
    path.unlink()


def _make(path: Path) -> None:
    if _libc.unshare(CLONE_NEWNET) != 0:
        _raise("can't make a network namespace")
    own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
    if _libc.mount(own.encode(), bytes(path), b"none", MS_BIND, None) != 0:
        _raise(f"can't give the network namespace the name {path.name}")


def _entered(path: Path, function: Callable[[], T]) -> T:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, CLONE_NEWNET) != 0:
            _raise(f"can't enter the network namespace {path}")
    finally:
        os.close(descriptor)
    return function()


def _raise(what: str) -> None:
    raise NodeError(f"{what}: {os.strerror(ctypes.get_errno())}; this needs root (CAP_SYS_ADMIN)")


def _in_thread(function: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="network-namespace", daemon=True).start()
    return future

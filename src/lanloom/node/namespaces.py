"""Network namespaces of a host: made, bound at names, opened by path, entered for one call, removed.

A namespace is entered only by a thread that runs one function and ends. No thread of a pool and never the main thread
changes its own, so that nothing else of the process finds itself in another namespace. A socket stays where it was
made: netlink of another namespace takes one short thread for the socket, and none afterwards.

Every call blocks for a moment; callers run them by `asyncio.to_thread`. CAP_SYS_ADMIN is needed. Names are those of
`ip netns` where the directory is its own.
"""

import ctypes
import errno
import fcntl
import os
import re
import socket
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from lanloom.node.errors import NamespaceError, NamespaceMissing
from lanloom.node.netlink.messages import open_socket

T = TypeVar("T")

DIRECTORY = Path("/run/netns")
"""Where `ip netns` and container runtimes bind network namespaces."""

OWN = Path("/proc/self/ns/net")
"""The namespace of this process."""

_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED, _MNT_DETACH = 0x1000, 0x4000, 1 << 20, 2
_NS_GET_NSTYPE = 0xB703
_LARGEST_STACK = 16
"""Mounts on top of each other that are taken away with one name."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}")
_libc = ctypes.CDLL(None, use_errno=True)


class Identity(NamedTuple):
    """What tells a namespace from all others that are alive."""

    device: int
    inode: int


class Namespace:
    """An open network namespace, which lives at least until `close`. A context manager closes it."""

    def __init__(self, descriptor: int, title: str) -> None:
        self._descriptor = descriptor
        self.title = title
        status = os.fstat(descriptor)
        self.identity = Identity(status.st_dev, status.st_ino)

    def __enter__(self) -> "Namespace":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor, for attributes such as IFLA_NET_NS_FD."""
        return self._descriptor

    def close(self) -> None:
        """Let go of the namespace; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of `function`, run inside by a thread of its own, or what it raises."""
        return in_own_thread(lambda: self._entered(function))

    def socket(self) -> socket.socket:
        """Return a netlink socket inside, for requests and dumps from any thread, one at a time.

        The namespace of this process takes no thread for it. Raises NamespaceError.
        """
        return open_socket() if self.title == str(OWN) else self.call(open_socket)

    def _entered(self, function: Callable[[], T]) -> T:
        if _libc.setns(self._descriptor, _CLONE_NEWNET) != 0:
            raise _failure(f"can't enter the network namespace {self.title}")
        return function()


def open_namespace(path: Path | str) -> Namespace:
    """Return the network namespace at a path.

    Raises NamespaceMissing where there is none, NamespaceError for another file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NamespaceMissing(f"there is no network namespace {path}") from error
    except OSError as error:
        raise NamespaceError(f"can't open the network namespace {path}: {error.strerror}") from error
    try:
        kind = fcntl.ioctl(descriptor, _NS_GET_NSTYPE)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.ENOTTY, errno.EINVAL):
            raise NamespaceMissing(f"{path} is no network namespace, but another file") from error
        raise NamespaceError(f"can't tell what {path} is: {error.strerror}") from error
    if kind != _CLONE_NEWNET:
        os.close(descriptor)
        raise NamespaceError(f"{path} is a namespace of another kind than a network's")
    return Namespace(descriptor, str(path))


def make_namespace(title: str) -> Namespace:
    """Return a new network namespace without a name, which ends with the last of what holds it.

    Raises NamespaceError.
    """
    return in_own_thread(lambda: _made(title))


def make_namespace_with_socket(title: str, prepare: Callable[[], None]) -> tuple[Namespace, socket.socket]:
    """Return the same, with a netlink socket inside, for which no thread has to enter it again.

    `prepare` runs inside first. Raises what that raises as well.
    """

    def make() -> tuple[Namespace, socket.socket]:
        namespace = _made(title)
        try:
            prepare()
            return namespace, open_socket()
        except BaseException:
            namespace.close()
            raise

    return in_own_thread(make)


def _made(title: str) -> Namespace:
    """Return a new namespace, which this thread has entered."""
    if _libc.unshare(_CLONE_NEWNET) != 0:
        raise _failure(f"can't make the network namespace {title}")
    return Namespace(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC), title)


class NamespaceDirectory:
    """The names of network namespaces: files of a directory, each with a namespace mounted on it.

    With `shared` an empty directory becomes a shared mount of its own, as `ip netns add` makes it. Otherwise that
    program would mount the directory over itself later, and what was bound below would never go away.
    """

    def __init__(self, directory: Path = DIRECTORY, *, shared: bool = False) -> None:
        self._directory = directory
        self._shared = shared

    def path(self, name: str) -> Path:
        """Return where a namespace of this name is bound. Raises NamespaceError for a text that can't be a name."""
        if not _NAME.fullmatch(name):
            raise NamespaceError(
                f"{name!r} can't be the name of a network namespace: letters, digits, dots, dashes and underscores "
                "only, at most 63, not beginning with a dot or dash"
            )
        return self._directory / name

    def open(self, name: str) -> Namespace:
        """Return the namespace of a name. Raises NamespaceMissing, also for a file without a namespace on it."""
        return open_namespace(self.path(name))

    def bind(self, name: str, namespace: Namespace) -> None:
        """Give a namespace a name. A file without a namespace, as a dead process leaves it, is used.

        Raises NamespaceError, also where the name is taken.
        """
        path = self.path(name)
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if self._shared:
            self._share()
        with suppress(NamespaceMissing), self.open(name):
            raise NamespaceError(
                f"there is a network namespace {path} already; delete it, or take another name"
            )
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444))
        except OSError as error:
            raise NamespaceError(f"can't make the file {path}: {error.strerror}") from error
        source = f"/proc/self/fd/{namespace.fileno()}"
        if _libc.mount(source.encode(), bytes(path), b"none", _MS_BIND, None) != 0:
            failure = _failure(f"can't bind a network namespace at {path}")
            with suppress(OSError):
                path.unlink()
            raise failure

    def _share(self) -> None:
        place = bytes(self._directory)
        if _libc.mount(None, place, None, _MS_SHARED | _MS_REC, None) == 0:
            return
        # What others have bound there already would be hidden below, and its owners could not remove it any more.
        if any(self._directory.iterdir()):
            return
        mounted = _libc.mount(place, place, b"none", _MS_BIND | _MS_REC, None) == 0
        if not mounted or _libc.mount(None, place, None, _MS_SHARED | _MS_REC, None) != 0:
            raise _failure(f"can't make {self._directory} a shared mount")

    def remove(self, name: str) -> None:
        """Take a name away; a missing one is no error. The namespace lives on while something holds it.

        The file stays, empty, where another mount of the directory has a namespace on it.

        Raises NamespaceError for a file that is no namespace's and not empty.
        """
        path = self.path(name)
        for _ in range(_LARGEST_STACK):
            if _libc.umount2(bytes(path), _MNT_DETACH) != 0:
                break
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size:
                raise NamespaceError(f"{path} is no network namespace, but another file; move it away")
            path.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.EBUSY:
                return
            raise NamespaceError(f"can't remove {path}: {error.strerror}") from error


def in_own_thread(function: Callable[[], T]) -> T:
    """Return the result of `function`, or raise what it raises; the thread ends with it, whatever it has entered."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="network-namespace", daemon=True).start()
    return outcome.result()


def _failure(what: str) -> NamespaceError:
    code = ctypes.get_errno()
    remedy = "; the agent needs the right SYS_ADMIN" if code in (errno.EPERM, errno.EACCES) else ""
    return NamespaceError(f"{what}: {os.strerror(code)}{remedy}")

"""Start a program that others configure, where it sees little of the node and may change less.

A thread of its own enters new namespaces, makes the file system that the program sees, gives up every capability and
starts the program, which inherits all of that. So nothing is started in between, and no other thread is touched. The
program is the first process of its PID namespace: when it ends, or is killed, the kernel kills whatever it started.

What the program sees is read-only: the system's programs and libraries, and what the sandbox names. It can write to
/tmp, which is its own, and to directories that it is given. There is no /proc and no /sys, by which root would change
the kernel's settings, and no device but /dev/null. It stays root, for its files are root's, without any capability and
without a way to get one.

CAP_SYS_ADMIN is needed.
"""

import ctypes
import errno
import os
import resource
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from lanloom.node.namespaces import Namespace, in_own_thread, make_namespace

_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000  # mount, UTS, IPC, PID
_NEW_NET = 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 0x1000, 0x4000, 1 << 18
_DETACH = 2
_CAPBSET_DROP, _NO_NEW_PRIVS, _AMBIENT, _AMBIENT_CLEAR_ALL = 24, 38, 47, 4
_CAPABILITY_VERSION = 0x20080522
_LARGEST_CAPABILITY = 64

_ROOT = Path("/proc")
"""Where the new root is made: a directory that every machine has, and that the program does not see."""

_SYSTEM = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64"))
_TMP, _NULL = Path("/tmp"), Path("/dev/null")
_SIZE = b"mode=0755,size=4m,nr_inodes=4096"

LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 256,
    resource.RLIMIT_FSIZE: 16 << 20,
    resource.RLIMIT_DATA: 512 << 20,
    resource.RLIMIT_MEMLOCK: 64 << 10,
}
"""What each process may use at most. Programs in Go map far more than they use."""

_FIRST_VICTIM = b"1000"

_libc = ctypes.CDLL(None, use_errno=True)


class Sandbox(Struct, frozen=True, kw_only=True):
    """What a program sees in addition to the system's programs and libraries.

    Paths of `readable` are files and directories; those that are missing are left out. `writable` are directories that
    are there, by the path that the program knows. A program that is not on the network has one without any link up.
    """

    readable: tuple[Path, ...] = ()
    writable: Mapping[Path, Path] = {}
    on_network: bool = False


def start(program: Path, environment: Mapping[str, str], sandbox: Sandbox) -> subprocess.Popen[bytes]:
    """Return the program, started, with pipes for its input and outputs; what it reads is not limited in time.

    It blocks for some milliseconds. Raises OSError.
    """
    network = None if sandbox.on_network else _no_network()
    process = in_own_thread(lambda: _enclosed(program, environment, sandbox, network))
    with suppress(ProcessLookupError):  # it has ended already
        for limit, value in LIMITS.items():
            resource.prlimit(process.pid, limit, (value, value))
    with suppress(OSError):
        Path(f"/proc/{process.pid}/oom_score_adj").write_bytes(_FIRST_VICTIM)
    return process


@cache
def _no_network() -> Namespace:
    """Return the network namespace of all programs without a network; it lives as long as this process."""
    return make_namespace("of programs without a network")


def _enclosed(
    program: Path, environment: Mapping[str, str], sandbox: Sandbox, network: Namespace | None
) -> subprocess.Popen[bytes]:
    """Run in a thread that ends afterwards: it can't go back, nor start another thread."""
    _check(_libc.unshare(_NAMESPACES), "can't make namespaces for it")
    if network is not None:
        _check(_libc.setns(network.fileno(), _NEW_NET), "can't enter its network namespace")
    _make_root(sandbox)
    _enter_root()
    _give_up_rights()
    return subprocess.Popen(
        [program],
        env=dict(environment),
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _make_root(sandbox: Sandbox) -> None:
    _mount(None, Path("/"), _REC | _PRIVATE)  # else the host would lose what is unmounted here
    for path in (_ROOT, _inside(_TMP)):
        path.mkdir(exist_ok=True)
        _mount(Path("tmpfs"), path, _NOSUID | _NODEV, kind=b"tmpfs", options=_SIZE)
    for path in _SYSTEM:
        if path.is_symlink():
            _inside(path).symlink_to(str(path.readlink()).lstrip("/"))  # relative, as they are at the root
        elif path.is_dir():
            _show(path, path, _RDONLY)
    _show(_NULL, _NULL, _RDONLY)
    for path in sandbox.readable:
        if path.exists():
            _show(path, path, _RDONLY | _NODEV)
    for path, source in sandbox.writable.items():
        _show(source, path, _NODEV | _NOEXEC)
    _mount(None, _ROOT, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def _show(source: Path, path: Path, flags: int) -> None:
    """Bind a file or directory, without what is mounted below it."""
    target = _inside(path)
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(source, target, _BIND)
    _mount(None, target, _REMOUNT | _BIND | _NOSUID | flags)


def _inside(path: Path) -> Path:
    """Return where the new root has a path."""
    return _ROOT / path.relative_to("/")


def _enter_root() -> None:
    os.chdir(_ROOT)
    _check(_libc.pivot_root(b".", b"."), "can't change its root")
    _check(_libc.umount2(b".", _DETACH), "can't leave the agent's root")
    os.chdir("/")


def _give_up_rights() -> None:
    """Leave no capability to this thread, and to no program that it starts."""
    _check(_libc.prctl(_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0), "can't clear ambient capabilities")
    for capability in range(_LARGEST_CAPABILITY):
        result = _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
        if result != 0 and ctypes.get_errno() == errno.EINVAL:  # the kernel knows no more
            break
        _check(result, f"can't drop capability {capability}")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "can't drop capabilities")
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "can't forbid new rights")


def _mount(
    source: Path | None, target: Path, flags: int, *, kind: bytes | None = None, options: bytes | None = None
) -> None:
    origin = bytes(source) if source is not None else None
    _check(_libc.mount(origin, bytes(target), kind, flags, options), f"can't mount {source or target}")


def _check(result: int, failure: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{failure}: {os.strerror(code)}")

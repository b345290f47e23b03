"""A program that tries what a hostile one might, and prints what came of each attempt; the standard library only."""

import ctypes
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)

NEW_USER, NEW_MOUNTS, NEW_NET = 0x10000000, 0x20000, 0x40000000


def call(name: str, *arguments: Any) -> None:
    """Call the C library; raise OSError."""
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def regain(namespace_flags: int, path: str) -> int:
    """Become root of a user namespace, and make a mount writable there."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        call("unshare", NEW_USER | namespace_flags)
        call("mount", None, path.encode(), None, 32 | 0x1000, None)
    except OSError as error:
        os._exit(error.errno or 255)
    os._exit(0)


def outcome(attempt: Callable[[], object]) -> object:
    """Return what an attempt returned, or the number of its error."""
    try:
        return attempt()
    except OSError as error:
        return os.strerror(error.errno or 0)


def connect(name: str) -> str:
    """Connect to an abstract socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(name)
    return "connected"


def write(path: str) -> str:
    """Write a file."""
    Path(path).write_text("x")
    return "written"


def main(asked: dict[str, Any]) -> None:
    """Make every attempt."""
    directory, agent = asked["programs"], asked["agent"]
    attempts = {
        "list /": lambda: sorted(os.listdir("/")),
        "list /dev": lambda: sorted(os.listdir("/dev")),
        "write program": lambda: write(directory + "/host-local"),
        "write /usr": lambda: write("/usr/x"),
        "write /": lambda: write("/x"),
        "write readable": lambda: write(asked["readable"] + "/x"),
        "write state": lambda: write(asked["state"] + "/x"),
        "write /tmp": lambda: write("/tmp/x"),
        "read secret": lambda: Path(asked["secret"]).read_text(),
        "mount": lambda: call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None),
        "unmount": lambda: call("umount2", asked["state"].encode(), 2),
        "remount": lambda: call("mount", None, b"/usr", None, 32 | 0x1000, None),
        "chroot": lambda: os.chroot("/tmp"),
        "mknod": lambda: os.mknod("/tmp/mem", 0o20666, os.makedev(1, 1)),
        "setuid": lambda: os.setuid(1000),
        "hostname": lambda: socket.sethostname("evil"),
        "network namespace": lambda: call("unshare", NEW_NET),
        "raw socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
        "limits": lambda: resource.prlimit(0, resource.RLIMIT_NOFILE, (512, 512)),
        "regain": lambda: os.strerror(os.WEXITSTATUS(regain(NEW_MOUNTS, "/usr"))),
        "kill agent": lambda: os.kill(agent, 9),
        "trace agent": lambda: call("ptrace", 16, agent, None, None),
        "parent": os.getppid,
        "descriptors": lambda: [number for number in range(3, 256) if is_open(number)],
        "links": lambda: [name for _, name in socket.if_nameindex()],
        "abstract": lambda: connect(asked["abstract"]),
        "environment": lambda: sorted(os.environ),
        "files": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    }
    print(json.dumps({name: outcome(attempt) for name, attempt in attempts.items()}))


def is_open(number: int) -> bool:
    """Whether a descriptor is open."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(json.load(sys.stdin))

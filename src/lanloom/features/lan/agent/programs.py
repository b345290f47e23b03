"""The CNI programs `macvtap` and `k8slanveth`: the compiled shim for this agent's socket, or its twin in Python.

Both say over the socket what was asked, and print the answer; `cni` decides. The shim is compiled once, by `make setup`
or for the image, and is no part of the sources; the agent writes its socket's path into it.
"""

import sys
from functools import partial
from pathlib import Path

import lanloom.cni

NAMES = ("macvtap", "k8slanveth")
"""What NADs give as their `type`: a machine's device, and a pod's interface."""

_MARK = b"lanloom-cni-shim 1 "
"""Before the place for the path in the compiled shim; another version of the protocol has another mark."""

_PLACE = 128
"""Bytes of the mark and the path together."""

_LONGEST = 107
"""Bytes of the path of a Unix socket."""

_IPAM_NAME = "lanloom-ipam"
_SOCKET_LINE = 'SOCKET = "/run/lanloom/cni-lan.sock"\n'
_NAME_LINE = 'NAME = "macvtap"\n'


def shim_path() -> Path:
    """Where the compiled shim of this installation is, if there is one."""
    return Path(sys.prefix) / "libexec/lanloom/cni-shim"


def lan_socket(socket: Path) -> Path:
    """The socket of these programs, beside the agent's other one."""
    return socket.with_name(f"{socket.stem}-lan{socket.suffix}")


def program(name: str, socket: Path, shim: Path | None = None) -> bytes:
    """The program of that name for an agent whose socket for CNI is `socket`: compiled where there is a `shim`.

    `shim` is that of this installation unless another is given. Raises ValueError for a path that no socket can have.
    """
    path = bytes(lan_socket(socket))
    if len(path) > _LONGEST:
        raise ValueError(f"the path {lan_socket(socket)} is too long for a socket: at most {_LONGEST} bytes")
    return _compiled(shim or shim_path(), path) or _script(name, path.decode())


macvtap = partial(program, "macvtap")
k8slanveth = partial(program, "k8slanveth")


def _compiled(shim: Path, socket: bytes) -> bytes:
    """The shim with the path in it; empty if there is none, or one of another version."""
    try:
        content = shim.read_bytes()
    except OSError:
        return b""
    place = _MARK.ljust(_PLACE, b"\0")
    if content.count(place) != 1:
        return b""
    return content.replace(place, (_MARK + socket).ljust(_PLACE, b"\0"))


def _script(name: str, socket: str) -> bytes:
    sources = Path(lanloom.cni.__file__).parent
    launcher = (sources / "launcher.sh").read_text(encoding="utf-8").replace(_IPAM_NAME, name)
    text = (sources / "forward.py").read_text(encoding="utf-8")
    if _SOCKET_LINE not in text or _NAME_LINE not in text:
        raise ValueError("the program's text has no lines for its name and the socket")
    text = text.replace(_SOCKET_LINE, f"SOCKET = {socket!r}\n").replace(_NAME_LINE, f"NAME = {name!r}\n")
    return (launcher + text).encode()

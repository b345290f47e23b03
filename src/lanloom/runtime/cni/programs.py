"""The CNI programs on a node: the shim with its agent's socket, under each name in the runtime's directory.

The shim is compiled once for an architecture, by `make setup` or for the image, and is no part of the sources.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog
from msgspec import Struct

from lanloom.node.files import opened_directory, replace_at, sweep
from lanloom.node.files import remove as remove_at

log = structlog.get_logger(__name__)

CHECK_SECONDS = 60.0
"""Seconds between two checks that the plugin is still in its place."""

PartObserver = Callable[[str, bool], None]
"""Receives whether a part, `plugin` or `socket`, is there."""


_MARK = b"lanloom-cni-shim 1 "
"""Before the place for the path in the shim; another version of the protocol has another mark."""

_PLACE = 128
"""Bytes of the mark and the path together."""

_LONGEST = 107
"""Bytes of the path of a Unix socket."""

OURS = b"lanloom"
"""A program that has this word in it is one of Lanloom's, of whatever version."""

_LARGEST = 1 << 22
"""Bytes: a larger program is none of ours."""


class ForeignProgram(OSError):
    """A foreign program has the name of one of ours; the message says what to do."""


class NoShim(OSError):
    """There is no shim to be installed; the message says what to do."""


class CniSettings(Struct, frozen=True, kw_only=True):
    """`socket` is where the agent listens; `programs` the directory into which the plugin is put, None for nowhere.

    The plugin must see the socket under the same path. `state` is where programs of others that the agent runs keep
    files, None for an agent that keeps none.
    """

    socket: Path
    programs: Path | None = None
    state: Path | None = None


def shim_path() -> Path:
    """Return where the shim of this installation is: next to its source."""
    return Path(__file__).with_name("cni-shim")


def program(socket: Path, shim: Path | None = None) -> bytes:
    """Return the program for an agent that listens at `socket`; `shim` is that of this installation unless given.

    Raises ValueError for a path that no socket can have, and NoShim.
    """
    path, source = bytes(socket), shim or shim_path()
    if len(path) > _LONGEST:
        raise ValueError(f"the path {socket} is too long for a socket: at most {_LONGEST} bytes")
    try:
        content = source.read_bytes()
    except OSError as error:
        why = f"can't be read: {error.strerror}"
    else:
        place = _MARK.ljust(_PLACE, b"\0")
        if content.count(place) == 1:
            return content.replace(place, (_MARK + path).ljust(_PLACE, b"\0"))
        why = "is of another version"
    raise NoShim(f"the CNI shim {source} {why}; take Lanloom's image, or run `make setup` in a checkout")


def socket_in(content: bytes) -> Path | None:
    """Return the path of the socket in a program; None for a program of another kind or version."""
    at = content.find(_MARK)
    if at < 0:
        return None
    return Path(content[at + len(_MARK) : at + _PLACE].split(b"\0")[0].decode("utf-8", "replace"))


def is_foreign(path: Path) -> bool:
    """Return whether a file is there that is none of Lanloom's, such as KubeVirt's own `macvtap`. Raises OSError."""
    if path.name.startswith("lanloom") or not path.exists():
        return False
    if not path.is_file():
        return True
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    return len(content) > _LARGEST or OURS not in content


def foreign_remedy(path: Path) -> str:
    """Return what to do about a foreign program."""
    return (
        f"stop what installs it, such as the DaemonSet of KubeVirt's macvtap-cni or of k8slan, and remove {path}; "
        "the agent then installs Lanloom's within a minute"
    )


def install(directory: Path, name: str, content: bytes) -> bool:
    """Put a program into a directory in one step, so that a runtime finds a whole one at any moment; whether it did.

    Raises ForeignProgram where another's program has the name, which stays, and OSError.
    """
    target = directory / name
    directory.mkdir(parents=True, exist_ok=True)
    if is_foreign(target):
        raise ForeignProgram(f"{target} is not Lanloom's and is left alone; {foreign_remedy(target)}")
    if target.is_file() and target.read_bytes() == content and target.stat().st_mode & 0o777 == 0o755:
        return False
    with opened_directory(directory) as opened:
        sweep(opened, name)
    replace_at(target, content, 0o755)
    return True


def remove(directory: Path, name: str, socket: Path) -> bool:
    """Remove the program of the agent that listens at `socket`; whether it was there. Raises OSError."""
    path = directory / name
    if not path.is_file() or socket_in(path.read_bytes()) != socket:
        return False
    with opened_directory(directory) as opened:
        sweep(opened, name)
        remove_at(opened, name)
    return True


async def keep_installed(
    names: Iterable[str],
    content: Callable[[], bytes],
    directory: Path,
    on_part: PartObserver,
    every: float = CHECK_SECONDS,
) -> None:
    """Put programs into place, and again when one was replaced or removed: by an upgrade of the host, say.

    `on_part` receives whether all are there. `every` is in seconds.
    """
    names = tuple(names)
    reported: dict[str, str] = {}
    while True:
        complaints = {name: complaint for name in names if (complaint := _kept(directory, name, content))}
        for name, complaint in complaints.items():
            if reported.get(name) != complaint:
                log.error("cni-plugin-not-installed", path=str(directory / name), error=complaint)
        reported = complaints
        on_part("plugin", not complaints)
        await asyncio.sleep(every)


def _kept(directory: Path, name: str, content: Callable[[], bytes]) -> str:
    """Install a program; return why that failed, empty when it is in place."""
    try:
        if install(directory, name, content()):
            log.info("cni-plugin-installed", path=str(directory / name))
    except OSError as error:
        return str(error)
    return ""

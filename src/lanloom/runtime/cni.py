"""The CNI programs of an agent: kept in the runtime's directory, behind them the agent's socket."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from msgspec import Struct

from lanloom.node.files import replace_at

CHECK_SECONDS = 60.0
"""Seconds between two checks that the plugin is still in its place."""

PartObserver = Callable[[str, bool], None]
"""Told whether a part, `plugin` or `socket`, is there."""

log = structlog.get_logger(__name__)


OURS = b"lanloom"
"""A program that has this word in it is one of Lanloom's, of whatever version."""

_LARGEST = 1 << 22
"""Bytes: a larger program is none of ours."""


class ForeignProgram(OSError):
    """A program of somebody else has the name of one of ours; the message says what to do."""


class CniSettings(Struct, frozen=True, kw_only=True):
    """`socket` is where the agent listens; `programs` the directory into which the plugin is put, None for nowhere.

    The plugin must see the socket under the same path. `state` is where programs of others that the agent runs keep
    files, None for an agent that keeps none.
    """

    socket: Path
    programs: Path | None = None
    state: Path | None = None


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
    """What to do about a program of somebody else."""
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
    replace_at(target, content, 0o755)
    return True


async def keep_installed(
    programs: Mapping[str, bytes], directory: Path, on_part: PartObserver, every: float = CHECK_SECONDS
) -> None:
    """Put programs into place, and again when somebody has replaced or removed one: an upgrade of the host, say.

    `on_part` is told whether all are there. `every` is in seconds.
    """
    reported: dict[str, str] = {}
    while True:
        complaints = {
            name: complaint
            for name, content in programs.items()
            if (complaint := _kept(directory, name, content))
        }
        for name, complaint in complaints.items():
            if reported.get(name) != complaint:
                log.error("cni-plugin-not-installed", path=str(directory / name), error=complaint)
        reported = complaints
        on_part("plugin", not complaints)
        await asyncio.sleep(every)


def _kept(directory: Path, name: str, content: bytes) -> str:
    """Install a program; return why that failed, empty when it is in place."""
    try:
        if install(directory, name, content):
            log.info("cni-plugin-installed", path=str(directory / name))
    except OSError as error:
        return str(error)
    return ""

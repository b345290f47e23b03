"""The CNI programs of an agent: kept in the runtime's directory, behind them the agent's socket."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from msgspec import Struct

LOOK_SECONDS = 60.0
"""How often the agent looks whether the plugin is still where it put it."""

PartObserver = Callable[[str, bool], None]
"""Told whether a part, `plugin` or `socket`, is there."""

log = structlog.get_logger(__name__)


class CniSettings(Struct, frozen=True, kw_only=True):
    """`socket` is where the agent listens; `programs` the directory into which the plugin is put, None for nowhere.

    The plugin must see the socket under the same path.
    """

    socket: Path
    programs: Path | None = None


def install(directory: Path, name: str, content: bytes) -> bool:
    """Puts the plugin into a directory in one step, so that a runtime finds a whole one at any moment; whether it did.

    Raises OSError.
    """
    target = directory / name
    directory.mkdir(parents=True, exist_ok=True)
    if target.is_file() and target.read_bytes() == content and target.stat().st_mode & 0o777 == 0o755:
        return False
    fresh = directory / f".{name}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o755)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return True


async def keep_installed(
    programs: Mapping[str, bytes], directory: Path, on_part: PartObserver, every: float = LOOK_SECONDS
) -> None:
    """Puts programs into place, and again when somebody has replaced or removed one: an upgrade of the host, say.

    `on_part` is told whether all are there. `every` is in seconds.
    """
    complained = ""
    while True:
        complaint = path = ""
        for name, content in programs.items():
            path = str(directory / name)
            try:
                if install(directory, name, content):
                    log.info("cni-plugin-installed", path=path)
            except OSError as error:
                complaint = str(error)
                break
        if complaint and complaint != complained:
            log.error("cni-plugin-not-installed", path=path, error=complaint)
        complained = complaint
        on_part("plugin", not complaint)
        await asyncio.sleep(every)

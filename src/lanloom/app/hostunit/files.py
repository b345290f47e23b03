"""What the unit consists of: files with their places and modes, and the links that enable it."""

from importlib import resources
from pathlib import PurePosixPath

from msgspec import Struct

NAME = "lanloom-nm-reload"
SCRIPT = PurePosixPath("/usr/local/lib/lanloom/nm-reload")
"""Root-owned, and kept over reboots and upgrades also where most of /usr is read-only."""

UNITS = PurePosixPath("/etc/systemd/system")

_WANTED_BY = {
    f"{NAME}.path": "multi-user.target",
    f"{NAME}.service": "multi-user.target",
    f"{NAME}.timer": "timers.target",
}
"""Unit → the target that starts it. The service too, for a first look at boot."""


class HostFile(Struct, frozen=True):
    """A file of the unit, owned by root."""

    path: PurePosixPath
    content: bytes
    mode: int


class HostLink(Struct, frozen=True):
    """A symbolic link of the unit."""

    path: PurePosixPath
    target: PurePosixPath


def unit_names() -> tuple[str, ...]:
    """Every unit, the one first that systemd is to start first."""
    return tuple(_WANTED_BY)


def host_files() -> tuple[HostFile, ...]:
    """Every file, the script first: no unit may name what is not there."""
    units = (HostFile(UNITS / name, _data(name), 0o644) for name in _WANTED_BY)
    return (HostFile(SCRIPT, _data("nm-reload"), 0o755), *units)


def host_links() -> tuple[HostLink, ...]:
    """The links that `systemctl enable` would make."""
    return tuple(
        HostLink(UNITS / f"{target}.wants" / name, UNITS / name) for name, target in _WANTED_BY.items()
    )


def _data(name: str) -> bytes:
    return (resources.files(__package__) / name).read_bytes()

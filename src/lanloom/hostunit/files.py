"""The unit's files with their places and modes, the links that enable it, and the file system that they go to.

The file system of a host may be mounted below a directory of this process. In a container the host's root is `/host`;
an absolute symbolic link in there means a place of the host, not one of the container. So every path is followed here,
component by component, and never leaves the tree.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path, PurePosixPath

from msgspec import Struct


class HostError(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}")


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


_LINKS_MAX = 40
"""As many symbolic links as Linux follows in one path."""


class Tree:
    """The host's file system below `root`. Every method raises HostError."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise HostError(f"{root} is not a directory", "Name the host's root with --root.")
        self.root = root.resolve()

    @property
    def own(self) -> bool:
        """Whether this is the file system that this process lives in."""
        return self.root == Path("/")

    def place(self, path: PurePosixPath) -> Path:
        """Where a path of the host is for this process. A link in its last component is not followed."""
        return self._follow(path.parent) / path.name

    def has(self, file: HostFile) -> bool:
        """Whether the file is there with the same content and mode."""
        place = self.place(file.path)
        with _in_words("read", file.path):
            if place.is_symlink() or not place.is_file():
                return False
            return place.stat().st_mode & 0o7777 == file.mode and place.read_bytes() == file.content

    def there(self, path: PurePosixPath) -> bool:
        """Whether anything is there."""
        return os.path.lexists(self.place(path))

    def has_link(self, link: HostLink) -> bool:
        """Whether the link is there and leads where it should."""
        place = self.place(link.path)
        return place.is_symlink() and PurePosixPath(os.readlink(place)) == link.target  # noqa: PTH115 - raw

    def write(self, file: HostFile) -> None:
        """Puts the file there: all of it, or nothing."""
        place = self.place(file.path)
        with _in_words("write", file.path):
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
            try:
                _write_synced(temporary, file)
                temporary.rename(place)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def write_link(self, link: HostLink) -> None:
        """Puts the link there, in place of another one of its name."""
        place = self.place(link.path)
        with _in_words("write", link.path):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(link.target)

    def remove(self, path: PurePosixPath) -> bool:
        """Removes a file or link; whether there was one."""
        place = self.place(path)
        with _in_words("remove", path):
            if not os.path.lexists(place):
                return False
            place.unlink()
            return True

    def remove_empty(self, path: PurePosixPath) -> None:
        """Removes a directory if nothing is in it."""
        with suppress(OSError):
            self.place(path).rmdir()

    def _follow(self, path: PurePosixPath) -> Path:
        """The place of a directory, with all its links followed inside the tree."""
        left = list(reversed(path.parts[1:]))
        place, links = self.root, 0
        while left:
            part = left.pop()
            if part == "..":
                place = place if place == self.root else place.parent
            elif (place / part).is_symlink():
                links += 1
                if links > _LINKS_MAX:
                    raise HostError(
                        f"{path} has too many symbolic links", "Remove the one that leads to itself."
                    )
                target = PurePosixPath(os.readlink(place / part))  # noqa: PTH115 - as the host sees it
                place = self.root if target.is_absolute() else place
                left += reversed([item for item in target.parts if item != "/"])
            else:
                place /= part
        return place


@contextmanager
def _in_words(verb: str, path: PurePosixPath) -> Iterator[None]:
    """Turns an OSError into words about a path of the host."""
    try:
        yield
    except OSError as error:
        what = f"can't {verb} {path}: {error.strerror}"
        if isinstance(error, PermissionError):
            raise HostError(what, "Run this as root.") from error
        raise HostError(what, "See that the file system can be written and has space.") from error


def _write_synced(place: Path, file: HostFile) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place, flags, 0o600), "wb") as stream:
        os.fchmod(stream.fileno(), file.mode)
        stream.write(file.content)
        stream.flush()
        os.fsync(stream.fileno())

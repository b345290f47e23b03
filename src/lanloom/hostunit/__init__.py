"""The host's reload unit: systemd tells NetworkManager of changed profiles also while no agent runs.

The agent does the same over D-Bus as long as it lives. The unit is for what it can't do: profiles that come from a
backup or another hand while it is away, and hosts on which it may write files and nothing else.

This module installs and removes the unit, shows its state, and does its work in the foreground. systemd is used
through systemctl: the one program whose words are the same on every distribution.

The file system of a host may be mounted below a directory of this process. In a container the host's root is `/host`;
an absolute symbolic link in there means a place of the host, not one of the container. So every path is followed here,
component by component, and never leaves the tree.
"""

import asyncio
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec import Struct


class HostError(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}")


NAME = "lanloom-nm-reload"
SCRIPT = PurePosixPath("/usr/local/lib/lanloom/nm-reload")
"""Root-owned, and kept over reboots and upgrades also where most of /usr is read-only."""

UNITS = PurePosixPath("/etc/systemd/system")

MEMORY = PurePosixPath("/run") / NAME
"""What NetworkManager knows from the unit in this boot: `RuntimeDirectory=` of the service."""

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
    """Return every unit, the one first that systemd is to start first."""
    return tuple(_WANTED_BY)


def host_files() -> tuple[HostFile, ...]:
    """Return every file, the script first: no unit may name what is not there."""
    units = (HostFile(UNITS / name, _data(name), 0o644) for name in _WANTED_BY)
    return (HostFile(SCRIPT, _data("nm-reload"), 0o755), *units)


def host_links() -> tuple[HostLink, ...]:
    """Return the links that `systemctl enable` would make."""
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
        """Return where a path of the host is for this process. A link in its last component is not followed."""
        return self._follow(path.parent) / path.name

    def has(self, file: HostFile) -> bool:
        """Return whether the file is there with the same content and mode."""
        place = self.place(file.path)
        with _in_words("read", file.path):
            if place.is_symlink() or not place.is_file():
                return False
            return place.stat().st_mode & 0o7777 == file.mode and place.read_bytes() == file.content

    def there(self, path: PurePosixPath) -> bool:
        """Return whether anything is there."""
        return os.path.lexists(self.place(path))

    def has_link(self, link: HostLink) -> bool:
        """Return whether the link is there and leads where it should."""
        place = self.place(link.path)
        return place.is_symlink() and PurePosixPath(os.readlink(place)) == link.target  # noqa: PTH115 - raw

    def write(self, file: HostFile) -> None:
        """Put the file there: all of it, or nothing."""
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
        """Put the link there, in place of another one of its name."""
        place = self.place(link.path)
        with _in_words("write", link.path):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(link.target)

    def remove(self, path: PurePosixPath) -> bool:
        """Remove a file or link; return whether there was one."""
        place = self.place(path)
        with _in_words("remove", path):
            if not os.path.lexists(place):
                return False
            place.unlink()
            return True

    def remove_directory(self, path: PurePosixPath) -> None:
        """Remove a directory with all that is in it. A link in its place goes, and not what it leads to."""
        place = self.place(path)
        with _in_words("remove", path):
            if place.is_symlink():
                place.unlink()
            else:
                shutil.rmtree(place)

    def remove_empty(self, path: PurePosixPath) -> None:
        """Remove a directory if nothing is in it."""
        with suppress(OSError):
            self.place(path).rmdir()

    def _follow(self, path: PurePosixPath) -> Path:
        """Return the place of a directory, with all its links followed inside the tree."""
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
    """Turn an OSError into words about a path of the host."""
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


TIMEOUT = 60.0
"""Seconds after which systemd is taken for dead."""


class Systemd(Protocol):
    """What the unit needs of systemd."""

    def run(self, *words: str) -> None:
        """Run `systemctl WORDS`. Raises HostError."""
        ...

    def active(self, unit: str) -> bool:
        """Return whether a unit is active; False also where there is no systemd."""
        ...


class Systemctl:
    """The program systemctl."""

    def run(self, *words: str) -> None:
        """Implement the port."""
        done = self._call(*words)
        if done.returncode != 0:
            said = done.stderr.strip() or f"exit status {done.returncode}"
            raise HostError(
                f"systemctl {' '.join(words)} failed: {said}",
                "The files are in place; see `journalctl -u lanloom-nm-reload.service` and try again.",
            )

    def active(self, unit: str) -> bool:
        """Implement the port."""
        return shutil.which("systemctl") is not None and self._call("is-active", unit).returncode == 0

    def _call(self, *words: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                ["systemctl", *words], capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except FileNotFoundError:
            raise HostError(
                "this host has no systemctl", "Use `lanloom host watch`, which needs no systemd."
            ) from None
        except subprocess.TimeoutExpired:
            raise HostError(
                f"systemd does not answer within {TIMEOUT:.0f} s", "See `systemctl status`."
            ) from None


PERIOD_SECONDS = 120.0
"""How often to look although nothing seems to happen, like the unit's timer."""


async def watch(changes: AsyncIterator[None], check: Callable[[], Awaitable[None]]) -> None:
    """Check at once, after changes (one or two checks for a burst) and from time to time, until cancelled."""
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_note(changes, changed))
        while True:
            changed.clear()
            await check()
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await changed.wait()


async def _note(changes: AsyncIterator[None], changed: asyncio.Event) -> None:
    async for _ in changes:
        changed.set()


async def run_script(profiles: Path, memory: Path) -> None:
    """Run the script once; its output goes to standard error. Raises HostError where there is no bash."""
    with resources.as_file(resources.files(__package__) / SCRIPT.name) as script:
        words = ["bash", "--", os.fspath(script), os.fspath(profiles), os.fspath(memory)]
        try:
            process = await asyncio.create_subprocess_exec(*words)
        except FileNotFoundError:
            raise HostError("there is no bash on this host", "Install it.") from None
        await process.wait()


class Part(Struct, frozen=True, kw_only=True):
    """A file or link of the unit on a host: `there`, `differs` or `missing`."""

    path: str
    state: str


class UnitStatus(Struct, frozen=True, kw_only=True):
    """The unit on a host. `active` is None where systemd can't be asked: on another file system than this one."""

    installed: bool
    enabled: bool
    active: bool | None
    parts: tuple[Part, ...]

    @property
    def well(self) -> bool:
        """Whether nothing is missing."""
        return self.installed and self.enabled and self.active is not False


def install(tree: Tree, systemd: Systemd) -> tuple[str, ...]:
    """Install, enable and, on this very host, start the unit; return one line for each thing that changed."""
    _check_root(tree)
    changes = []
    for file in host_files():
        if not tree.has(file):
            verb = "replaced" if tree.there(file.path) else "wrote"
            tree.write(file)
            changes.append(f"{verb} {file.path}")
    for link in host_links():
        if not tree.has_link(link):
            tree.write_link(link)
            changes.append(f"enabled {link.path.name} ({link.path})")
    if tree.own:
        changes += _start(systemd, changed=bool(changes))
    return tuple(changes)


def _start(systemd: Systemd, *, changed: bool) -> list[str]:
    """Start a changed unit again, so that what runs is what is installed."""
    idle = [name for name in _WATCHERS if not systemd.active(name)]
    if changed:
        systemd.run("daemon-reload")
        systemd.run("restart", *_WATCHERS)
        systemd.run("start", "--no-block", f"{NAME}.service")
    elif idle:
        systemd.run("start", *idle)
    return [f"started {name}" for name in (_WATCHERS if changed else idle)]


_WATCHERS = (f"{NAME}.path", f"{NAME}.timer")


def uninstall(tree: Tree, systemd: Systemd) -> tuple[str, ...]:
    """Take away what `install` put there and what it remembered; return one line for each thing that changed.

    Installed again in the same boot, the unit would take a profile that went meanwhile for one that goes now, and
    delete a link that an administrator made in its name.
    """
    _check_root(tree)
    paths = [*(link.path for link in host_links()), *(file.path for file in host_files())]
    there = [path for path in paths if tree.there(path)]
    if tree.own and there:
        systemd.run("stop", *unit_names())
    for path in there:
        tree.remove(path)
    tree.remove_empty(SCRIPT.parent)
    if there and tree.there(MEMORY):
        tree.remove_directory(MEMORY)
        there.append(MEMORY)
    if tree.own and there:
        systemd.run("daemon-reload")
    return tuple(f"removed {path}" for path in there)


def status(tree: Tree, systemd: Systemd) -> UnitStatus:
    """Return how the unit is on a host. It changes nothing."""
    files = [
        Part(path=str(file.path), state=_state(tree.there(file.path), same=tree.has(file)))
        for file in host_files()
    ]
    links = [
        Part(path=str(link.path), state=_state(tree.there(link.path), same=tree.has_link(link)))
        for link in host_links()
    ]
    return UnitStatus(
        installed=all(part.state == "there" for part in files),
        enabled=all(part.state == "there" for part in links),
        active=all(systemd.active(name) for name in _WATCHERS) if tree.own else None,
        parts=(*files, *links),
    )


def _state(there: bool, *, same: bool) -> str:
    if not there:
        return "missing"
    return "there" if same else "differs"


def _check_root(tree: Tree) -> None:
    if tree.own and os.geteuid() != 0:
        raise HostError(
            "only root can change the units of this host", "Run this as root, for example with sudo."
        )

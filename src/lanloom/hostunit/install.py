"""Puts the reload unit onto a host, takes it away, and says how it is there; or does the unit's work in the foreground.

systemd is used through systemctl: the one program whose words are the same on every distribution.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from lanloom.hostunit.files import NAME, SCRIPT, HostError, Tree, host_files, host_links, unit_names

TIMEOUT = 60.0
"""Seconds after which systemd is taken for dead."""


class Systemd(Protocol):
    """What the unit needs of systemd."""

    def run(self, *words: str) -> None:
        """Runs `systemctl WORDS`. Raises HostError."""
        ...

    def active(self, unit: str) -> bool:
        """Whether a unit is active; False also where there is no systemd."""
        ...


class Systemctl:
    """The program systemctl."""

    def run(self, *words: str) -> None:
        """As the port says."""
        done = self._call(*words)
        if done.returncode != 0:
            said = done.stderr.strip() or f"exit status {done.returncode}"
            raise HostError(
                f"systemctl {' '.join(words)} failed: {said}",
                "The files are in place; see `journalctl -u lanloom-nm-reload.service` and try again.",
            )

    def active(self, unit: str) -> bool:
        """As the port says."""
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


async def watch(changes: AsyncIterator[None], look: Callable[[], Awaitable[None]]) -> None:
    """Looks at once, after changes (a burst is one look, or two) and from time to time, until cancelled."""
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_note(changes, changed))
        while True:
            changed.clear()
            await look()
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await changed.wait()


async def _note(changes: AsyncIterator[None], changed: asyncio.Event) -> None:
    async for _ in changes:
        changed.set()


async def run_script(profiles: Path, memory: Path) -> None:
    """One run of the script; what it has to say goes to standard error. Raises HostError where there is no bash."""
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
    """Installs, enables and, on this very host, starts the unit; one line for each thing that changed."""
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
    """A changed unit is started anew, so that what runs is what is installed."""
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
    """Takes away what `install` put there and nothing else; one line for each thing that changed."""
    _check_root(tree)
    paths = [*(link.path for link in host_links()), *(file.path for file in host_files())]
    there = [path for path in paths if tree.there(path)]
    if tree.own and there:
        systemd.run("stop", *unit_names())
    for path in there:
        tree.remove(path)
    tree.remove_empty(SCRIPT.parent)
    if tree.own and there:
        systemd.run("daemon-reload")
    return tuple(f"removed {path}" for path in there)


def status(tree: Tree, systemd: Systemd) -> UnitStatus:
    """How the unit is on a host. Changes nothing."""
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

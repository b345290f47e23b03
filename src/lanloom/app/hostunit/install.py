"""Puts the reload unit onto a host, takes it away, and says how it is there."""

import os

from msgspec import Struct

from lanloom.app.hostunit.errors import HostError
from lanloom.app.hostunit.files import NAME, SCRIPT, host_files, host_links, unit_names
from lanloom.app.hostunit.systemd import Systemd
from lanloom.app.hostunit.tree import Tree


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

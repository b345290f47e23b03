"""Converting Ganeti's files: all of them are judged before the first one is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct

from lanloom.app.ipam.ganetifiles import Source, find_files, read_file, rewrite_file
from lanloom.ipam.rules.errors import IpamError, Malformed, Refused
from lanloom.ipam.rules.ganeti.downgrade import downgrade_config, downgrade_runtime
from lanloom.ipam.rules.ganeti.editing import Changed
from lanloom.ipam.rules.ganeti.upgrade import upgrade_config, upgrade_runtime
from lanloom.ipam.rules.ganeti.verify import verify_config, verify_runtime

T = TypeVar("T")
Direction = Literal["upgrade", "downgrade"]

_CONFIG: dict[Direction, Callable[[str], Changed]] = {
    "upgrade": upgrade_config,
    "downgrade": downgrade_config,
}
_RUNTIME: dict[Direction, Callable[[str], Changed]] = {
    "upgrade": upgrade_runtime,
    "downgrade": downgrade_runtime,
}


class Planned(Struct, frozen=True):
    """A file and what is to become of it."""

    source: Source
    change: Changed

    @property
    def differs(self) -> bool:
        """Whether there is anything to write."""
        return self.change.text != self.source.text


class Converted(Struct, frozen=True):
    """A file that was looked at; `backup` is None if nothing was written."""

    path: Path
    change: Changed
    differs: bool
    backup: Path | None = None


def plan(paths: tuple[Path, ...], direction: Direction) -> tuple[Planned, ...]:
    """What each file is to become. Raises Malformed and Refused, with every reason of every file."""
    planned: list[Planned] = []
    wrong: list[IpamError] = []
    for path in find_files(paths):
        try:
            source = read_file(path)
            planned.append(Planned(source, _converted(source, direction)))
        except IpamError as error:
            wrong.append(error)
    if wrong:
        kind = Malformed if any(isinstance(error, Malformed) for error in wrong) else Refused
        raise kind("\n".join(map(str, wrong)))
    return tuple(planned)


def carry_out(planned: Planned, stamp: str, *, dry_run: bool) -> Converted:
    """Writes one file, if it differs and this is no dry run. Raises Refused."""
    backup = None
    if planned.differs and not dry_run:
        backup = rewrite_file(planned.source, planned.change.text, stamp)
    return Converted(planned.source.path, planned.change, planned.differs, backup)


def verify(paths: tuple[Path, ...]) -> dict[Path, tuple[str, ...]]:
    """What is wrong in each file. Raises Malformed."""
    found: dict[Path, tuple[str, ...]] = {}
    for path in find_files(paths):
        source = read_file(path)
        check = verify_runtime if is_runtime(source.text) else verify_config
        found[path] = _about(path, check, source.text)
    return found


def is_runtime(text: str) -> bool:
    """Whether a text looks like a KVM runtime file: those are arrays, a configuration is an object."""
    return text.lstrip(" \t\r\n").startswith("[")


def _converted(source: Source, direction: Direction) -> Changed:
    convert = (_RUNTIME if is_runtime(source.text) else _CONFIG)[direction]
    return _about(source.path, convert, source.text)


def _about(path: Path, function: Callable[[str], T], text: str) -> T:
    """What a function says of a text, its errors with the path. Raises Malformed, Refused."""
    try:
        return function(text)
    except IpamError as error:
        raise type(error)(f"{path}: {error}") from None

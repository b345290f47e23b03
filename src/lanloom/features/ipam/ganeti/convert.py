"""Converting Ganeti's files: all of them are judged before the first one is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.ganeti.files import (
    Source,
    find_files,
    read_file,
    rewrite_file,
)
from lanloom.features.ipam.ganeti.formats.downgrade import downgrade_config, downgrade_runtime
from lanloom.features.ipam.ganeti.formats.editing import Changed
from lanloom.features.ipam.ganeti.formats.upgrade import upgrade_config, upgrade_runtime
from lanloom.features.ipam.ganeti.formats.verify import (
    read_config,
    unknown_version,
    unmended,
    verify_config,
    verify_runtime,
)
from lanloom.refusals import Denied, Malformed, Refusal

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


def plan(paths: tuple[Path, ...], direction: Direction, *, force: bool = False) -> tuple[Planned, ...]:
    """What each file is to become. Raises Malformed and Denied, with every reason of every file.

    With `force` a file is upgraded although something stays wrong with it; its notes say what.
    """
    planned: list[Planned] = []
    wrong: list[Refusal] = []
    for path in find_files(paths):
        try:
            source = read_file(path)
            change = _converted(source, direction)
            wrong_there = _about(path, _wrong(direction, force), source.text)
            notes = (*change.notes, *(f"is wrong, and stays so: {item}" for item in wrong_there))
            planned.append(Planned(source, replace(change, notes=notes)))
        except Refusal as error:
            wrong.append(error)
    if wrong:
        kind = Malformed if any(isinstance(error, Malformed) for error in wrong) else Denied
        raise kind("\n".join(map(str, wrong)))
    return tuple(planned)


def carry_out(planned: Planned, stamp: str, *, dry_run: bool) -> Converted:
    """Writes one file, if it differs and this is no dry run. Raises Denied."""
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


def _wrong(direction: Direction, force: bool) -> Callable[[str], tuple[str, ...]]:
    """Finds what is wrong with a text that is to be upgraded. Raises Malformed, Denied."""

    def find(text: str) -> tuple[str, ...]:
        if is_runtime(text):
            wrong = verify_runtime(text) if direction == "upgrade" else ()
        else:
            config = read_config(text)
            if not config.has_known_version:
                raise Denied(f"{unknown_version(config)}; nothing was written")
            wrong = tuple(unmended(config)) if direction == "upgrade" else ()
        if wrong and not force:
            what = "something is wrong with the file; mend it with Ganeti, or insist with --force; nothing was written:"
            raise Denied("\n".join((what, *wrong)))
        return wrong

    return find


def _converted(source: Source, direction: Direction) -> Changed:
    convert = (_RUNTIME if is_runtime(source.text) else _CONFIG)[direction]
    return _about(source.path, convert, source.text)


def _about(path: Path, function: Callable[[str], T], text: str) -> T:
    """What a function says of a text, its errors with the path. Raises Malformed, Denied."""
    try:
        return function(text)
    except Refusal as error:
        raise type(error)(f"{path}: {error}") from None

"""Read Multus' configuration from the node's CNI directory, as far as it is about namespaces.

Only Multus knows its configuration otherwise, and a move in place does not call Multus. The daemon of the thick
plugin writes its own configuration into the same directory, for the runtime.
"""

import asyncio
from pathlib import Path

import structlog

from lanloom.api.lan import MultusReport
from lanloom.api.multusconfig import NamespaceIsolation, isolation_in
from lanloom.node.files import content, names, opened_directory

log = structlog.get_logger(__name__)

_SUFFIXES = (".conf", ".conflist", ".json")
"""Of the files that a runtime reads, in the order of their names."""

_LARGEST = 256 * 1024
_FILES_MAX = 100


class MultusReader:
    """Read one directory. What can't be read is logged when that is new, and counts as not known."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._logged: frozenset[str] = frozenset()

    async def read(self) -> MultusReport | None:
        """Return the configuration of Multus that comes first; None where there is none that can be read."""
        found, problems = await asyncio.to_thread(_read, self._directory)
        for problem in sorted(problems - self._logged):
            log.warning("multus-configuration-unreadable", problem=problem)
        self._logged = problems
        return found


async def unknown() -> MultusReport | None:
    """Return that nothing is known of Multus."""
    return None


def _read(directory: Path) -> tuple[MultusReport | None, frozenset[str]]:
    """Return the first configuration of Multus, and what was wrong with files before it."""
    problems = []
    try:
        with opened_directory(directory) as opened:
            for name in [name for name in names(opened) if name.endswith(_SUFFIXES)][:_FILES_MAX]:
                text = content(opened, name, _LARGEST)
                try:
                    found = isolation_in(text) if text is not None else None
                except ValueError as error:
                    problems.append(f"{directory / name}: {error}")
                    continue
                if found is not None:
                    return _report(name, found), frozenset(problems)
    except OSError as error:
        problems.append(f"{directory}: {error.strerror}")
    return None, frozenset(problems)


def _report(name: str, found: NamespaceIsolation) -> MultusReport:
    return MultusReport(
        file=name,
        namespace_isolation=found.enabled,
        global_namespaces=",".join(sorted(found.global_namespaces)),
    )

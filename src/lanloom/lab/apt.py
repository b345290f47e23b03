"""Debian packages without installing them: an apt client with state of its own.

The lab needs programs that must not be installed on somebody's machine, because their packages start
services. The machine's own sources and keys are used (so mirrors and proxies keep working), but lists and
downloads live in the cache: nothing of the machine's apt is changed, no root is needed, and empty lists (a
container image) are no obstacle.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lanloom.lab.errors import AssetError

Progress = Callable[[str], None]

RELEASE = "bookworm"
"""The Debian release of the lab: its Python must be the 3.11 of the project's virtual environment."""

SUITES = frozenset({RELEASE, f"{RELEASE}-updates", f"{RELEASE}-security"})

ONE_LINE_SOURCE = re.compile(r"(?P<before>deb\s+(?:\[[^]]*\]\s+)?\S+\s+)(?P<suite>\S+)\s+(?P<components>.+)")
"""An entry of sources.list(5): `deb [options] address suite component…`."""


def run(
    command: Sequence[str | Path], remedy: str, *, cwd: Path | None = None, progress: Progress | None = None
) -> str:
    """Run a program and return its output; on failure raise AssetError with the output's end and the remedy.

    With `progress`, lines of the form `I: …` (Debian's tools) are reported while it runs. The program dies
    with the calling thread: an interrupted download must not go on behind the user's back.
    """
    words = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
    environment = os.environ | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    lines: list[str] = []
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                if progress and line.startswith("I: "):
                    progress(line[3:].strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        end = "".join(lines[-15:]).strip()
        raise AssetError(f"{command[0]} failed (exit status {process.returncode}):\n{end}", remedy)
    return "".join(lines)


def debian_sources(etc: Path = Path("/etc/apt")) -> tuple[str, str]:
    """The machine's own sources of the lab's release: (deb822 stanzas, one-line entries), either may be
    empty.

    Others' repositories are left out: their troubles are none of the lab's, and the private tree must be
    plain Debian.
    """
    stanzas = [
        stanza
        for file in sorted(etc.glob("sources.list.d/*.sources"))
        for stanza in re.split(r"\n\s*\n", file.read_text())
        if _is_wanted_stanza(stanza)
    ]
    lists = [etc / "sources.list", *sorted(etc.glob("sources.list.d/*.list"))]
    lines = [line for file in lists if file.exists() for line in _wanted_lines(file.read_text())]
    if not stanzas and not lines:
        raise AssetError(
            f"no Debian {RELEASE} source is configured in {etc}",
            f"Add one (suite {RELEASE}, component main) to {etc}/sources.list.d, then try again.",
        )
    return "\n\n".join(stanzas) + "\n" if stanzas else "", "".join(f"{line}\n" for line in lines)


def suite_sources(suite: str, etc: Path = Path("/etc/apt")) -> tuple[str, str]:
    """The machine's own sources with another suite of Debian in place of the lab's release, in both formats.

    The addresses and the keyrings stay those of the machine: an archive, or a mirror of it, holds all suites.
    """
    if suite == RELEASE:
        return debian_sources(etc)
    stanzas, lines = debian_sources(etc)
    main = [
        stanza for stanza in stanzas.split("\n\n") if RELEASE in _fields(stanza).get("Suites", "").split()
    ]
    changed = "\n\n".join(re.sub(r"(?m)^Suites:.*$", f"Suites: {suite}", stanza).strip() for stanza in main)
    entries = [
        f"{match['before']}{suite} {match['components']}\n"
        for match in map(ONE_LINE_SOURCE.fullmatch, lines.splitlines())
        if match and match["suite"] == RELEASE
    ]
    return f"{changed}\n" if main else "", "".join(entries)


def _fields(stanza: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))


def _is_wanted_stanza(stanza: str) -> bool:
    fields = _fields(stanza)
    return (
        fields.get("Enabled", "yes").lower() not in {"no", "false", "0"}
        and "deb" in fields.get("Types", "").split()
        and not SUITES.isdisjoint(fields.get("Suites", "").split())
        and "main" in fields.get("Components", "").split()
    )


def _wanted_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        match = ONE_LINE_SOURCE.fullmatch(line.partition("#")[0].strip())
        if match and match["suite"] in SUITES and "main" in match["components"].split():
            yield match[0]


class Apt:
    """An apt client whose configuration, lists and archives live in `root` and whose sources are the
    machine's, for one suite of Debian.

    `source_packages` adds the source indexes (slower to refresh). Not safe for two processes at once: callers
    hold a lock.
    """

    def __init__(
        self, root: Path, progress: Progress, *, suite: str = RELEASE, source_packages: bool = False
    ) -> None:
        self._root = root / f"{suite}{'-with-sources' if source_packages else ''}"
        self._progress = progress
        self._suite = suite
        self._source_packages = source_packages

    def download(self, names: Sequence[str], into: Path) -> list[Path]:
        """Fetch the .deb files of these packages (not of their dependencies) into an existing directory."""
        self._fetch(["download", *names], into)
        return sorted(into.glob("*.deb"))

    def download_source(self, name: str, into: Path) -> list[Path]:
        """Fetch the files of a source package (.dsc, .orig and .debian archives), verified but not
        unpacked."""
        self._fetch(["source", "--download-only", name], into)
        return sorted(into.glob(f"{name}_*"))

    def _fetch(self, arguments: list[str], into: Path) -> None:
        remedy = "Check the network and the sources in /etc/apt (apt-get update must work), then try again."
        self._write_configuration()
        if any(self._lists.glob("*_InRelease")):
            try:
                run([*self._apt_get, *arguments], remedy, cwd=into)
                return
            except AssetError:
                # The lists may be older than the archive, which keeps only the newest version of a package.
                pass
        self._progress("refreshing the lab's package lists")
        run([*self._apt_get, "update"], remedy)
        run([*self._apt_get, *arguments], remedy, cwd=into)

    @property
    def _lists(self) -> Path:
        return self._root / "state/lists"

    @property
    def _apt_get(self) -> list[str]:
        options = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self._root / "sources",
            "Dir::State": self._root / "state",
            "Dir::State::status": self._root / "status",
            "Dir::Cache": self._root / "cache",
            # The user _apt cannot write into a root's cache; without this apt warns on each file.
            "APT::Sandbox::User": "root",
            "APT::Update::Post-Invoke-Success::": "true",
            "Acquire::Languages": "none",
        }
        return [
            "apt-get",
            "-qq",
            *(word for key, value in options.items() for word in ("-o", f"{key}={value}")),
        ]

    def _write_configuration(self) -> None:
        for name in ("sources", "state/lists/partial", "cache/archives/partial"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
        (self._root / "status").touch()
        stanzas, lines = suite_sources(self._suite)
        if self._source_packages:
            stanzas = re.sub(r"(?m)^Types:.*$", "Types: deb deb-src", stanzas)
            lines += re.sub(r"(?m)^deb\b", "deb-src", lines)
        (self._root / "sources/debian.sources").write_text(stanzas)
        (self._root / "sources/debian.list").write_text(lines)

"""What the lab runs on and does not install: a private Debian tree, a kernel, single packages; made once, and kept in
the cache.

Installing NetworkManager or a DHCP server on a developer's machine can take over its interfaces, so all of the lab's
programs live below the cache directory. The machine's own apt sources and keys are used (so mirrors and proxies keep
working), but lists and downloads live in the cache: nothing of the machine's apt is changed, no root is needed, and
empty lists (a container image) are no obstacle.

Every asset is published by one rename: what has its final name is complete, and a process that was killed half-way
leaves only a `.partial` directory, which the next one removes. All functions wait (seconds to a minute) and report
through a `progress` callback; calling them again is free.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lanloom_lab.errors import AssetError

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
    """Return the machine's own sources of the lab's release: (deb822 stanzas, one-line entries), either may be
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
    """Return the machine's own sources with another suite of Debian in place of the lab's release, in both formats.

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
    machine's, for one suite of Debian, and one architecture where it is not this machine's.

    `source_packages` adds the source indexes (slower to refresh). Not safe for two processes at once: callers
    hold a lock.
    """

    def __init__(
        self,
        root: Path,
        progress: Progress,
        *,
        suite: str = RELEASE,
        architecture: str = "",
        source_packages: bool = False,
    ) -> None:
        foreign = f"-{architecture}" if architecture else ""
        self._root = root / f"{suite}{foreign}{'-with-sources' if source_packages else ''}"
        self._architecture = architecture
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
        if self._architecture:
            options |= {"APT::Architecture": self._architecture, "APT::Architectures": self._architecture}
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


TREE_PACKAGES = (
    "containernetworking-plugins",
    "dbus",
    "dnsmasq-base",
    "iproute2",
    "iputils-arping",
    "iputils-ping",
    "kmod",
    "network-manager",
    "procps",
    "python3",
    "tcpdump",
    "util-linux",
)
"""What a node, the switch and the DHCP server of the lab need, and CNI's reference plugins, with which pods are
attached; python3 is 3.11, that of the virtual environment."""


def default_cache() -> Path:
    """Where assets are kept: `$XDG_CACHE_HOME/lanloom`, by default `~/.cache/lanloom`. Safe to delete at any
    time."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    return base / "lanloom"


def publish(target: Path, make: Callable[[Path], None], progress: Progress) -> Path:
    """Return `target`, made by `make(directory)` if it does not exist yet; never incomplete, never made twice
    at once.

    `make` fills an empty directory on the same filesystem, which is then renamed. A second caller waits and finds it
    done. If `make` raises, nothing remains.
    """
    if target.exists():
        return target
    with _locked(target.parent, target.name, progress):
        if target.exists():
            return target
        for stale in target.parent.glob(f".partial-{target.name}-*"):
            _remove(stale)
        partial = Path(tempfile.mkdtemp(prefix=f".partial-{target.name}-", dir=target.parent))
        try:
            partial.chmod(0o755)
            make(partial)
            partial.rename(target)
        except BaseException:
            _remove(partial)
            raise
    return target


def _remove(directory: Path) -> None:
    # Not shutil.rmtree: if something is still mounted below, what is there is not ours to remove.
    run(["rm", "-rf", "--one-file-system", directory], f"Remove {directory} by hand, then try again.")


@contextmanager
def _locked(directory: Path, name: str, progress: Progress) -> Iterator[None]:
    # The lock file stays: removing it would let a third process lock another file of the same name.
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f".lock-{name}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that is making {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def private_tree(cache: Path, progress: Progress) -> Path:
    """Return the Debian tree with the lab's programs (about 300 MB, 20 s). Never write into it: mount it read-only
    or as a lower layer."""
    digest = hashlib.sha256(" ".join((RELEASE, *TREE_PACKAGES)).encode()).hexdigest()[:12]
    return publish(
        cache / f"tree-{RELEASE}-{digest}", lambda partial: _make_tree(cache, partial, progress), progress
    )


def _make_tree(cache: Path, partial: Path, progress: Progress) -> None:
    if shutil.which("mmdebstrap") is None:
        raise AssetError(
            "mmdebstrap, which makes the lab's private Debian tree, is not installed",
            "Run `make setup`, or `apt-get install --no-install-recommends mmdebstrap`.",
        )
    progress("making the lab's private Debian tree (once; about half a minute)")
    with tempfile.TemporaryDirectory(prefix=f"{partial.name}-sources-", dir=partial.parent) as directory:
        run(
            [
                *_containment(Path(directory)),
                "mmdebstrap",
                "--variant=apt",
                f"--include={','.join(TREE_PACKAGES)}",
                *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")),
                RELEASE,
                partial,
                *_source_files(Path(directory)),
            ],
            f"Check the network and the free space in {cache} (500 MB), then try again.",
            progress=progress,
        )


def _containment(scratch: Path) -> list[str]:
    # A root's mmdebstrap mounts /proc, /sys and /dev/shm into the tree. In namespaces of its own they and its
    # children vanish with it if it is killed; on the host they would remain, below a directory that is going to
    # be removed. That of any other user makes such namespaces by itself.
    if os.geteuid() != 0:
        return []
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "env", f"TMPDIR={scratch}"]


def _source_files(directory: Path) -> list[Path]:
    stanzas, lines = debian_sources()
    files = {directory / "debian.sources": stanzas, directory / "debian.list": lines}
    for path, text in files.items():
        path.write_text(text)
    return [path for path, text in files.items() if text]


def debian_package(cache: Path, names: Sequence[str], progress: Progress, *, suite: str = RELEASE) -> Path:
    """Return a directory with the files of these Debian packages, unpacked (`dpkg -x`), not of their dependencies.

    Nothing is installed: no maintainer script runs and no service starts. The first name gives the directory
    its name.
    """
    named = [*sorted(names), *([suite] if suite != RELEASE else [])]
    digest = hashlib.sha256(" ".join(named).encode()).hexdigest()[:12]
    target = cache / "packages" / f"{names[0]}-{digest}"
    return publish(target, lambda partial: _unpack(cache, names, partial, progress, suite), progress)


def _unpack(cache: Path, names: Sequence[str], partial: Path, progress: Progress, suite: str) -> None:
    progress(f"fetching {', '.join(names)} (Debian packages, unpacked in the cache)")
    with (
        tempfile.TemporaryDirectory(dir=partial) as archives,
        apt_client(cache, progress, suite=suite) as apt,
    ):
        for archive in apt.download(names, Path(archives)):
            run(["dpkg", "-x", archive, partial], f"Check the free space in {cache}, then try again.")


@contextmanager
def apt_client(
    cache: Path,
    progress: Progress,
    *,
    suite: str = RELEASE,
    architecture: str = "",
    source_packages: bool = False,
) -> Iterator[Apt]:
    """Provide the lab's apt client, for one user at a time."""
    with _locked(cache / "apt", "apt", progress):
        yield Apt(
            cache / "apt",
            progress,
            suite=suite,
            architecture=architecture,
            source_packages=source_packages,
        )

"""What the lab runs on and does not install: a private Debian tree, a kernel, single packages; made once,
kept in the cache.

Installing NetworkManager or a DHCP server on somebody's machine can take over their interfaces, so all of the
lab's programs live below the cache directory. Every asset is published by one rename: what has its final name
is complete, and a process that was killed half-way leaves only a `.partial` directory, which the next one
removes. All functions wait (seconds to a minute) and report through a `progress` callback; calling them again
is free.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lanloom.lab.apt import RELEASE, Apt, Progress, debian_sources, run
from lanloom.lab.errors import AssetError

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

    `make` fills an empty directory on the same filesystem, which is then renamed. Whoever comes second waits
    and finds it done. If `make` raises, nothing remains.
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
    """The Debian tree with the lab's programs (about 300 MB, 20 s). Never write into it: mount it read-only
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
    # be removed. Anybody else's makes such namespaces by itself.
    if os.geteuid() != 0:
        return []
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "env", f"TMPDIR={scratch}"]


def _source_files(directory: Path) -> list[Path]:
    stanzas, lines = debian_sources()
    files = {directory / "debian.sources": stanzas, directory / "debian.list": lines}
    for path, text in files.items():
        path.write_text(text)
    return [path for path, text in files.items() if text]


def debian_package(cache: Path, names: Sequence[str], progress: Progress) -> Path:
    """A directory with the files of these Debian packages, unpacked (`dpkg -x`), not of their dependencies.

    Nothing is installed: no maintainer script runs and no service starts. The first name gives the directory
    its name.
    """
    digest = hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:12]
    target = cache / "packages" / f"{names[0]}-{digest}"
    return publish(target, lambda partial: _unpack(cache, names, partial, progress), progress)


def _unpack(cache: Path, names: Sequence[str], partial: Path, progress: Progress) -> None:
    progress(f"fetching {', '.join(names)} (Debian packages, unpacked in the cache)")
    with tempfile.TemporaryDirectory(dir=partial) as archives, apt_client(cache, progress) as apt:
        for archive in apt.download(names, Path(archives)):
            run(["dpkg", "-x", archive, partial], f"Check the free space in {cache}, then try again.")


@contextmanager
def apt_client(
    cache: Path, progress: Progress, *, suite: str = RELEASE, source_packages: bool = False
) -> Iterator[Apt]:
    """The lab's apt client, for one user at a time."""
    with _locked(cache / "apt", "apt", progress):
        yield Apt(cache / "apt", progress, suite=suite, source_packages=source_packages)

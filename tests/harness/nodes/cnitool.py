"""CNI's own library as a program, `cnitool`: what containerd and Multus do to a CNI plugin, and CHECK besides.

Debian has no package with the program, but the library's source package builds it with Debian's Go compiler in half a
minute. Nothing is installed.
"""

import tempfile
from pathlib import Path

from lanloom_lab.assets import Progress, apt_client, debian_package, publish, run
from tests.harness.servers.build import REMEDY, run_without_modules

VERSION = "1.1.2"
SOURCE = "golang-github-appc-cni"
PACKAGE = "github.com/containernetworking/cni"


def cnitool(cache: Path, progress: Progress) -> Path:
    """Return the path of `cnitool`; build it if need be."""
    directory = publish(
        cache / f"cnitool-{VERSION}", lambda partial: _make(cache, partial, progress), progress
    )
    return directory / "cnitool"


def _make(cache: Path, partial: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(dir=partial) as directory:
        work = Path(directory)
        go = debian_package(work, ["golang-1.19-go", "golang-1.19-src"], progress)
        progress(f"fetching the source of CNI's library {VERSION}")
        with apt_client(cache, progress, source_packages=True) as apt:
            files = apt.download_source(SOURCE, work)
        archive = next(path for path in files if ".orig." in path.name)
        tree = work / "gopath/src" / PACKAGE
        tree.mkdir(parents=True)
        run(["tar", "-x", "-f", archive, "--strip-components=1", "-C", tree], REMEDY)
        progress(f"building cnitool {VERSION} (once; half a minute)")
        words = ("build", "-ldflags", "-s -w", "-o", partial / "cnitool", f"{PACKAGE}/cnitool")
        run_without_modules(work, go / "usr/lib/go-1.19", tree, go / "usr/lib/go-1.19/bin/go", *words)

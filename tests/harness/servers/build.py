"""Build a real kube-apiserver and a real kubelet: `python -m tests.harness.servers.build`.

The embedded API server is worth what its likeness to the real one is worth, and no package registry ships the
real one as a binary. Debian's source package does build, with Debian's Go compiler, in about four minutes on
two cores; nothing is installed for it. To use newer binaries, name their directory in KUBEBUILDER_ASSETS
(the convention of envtest) and needs no build.

The kubelet is in a directory of its own. It is compiled right after the servers, because most of its packages are
theirs.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lanloom_lab.assets import (
    Progress,
    apt_client,
    debian_package,
    default_cache,
    publish,
    run,
)
from lanloom_lab.errors import LabError

VERSION = "1.20.2"
PROGRAMS = ("kube-apiserver", "kube-controller-manager")
KUBELET = "kubelet"
REMEDY = "Try again with 5 GB free in the cache, or name a directory of binaries in KUBEBUILDER_ASSETS."

SHORT_LIVED = {"GOGC": "off", "GOMEMLIMIT": "256MiB"}
"""Environment of a kubectl: it ends before it needs the memory, and collecting garbage takes a third of its time."""

REFLECT2 = "github.com/modern-go/reflect2"
"""The vendored release is too old for Go 1.19: the server dies of it as soon as there are custom
resources."""


def binaries(cache: Path, progress: Progress) -> Path:
    """Return a directory with kube-apiserver, etcd, kubectl and, unless KUBEBUILDER_ASSETS says otherwise,
    kube-controller-manager; build it if need be."""
    if configured := os.environ.get("KUBEBUILDER_ASSETS"):
        # The servers are started in directories of their own.
        return Path(configured).absolute()
    return publish(cache / f"kube-{VERSION}", lambda partial: _make(cache, partial, progress), progress)


def newer_kubectl(cache: Path, progress: Progress) -> Path:
    """Return the path of a kubectl 1.32, that of the Debian release after the lab's."""
    return debian_package(cache, ["kubectl"], progress, suite="trixie") / "usr/bin/kubectl"


def kubelet(cache: Path, progress: Progress) -> Path:
    """Return the path of a kubelet: that of KUBEBUILDER_ASSETS if it has one, or our own; build it if need be."""
    configured = Path(os.environ.get("KUBEBUILDER_ASSETS", ""), KUBELET).absolute()
    if os.environ.get("KUBEBUILDER_ASSETS") and configured.exists():
        return configured
    return (
        publish(_kubelet_directory(cache), lambda partial: _make_kubelet(partial, progress), progress)
        / KUBELET
    )


def _kubelet_directory(cache: Path) -> Path:
    return cache / f"{KUBELET}-{VERSION}"


def _make(cache: Path, partial: Path, progress: Progress) -> None:
    kubectl = debian_package(cache, ["kubernetes-client"], progress)
    etcd = debian_package(cache, ["etcd-server"], progress)
    with _build(partial, progress) as build:
        build.generate_openapi()
        for program in PROGRAMS:
            build.program(program, partial / program)
        publish(_kubelet_directory(cache), lambda own: build.program(KUBELET, own / KUBELET), progress)
    shutil.copy2(etcd / "usr/bin/etcd", partial)
    shutil.copy2(kubectl / "usr/bin/kubectl", partial)


def _make_kubelet(partial: Path, progress: Progress) -> None:
    with _build(partial, progress) as build:
        build.program(KUBELET, partial / KUBELET)


@contextmanager
def _build(partial: Path, progress: Progress) -> "Iterator[Build]":
    # Compiler and build tree (4 GB) are next to the result and not in /tmp, which may be small; what a killed
    # build leaves is removed with the partial result.
    with tempfile.TemporaryDirectory(dir=partial) as directory:
        work = Path(directory)
        go = debian_package(work, ["golang-1.19-go", "golang-1.19-src"], progress)
        reflect2 = debian_package(work, ["golang-github-modern-go-reflect2-dev"], progress)
        build = Build(work, go / "usr/lib/go-1.19", progress)
        build.unpack(reflect2 / "usr/share/gocode/src" / REFLECT2)
        yield build


class Build:
    """One build tree of Kubernetes in `work`, with the Go compiler of `goroot`."""

    def __init__(self, work: Path, goroot: Path, progress: Progress) -> None:
        self._goroot = goroot
        self._progress = progress
        self._work = work
        self._tree = work / "gopath/src/k8s.io/kubernetes"

    def unpack(self, reflect2: Path) -> None:
        """Fetch and unpack the sources, and put in a reflect2 that works."""
        self._progress(f"fetching the source of Kubernetes {VERSION} (34 MB)")
        with apt_client(self._work, self._progress, source_packages=True) as apt:
            files = apt.download_source("kubernetes", self._work)
        archive = next(path for path in files if ".orig." in path.name)
        self._tree.mkdir(parents=True)
        run(["tar", "-x", "-f", archive, "--strip-components=1", "-C", self._tree], REMEDY)
        vendored = self._tree / "vendor" / REFLECT2
        shutil.rmtree(vendored)
        shutil.copytree(reflect2, vendored)

    def generate_openapi(self) -> None:
        """Write the file that a release of the sources has and Debian's archive lacks."""
        self._progress("building kube-apiserver: generating its OpenAPI definitions")
        generator = self._work / "openapi-gen"
        self._go("build", "-o", generator, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
        package = "k8s.io/kubernetes/pkg/generated/openapi"
        violations = str(self._work / "violations")
        options = ["-O", "zz_generated.openapi", "-p", package, "-r", violations]
        header = ["--go-header-file", "hack/boilerplate/boilerplate.generatego.txt"]
        self._run(generator, *options, *header, "-i", ",".join(self._openapi_packages()))

    def _openapi_packages(self) -> list[str]:
        tag = re.compile(r"^// \+k8s:openapi-gen=", re.MULTILINE)
        found = set()
        for top in ("pkg", "staging/src/k8s.io", "vendor/k8s.io"):
            # Not rglob: vendor/k8s.io holds links to staging, which must not be walked twice.
            for directory, _, files in os.walk(self._tree / top):
                sources = (Path(directory, name) for name in files if name.endswith(".go"))
                if any(tag.search(source.read_text()) for source in sources):
                    found.add(Path(directory).relative_to(self._tree).as_posix())
        return sorted(f"k8s.io/kubernetes/{path.replace('staging/src/', 'vendor/', 1)}" for path in found)

    def program(self, name: str, target: Path) -> None:
        """Compile ./cmd/NAME into `target`."""
        self._progress(f"building {name} {VERSION} (once; minutes)")
        major, minor, _ = VERSION.split(".")
        values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        # As its own scripts do: one version is said on the command line, the other over HTTP. Without modules
        # vendored packages go by their whole paths.
        packages = [f"k8s.io/kubernetes/vendor/k8s.io/{each}" for each in ("component-base", "client-go/pkg")]
        flags = " ".join(
            f"-X {package}/version.{key}={value}" for package in packages for key, value in values.items()
        )
        # Without the clients of clouds, which are four tenths of the sources.
        tags = ("-tags", "providerless")
        self._go("build", *tags, "-ldflags", f"-s -w {flags}", "-o", target, f"./cmd/{name}")

    def _go(self, *arguments: str | Path) -> None:
        self._run(self._goroot / "bin/go", *arguments)

    def _run(self, *command: str | Path) -> None:
        # Module mode refuses this tree: its vendor folder is older than what Go 1.19 wants.
        run_without_modules(self._work, self._goroot, self._tree, *command)


def run_without_modules(work: Path, goroot: Path, tree: Path, *command: str | Path) -> None:
    """Run a command in `tree` for which Go's packages are in `work`/gopath, and which writes below `work` alone."""
    environment = {
        "GOROOT": goroot,
        "GOPATH": work / "gopath",
        "GOCACHE": work / "cache",
        "GOTMPDIR": work,
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    settings = [f"{key}={value}" for key, value in environment.items()]
    run(["nice", "-n", "10", "env", *settings, *command], REMEDY, cwd=tree)


def main() -> int:
    """Build, or find, the binaries; print their directory."""

    def progress(line: str) -> None:
        print(f"servers: {line}", file=sys.stderr, flush=True)

    try:
        directory = binaries(default_cache(), progress)
        newer_kubectl(default_cache(), progress)
    except LabError as error:
        print(f"servers: {error}", file=sys.stderr)
        return 1
    print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

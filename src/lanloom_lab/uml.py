"""User-mode Linux for the lab: which of Debian's kernels boots on this machine, found out by trying.

A kernel that saves the registers of a process in an area smaller than that of the CPU panics with its first process:
6.1 and 6.12 do on CPUs with AMX, newer ones do not. No feature of a CPU tells for certain, so each kernel is booted
once; the outcome is remembered for this CPU and this version of the package.

Each kernel runs with the C library of its own suite, whatever the host's is. Both are unpacked in the cache.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

import lanloom
from lanloom.node.files import replace_at
from lanloom.node.kernel import namespaces_command
from lanloom_lab.assets import (
    RELEASE,
    Progress,
    apt_client,
    debian_package,
    default_cache,
    private_tree,
    publish,
    run,
)
from lanloom_lab.errors import AssetError, KernelFeatureMissing, LabError
from lanloom_lab.processes import ConsoleEnd, run_kernel

SUITES = ("unstable", "trixie", RELEASE)
"""The suites of Debian whose kernels are tried, the newest first."""

KNOWN = (7, 2)
"""The newest series that the tests run on. A newer one is tried only where no other boots."""

TRIAL_SECONDS = 60.0
"""For a boot that takes one or two seconds, on a machine that has much else to do."""

TRIAL_MEMORY_MIB = 256

SOURCE = Path(lanloom.__file__).parents[1]
"""The directory of the package, in which the scripts of PID 1 are."""

_BOOTED = "lanloom: this kernel boots"
"""What the script of a trial prints at its end."""

BOOT = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/src && mount -t hostfs none /mnt/src -o $LAB_SRC && exec /bin/sh "
"""The first words of PID 1, before the path of a script below /mnt/src."""


class UmlKernel(Struct, frozen=True):
    """One user-mode Linux: the program, the directory with its modules (modules.dep is directly in it), `uname -r`.

    `package` is the version of the Debian package, `suite` the suite that it came from.
    """

    binary: Path
    modules: Path
    version: str
    package: str
    suite: str

    @property
    def series(self) -> tuple[int, int]:
        """The first two numbers of the version."""
        major, minor = self.version.split("-")[0].split(".")[:2]
        return int(major), int(minor)

    def command(
        self, *, tree: Path, scratch: Path, memory_mib: int, variables: Mapping[str, str], first_words: str
    ) -> list[str]:
        """Return the command line that boots `tree`, read-only, and runs `first_words` in a shell as PID 1.

        The console is standard output. `variables` become the environment of that shell; words with an `=` that the
        kernel knows, such as `vec0`, are its own options. `scratch` takes what the kernel writes about itself.
        """
        return [
            str(self.binary),
            f"mem={memory_mib}M",
            # Programs are not traced, but meet a seccomp filter: several times faster. It does not keep a hostile
            # program from the kernel's memory, but programs of a lab are as trusted as the lab. Before 6.16 there is
            # no such option, and it is but a variable more.
            "seccomp=auto",
            f"uml_dir={scratch}/",
            "umid=kernel",
            "root=/dev/root",
            "rootfstype=hostfs",
            f"rootflags={tree}",
            "ro",
            "con=null",
            "con0=null,fd:1",
            "quiet",
            *(f"{name}={value}" for name, value in variables.items()),
            "init=/bin/sh",
            "--",
            "-c",
            f'"{first_words}"',
        ]


class Attempt(Struct, frozen=True):
    """What became of the kernel of one suite: `failure` is empty if it boots; without a `kernel` it was not fetched."""

    suite: str
    kernel: UmlKernel | None
    failure: str = ""

    def __str__(self) -> str:
        name = (
            f"{self.kernel.version} of Debian {self.suite}" if self.kernel else f"that of Debian {self.suite}"
        )
        return f"{name} {self.failure}" if self.failure else f"{name} boots"


Fetch = Callable[[str], UmlKernel]
"""Gives the kernel of a suite. Raises AssetError."""

Try = Callable[[UmlKernel], str]
"""Boots a kernel; returns why it does not boot, or nothing."""


def attempts(fetch: Fetch, boots: Try, series: str = "") -> Iterator[Attempt]:
    """Try kernels, the newest that is known to work first, those that are newer than that last.

    `series` limits them to one series, such as "6.1".
    """
    newer = []
    for suite in SUITES:
        try:
            kernel = fetch(suite)
        except AssetError as error:
            yield Attempt(suite, None, f"could not be fetched ({error.problem.splitlines()[-1].strip()})")
            continue
        if series and series != "{}.{}".format(*kernel.series):
            continue
        if kernel.series > KNOWN:
            newer.append(kernel)
            continue
        yield Attempt(suite, kernel, boots(kernel))
    for kernel in reversed(newer):
        yield Attempt(kernel.suite, kernel, boots(kernel))


def select(tried: Iterable[Attempt], series: str = "") -> tuple[UmlKernel, str]:
    """Return the first kernel that boots, and why it is this one.

    Raises KernelFeatureMissing with the reasons of all that do not.
    """
    failed: list[Attempt] = []
    for attempt in tried:
        if attempt.kernel is not None and not attempt.failure:
            newest = "it is too new to be tested, but" if attempt.kernel.series > KNOWN else "the newest that"
            wanted = "as you asked" if series else f"{newest} boots here"
            return attempt.kernel, "; ".join([wanted, *map(str, failed)])
        failed.append(attempt)
    if not failed:
        raise KernelFeatureMissing(
            f"Debian has no user-mode Linux {series}", "Use `--kernel uml`, which takes one that boots here."
        )
    raise KernelFeatureMissing(
        f"no user-mode Linux boots on this machine: {'; '.join(map(str, failed))}",
        "Use a machine whose own kernel has all features (`lanloom doctor` names what it lacks), as root.",
    )


def uml_kernel(cache: Path, progress: Progress, series: str = "") -> tuple[UmlKernel, str]:
    """Return the user-mode Linux for this machine, and why it is this one.

    The first time takes some seconds for each kernel.
    `series` asks for one series, such as "6.1". Raises KernelFeatureMissing if none boots, AssetError without a tree.
    """
    return select(_attempts_here(cache, progress, series), series)


def survey(cache: Path, progress: Progress) -> tuple[Attempt, ...]:
    """Return all kernels that there are for this machine, each tried."""
    return tuple(_attempts_here(cache, progress))


def _attempts_here(cache: Path, progress: Progress, series: str = "") -> Iterator[Attempt]:
    tree = private_tree(cache, progress)
    memory = Trials(cache / "kernels/trials", cpu_identity())
    return attempts(
        lambda suite: fetch_kernel(cache, suite, progress),
        lambda kernel: memory.recall(kernel, lambda: try_kernel(kernel, tree, progress)),
        series,
    )


def fetch_kernel(cache: Path, suite: str, progress: Progress) -> UmlKernel:
    """Debian's user-mode Linux of a suite (180 MB), ready to run with the C library next to it. Raises AssetError."""
    target = cache / "kernels" / suite
    publish(target, lambda partial: _make(cache, suite, partial, target, progress), progress)
    (modules,) = (target / "kernel/usr/lib/uml/modules").iterdir()
    package = (target / "package").read_text().strip()
    return UmlKernel(target / "linux.uml", modules, modules.name, package, suite)


def _make(cache: Path, suite: str, partial: Path, target: Path, progress: Progress) -> None:
    progress(f"fetching user-mode Linux of Debian {suite} (unpacked in the cache)")
    remedy = f"Check the free space in {cache} (500 MB), then try again."
    patchelf = debian_package(cache, ["patchelf"], progress) / "usr/bin/patchelf"
    with (
        tempfile.TemporaryDirectory(dir=partial) as archives,
        apt_client(cache, progress, suite=suite) as apt,
    ):
        library, kernel = apt.download([f"user-mode-linux/{suite}", f"libc6/{suite}"], Path(archives))
        for archive, name in ((library, "libc"), (kernel, "kernel")):
            run(["dpkg", "-x", archive, partial / name], remedy)
        (partial / "package").write_text(run(["dpkg-deb", "--field", kernel, "Version"], remedy))
    (library_file,) = (partial / "libc").rglob("libc.so.6")
    libraries = target / library_file.parent.relative_to(partial)
    binary = partial / "linux.uml"
    (partial / "kernel/usr/bin/linux.uml").rename(binary)
    # Through the loader's own command line the kernel would not find itself ("Too few physical memory").
    loader = libraries / "ld-linux-x86-64.so.2"
    run([patchelf, "--set-interpreter", loader, "--set-rpath", libraries, binary], remedy)


def try_kernel(kernel: UmlKernel, tree: Path, progress: Progress) -> ConsoleEnd:
    """Boot a kernel to the end of a small script."""
    progress(f"trying user-mode Linux {kernel.version} on this CPU")
    with tempfile.TemporaryDirectory() as scratch:
        variables = {"LAB_SRC": str(SOURCE), "LAB_MODULES": str(kernel.modules)}
        words = kernel.command(
            tree=tree,
            scratch=Path(scratch),
            memory_mib=TRIAL_MEMORY_MIB,
            variables=variables,
            first_words=BOOT + "/mnt/src/lanloom_lab/inner/trial.sh",
        )
        cage = [*namespaces_command("pid", "mount"), "--fork", "--kill-child=KILL"]
        return run_kernel([*cage, *words], TRIAL_SECONDS)


def verdict(end: ConsoleEnd) -> str:
    """Return why a trial failed, from how it ended; empty if it did not."""
    if _BOOTED in end.output:
        return ""
    if end.panic:
        return f"panics: {end.panic}"
    if end.status is None:
        return f"did not boot within {TRIAL_SECONDS:.0f} s"
    last = next((line.strip() for line in reversed(end.output.splitlines()) if line.strip()), "no word")
    return f"does not boot: {last}"


def cpu_identity(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return what a kernel's registers depend on.

    These are the CPU's model and features, and the release of the host's kernel.
    """
    lines = cpuinfo.read_text().split("\n\n")[0].splitlines()
    wanted = [line for line in lines if line.startswith(("model name", "flags", "vendor_id"))]
    return "\n".join([*wanted, os.uname().release])


class Trials:
    """The outcomes of trials on this CPU, one file each in `directory`. What took too long is tried again."""

    def __init__(self, directory: Path, cpu: str) -> None:
        self._directory = directory
        self._cpu = cpu

    def recall(self, kernel: UmlKernel, attempt: Callable[[], ConsoleEnd]) -> str:
        """Return the remembered verdict on this kernel, or that on `attempt`, which is remembered then."""
        words = "\n".join([self._cpu, kernel.suite, kernel.package])
        file = self._directory / f"{kernel.package}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"
        with suppress(FileNotFoundError):
            return file.read_text()
        end = attempt()
        if end.panic or end.status is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            replace_at(file, verdict(end).encode())
        return verdict(end)


def main() -> int:
    """Make all that the lab may need, ahead of time: `python -m lanloom_lab.uml`.

    Prints a line for each kernel, the oldest first: its series, `taken` (by a lab), `boots` or `fails`, and its
    verdict, with tabs between them.
    """

    def progress(line: str) -> None:
        print(f"lab: {line}", file=sys.stderr, flush=True)

    try:
        tried = survey(default_cache(), progress)
    except LabError as error:
        progress(str(error))
        return 1
    taken = next((each for each in tried if each.kernel and not each.failure), None)
    for attempt in sorted(tried, key=lambda each: each.kernel.series if each.kernel else (0, 0)):
        series = "{}.{}".format(*attempt.kernel.series) if attempt.kernel else attempt.suite
        role = "taken" if attempt is taken else "fails" if attempt.failure else "boots"
        print(series, role, attempt, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())

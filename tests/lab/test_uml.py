"""Which user-mode Linux a machine gets, and what a kernel that panics costs."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lanloom_lab.assets import default_cache, private_tree
from lanloom_lab.errors import AssetError, KernelFeatureMissing, ProcessFailed
from lanloom_lab.processes import (
    ConsoleEnd,
    ManagedProcess,
    panic_of,
    run_kernel,
)
from lanloom_lab.uml import (
    SUITES,
    Attempt,
    Trials,
    UmlKernel,
    attempts,
    cpu_identity,
    fetch_kernel,
    select,
    survey,
    try_kernel,
    verdict,
)

VERSIONS = {"unstable": "7.2.7", "trixie": "6.12.101", "bookworm": "6.1.176"}

PANIC = "Kernel panic - not syncing: put_fp_registers failed"
WITH_AMX = f"echo booting; echo '{PANIC}'; echo 'Call Trace:'; exec sleep 1000"
"""Stands in for a kernel on a CPU whose registers it can't save: it panics, and does not end."""

WITHOUT_AMX = "echo 'lanloom: this kernel boots'"


def kernel_of(suite: str, version: str = "") -> UmlKernel:
    """A kernel that is not booted."""
    version = version or VERSIONS[suite]
    return UmlKernel(Path("/k/linux.uml"), Path("/k/modules"), version, f"{version}um1", suite)


def trial_of(failures: dict[str, str]) -> Callable[[UmlKernel], str]:
    """Tells of each series why it does not boot; the others do."""
    return lambda kernel: failures.get("{}.{}".format(*kernel.series), "")


AMX = trial_of({"6.1": "panics: put_fp_registers failed", "6.12": "panics: fatal_sigsegv"})


def test_the_newest_known_kernel_comes_first() -> None:
    """Where all boot, the newest is taken, and no other is fetched."""
    fetched = []

    def fetch(suite: str) -> UmlKernel:
        fetched.append(suite)
        return kernel_of(suite)

    kernel, why = select(attempts(fetch, trial_of({})))
    assert (kernel.version, why) == ("7.2.7", "the newest that boots here")
    assert fetched == ["unstable"]


def test_a_kernel_that_panics_is_passed_over() -> None:
    """The next one is taken, and the reason names the panic of the first."""
    kernel, why = select(attempts(kernel_of, trial_of({"7.2": "panics: no luck"})))
    assert kernel.version == "6.12.101"
    assert why == "the newest that boots here; 7.2.7 of Debian unstable panics: no luck"


def test_a_kernel_that_nobody_has_tested_comes_last() -> None:
    """A newer kernel than the tests know is taken only where no other boots."""
    versions = VERSIONS | {"unstable": "7.3.1"}
    kernel, _ = select(attempts(lambda suite: kernel_of(suite, versions[suite]), trial_of({})))
    assert kernel.version == "6.12.101"
    kernel, why = select(attempts(lambda suite: kernel_of(suite, versions[suite]), AMX))
    assert kernel.version == "7.3.1"
    assert why.startswith("it is too new to be tested, but boots here; 6.12.101 of Debian trixie panics")


def test_a_suite_that_can_not_be_fetched_is_passed_over() -> None:
    """A mirror without the newest suite, or no network, leaves the kernels that there are."""

    def fetch(suite: str) -> UmlKernel:
        if suite == "unstable":
            raise AssetError("apt-get failed:\nE: no such release", "Check the network.")
        return kernel_of(suite)

    kernel, why = select(attempts(fetch, trial_of({})))
    assert kernel.version == "6.12.101"
    assert "that of Debian unstable could not be fetched (E: no such release)" in why


def test_where_none_boots_the_reasons_are_named() -> None:
    """The error is one sentence with each kernel's reason, and a remedy."""
    with pytest.raises(KernelFeatureMissing) as caught:
        select(attempts(kernel_of, trial_of({"7.2": "panics: a", "6.12": "panics: b", "6.1": "panics: c"})))
    problem, remedy = str(caught.value).splitlines()
    assert problem == (
        "no user-mode Linux boots on this machine: 7.2.7 of Debian unstable panics: a; "
        "6.12.101 of Debian trixie panics: b; 6.1.176 of Debian bookworm panics: c"
    )
    assert "lanloom doctor" in remedy


def test_one_series_may_be_asked_for() -> None:
    """`uml-6.1` gets the kernel of that series; one that there is not is refused."""
    kernel, why = select(attempts(kernel_of, trial_of({}), "6.1"), "6.1")
    assert (kernel.version, why) == ("6.1.176", "as you asked")
    with pytest.raises(KernelFeatureMissing, match=r"Debian has no user-mode Linux 5\.10"):
        select(attempts(kernel_of, trial_of({}), "5.10"), "5.10")


def test_an_attempt_speaks_for_itself() -> None:
    """An attempt prints as the kernel and what became of it."""
    assert str(Attempt("trixie", kernel_of("trixie"))) == "6.12.101 of Debian trixie boots"


def test_a_trial_is_remembered_for_its_cpu_and_package(tmp_path: Path) -> None:
    """The same kernel on the same CPU is tried once; another CPU or another version of the package is a new trial."""
    tried = []

    def attempt() -> ConsoleEnd:
        tried.append("again")
        return ConsoleEnd(PANIC, "put_fp_registers failed", None)

    kernel = kernel_of("bookworm")
    for _ in range(2):
        assert Trials(tmp_path, "cpu a").recall(kernel, attempt) == "panics: put_fp_registers failed"
    assert len(tried) == 1
    Trials(tmp_path, "cpu b").recall(kernel, attempt)
    Trials(tmp_path, "cpu a").recall(kernel_of("bookworm", "6.1.177"), attempt)
    assert len(tried) == 3


def test_a_trial_that_took_too_long_is_repeated(tmp_path: Path) -> None:
    """A machine that was too busy for a trial has shown nothing about the kernel."""
    trials = Trials(tmp_path, "cpu")
    assert "within" in trials.recall(kernel_of("trixie"), lambda: ConsoleEnd("", "", None))
    assert trials.recall(kernel_of("trixie"), lambda: run_kernel(["sh", "-c", WITHOUT_AMX], 60)) == ""


def test_what_tells_cpus_apart(tmp_path: Path) -> None:
    """Two CPUs of one model with other features are different; how fast one runs at the moment is of no concern."""
    one, other, faster = (tmp_path / name for name in "abc")
    one.write_text("model name : X\ncpu MHz : 1\nflags : fpu\n\nmodel name : X\n")
    other.write_text("model name : X\ncpu MHz : 1\nflags : fpu amx_tile\n\n")
    faster.write_text("model name : X\ncpu MHz : 2\nflags : fpu\n\n")
    assert cpu_identity(one) == cpu_identity(faster) != cpu_identity(other)


def test_verdicts() -> None:
    """A kernel boots only if its script came to the end; else the verdict has the panic, or the last line."""
    assert verdict(run_kernel(["sh", "-c", WITHOUT_AMX], 60)) == ""
    assert verdict(run_kernel(["sh", "-c", WITH_AMX], 60)) == "panics: put_fp_registers failed"
    refused = run_kernel(["sh", "-c", "echo Too few physical memory; exit 1"], 60)
    assert verdict(refused) == "does not boot: Too few physical memory"
    assert verdict(run_kernel(["sh", "-c", "sleep 1000"], 0.1)) == "did not boot within 60 s"


def test_a_panic_ends_a_kernel_at_once(tmp_path: Path) -> None:
    """A kernel that panics and goes on is killed when its console says so, and the console is kept."""
    began = time.monotonic()
    end = run_kernel(["sh", "-c", WITH_AMX], 600, log=tmp_path / "log")
    assert end.panic == "put_fp_registers failed"
    assert time.monotonic() - began < 300
    assert (tmp_path / "log").read_text() == f"booting\n{PANIC}\n"


async def test_a_part_that_panics_has_ended(tmp_path: Path) -> None:
    """The lab loses a kernel in the moment of its panic; the error has the panic's line, and not the stack."""
    log = tmp_path / "kernel.log"
    part = await ManagedProcess.start("user-mode Linux", ["sh", "-c", WITH_AMX], log, fatal=panic_of)
    with pytest.raises(ProcessFailed) as caught:
        await part.ended()
    assert str(caught.value) == (
        f"user-mode Linux panicked: put_fp_registers failed\nAll that it printed is in {log}."
    )
    await part.stop()


async def test_a_kernel_that_ends_without_a_panic_has_ended(tmp_path: Path) -> None:
    """The error has the exit status and the end of the log, as of any part."""
    log = tmp_path / "kernel.log"
    part = await ManagedProcess.start(
        "user-mode Linux", ["sh", "-c", "echo halted; exit 3"], log, fatal=panic_of
    )
    with pytest.raises(ProcessFailed, match=r"exit status 3(.|\n)*halted"):
        await part.ended()


@pytest.mark.lab
@pytest.mark.parametrize("suite", SUITES)
def test_a_kernel_comes_with_its_modules(suite: str) -> None:
    """The modules' directory is the one that `uname -r` names and holds what the lab loads."""
    kernel = fetch_kernel(default_cache(), suite, print)
    assert os.access(kernel.binary, os.X_OK)
    assert kernel.modules.name == kernel.version
    modules = (kernel.modules / "modules.dep").read_text()
    for name in ("8021q", "bridge", "dummy", "bonding", "veth", "overlay"):
        assert f"/{name}.ko" in modules


@pytest.mark.lab
def test_some_kernel_boots_here() -> None:
    """At least one of Debian's kernels boots on this machine, and the others say why they do not."""
    tried = survey(default_cache(), print)
    assert any(not attempt.failure for attempt in tried), "; ".join(map(str, tried))


@pytest.mark.lab
def test_a_real_panic_is_told_from_a_slow_boot(tmp_path: Path) -> None:
    """A real kernel whose first program ends at once panics, and the verdict has the kernel's own words."""
    tree = private_tree(default_cache(), print)
    kernel = next(each.kernel for each in survey(default_cache(), print) if each.kernel and not each.failure)
    words = kernel.command(tree=tree, scratch=tmp_path, memory_mib=128, variables={}, first_words="exit 3")
    end = run_kernel(words, 300)
    assert verdict(end).startswith("panics: Attempted to kill init! exitcode=0x00000300")


@pytest.mark.lab
def test_the_tree_is_read_only_for_a_kernel(tmp_path: Path) -> None:
    """Nothing that runs on a kernel of the lab can write into the cached tree."""
    tree = private_tree(default_cache(), print)
    kernel = next(each.kernel for each in survey(default_cache(), print) if each.kernel and not each.failure)
    words = kernel.command(
        tree=tree,
        scratch=tmp_path,
        memory_mib=128,
        variables={},
        first_words="touch /etc/written || echo it is read-only; exit 0",
    )
    end = run_kernel(words, 300)
    assert "it is read-only" in end.output
    assert not (tree / "etc/written").exists()
    assert try_kernel(kernel, tree, print).status == 0

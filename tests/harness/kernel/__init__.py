"""Tests in a kernel that has what the machine's own may lack: 802.1Q, bridge VLAN filtering, bonding.

`run_inside` runs pytest in the lab's private Debian tree, with its NetworkManager and dnsmasq, in namespaces
that end with it: on the machine's own kernel where that has every feature (found out by trying), else in
user-mode Linux. The tests run as root, may do what they like to links and files, and nothing of it is seen
outside. A test outside reports for them:

    @pytest.mark.lab
    @pytest.mark.timeout(2500)
    def test_on_a_kernel(subtests: pytest.Subtests, tmp_path: Path) -> None:
        check_inside(tmp_path, subtests, "tests/node/kernel")
"""

import os
import shlex
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import Struct

from lanloom.node.kernel import KernelFeature, probe
from lanloom_lab.assets import default_cache, private_tree
from lanloom_lab.kernel import HOST_LAB_NEEDS, KernelOption, parse_kernel
from lanloom_lab.launch import memory_directory
from lanloom_lab.processes import run_kernel
from lanloom_lab.uml import uml_kernel
from tests.harness.examples import TIMES

PROJECT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent
INSIDE = "LANLOOM_TESTS_INSIDE"
"""Set in the environment of the tests that run inside; folders of tests for inside are collected only there."""

SHARED = Path("/inside/shared")
"""Where the tests inside find the directory that is shared with them."""

Needs = Sequence[KernelFeature]

SLOWEST = 15
"""Tests inside whose times are printed."""


class Case(Struct, frozen=True):
    """The outcome of one test inside, and how long it took. `text` is pytest's report of a failure."""

    name: str
    outcome: str
    text: str
    seconds: float

    def check(self) -> None:
        """Raise AssertionError with the report unless the test passed."""
        assert self.outcome == "passed", f"{self.name} {self.outcome} inside:\n{self.text}"


def run_inside(
    scratch: Path,
    *paths: str,
    seconds: float = 2400,
    shared: Path | None = None,
    needs: Needs = HOST_LAB_NEEDS,
) -> tuple[Case, ...]:
    """The outcomes of the tests below `paths` (relative to the checkout), run inside; `scratch` is an empty
    directory.

    `shared` is a directory that they find as SHARED, read-only. `needs` are the features that the machine's own kernel
    must have for them. Raises AssertionError with the last lines of the output when pytest did not come to an end
    within `seconds`.
    """
    words = ["python3", "-m", "pytest", "--junitxml=/inside/results/report.xml", "-vv", *paths]
    results = _run(
        scratch,
        f"export {INSIDE}=1 {TIMES}={os.environ.get(TIMES, 1)}\nexec {shlex.join(words)}\n",
        seconds,
        shared,
        needs,
    )
    assert (results / "report.xml").exists(), f"the tests inside came to no end:\n{_tail(results / 'output')}"
    return _cases(results / "report.xml")


def check_inside(
    scratch: Path,
    subtests: pytest.Subtests,
    *paths: str,
    fewest: int = 1,
    shared: Path | None = None,
    needs: Needs = HOST_LAB_NEEDS,
) -> None:
    """Run tests inside, and report each: there are at least `fewest`, and all pass.

    How long the slowest took is printed (`-rP`).
    """
    cases = run_inside(scratch, *paths, shared=shared, needs=needs)
    for case in sorted(cases, key=lambda case: -case.seconds)[:SLOWEST]:
        print(f"{case.seconds:7.2f} s  {case.name}")
    assert len(cases) >= fewest
    for case in cases:
        with subtests.test(case.name):
            case.check()


def run_program_inside(scratch: Path, *arguments: str, seconds: float = 500) -> str:
    """What Python, run inside with these arguments in the checkout, prints; `scratch` is an empty directory.

    Raises AssertionError with the last lines of all output when it did not succeed within `seconds`.
    """
    program = shlex.join(["python3", *arguments])
    results = _run(
        scratch,
        f"PYTHONPATH=$PYTHONPATH:/inside/project/src {program} >/inside/results/printed\n"
        "touch /inside/results/succeeded\n",
        seconds,
    )
    assert (results / "succeeded").exists(), f"{program} failed inside:\n{_tail(results / 'output')}"
    return (results / "printed").read_text()


def _run(
    scratch: Path, command: str, seconds: float, shared: Path | None = None, needs: Needs = HOST_LAB_NEEDS
) -> Path:
    """Run a shell command inside, in the checkout; the directory that it sees as /inside/results."""
    results = scratch / "results"
    results.mkdir()
    (results / "command").write_text(command)
    wish = parse_kernel(os.environ.get("LANLOOM_LAB_KERNEL", "auto"))
    own_kernel = wish.kind != "uml" and os.geteuid() == 0 and all(item.present for item in probe(needs))
    environment = _environment(results, shared)
    words = _host_command(scratch) if own_kernel else _uml_command(scratch, wish, environment)
    end = run_kernel(words, seconds, environment=environment, log=results / "output")
    assert not end.panic, f"the kernel panicked: {end.panic}\n{_tail(results / 'output')}"
    return results


def _environment(results: Path, shared: Path | None) -> dict[str, str]:
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "KERNEL_PROJECT": str(PROJECT),
        "KERNEL_SITE": sysconfig.get_path("purelib"),
        "KERNEL_RESULTS": str(results),
        "KERNEL_SHARED": str(shared or ""),
        "TMPDIR": str(memory_directory(results)),
    }


def _cage() -> list[str]:
    return ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child=KILL", "/bin/sh", "-euc"]


def _host_command(scratch: Path) -> list[str]:
    tree = private_tree(default_cache(), print)
    return [*_cage(), 'exec /bin/sh "$0" "$1" "$2"', str(SCRIPTS / "host.sh"), str(tree), str(scratch)]


def _uml_command(scratch: Path, wish: KernelOption, environment: Mapping[str, str]) -> list[str]:
    tree = private_tree(default_cache(), print)
    kernel, _ = uml_kernel(default_cache(), print, wish.series)
    results = scratch / "results"
    # The host is read-only for the guest's processes, which a hard kill may leave alone for a moment.
    contain = 'mount --bind "$KERNEL_RESULTS" "$KERNEL_RESULTS"; mount -o remount,bind,ro /; exec "$@"'
    variables = {**environment, "KERNEL_MODULES": str(kernel.modules)}
    words = kernel.command(
        tree=tree,
        scratch=results,
        memory_mib=1536,
        variables={name: value for name, value in variables.items() if name.startswith("KERNEL_")},
        first_words="mount -t tmpfs t /mnt; mkdir /mnt/p; mount -t hostfs h /mnt/p -o $KERNEL_PROJECT; "
        "exec /bin/sh /mnt/p/tests/harness/kernel/uml.sh",
    )
    return [*_cage(), contain, "sh", *words]


def _cases(report: Path) -> tuple[Case, ...]:
    return tuple(_case(element) for element in ElementTree.parse(report).iter("testcase"))


def _case(element: ElementTree.Element) -> Case:
    faults = {
        child.tag: f"{child.get('message')}\n{child.text}" for child in element if child.tag != "system-out"
    }
    outcome = next((tag for tag in ("failure", "error", "skipped") if tag in faults), "passed")
    name = f"{element.get('classname')}::{element.get('name')}"
    return Case(name, outcome, faults.get(outcome, ""), float(element.get("time", 0)))


def _tail(path: Path, lines: int = 40) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])

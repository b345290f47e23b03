"""Tests on a lab, on several kernels in one run.

LANLOOM_LAB_KERNELS names the kernels, as LANLOOM_LAB_KERNEL does one. All tests on a lab run on the first of them,
those with the mark `kernel` on the others too. They are one queue, with the last kernel at its front: it is the
slowest, and what begins late should be short. Workers of pytest-xdist take from it what a file has for one kernel, so
that each of them changes its lab once at most. One worker takes all that needs a lab on another kernel than the
first: to start one for each of them costs more.
"""

import os
from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadScopeScheduling

KERNELS = tuple(os.environ.get("LANLOOM_LAB_KERNELS", "").split())
FIXTURE = "lab_kernel"
LABS = "tests/lab/"
_VARIABLE = "LANLOOM_LAB_KERNEL"


@pytest.fixture(scope="session", autouse=True)
def lab_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has the programs that start a lab take the kernel on which the test runs."""
    before = os.environ.get(_VARIABLE)
    if kernel := getattr(request, "param", None):
        os.environ[_VARIABLE] = kernel
    yield
    if kernel and before is None:
        del os.environ[_VARIABLE]
    elif kernel and before is not None:
        os.environ[_VARIABLE] = before


def on_kernels(metafunc: pytest.Metafunc) -> None:
    """Have a test on a lab run once for each kernel that concerns it."""
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if KERNELS and "lab" in marks:
        chosen = KERNELS[::-1] if "kernel" in marks else KERNELS[:1]
        metafunc.parametrize(FIXTURE, chosen, indirect=True, scope="session")


def scope(nodeid: str) -> str:
    """Return what a worker takes at once: the tests of a file on one kernel."""
    file = nodeid.partition("::")[0]
    kernel = next((each for each in KERNELS if f"[{each}]" in nodeid or f"[{each}-" in nodeid), "any")
    return f"{LABS if file.startswith(LABS) and kernel in KERNELS[1:] else file} on {kernel}"


class ByFileAndKernel(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out the queue."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

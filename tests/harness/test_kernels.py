"""How tests on a lab are handed out to workers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.kernels import ByFileAndKernel


class Worker:
    """A worker of pytest-xdist: it runs a test as soon as it knows the next one, or that there is none."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.given: list[int] = []
        self.done = 0

    def send_runtest_some(self, indices: list[int]) -> None:
        """More tests to run."""
        self.given += indices

    def shutdown(self) -> None:
        """There are no further tests."""
        self.shutting_down = True

    @property
    def running(self) -> int | None:
        """The test that runs."""
        knows_next = len(self.given) > self.done + 1 or (self.shutting_down and len(self.given) > self.done)
        return self.given[self.done] if knows_next else None


def play(durations: dict[str, float], workers: int) -> float:
    """Return when the last of these tests ends."""
    scheduler, nodes = _scheduler(list(durations), workers)
    lengths = list(durations.values())
    now, ends = 0.0, dict.fromkeys(nodes, 0.0)
    began: dict[Worker, int] = {}
    while True:
        for node in nodes:
            if node not in began and (test := node.running) is not None:
                began[node], ends[node] = test, now + lengths[test]
        if not began:
            break
        node = min(began, key=lambda each: ends[each])
        now = ends[node]
        node.done += 1
        scheduler.mark_test_complete(cast("Any", node), began.pop(node))
    assert sorted(test for node in nodes for test in node.given[: node.done]) == list(range(len(lengths)))
    return now


def _scheduler(tests: list[str], workers: int) -> tuple[ByFileAndKernel, list[Worker]]:
    options = {"tx": [f"{workers}*popen"], "rsyncdir": []}
    config = SimpleNamespace(
        getvalue=options.__getitem__, option=SimpleNamespace(loadscopereorder=False), getoption=options.get
    )
    scheduler = ByFileAndKernel(cast("pytest.Config", config))
    nodes = [Worker(f"gw{number}") for number in range(workers)]
    for node in nodes:
        scheduler.add_node(cast("Any", node))
        scheduler.add_node_collection(cast("Any", node), tests)
    scheduler.schedule()
    return scheduler, nodes


def test_files_do_not_wait_for_a_long_test() -> None:
    """At most one file waits behind a test that takes long, while other workers take what is left."""
    file = {
        f"tests/lab/test_long.py::test_{number}": length for number, length in enumerate((1.0, 1.0, 100.0))
    }
    short = {f"tests/lab/test_{number}.py::test": 1.0 for number in range(20)}
    assert play(file | short, 2) == sum(file.values()) + 1.0


def test_tests_of_a_file_stay_together() -> None:
    """One worker runs all tests of a file: they share what a module has made."""
    tests = [f"tests/lab/test_{number % 5}.py::test_{number}" for number in range(25)]
    _, nodes = _scheduler(tests, 3)
    for node in nodes:
        files = [tests[index].partition("::")[0] for index in node.given]
        assert all(files.count(file) == 5 for file in files)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_test_runs_once(workers: int) -> None:
    """Whatever the lengths of tests are, each of them runs once."""
    tests = {f"tests/lab/test_{number // 3}.py::test_{number}": 1.0 + number % 7 for number in range(31)}
    assert play(tests, workers) >= sum(tests.values()) / workers

"""What a lab's inner side knows of processes without a parent that waits for them."""

import re
import subprocess
import threading
from pathlib import Path

import pytest

from lanloom_lab.inner.sandbox import is_orphan, reap_orphans
from lanloom_lab.processes import processes, status_of

TEXT = "Name:\tsh\nState:\tZ (zombie)\nPPid:\t{parent}\nNSpid:\t{ids}\n"


@pytest.mark.parametrize(
    ("parent", "ids", "orphan"),
    [(1, "812\t7", True), (1, "812", False), (700, "812\t7", False)],
    ids=["a sandbox's", "one of our own", "another one's"],
)
def test_orphans(tmp_path: Path, parent: int, ids: str, orphan: bool) -> None:
    """Only children in a further namespace of processes are buried: others wait for their own."""
    (tmp_path / "status").write_text(TEXT.format(parent=parent, ids=ids))
    assert is_orphan(status_of(tmp_path), 1) == orphan


def test_a_status_that_tells_little() -> None:
    """A process without these lines is no orphan."""
    assert not is_orphan({"Name": "sh"}, 1)


def test_a_process_that_has_ended_has_no_status() -> None:
    """Of a process that ends between its directory and the look into it, nothing is known, and that is no error."""
    held = subprocess.Popen(["sleep", "1000"])
    directory = Path(f"/proc/{held.pid}")
    status = (directory / "status").open()
    assert "Name" in status_of(directory)
    held.kill()
    held.wait()
    with status, pytest.raises(ProcessLookupError):
        status.read()
    assert status_of(directory) == {}
    assert held.pid not in dict(processes())


@pytest.mark.slow
def test_processes_that_end_meanwhile() -> None:
    """A search for orphans survives processes that end between their name and their status."""
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            subprocess.run(["true"], check=True)

    others = threading.Thread(target=come_and_go)
    others.start()
    try:
        for _ in range(20):
            reap_orphans()
    finally:
        stop.set()
        others.join()


def test_no_glob_below_a_process() -> None:
    """No code globs below a process's directory: `glob` raises the error of a process that has ended."""
    root = Path(__file__).parents[2]
    sources = [path for part in ("src", "tests", "bench") for path in sorted((root / part).rglob("*.py"))]
    globs = re.compile(r'"/proc"\)\.r?glob\("[^"]*/')
    assert [str(path) for path in sources if globs.search(path.read_text())] == []

"""What a lab's inner side knows of processes that nobody waits for."""

import pytest

from lanloom_lab.inner.sandbox import is_orphan

STATUS = "Name:\tsh\nState:\tZ (zombie)\nPPid:\t{parent}\nNSpid:\t{ids}\n"


@pytest.mark.parametrize(
    ("parent", "ids", "orphan"),
    [(1, "812\t7", True), (1, "812", False), (700, "812\t7", False)],
    ids=["a sandbox's", "one of our own", "another one's"],
)
def test_orphans(parent: int, ids: str, orphan: bool) -> None:
    """Only children in a further namespace of processes are buried: others wait for their own."""
    assert is_orphan(STATUS.format(parent=parent, ids=ids), 1) == orphan


def test_a_status_that_tells_little() -> None:
    """A process without these lines is nobody's orphan."""
    assert not is_orphan("Name:\tsh\n", 1)

"""Ports of machines on the lab's kernels."""

from pathlib import Path

import pytest

from tests.harness.kernel import check_inside

TESTS = "tests/features/liveupdate/kernel"
KILLS = f"{TESTS}/test_kills.py"


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(2500)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Ports are found and moved, with their VLANs, on the lab's kernel as on the machine's own."""
    check_inside(tmp_path, subtests, "-m", "not slow", f"--ignore={KILLS}", TESTS)


@pytest.mark.lab
@pytest.mark.timeout(2500)
def test_kills_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Agents that are killed while they move a port converge on the lab's kernel as on the machine's own."""
    check_inside(tmp_path, subtests, "-m", "not slow", KILLS)

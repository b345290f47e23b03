"""Ports of machines on the lab's kernels."""

from pathlib import Path

import pytest

from tests.harness.kernel import run_inside


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(1300)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Ports are found and moved, with their VLANs, on the lab's kernel as on the machine's own."""
    cases = run_inside(tmp_path, "-m", "not slow", "tests/features/liveupdate/kernel")
    assert cases
    for case in cases:
        with subtests.test(case.name):
            case.check()

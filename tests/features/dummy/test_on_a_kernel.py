"""Isolated bridges on a real kernel, kept by the process that runs on nodes."""

from pathlib import Path

import pytest

from tests.harness.kernel import check_inside


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(1300)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """`lanloom dummy bridge` does on a real kernel what it does in memory."""
    check_inside(tmp_path, subtests, "tests/features/dummy/kernel")

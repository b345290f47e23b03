"""The contract on a real kernel and a real NetworkManager, and what only they can show."""

from pathlib import Path

import pytest

from tests.harness.kernel import run_inside


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(1300)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The adapters keep the contract on a real kernel with a real NetworkManager."""
    cases = run_inside(tmp_path, "tests/node/contract", "tests/node/kernel", "tests/node/test_sandbox.py")
    assert len(cases) > 50
    for case in cases:
        with subtests.test(case.name):
            case.check()

"""The contract on a real kernel and a real NetworkManager, and what only they can show."""

from pathlib import Path

import pytest

from tests.harness.kernel import check_inside

CONTRACT = "tests/node/contract"
FILES = (f"{CONTRACT}/test_profile_files.py", f"{CONTRACT}/test_records.py", "tests/node/kernel/test_bus.py")
"""What is about files and messages of D-Bus: the same on each kernel."""


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(2500)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The adapters keep the contract on a real kernel with a real NetworkManager."""
    left_out = (f"--ignore={path}" for path in FILES)
    paths = (CONTRACT, "tests/node/kernel", "tests/node/test_sandbox.py")
    check_inside(tmp_path, subtests, *left_out, *paths, fewest=50)


@pytest.mark.lab
@pytest.mark.timeout(2500)
def test_files_on_a_node(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The adapters keep the contract of files and of D-Bus on a real node, too."""
    check_inside(tmp_path, subtests, *FILES)

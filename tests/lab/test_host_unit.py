"""The host's reload unit on a real kernel with a real NetworkManager and systemd's own judgement."""

from pathlib import Path

import pytest

from tests.harness.kernel import check_inside


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.timeout(2500)
def test_host_unit(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The unit tells NetworkManager of everything that changed and of nothing else."""
    check_inside(tmp_path, subtests, "tests/lab/hostunit", fewest=11)

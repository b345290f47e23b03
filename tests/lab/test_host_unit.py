"""The host's reload unit on a real kernel with a real NetworkManager and systemd's own judgement."""

from pathlib import Path

import pytest

from tests.harness.kernel import run_inside


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.timeout(1300)
def test_host_unit(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The unit tells NetworkManager of everything that changed and of nothing else."""
    cases = run_inside(tmp_path, "tests/lab/hostunit", seconds=1200)
    assert len(cases) > 10
    for case in cases:
        with subtests.test(case.name):
            case.check()

"""LANs on the lab's kernels."""

from pathlib import Path

import pytest

from lanloom_lab.assets import default_cache
from tests.harness.guests.assets import guest_assets
from tests.harness.kernel import run_inside


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(1300)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """LANs carry frames, keep hosts apart and heal on the lab's kernel as on the machine's own."""
    cases = run_inside(tmp_path, "-m", "not slow", "tests/features/lan/kernel")
    assert cases
    for case in cases:
        with subtests.test(case.name):
            case.check()


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(1300)
def test_guests_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Real guests talk over LANs on the lab's kernel as on the machine's own."""
    files = guest_assets(default_cache(), print)
    cases = run_inside(tmp_path, "tests/features/lan/kernel/test_guest.py", shared=files.directory)
    assert cases
    for case in cases:
        with subtests.test(case.name):
            case.check()

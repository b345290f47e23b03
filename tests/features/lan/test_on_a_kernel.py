"""LANs on the lab's kernels."""

from pathlib import Path

import pytest

from lanloom_lab.assets import default_cache
from lanloom_lab.guests.assets import guest_assets
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


BOTH_KERNELS = "test_guest_and_pod or test_agent_restarts"
"""The guests whose frames and links a kernel can change; the others show where their devices are."""


def check_guests(scratch: Path, subtests: pytest.Subtests, chosen: str) -> None:
    """Runs the chosen tests of guests inside."""
    files = guest_assets(default_cache(), print)
    cases = run_inside(
        scratch, "-k", chosen, "tests/features/lan/kernel/test_guest.py", shared=files.directory
    )
    assert cases
    for case in cases:
        with subtests.test(case.name):
            case.check()


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(1300)
def test_guests_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Real guests talk over LANs on the lab's kernel as on the machine's own."""
    check_guests(tmp_path, subtests, BOTH_KERNELS)


@pytest.mark.lab
@pytest.mark.timeout(1300)
def test_devices_of_guests_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Real guests find their devices again on the lab's kernel as on the machine's own."""
    check_guests(tmp_path, subtests, f"not ({BOTH_KERNELS})")

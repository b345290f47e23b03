"""LANs on the lab's kernels."""

from pathlib import Path

import pytest

from lanloom_lab.assets import default_cache
from lanloom_lab.guests.assets import guest_assets
from tests.harness.kernel import check_inside

TESTS = "tests/features/lan/kernel"
LOGIC = tuple(f"{TESTS}/test_{name}.py" for name in ("healing", "kills", "options_heal", "trace"))
"""How Lanloom comes back to what the others show to work: the same on each kernel."""


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(2500)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """LANs carry frames and keep hosts apart on the lab's kernel as on the machine's own."""
    check_inside(tmp_path, subtests, "-m", "not slow", *(f"--ignore={path}" for path in LOGIC), TESTS)


@pytest.mark.lab
@pytest.mark.timeout(2500)
def test_logic_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """LANs heal on the lab's kernel as on the machine's own."""
    check_inside(tmp_path, subtests, "-m", "not slow", *LOGIC)


BOTH_KERNELS = "test_guest_and_pod or test_agent_restarts"
"""The guests whose frames and links a kernel can change; the others show where their devices are."""


def check_guests(scratch: Path, subtests: pytest.Subtests, chosen: str) -> None:
    """Run the chosen tests of guests inside."""
    files = guest_assets(default_cache(), print)
    check_inside(scratch, subtests, "-k", chosen, f"{TESTS}/test_guest.py", shared=files.directory)


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(2500)
def test_guests_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Real guests talk over LANs on the lab's kernel as on the machine's own."""
    check_guests(tmp_path, subtests, BOTH_KERNELS)


@pytest.mark.lab
@pytest.mark.timeout(2500)
def test_devices_of_guests_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Real guests find their devices again on the lab's kernel as on the machine's own."""
    check_guests(tmp_path, subtests, f"not ({BOTH_KERNELS})")

"""Isolated bridges on a real kernel, kept by the process that runs on nodes."""

from pathlib import Path

import pytest

from lanloom.node.kernel import BRIDGE
from lanloom_lab.kernel import OVERLAY, VETH
from tests.harness.kernel import check_inside


@pytest.mark.lab
@pytest.mark.kernel
@pytest.mark.timeout(2500)
def test_on_a_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """`lanloom dummy bridge` does on a real kernel what it does in memory."""
    check_inside(tmp_path, subtests, "tests/features/dummy/kernel")


@pytest.mark.lab
@pytest.mark.timeout(300)
def test_gateways(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Gateways translate addresses: on the machine's own kernel, which, other than those of labs, mostly can."""
    paths = ("tests/features/dummy/kernel/test_plugin_first.py", "-k", "gateways")
    check_inside(tmp_path, subtests, *paths, fewest=2, needs=(BRIDGE, VETH, OVERLAY))

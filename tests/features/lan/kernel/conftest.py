"""Tests that need root and a kernel with namespaces, bridge, veth, VXLAN and macvtap: this machine's, or the lab's.

Those of uplinks need bridges that filter VLANs as well, which the lab's kernel has.
"""

import os
from pathlib import Path

import pytest

from lanloom.node.kernel import KernelFeature, probe
from lanloom_lab.assets import default_cache
from lanloom_lab.guests.assets import GuestAssets, guest_assets
from tests.harness.kernel import INSIDE, SHARED

NEEDS = (
    KernelFeature("VXLAN", "other nodes", "ip link add v0 type vxlan id 7 dstport 4789"),
    KernelFeature(
        "macvtap", "machines", "ip link add a0 type veth peer name a1 && ip link add link a0 type macvtap"
    ),
    KernelFeature("bridge", "the LAN on a node", "ip link add b0 type bridge"),
)


FILTERING = KernelFeature("VLANs", "uplinks", "ip link add b0 type bridge vlan_filtering 1")


def ignored() -> list[str]:
    """The modules that this kernel can't run."""
    if INSIDE in os.environ:
        return []
    if os.geteuid() != 0 or not all(item.present for item in probe(NEEDS)):
        return ["test_*.py"]
    return [] if probe((FILTERING,))[0].present else ["test_uplink.py"]


collect_ignore_glob = ignored()

QUICK = "test_contract.py"
"""What `make check` runs on this machine's kernel; the lab runs everything that is quick there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves to `make test` what mostly waits for a kernel."""
    if INSIDE in os.environ:
        return
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here) and item.path.name != QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def guest_files() -> GuestAssets:
    """What real guests run on."""
    return GuestAssets(SHARED) if INSIDE in os.environ else guest_assets(default_cache(), print)

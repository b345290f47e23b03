"""Tests that need root and a kernel with namespaces, bridge, veth, VXLAN and macvtap: this machine's, or the lab's."""

import os

import pytest

from lanloom.node.kernel import KernelFeature, probe
from lanloom_lab.assets import default_cache
from tests.harness.guests.assets import GuestAssets, guest_assets
from tests.harness.kernel import INSIDE, SHARED

NEEDS = (
    KernelFeature("VXLAN", "other nodes", "ip link add v0 type vxlan id 7 dstport 4789"),
    KernelFeature(
        "macvtap", "machines", "ip link add a0 type veth peer name a1 && ip link add link a0 type macvtap"
    ),
    KernelFeature("bridge", "the LAN on a node", "ip link add b0 type bridge"),
)


def usable() -> bool:
    """Whether this machine's own kernel can run the tests."""
    return os.geteuid() == 0 and all(item.present for item in probe(NEEDS))


collect_ignore_glob = [] if INSIDE in os.environ or usable() else ["test_*.py"]


@pytest.fixture(scope="session")
def guest_files() -> GuestAssets:
    """What real guests run on."""
    return GuestAssets(SHARED) if INSIDE in os.environ else guest_assets(default_cache(), print)

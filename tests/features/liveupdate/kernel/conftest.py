"""Tests that need root and a kernel with namespaces, bridges and veth pairs: this machine's, or the lab's.

Those of VLANs need bridges that filter them as well, which the lab's kernel has.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom.node.kernel import KernelFeature, probe
from tests.features.liveupdate.kernel.ground import Ground
from tests.harness.kernel import INSIDE

NEEDS = (
    KernelFeature("veth", "ports", "ip link add a0 type veth peer name a1"),
    KernelFeature("bridge", "networks", "ip link add b0 type bridge"),
)
FILTERING = KernelFeature("VLANs", "VLAN networks", "ip link add b0 type bridge vlan_filtering 1")


def ignored() -> list[str]:
    """The modules that this kernel can't run."""
    if INSIDE in os.environ:
        return []
    if os.geteuid() != 0 or not all(item.present for item in probe(NEEDS)):
        return ["test_*.py"]
    return [] if probe((FILTERING,))[0].present else ["test_vlans.py"]


collect_ignore_glob = ignored()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves to `make test` what mostly waits for this machine's kernel; the lab runs what is quick there."""
    if INSIDE in os.environ:
        return
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Ground]:
    """A node without bridges."""
    made = Ground(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def ground(bare: Ground) -> Ground:
    """A node with two bridges, a peer on each, and a machine on the first."""
    bare.bridge("one-br")
    bare.bridge("two-br")
    bare.peer("one", "one-br", "10.7.0.1")
    bare.peer("two", "two-br", "10.7.0.2")
    bare.pod("db", "one-br")
    return bare

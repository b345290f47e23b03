"""What counts as changed at a bridge and its ports."""

import pytest

from lanloom.node.netlink.bridgedrift import link_drift, port_drift
from lanloom.node.netlink.messages import IFF_RUNNING

LEARNING, LOCKED, STATE, BCAST_FLOOD, NEIGH_SUPPRESS, BACKUP_PORT = 8, 39, 1, 30, 32, 34
WELL = {STATE: b"\3", LEARNING: b"\1", LOCKED: b"\0", BCAST_FLOOD: b"\1", NEIGH_SUPPRESS: b"\0"}


@pytest.mark.parametrize(
    ("changes", "flags", "drift"),
    [
        ({}, IFF_RUNNING, set()),
        ({STATE: b"\0"}, IFF_RUNNING, {"state"}),
        ({STATE: b"\0"}, 0, set()),
        ({LEARNING: b"\0"}, 0, {"learning"}),
        ({LEARNING: b"\0", LOCKED: b"\1"}, 0, set()),
        ({LOCKED: b"\1"}, 0, {"learning"}),
        ({BCAST_FLOOD: b"\0", NEIGH_SUPPRESS: b"\1"}, 0, {"bcast_flood", "neigh_suppress"}),
        ({BACKUP_PORT: b"\7\0\0\0"}, 0, {"backup_port"}),
    ],
)
def test_port(changes: dict[int, bytes], flags: int, drift: set[str]) -> None:
    """A port floods, learns unless it is locked, and forwards as long as it has a carrier."""
    assert set(port_drift(WELL | changes, {}, flags)) == drift


def test_a_kernel_that_knows_less() -> None:
    """A setting that a kernel does not tell is not changed."""
    assert not set(port_drift({STATE: b"\3"}, {}, IFF_RUNNING))
    assert not set(link_drift("bridge", {})) and not set(link_drift("vxlan", {}))


def test_bridge() -> None:
    """A bridge has no spanning tree, filters no VLANs, and hands no frame to the filters of IP."""
    assert set(link_drift("bridge", {5: b"\1\0\0\0", 7: b"\1", 36: b"\1"})) == {
        "stp_state",
        "vlan_filtering",
        "nf_call_iptables",
    }

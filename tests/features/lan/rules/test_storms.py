"""Storms, as a node tells of them: what was dropped becomes a warning, for a while."""

from typing import Any

import pytest

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.options import StormFilter
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord
from lanloom.features.lan.rules.storms import STORM_SECONDS, Floods, looked

RECORD = LanRecord(
    uid="u",
    namespace="default",
    name="blue",
    ns="blue",
    bridge="br0",
    vxlan="vx0",
    vni=7,
    places=(SpokeRecord(spoke="web", mode="veth"), SpokeRecord(spoke="vm", mode="macvtap", index=7)),
)
WANTED = DesiredLan(uid="u", ns="blue", storm_filter=StormFilter(rate=20_000, vxlan="vx0"))


def look(before: Floods | None, now: float, *, fault: str = "", **stormed: int) -> Floods:
    """What a look finds that sees so many frames dropped."""
    return looked(before, RECORD, WANTED, SeenLan(stormed=stormed, storm_fault=fault), now)


def test_a_storm_is_told_for_a_while() -> None:
    """A port is reported while more is dropped, and a minute longer; a second storm is reported again."""
    first = look(None, 1000.0)
    begun = look(first, 1020.0, webV0=5)
    assert begun.storming == {"webV0"}
    assert begun.warning == (
        "storm control drops frames from the spoke web, which sends more than 20000 in a second for many or unknown "
        "receivers; look for a loop there, as of a machine that bridges two spokes, or raise "
        "spec.stormControl.packetsPerSecond"
    )
    still = look(begun, 1020.0 + STORM_SECONDS - 1, webV0=5)
    assert still.storming == {"webV0"}
    over = look(still, 1020.0 + STORM_SECONDS, webV0=5)
    assert (over.storming, over.warning) == (frozenset(), "")
    assert look(over, 2000.0, webV0=6).storming == {"webV0"}


@pytest.mark.parametrize(
    ("before", "stormed", "storming"),
    [
        (None, {"webV0": 9}, set()),  # an agent that starts: it may be long ago
        ({"webV0": 9}, {"webV0": 9}, set()),
        ({"webV0": 9}, {}, set()),  # storm control was set again
        ({"webV0": 9}, {"webV0": 3}, set()),
        ({}, {"webV0": 1, "vmM0": 1, "hostB0": 1}, {"webV0", "vmM0", "hostB0"}),
    ],
)
def test_what_is_a_storm(before: Any, stormed: dict[str, int], storming: set[str]) -> None:
    """A storm is what was seen to be dropped between two looks."""

    def at(last: Floods | None, now: float, found: dict[str, int]) -> Floods:
        return looked(last, RECORD, WANTED, SeenLan(stormed=found), now)

    last = None if before is None else at(at(None, 100.0, before), 900.0, before)
    assert at(last, 1000.0, stormed).storming == storming


def test_a_storm_from_outside() -> None:
    """What comes from the VLAN or bridge that the LAN is joined to is reported by that name."""
    found = look(look(None, 1.0), 100.0, hostB0=1, vmM0=1)
    assert "from the spoke vm, the VLAN or bridge that the LAN is joined to, which" in found.warning


def test_a_kernel_without_storm_control() -> None:
    """A kernel that can't limit frames is reported with the remedy."""
    assert look(None, 1.0, fault="Operation not supported").warning == (
        "there is no storm control: this kernel can't limit frames of bridges (Operation not supported); load that "
        "with `modprobe -a nf_tables nft_limit`, and restart the agent of LANs"
    )

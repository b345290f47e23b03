"""A change that cuts a node off from the API server is undone; one that is innocent of the silence is not."""

import asyncio

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.agent.rollback.changes import (
    BOOT_CONFIRM_SECONDS,
    CONFIRM_SECONDS,
    UNRELATED_SECONDS,
)
from lanloom.features.vlan.rules.desired.names import report_name
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster

BAD = "192.168.1.99/24"
MOVED = {**STATIC, "node1": BAD}
HALF_AN_HOUR = 1800.0


async def _about_to_be_cut_off(quiet: Quiet) -> None:
    """A cluster at rest; an address that the first node is going to get will cut it off."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await asyncio.sleep(60)
    quiet.cut_off_by(BAD)


async def _cut_off(quiet: Quiet) -> None:
    """The first node has the address that cuts it off."""
    await _about_to_be_cut_off(quiet)
    await quiet.remap(MOVED)
    await quiet.until(lambda: quiet.addresses() == (BAD,))


@on_a_quiet_cluster
async def test_a_change_that_cuts_a_node_off_is_undone(quiet: Quiet) -> None:
    """The node returns to what it had, says what it undid, and tries the same change no more."""
    await _about_to_be_cut_off(quiet)
    began = quiet.sim.now()
    await quiet.remap(MOVED)
    await quiet.until(lambda: quiet.addresses() == (BAD,))
    told = await quiet.told("RolledBack")
    assert CONFIRM_SECONDS <= quiet.sim.now() - began <= 2 * CONFIRM_SECONDS
    assert f"VLAN 2012: {STATIC['node1']} to {BAD}" in told.message
    assert "delete this ClusterNetworkNode" in told.message
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), 5)
    await asyncio.sleep(HALF_AN_HOUR)
    assert quiet.addresses() == (STATIC["node1"],)
    events = [item for item in await quiet.events("RolledBack") if item.involved_object.kind == "Node"]
    assert [(item.involved_object.name, item.type) for item in events] == [("node1", "Warning")]
    assert {item.status for item in await quiet.conditions("RolledBack")} == {"False"}
    assert (await quiet.condition("ready")).reason == "RolledBack"


@on_a_quiet_cluster
async def test_a_corrected_change_is_taken_up(quiet: Quiet) -> None:
    """What was undone counts no more when the network is changed again."""
    await _about_to_be_cut_off(quiet)
    await quiet.remap(MOVED)
    await quiet.told("RolledBack")
    good = {**STATIC, "node1": "192.168.1.98/24"}
    await quiet.remap(good)
    await quiet.rest()
    assert quiet.addresses() == (good["node1"],)


@on_a_quiet_cluster
async def test_a_deleted_report_has_the_change_tried_again(quiet: Quiet) -> None:
    """Who deletes the report of what was undone has it tried again, as the report says."""
    await _about_to_be_cut_off(quiet)
    await quiet.remap(MOVED)
    await quiet.told("RolledBack")
    quiet.sim.faults.cut.clear()
    await quiet.admin.delete(CLUSTER_NETWORK_NODES, report_name("cluster-1", "node1"))
    await quiet.rest()
    assert quiet.addresses() == (BAD,)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_change_is_undone_although_the_agent_dies(quiet: Quiet) -> None:
    """Who is killed every few seconds while a change is on trial undoes it all the same."""
    await _cut_off(quiet)
    for _ in range(8):
        await asyncio.sleep(7)
        await quiet.restart()
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), 10)
    await quiet.told("RolledBack")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_reboot_in_the_middle_of_a_trial(quiet: Quiet) -> None:
    """After a reboot the change gets more time, because the API server may be booting too, but not endlessly."""
    await _cut_off(quiet)
    await quiet.sim.processes["node1"].kill()
    quiet.sim.hosts["node1"].reboot()
    quiet.sim.processes["node1"].start()
    await quiet.until(lambda: quiet.addresses() == (BAD,))
    await asyncio.sleep(BOOT_CONFIRM_SECONDS - 60)
    assert quiet.addresses() == (BAD,)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), 120)
    await quiet.told("RolledBack")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_full_disk_does_not_stop_the_return(quiet: Quiet) -> None:
    """Undoing a change does not wait for room on the disk."""
    await _cut_off(quiet)
    quiet.sim.hosts["node1"].state.full = True
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    quiet.sim.hosts["node1"].state.full = False
    await quiet.told("RolledBack")
    await quiet.restart()
    await asyncio.sleep(600)
    assert quiet.addresses() == (STATIC["node1"],)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_what_was_rejected_stays_so_after_a_reboot(quiet: Quiet) -> None:
    """A reboot does not make a node try again what cut it off."""
    await _about_to_be_cut_off(quiet)
    await quiet.remap(MOVED)
    await quiet.told("RolledBack")
    await quiet.sim.processes["node1"].kill()
    quiet.sim.hosts["node1"].reboot()
    quiet.sim.processes["node1"].start()
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    await asyncio.sleep(HALF_AN_HOUR)
    assert quiet.addresses() == (STATIC["node1"],)
    assert await quiet.conditions("RolledBack")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_an_api_server_that_goes_away_by_itself_holds_no_change_up(quiet: Quiet) -> None:
    """A change is undone while the API server is silent, and made again when that turns out not to be its fault."""
    await _about_to_be_cut_off(quiet)
    quiet.sim.faults.cut.clear()
    await quiet.remap(MOVED)
    await quiet.until(lambda: quiet.addresses() != (STATIC["node1"],))  # its old address is gone first
    quiet.sim.faults.away = True
    await quiet.until(lambda: quiet.addresses() == (BAD,))
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    await asyncio.sleep(UNRELATED_SECONDS + 30)
    assert quiet.addresses() == (BAD,)
    quiet.sim.faults.away = False
    await quiet.rest()
    assert not await quiet.events("RolledBack")


@on_a_quiet_cluster
async def test_a_short_silence_undoes_nothing(quiet: Quiet) -> None:
    """An API server that is away for less than the patience of the trial costs nothing."""
    await _about_to_be_cut_off(quiet)
    quiet.sim.faults.cut.clear()
    await quiet.remap(MOVED)
    await quiet.until(lambda: quiet.addresses() != (STATIC["node1"],))  # its old address is gone first
    quiet.sim.faults.away = True
    await quiet.until(lambda: quiet.addresses() == (BAD,))
    await asyncio.sleep(CONFIRM_SECONDS - 10)
    quiet.sim.faults.away = False
    for _ in range(60):
        await asyncio.sleep(1)
        assert quiet.addresses() == (BAD,)
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_late_address_that_cuts_a_node_off(quiet: Quiet) -> None:
    """A change is on trial until its last address is there: the cut may come with a lease half a minute later."""
    await quiet.uplink()
    quiet.sim.switch.set_dhcp(2012, None)
    quiet.sim.faults.cut["node1"] = lambda: bool(quiet.addresses())
    await quiet.network()
    await asyncio.sleep(40)
    assert not await quiet.conditions("RolledBack")
    quiet.sim.switch.set_dhcp(2012, "10.115.8.0/21")
    await quiet.until(lambda: bool(quiet.addresses()))
    await quiet.told("RolledBack")
    assert not quiet.addresses()
    assert quiet.addresses("node2")


@on_a_quiet_cluster
async def test_an_address_that_failed_first_cuts_a_node_off(quiet: Quiet) -> None:
    """An activation that failed once and is begun again is still on trial: what is not there proves nothing."""
    await quiet.uplink()
    quiet.sim.switch.set_dhcp(2012, None)
    quiet.sim.faults.cut["node1"] = lambda: bool(quiet.addresses())
    await quiet.network()
    await quiet.reported("DHCPTimeout")
    await asyncio.sleep(10)
    quiet.sim.switch.set_dhcp(2012, "10.115.8.0/21")
    await quiet.until(lambda: bool(quiet.addresses()))
    await quiet.told("RolledBack")
    assert not quiet.addresses()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_network_that_is_deleted_is_never_restored(quiet: Quiet) -> None:
    """A cluster network that is gone stays gone, even where its removal cut a node off."""
    await _about_to_be_cut_off(quiet)
    quiet.sim.faults.cut["node1"] = lambda: not quiet.addresses()
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.until(lambda: "cluster-1-br" not in quiet.sim.hosts["node1"].kernel.links)
    await asyncio.sleep(HALF_AN_HOUR)
    assert "cluster-1-br" not in quiet.sim.hosts["node1"].kernel.links
    quiet.sim.faults.cut.clear()
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_removal_that_cuts_a_node_off_is_undone(quiet: Quiet) -> None:
    """A VLAN whose removal cut the node off is back, as long as its cluster network is there."""
    await _about_to_be_cut_off(quiet)
    quiet.sim.faults.cut["node1"] = lambda: not quiet.addresses()
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not quiet.addresses())
    told = await quiet.told("RolledBack")
    assert "VLAN 2012 removed" in told.message
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))

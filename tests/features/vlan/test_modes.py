"""Harvester's controller comes and goes: the mode follows, and links, addresses and reports of either side stay."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from lanloom.api.harvester import (
    VLAN_CONFIGS,
    VLAN_STATUSES,
)
from lanloom.api.linknames import interface_name
from lanloom.api.multus import NADS
from lanloom.features.vlan.migrate import migrate
from lanloom.features.vlan.rules.migration.adopt import plan_adoption
from lanloom.node.marks import MARK
from lanloom.node.ports import Link
from lanloom.node.vlanids import contains
from tests.features.vlan.quiet import (
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.features.vlan.test_beside import network, on_harvester, shared_versions
from tests.harness.harvester import Harvester

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"


@pytest.mark.slow
@on_a_quiet_cluster
async def test_harvester_that_comes_later_takes_over(quiet: Quiet) -> None:
    """Uplinks that Lanloom made stay for Harvester's controller, with their addresses; nothing of them is removed."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    before = {name: host.kernel.links[name] for name in (BRIDGE, BOND, "eth1")}
    harvester = Harvester(quiet.sim)
    await harvester.install()
    await asyncio.sleep(60)
    assert (await quiet.report()).mode == "beside"
    taken = {name: replace(link, alias="") for name, link in before.items()}
    assert {name: host.kernel.links[name] for name in before} == taken
    assert quiet.addresses() == (STATIC["node1"],)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not contains(host.kernel.links[BRIDGE].self_vlans, 2012))
    await harvester.uninstall()
    await asyncio.sleep(120)
    assert {
        BRIDGE,
        BOND,
    } <= host.kernel.links.keys()  # it is Harvester's controller that made use of them last
    await harvester.come_back()
    await asyncio.sleep(60)
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.until(lambda: not {BRIDGE, BOND} & host.kernel.links.keys())


@pytest.mark.slow
@on_a_quiet_cluster
async def test_links_of_others_outlive_all_modes(quiet: Quiet) -> None:
    """What Harvester's controller and an administrator put on a bridge that was Lanloom's stays, with its ids."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    for vid, name in ((36, interface_name("cluster-1", 36)), (40, f"{BRIDGE}.40")):
        link = Link(name=name, index=0, kind="vlan", parent=BRIDGE, vlan_id=vid, up=True)
        host.plant_link(replace(link, addresses=(f"10.{vid}.0.1/24",)))
        for port, self_ in ((BRIDGE, True), (BOND, False)):
            host.add_vlan(port, vid, self_=self_)
    before = {name: link for name, link in host.kernel.links.items() if link.vlan_id in (36, 40)}

    def stays() -> bool:
        bridge, bond = host.kernel.links[BRIDGE], host.kernel.links[BOND]
        kept = all(contains(bridge.self_vlans, vid) and contains(bond.vlans, vid) for vid in (36, 40))
        return kept and before.items() <= host.kernel.links.items()

    harvester = Harvester(quiet.sim)
    for change in (harvester.install, harvester.uninstall, harvester.come_back, harvester.uninstall):
        await change()
        await asyncio.sleep(120)
        assert stays()
        assert quiet.addresses() == (STATIC["node1"],)
        if change == harvester.uninstall:
            assert await quiet.conditions("ForeignLink")
            for each in quiet.sim.hosts.values():
                for name in (BRIDGE, BOND):
                    each.kernel.change(name, alias=MARK)
            await quiet.restart()
            await asyncio.sleep(120)
            assert stays()
            assert not await quiet.conditions("ForeignLink")
    await migrate(quiet.admin, partial(plan_adoption, namespace="default"), lambda _: None, wait_seconds=120)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.until(lambda: not quiet.addresses())
    await asyncio.sleep(60)
    assert before.items() <= host.kernel.links.items()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_the_profiles_outlive_the_change_of_mode(quiet: Quiet) -> None:
    """No profile is written again when Harvester's controller comes or goes: addresses are not interrupted."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    files = quiet.sim.hosts["node1"].directory.files
    before = files[FILE]
    harvester = Harvester(quiet.sim)
    await harvester.install()
    await asyncio.sleep(60)
    await harvester.uninstall()
    await asyncio.sleep(120)
    assert files[FILE] is before
    assert (await quiet.report()).mode == "alone"


@pytest.mark.slow
@on_harvester
async def test_an_account_that_is_away_for_a_moment_changes_nothing(
    quiet: Quiet, harvester: Harvester
) -> None:
    """A reinstallation takes the account away for less than a minute: nothing is written, and no link is touched."""
    await network(quiet, "static", addresses=STATIC)
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(60)
    hosts = quiet.sim.hosts
    before, versions = {name: host.writes for name, host in hosts.items()}, await shared_versions(quiet)
    for _ in range(3):
        await harvester.uninstall()
        await asyncio.sleep(50)
        assert (await quiet.report()).mode == "beside"
        await harvester.come_back()
        await asyncio.sleep(5)
    assert {name: host.writes for name, host in hosts.items()} == before
    assert await shared_versions(quiet) == versions
    await harvester.uninstall()
    await asyncio.sleep(90)
    assert (await quiet.report()).mode == "alone"


@on_harvester
async def test_an_account_that_stays_away_is_noticed(quiet: Quiet, harvester: Harvester) -> None:
    """The mode changes a minute after the account went, although nothing else happens then."""
    await harvester.uninstall()
    await asyncio.sleep(55)
    assert not await quiet.conditions("ForeignLink")
    await asyncio.sleep(10)
    assert await quiet.conditions("ForeignLink")


@pytest.mark.slow
@on_harvester
async def test_what_was_said_alone_is_put_right(quiet: Quiet, harvester: Harvester) -> None:
    """What Lanloom called not ready while Harvester was away, it calls ready once when that one is back."""
    await network(quiet)
    await quiet.until(lambda: bool(quiet.addresses()))
    await harvester.uninstall()
    await asyncio.sleep(120)
    assert await readiness(quiet) == {"False"}
    await harvester.come_back()
    await asyncio.sleep(60)
    assert await readiness(quiet) == {"True"}
    name = (await quiet.admin.list(VLAN_STATUSES)).items[0].metadata.name
    own = {"type": "ready", "status": "False", "message": "failed to set up the bond"}
    await harvester.client.patch(VLAN_STATUSES, name, {"status": {"conditions": [own]}})
    await asyncio.sleep(60)
    assert await readiness(quiet) == {"True", "False"}  # Harvester's own word stands


async def readiness(quiet: Quiet) -> set[str]:
    """What the VlanStatuses say."""
    found = (await quiet.admin.list(VLAN_STATUSES)).items
    return {item.status for status in found for item in status.status.conditions if item.type == "ready"}

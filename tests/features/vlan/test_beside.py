"""Lanloom beside Harvester's network controller: node addresses on its bridges, and nothing else is touched."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
)
from lanloom.api.l3keys import is_l3_key
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.names import interface_name
from lanloom.node.marks import MARK
from lanloom.node.ports import Link
from lanloom.node.vlanids import contains
from tests.features.vlan.cluster import (
    cluster_network,
    host_network,
    nad,
    vlan_config,
)
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.harness.harvester import Controller, install, install_account, uninstall

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"


def on_harvester(test: Callable[[Quiet, Controller], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a cluster in which Harvester carries cluster-1 on all nodes."""

    async def given(quiet: Quiet) -> None:
        await install(quiet.admin)
        controller = Controller(quiet.sim.engine, quiet.sim.hosts)
        await asyncio.sleep(5)
        await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await quiet.admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        await controller.carry("cluster-1", "one", "eth1")
        await asyncio.sleep(30)
        await test(quiet, controller)

    given.__name__, given.__doc__ = test.__name__, test.__doc__
    return on_a_quiet_cluster(given)


async def network(quiet: Quiet, controller: Controller, mode: str = "dhcp", **more: object) -> None:
    """VLAN 2012 with node addresses, as a user makes it and Harvester's controller labels it."""
    body = nad("vlan2012", "cluster-1", 2012, mode=mode, **more)  # type: ignore[arg-type]
    body["metadata"].pop("labels", None)
    await quiet.admin.create(NADS, body, "default")
    await controller.label("vlan2012", "cluster-1", 2012)


def stripped(network: ClusterNetwork) -> ClusterNetwork:
    """A cluster network without the annotations that Lanloom may write, and without versions."""
    return network.__class__(
        metadata=network.metadata.__class__(
            name=network.metadata.name,
            annotations={
                key: value
                for key, value in network.metadata.annotations.items()
                if key in (names.UPLINK_MTU, names.MTU_SOURCE)
            },
        ),
        status=network.status,
    )


@pytest.mark.slow
@on_harvester
async def test_nodes_get_addresses_on_harvesters_bridges(quiet: Quiet, controller: Controller) -> None:
    """DHCP and static addresses come and go; the reports tell them, and in which mode the agent works."""
    await network(quiet, controller)
    await quiet.until(lambda: all(quiet.addresses(name) for name in quiet.sim.hosts))
    await asyncio.sleep(30)
    report = await quiet.report()
    assert (report.mode, report.bridge, report.uplink, report.vlan_config) == ("beside", BRIDGE, BOND, "one")
    assert [(item.type, item.status) for item in report.conditions] == [
        ("ready", "True"),
        ("L3Ready", "True"),
    ]
    await quiet.remap(STATIC)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not quiet.addresses())
    links = quiet.sim.hosts["node1"].kernel.links
    await quiet.until(lambda: not contains(links[BRIDGE].self_vlans, 2012))
    assert DEVICE not in links
    assert contains(links[BOND].vlans, 2012)  # Harvester's controller takes it away, when it sees fit


@on_harvester
async def test_nothing_else_is_touched(quiet: Quiet, controller: Controller) -> None:
    """Uplinks, their reports, conditions, labels and MTUs stay as Harvester's controller wrote them."""

    async def theirs() -> tuple[object, ...]:
        return (
            (await quiet.admin.list(VLAN_CONFIGS)).items,
            (await quiet.admin.list(VLAN_STATUSES)).items,
            [stripped(item) for item in (await quiet.admin.list(CLUSTER_NETWORKS)).items],
            [[host.kernel.links[name] for name in (BOND, "eth1")] for host in quiet.sim.hosts.values()],
        )

    host = quiet.sim.hosts["node1"]
    before = await theirs()
    await network(quiet, controller)
    labels = (await quiet.admin.get(NADS, "vlan2012", "default")).metadata.labels
    await quiet.until(lambda: bool(quiet.addresses()))
    host.set_link_up("eth1", False)
    host.drop_vlan(BOND, 2012)
    await asyncio.sleep(120)
    assert not contains(host.kernel.links[BOND].vlans, 2012)
    assert not host.kernel.links["eth1"].up
    assert "has not put the VLAN ids 2012" in next(
        item.message for item in (await quiet.report()).conditions if item.type == "ready"
    )
    host.set_link_up("eth1", True)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    for each in quiet.sim.hosts.values():
        each.drop_vlan(BOND, 2012)
    await asyncio.sleep(120)
    assert await theirs() == before
    assert labels == {
        names.CLUSTER_NETWORK_LABEL: "cluster-1",
        names.TYPE_LABEL: "L2VlanNetwork",
        names.VLAN_ID_LABEL: "2012",
        names.READY_LABEL: "true",
    }


@pytest.mark.slow
@on_harvester
async def test_an_uplink_that_harvester_takes_down_is_not_fought_for(
    quiet: Quiet, controller: Controller
) -> None:
    """Where the bridge goes, the report says whose it is; where it comes back, so do the addresses."""
    await network(quiet, controller)
    await quiet.until(lambda: bool(quiet.addresses()))
    host = quiet.sim.hosts["node1"]
    host.reboot()
    host.add_vlan(BOND, 2012)
    await quiet.restart()
    await quiet.until(lambda: bool(quiet.addresses()))
    for name in (BOND, BRIDGE):
        host.delete_link(name)
    await asyncio.sleep(60)
    assert not {BOND, BRIDGE} & host.kernel.links.keys()
    (ready,) = (item for item in (await quiet.report()).conditions if item.type == "ready")
    assert (ready.status, ready.reason) == ("False", "UplinkMissing")
    assert "Harvester's controller creates from VlanConfig one" in ready.message


@pytest.mark.slow
@on_harvester
async def test_a_vlan_of_harvesters_own_addresses_is_not_fought_over(
    quiet: Quiet, controller: Controller
) -> None:
    """Of a NAD and a HostNetworkConfig on one VLAN that came past the webhooks, the one that was in force stays."""
    await quiet.leave_alone()
    quiet.sim.processes["manager-1"].start()
    await quiet.admin.create(HOST_NETWORK_CONFIGS, host_network("storage"))
    await network(quiet, controller)
    await asyncio.sleep(60)
    assert not quiet.addresses()
    (event,) = await quiet.events("InvalidNetwork")
    assert "HostNetworkConfig storage" in event.message
    await quiet.admin.delete(HOST_NETWORK_CONFIGS, "storage")
    await quiet.until(lambda: bool(quiet.addresses()))
    await quiet.admin.create(HOST_NETWORK_CONFIGS, host_network("later"))
    await asyncio.sleep(60)
    assert quiet.addresses()
    (event,) = await quiet.events("VlanIdTaken")
    assert (event.involved_object.kind, event.involved_object.name) == ("HostNetworkConfig", "later")
    assert "default/vlan2012" in event.message


@pytest.mark.slow
@on_a_quiet_cluster
async def test_harvester_that_comes_later_takes_over(quiet: Quiet) -> None:
    """Uplinks that Lanloom made stay for Harvester's controller, with their addresses; nothing of them is removed."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    before = {name: host.kernel.links[name] for name in (BRIDGE, BOND, "eth1")}
    await install(quiet.admin)
    await asyncio.sleep(60)
    assert (await quiet.report()).mode == "beside"
    taken = {name: replace(link, alias="") for name, link in before.items()}
    assert {name: host.kernel.links[name] for name in before} == taken
    assert quiet.addresses() == (STATIC["node1"],)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not contains(host.kernel.links[BRIDGE].self_vlans, 2012))
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await asyncio.sleep(60)
    assert {BRIDGE, BOND} <= host.kernel.links.keys()
    await uninstall(quiet.admin)
    await asyncio.sleep(120)
    assert {
        BRIDGE,
        BOND,
    } <= host.kernel.links.keys()  # it is Harvester's controller that made use of them last


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

    for change in (install, uninstall, install_account, uninstall):
        await change(quiet.admin)
        await asyncio.sleep(120)
        assert stays()
        assert quiet.addresses() == (STATIC["node1"],)
        if change is uninstall:
            assert await quiet.conditions("ForeignLink")
            for each in quiet.sim.hosts.values():
                for name in (BRIDGE, BOND):
                    each.kernel.change(name, alias=MARK)
            await quiet.restart()
            await asyncio.sleep(120)
            assert stays()
            assert not await quiet.conditions("ForeignLink")
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.until(lambda: not quiet.addresses())
    await asyncio.sleep(60)
    assert before.items() <= host.kernel.links.items()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_the_profiles_outlive_the_change_of_mode(quiet: Quiet) -> None:
    """No profile is written anew when Harvester's controller comes or goes: addresses are not interrupted."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    files = quiet.sim.hosts["node1"].directory.files
    before = files[FILE]
    await install(quiet.admin)
    await asyncio.sleep(60)
    await uninstall(quiet.admin)
    await asyncio.sleep(120)
    assert files[FILE] is before
    assert (await quiet.report()).mode == "alone"


@pytest.mark.slow
@on_harvester
async def test_an_account_that_is_away_for_a_moment_changes_nothing(
    quiet: Quiet, controller: Controller
) -> None:
    """A reinstallation takes the account away for less than a minute: nothing is written, and no link is touched."""
    await network(quiet, controller, "static", addresses=STATIC)
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(60)
    hosts = quiet.sim.hosts
    before, versions = {name: host.writes for name, host in hosts.items()}, await shared_versions(quiet)
    for _ in range(3):
        await uninstall(quiet.admin)
        await asyncio.sleep(50)
        assert (await quiet.report()).mode == "beside"
        await install_account(quiet.admin)
        await asyncio.sleep(5)
    assert {name: host.writes for name, host in hosts.items()} == before
    assert await shared_versions(quiet) == versions
    await uninstall(quiet.admin)
    await asyncio.sleep(90)
    assert (await quiet.report()).mode == "alone"


async def shared_versions(quiet: Quiet) -> dict[str, str]:
    """The versions of all objects that both controllers write."""
    found = {}
    kinds: tuple[Resource[Any], ...] = (CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES, NADS)
    for kind in kinds:
        for item in (await quiet.admin.list(kind)).items:
            found[f"{kind.plural} {item.metadata.key}"] = item.metadata.resource_version
    return found


@on_harvester
async def test_an_account_that_stays_away_is_noticed(quiet: Quiet, controller: Controller) -> None:
    """The mode changes a minute after the account went, although nothing else happens then."""
    del controller
    await uninstall(quiet.admin)
    await asyncio.sleep(55)
    assert not await quiet.conditions("ForeignLink")
    await asyncio.sleep(10)
    assert await quiet.conditions("ForeignLink")


@pytest.mark.slow
@on_harvester
async def test_what_was_said_alone_is_put_right(quiet: Quiet, controller: Controller) -> None:
    """What Lanloom called not ready while Harvester was away, it calls ready once when that one is back."""
    await network(quiet, controller)
    await quiet.until(lambda: bool(quiet.addresses()))
    await uninstall(quiet.admin)
    await asyncio.sleep(120)
    assert await readiness(quiet) == {"False"}
    await install_account(quiet.admin)
    await asyncio.sleep(60)
    assert await readiness(quiet) == {"True"}
    name = (await quiet.admin.list(VLAN_STATUSES)).items[0].metadata.name
    own = {"type": "ready", "status": "False", "message": "failed to set up the bond"}
    await controller.client.patch(VLAN_STATUSES, name, {"status": {"conditions": [own]}})
    await asyncio.sleep(60)
    assert await readiness(quiet) == {"True", "False"}  # Harvester's own word stands


async def readiness(quiet: Quiet) -> set[str]:
    """What the VlanStatuses say."""
    found = (await quiet.admin.list(VLAN_STATUSES)).items
    return {item.status for status in found for item in status.status.conditions if item.type == "ready"}


@pytest.mark.slow
@on_harvester
async def test_harvester_computes_again_when_a_link_has_gone(quiet: Quiet, controller: Controller) -> None:
    """The ClusterNetwork changes after the last sub-interface of a VLAN is gone, and nothing is written after that."""
    await network(quiet, controller)
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(30)
    assert await told_vlans(quiet) == "2012"
    await controller.client.delete(NADS, "vlan2012", "default")
    there = True
    while await told_vlans(quiet) == "2012":
        there = any(DEVICE in host.kernel.links for host in quiet.sim.hosts.values())
        await asyncio.sleep(0.2)
    assert not there
    assert await told_vlans(quiet) is None
    before = await shared_versions(quiet)
    await asyncio.sleep(300)
    assert await shared_versions(quiet) == before


@pytest.mark.slow
@on_harvester
async def test_a_manager_that_was_away_has_harvester_compute_again(
    quiet: Quiet, controller: Controller
) -> None:
    """Where links went while no manager ran, the next one changes the ClusterNetwork."""
    await network(quiet, controller)
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(30)
    await quiet.leave_alone()
    await controller.client.delete(NADS, "vlan2012", "default")
    patch = {"metadata": {"annotations": dict.fromkeys(await l3_keys(quiet))}}
    await controller.client.patch(CLUSTER_NETWORKS, "cluster-1", patch)
    await quiet.until(lambda: not quiet.addresses())
    await asyncio.sleep(60)
    assert await told_vlans(quiet) == "2012"
    quiet.sim.processes["manager-1"].start()
    await asyncio.sleep(60)
    assert await told_vlans(quiet) is None


async def l3_keys(quiet: Quiet) -> list[str]:
    """The L3 annotations of cluster-1."""
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    return [key for key in found.metadata.annotations if is_l3_key(key)]


async def told_vlans(quiet: Quiet) -> str | None:
    """The annotation of cluster-1 that tells the VLANs of sub-interfaces."""
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    return found.metadata.annotations.get(names.NODE_VLANS)

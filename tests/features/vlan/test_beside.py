"""Lanloom alongside Harvester's network controller: node addresses on its bridges, and nothing else is touched."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
)
from lanloom.api.l3annotations import is_l3_key
from lanloom.api.linknames import interface_name
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.node.vlanids import contains
from tests.features.vlan.cluster import (
    cluster_network,
    host_network,
    nad,
)
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.harness.harvester import Harvester, agent_of
from tests.harness.wallclock import WallClock

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"


def on_harvester(test: Callable[[Quiet, Harvester], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a cluster in which Harvester carries cluster-1 on all nodes."""

    async def given(quiet: Quiet) -> None:
        harvester = Harvester(quiet.sim)
        await harvester.carry(30)
        await test(quiet, harvester)

    given.__name__, given.__doc__ = test.__name__, test.__doc__
    return on_a_quiet_cluster(given)


async def network(quiet: Quiet, mode: str = "dhcp", **more: object) -> None:
    """VLAN 2012 with node addresses, as a user makes it and Harvester's controller labels it."""
    body = nad("vlan2012", "cluster-1", 2012, mode=mode, **more)  # type: ignore[arg-type]
    body["metadata"].pop("labels", None)
    await quiet.admin.create(NADS, body, "default")

    async def is_labelled() -> bool:
        return names.READY_LABEL in (await quiet.admin.get(NADS, "vlan2012", "default")).metadata.labels

    await quiet.sim.until(is_labelled)


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
async def test_nodes_get_addresses_on_harvesters_bridges(quiet: Quiet, harvester: Harvester) -> None:
    """DHCP and static addresses come and go; the reports tell them, and in which mode the agent works."""
    await network(quiet)
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
    await quiet.until(lambda: not contains(links[BOND].vlans, 2012))  # Harvester's agent takes it away


@on_harvester
async def test_nothing_else_is_touched(quiet: Quiet, harvester: Harvester) -> None:
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
    await network(quiet)
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
    quiet: Quiet, harvester: Harvester
) -> None:
    """Where the bridge goes, the report says whose it is; where it comes back, so do the addresses."""
    await network(quiet)
    await quiet.until(lambda: bool(quiet.addresses()))
    host = quiet.sim.hosts["node1"]
    host.reboot()
    await quiet.restart()
    await quiet.told("UplinkMissing")
    await quiet.restart(agent_of("node1"))
    await quiet.until(lambda: bool(quiet.addresses()))
    for name in (BOND, BRIDGE):
        host.delete_link(name)
    await asyncio.sleep(60)
    assert not {BOND, BRIDGE} & host.kernel.links.keys()
    (ready,) = (item for item in (await quiet.report()).conditions if item.type == "ready")
    assert (ready.status, ready.reason) == ("False", "UplinkMissing")
    assert "Harvester's controller creates from VlanConfig one" in ready.message
    await quiet.restart(agent_of("node1"))
    await quiet.until(lambda: bool(quiet.addresses()))


@pytest.mark.slow
@on_harvester
async def test_a_vlan_config_moves_to_another_cluster_network(quiet: Quiet, harvester: Harvester) -> None:
    """Harvester takes the uplink down and makes that of the other network; Lanloom's parts go, and come there."""
    await network(quiet, "static", addresses=STATIC)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-2"))
    move: dict[str, Any] = {"spec": {"clusterNetwork": "cluster-2"}}
    await quiet.admin.patch(VLAN_CONFIGS, "one", move)
    hosts = quiet.sim.hosts
    await quiet.until(lambda: all("cluster-2-br" in host.kernel.links for host in hosts.values()))
    moved = nad("moved", "cluster-2", 2012, mode="static", addresses=STATIC)
    moved["metadata"].pop("labels")
    await quiet.admin.create(NADS, moved, "default")
    link = interface_name("cluster-2", 2012)
    await quiet.until(lambda: quiet.addresses(device=link) == (STATIC["node1"],))
    await asyncio.sleep(60)
    for host in hosts.values():
        assert not {BRIDGE, BOND, DEVICE} & host.kernel.links.keys()
        assert host.kernel.links["eth1"].master == "cluster-2-bo"
        assert FILE not in host.directory.files
    found = (await quiet.admin.list(VLAN_STATUSES)).items
    assert {item.status.cluster_network for item in found} == {"cluster-2"}
    reports = (await quiet.admin.list(CLUSTER_NETWORK_NODES)).items
    assert {item.status.cluster_network for item in reports} == {"cluster-2", names.MGMT}
    before, versions = {name: host.writes for name, host in hosts.items()}, await shared_versions(quiet)
    await asyncio.sleep(300)
    assert ({name: host.writes for name, host in hosts.items()}, await shared_versions(quiet)) == (
        before,
        versions,
    )


@pytest.mark.slow
@on_harvester
async def test_a_vlan_of_harvesters_own_addresses_is_not_fought_over(
    quiet: Quiet, harvester: Harvester
) -> None:
    """Of a NAD and a HostNetworkConfig on one VLAN that came past the webhooks, the one that was in force stays."""
    await quiet.leave_alone()
    quiet.sim.processes["manager-1"].start()
    links = quiet.sim.hosts["node1"].kernel.links
    name = interface_name("cluster-1", 36)
    addresses = {"node1": "10.36.0.1/24", "node2": "10.36.0.2/24", "node3": "10.36.0.3/24"}
    body = host_network("storage", vid=36, mode="static")
    body["spec"] |= {"ips": addresses}
    await quiet.admin.create(HOST_NETWORK_CONFIGS, body)
    await quiet.until(lambda: name in links and bool(links[name].addresses))
    index = links[name].index
    taken = {node: address.replace("10.", "172.") for node, address in addresses.items()}
    await quiet.admin.create(NADS, nad("vlan36", "cluster-1", 36, mode="static", addresses=taken), "default")
    await asyncio.sleep(60)
    assert (links[name].index, links[name].addresses) == (index, (addresses["node1"],))
    (event,) = await quiet.events("InvalidNetwork")
    assert "HostNetworkConfig storage" in event.message
    await quiet.admin.delete(HOST_NETWORK_CONFIGS, "storage")
    await quiet.until(lambda: name in links and links[name].addresses == (taken["node1"],))
    body["metadata"]["name"] = "later"
    await quiet.admin.create(HOST_NETWORK_CONFIGS, body)
    await asyncio.sleep(60)
    assert links[name].addresses == (taken["node1"],)
    (event,) = await quiet.events("VlanIdTaken")
    assert (event.involved_object.kind, event.involved_object.name) == ("HostNetworkConfig", "later")
    assert "default/vlan36" in event.message
    index = links[name].index
    await quiet.admin.delete(HOST_NETWORK_CONFIGS, "later")
    await quiet.until(lambda: name in links and links[name].index != index)
    await quiet.until(
        lambda: links[name].addresses == (taken["node1"],)
    )  # Harvester's agent goes by the name


async def shared_versions(quiet: Quiet) -> dict[str, str]:
    """The versions of all objects that both controllers write."""
    found = {}
    kinds: tuple[Resource[Any], ...] = (CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES, NADS)
    for kind in kinds:
        for item in (await quiet.admin.list(kind)).items:
            found[f"{kind.plural} {item.metadata.key}"] = item.metadata.resource_version
    return found


@pytest.mark.slow
@on_harvester
async def test_harvester_computes_again_when_a_link_has_gone(quiet: Quiet, harvester: Harvester) -> None:
    """The ClusterNetwork changes after the last sub-interface of a VLAN is gone, and nothing is written after that."""
    await network(quiet)
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(30)
    assert await told_vlans(quiet) == "2012"
    await harvester.client.delete(NADS, "vlan2012", "default")
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
    quiet: Quiet, harvester: Harvester
) -> None:
    """Where links went while no manager ran, the next one changes the ClusterNetwork."""
    await network(quiet)
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(30)
    await quiet.leave_alone()
    await harvester.client.delete(NADS, "vlan2012", "default")
    patch = {"metadata": {"annotations": dict.fromkeys(await l3_keys(quiet))}}
    await harvester.client.patch(CLUSTER_NETWORKS, "cluster-1", patch)
    await quiet.until(lambda: not quiet.addresses())
    await asyncio.sleep(60)
    assert await told_vlans(quiet) == "2012"
    quiet.sim.processes["manager-1"].start()
    await asyncio.sleep(60)
    assert await told_vlans(quiet) is None


@pytest.mark.slow
@on_harvester
async def test_vlans_that_go_while_the_clock_is_set(quiet: Quiet, harvester: Harvester) -> None:
    """The annotation follows five seconds after the last sub-interface, however the clock is set meanwhile."""
    await network(quiet)
    await quiet.until(lambda: bool(quiet.addresses()))
    await quiet.sim.processes["manager-1"].kill()
    quiet.sim.now = clock = WallClock(quiet.sim.now)
    quiet.sim.processes["manager-1"].start()
    for ahead in (-7200.0, 7200.0):
        clock.ahead = 0.0
        await asyncio.sleep(30)
        assert await told_vlans(quiet) == "2012"
        await harvester.client.delete(NADS, "vlan2012", "default")
        await quiet.until(lambda: not quiet.addresses())
        clock.ahead = ahead
        await asyncio.sleep(2)
        assert await told_vlans(quiet) == "2012"
        await asyncio.sleep(10)
        assert await told_vlans(quiet) is None
        await quiet.network()


async def l3_keys(quiet: Quiet) -> list[str]:
    """The L3 annotations of cluster-1."""
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    return [key for key in found.metadata.annotations if is_l3_key(key)]


async def told_vlans(quiet: Quiet) -> str | None:
    """The annotation of cluster-1 that tells the VLANs of sub-interfaces."""
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    return found.metadata.annotations.get(names.NODE_VLANS)

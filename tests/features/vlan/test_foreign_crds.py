"""VLAN networks on the definitions that Harvester ships, and its objects in a cluster without its controller."""

import asyncio
from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.harvester import VLAN_CONFIGS, VLAN_STATUSES, LocalArea
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.names import vlan_status_name
from tests.features.vlan.cluster import vlan_config
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.harness.harvester import install, uninstall


@on_a_quiet_cluster
async def test_networks_work_on_harvesters_definitions(quiet: Quiet) -> None:
    """Where Harvester's definitions are and its controller is not, Lanloom writes conditions and reports on them."""
    await install(quiet.admin)
    await uninstall(quiet.admin)
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    assert (await quiet.condition("ready")).status == "True"
    assert (await quiet.condition()).status == "True"
    report = await quiet.admin.get(VLAN_STATUSES, vlan_status_name("cluster-1", "node1"))
    assert report.metadata.labels[names.VLAN_CONFIG_LABEL] == "one"
    status = report.status
    assert (status.node, status.vlan_config, status.link_monitor) == ("node1", "one", "cluster-1")
    assert status.local_areas == (LocalArea(vlanID=2012, cidr="192.168.1.0/24"),)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.until(lambda: "cluster-1-br" not in quiet.sim.hosts["node1"].kernel.links)
    await asyncio.sleep(30)
    assert (await quiet.admin.list(VLAN_STATUSES)).items == ()


@on_a_quiet_cluster
async def test_reports_of_a_node_that_left_go(quiet: Quiet) -> None:
    """A node that leaves the cluster leaves no report of either kind."""
    await quiet.uplink()
    await quiet.sim.processes["node3"].kill()
    await quiet.admin.delete(NODES, "node3")
    await asyncio.sleep(30)
    kinds: tuple[Resource[Any], ...] = (VLAN_STATUSES, CLUSTER_NETWORK_NODES)
    for kind in kinds:
        assert {item.status.node for item in (await quiet.admin.list(kind)).items} == {"node1", "node2"}


@on_a_quiet_cluster
async def test_uplinks_of_harvester_are_left_alone(quiet: Quiet) -> None:
    """VlanConfigs that Harvester's controller makes for mgmt, and empty ones, are neither changed nor carried."""
    await quiet.uplink()
    await quiet.leave_alone()
    quiet.sim.processes["manager-1"].start()
    made = [
        await quiet.admin.create(VLAN_CONFIGS, vlan_config(f"mgmt-vlanconfig-{name}", network))
        for name, network in (("node1", names.MGMT), ("node2", ""))
    ]
    await asyncio.sleep(60)
    for config in made:
        assert await quiet.admin.get(VLAN_CONFIGS, config.metadata.name) == config
    assert (await quiet.condition("ready")).status == "True"

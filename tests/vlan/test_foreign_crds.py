"""VLAN networks on definitions of others: ClusterNetworks without a status subresource, as Harvester ships them."""

import asyncio

from lanloom.api import names
from lanloom.api.core import CRDS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from tests.vlan.cluster import vlan_config
from tests.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster


@on_a_quiet_cluster
async def test_conditions_without_a_subresource(quiet: Quiet) -> None:
    """Conditions are written where the status is a field like any other, and the networks work."""
    definition = await quiet.admin.get(CRDS, CLUSTER_NETWORKS.full_name)
    versions = [
        {key: value for key, value in version.items() if key != "subresources"}
        for version in definition.spec["versions"]
    ]
    await quiet.admin.patch(CRDS, CLUSTER_NETWORKS.full_name, {"spec": {"versions": versions}})
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    assert (await quiet.condition("ready")).status == "True"
    assert (await quiet.condition()).status == "True"


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

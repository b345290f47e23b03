"""VLAN networks on definitions of others: ClusterNetworks without a status subresource, as Harvester ships them."""

from lanloom.api.core import CRDS
from lanloom.api.harvester import CLUSTER_NETWORKS
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

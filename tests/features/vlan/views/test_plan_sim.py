"""A plan, and what manager, webhooks and agents then really do on hosts in memory."""

from typing import Any

from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.views import read_objects
from lanloom.features.vlan.views.plan import VlanPlan, plan
from tests.features.vlan.cluster import nad, vlan_config
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.features.vlan.views.test_plan import documents


async def planned(quiet: Quiet, *bodies: dict[str, Any]) -> VlanPlan:
    """The plan of a manifest for the cluster as it is."""
    return plan(await read_objects(quiet.admin, with_vms=True), documents(*bodies))


def told(found: VlanPlan, node: str, kind: str) -> set[str]:
    """The names of the things of a kind that are added on a node."""
    return {
        change.name
        for item in found.nodes
        if item.node == node
        for change in item.changes
        if (change.kind, change.verb) == (kind, "add")
    }


@on_a_quiet_cluster
async def test_a_plan_comes_true(quiet: Quiet) -> None:
    """What the plan of a network names is on every host after it was created, and then nothing is left to plan."""
    await quiet.uplink()
    body = nad("vlan2012", "cluster-1", 2012, mode="static", addresses=STATIC)
    found = await planned(quiet, body)
    await quiet.network(mode="static", addresses=STATIC)
    await quiet.rest()
    for name, host in quiet.sim.hosts.items():
        assert told(found, name, "interface") == {DEVICE}
        assert told(found, name, "profile") == {FILE}
        assert DEVICE in (await host.host.links.dump()).links
        assert FILE in await host.host.profiles.read()
    assert (await planned(quiet, body)).nodes == ()


@on_a_quiet_cluster
async def test_a_refusal_comes_true(quiet: Quiet) -> None:
    """What the plan says would be refused is refused, in the same words."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    twin = nad("twin", "cluster-1", 2012, mode="dhcp")
    (refused,) = (await planned(quiet, twin)).objects
    try:
        await quiet.admin.create(NADS, twin, "default")
    except Exception as error:
        assert refused.message in str(error)
    else:
        raise AssertionError("it was not refused")


@on_a_quiet_cluster
async def test_a_changed_uplink_comes_true(quiet: Quiet) -> None:
    """A second NIC and a larger MTU are on every host as the plan said, and then nothing is left to plan."""
    await quiet.uplink()
    body = vlan_config("one", "cluster-1", nics=("eth1", "eth2"), uplink={"linkAttributes": {"mtu": 9000}})
    found = await planned(quiet, body)
    assert {change.after for item in found.nodes for change in item.changes} == {"eth1, eth2", "9000"}
    await quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": body["spec"]})
    await quiet.rest()
    for host in quiet.sim.hosts.values():
        links = (await host.host.links.dump()).links
        assert links["eth2"].master == "cluster-1-bo"
        assert links["cluster-1-br"].mtu == 9000
    assert (await planned(quiet, body)).nodes == ()

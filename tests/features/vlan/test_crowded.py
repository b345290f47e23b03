"""A ClusterNetwork with more to say than its annotations hold: nodes carry all of it, and removals always work."""

from functools import partial

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.l3values import ANNOTATIONS_MAX, RESERVE, size
from tests.features.vlan.cluster import nad
from tests.features.vlan.quiet import (
    DEVICE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.features.vlan.test_manager import told
from tests.sim.vlan import DHCP

NOTE = "example.org/note"
P = names.PREFIX


async def note(quiet: Quiet, length: int) -> None:
    """A long annotation of another writer on cluster-1."""
    patch = {"metadata": {"annotations": {NOTE: "x" * length}}}
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", patch)


async def annotations(quiet: Quiet) -> dict[str, str]:
    """Those of cluster-1."""
    return (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).metadata.annotations


@on_a_quiet_cluster
async def test_addresses_come_from_the_nad(quiet: Quiet) -> None:
    """Where there is no room for addresses, nodes take them from the NAD, follow it, and let them go with it."""
    await quiet.uplink()
    await note(quiet, ANNOTATIONS_MAX - RESERVE - 270)
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    assert (await annotations(quiet))[f"{P}l3values-default-vlan2012"] == "nad"
    assert quiet.addresses() == (STATIC["node1"],)
    moved = {**STATIC, "node1": "192.168.1.99/24"}
    await quiet.remap(moved)
    await quiet.rest()
    assert quiet.addresses() == ("192.168.1.99/24",)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.rest()
    assert DEVICE not in quiet.sim.hosts["node1"].kernel.links
    assert set(await annotations(quiet)) == {NOTE, names.MTU_SOURCE, names.UPLINK_MTU}


@pytest.mark.slow
@on_a_quiet_cluster
async def test_what_a_server_refuses_holds_no_removal_up(quiet: Quiet) -> None:
    """Where a ClusterNetwork is too large for a change, networks that go are gone, and an Event says what to do."""
    await quiet.uplink()
    changed = [f"vlan{vid}" for vid in (3001, 3002, 3003, 3004)]
    for vid, name in enumerate(changed, start=3001):
        quiet.sim.switch.set_dhcp(vid, str(DHCP))
        await quiet.admin.create(NADS, nad(name, "cluster-1", vid, mode="dhcp"), "default")
    await quiet.network()
    await quiet.rest()
    await quiet.leave_alone()
    await note(quiet, ANNOTATIONS_MAX - size(await annotations(quiet)) - len(NOTE))
    for name in changed:
        body = {"annotations": {names.DNS: "192.0.2.1,192.0.2.2,192.0.2.3"}}
        await quiet.admin.patch(NADS, name, {"metadata": body}, "default")
    await quiet.admin.delete(NADS, "vlan2012", "default")
    quiet.sim.processes["manager-1"].start()

    await quiet.until(lambda: DEVICE not in quiet.sim.hosts["node1"].kernel.links)
    await quiet.sim.until(partial(told, quiet, "AnnotationsRefused"))
    (event,) = await quiet.events("AnnotationsRefused")
    assert event.involved_object.name == "cluster-1"
    assert event.message.endswith("Shorten the other annotations of this ClusterNetwork.")
    await note(quiet, 10)
    await quiet.rest()
    assert (await annotations(quiet))[f"{P}dns-default-vlan3001"].startswith("192.0.2.1")

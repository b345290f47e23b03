"""Stories of nodes: they join, leave, are shut down, start again, and change their selector."""

import asyncio
import json

import pytest

from lanloom.api.core import NODES
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.kube.errors import KubeError
from tests.features.vlan.cluster import (
    node,
)
from tests.features.vlan.looks import addresses, annotate, carrying, touched
from tests.features.vlan.quiet import (
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.sim.vlan import NODE_NAMES, add_host


@on_a_quiet_cluster
async def test_story_7_a_node_joins(quiet: Quiet) -> None:
    """A fourth node gets bridge, VLAN and a leased address like the others, which keep theirs."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = addresses(quiet)
    await join(quiet, "node4")
    await quiet.rest()
    assert carrying(quiet) == {*NODE_NAMES, "node4"}
    assert before.items() <= addresses(quiet).items()


async def join(quiet: Quiet, name: str) -> None:
    """Adds a node with its agent."""
    add_host(quiet.sim, name)
    await quiet.admin.create(NODES, node(name, zone="a"))
    quiet.sim.processes[name].start()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_story_8_a_node_is_taken_out(quiet: Quiet) -> None:
    """A node that the selector no longer matches is cleaned up; the others notice nothing."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    writes = {name: quiet.sim.hosts[name].writes for name in ("node1", "node2")}
    await quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": {"nodeSelector": {"zone": "a"}}})
    await quiet.rest()
    assert carrying(quiet) == touched(quiet) == {"node1", "node2"}
    assert {name: quiet.sim.hosts[name].writes for name in writes} == writes


@pytest.mark.slow
@on_a_quiet_cluster
async def test_story_8_a_node_is_shut_down(quiet: Quiet) -> None:
    """A node that is off takes nothing from the others, and cleans up at its next start what was deleted meanwhile."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await shut_down(quiet, "node3")
    await quiet.admin.delete(NADS, "vlan2012", "default")

    async def cleaned() -> bool:
        return touched(quiet) == {"node3"}  # its file is on a disk out of reach

    await quiet.sim.until(cleaned)
    start(quiet, "node3")
    await quiet.rest()
    assert touched(quiet) == set()


async def shut_down(quiet: Quiet, name: str) -> None:
    """Pulls a node's plug."""
    await quiet.sim.processes[name].kill()
    quiet.sim.hosts[name].power_off()


def start(quiet: Quiet, name: str) -> None:
    """Switches a node on again."""
    quiet.sim.hosts[name].power_on()
    quiet.sim.processes[name].start()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_node_leaves_the_cluster(quiet: Quiet) -> None:
    """A node whose Node object is deleted while it runs is cleaned up, and its report goes."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.admin.delete(NODES, "node3")

    async def cleaned() -> bool:
        return touched(quiet) == {"node1", "node2"}

    await quiet.sim.until(cleaned)
    assert not any(link.ours for link in quiet.sim.hosts["node3"].kernel.links.values())


@pytest.mark.slow
@on_a_quiet_cluster
async def test_story_9_a_node_joins_a_static_network(quiet: Quiet) -> None:
    """A fourth node has no address before the user adds it to the map, says so, and has it afterwards."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await join(quiet, "node4")

    async def reported() -> bool:
        try:
            return any(item.reason == "MissingAddress" for item in (await quiet.report("node4")).interfaces)
        except KubeError:
            return False

    async def summed_up() -> bool:
        return (await quiet.condition()).reason == "MissingAddress"

    await quiet.sim.until(reported)
    assert addresses(quiet) == STATIC
    await quiet.sim.until(summed_up)
    assert (await quiet.condition("ready")).status == "True"
    all_nodes = {**STATIC, "node4": "192.168.1.13/24"}
    await annotate(quiet, node_ip_map=json.dumps(all_nodes))
    await quiet.rest()
    assert addresses(quiet) == all_nodes


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dhcp", "static"])
def test_story_10_all_nodes_reboot(mode: str) -> None:
    """After a reboot of all nodes at once every VLAN and every address is back."""

    @on_a_quiet_cluster
    async def reboot(quiet: Quiet) -> None:
        await quiet.uplink()
        await quiet.network(mode, addresses=STATIC if mode == "static" else None)
        await quiet.rest()
        before = addresses(quiet)
        for name in NODE_NAMES:
            await shut_down(quiet, name)
        for name in NODE_NAMES:
            start(quiet, name)
        await quiet.rest()
        assert carrying(quiet) == set(NODE_NAMES)
        assert addresses(quiet) == before

    reboot()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_story_10_without_an_api_server(quiet: Quiet) -> None:
    """After a reboot of all nodes every VLAN and address is back although no node reaches the API server."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = addresses(quiet)
    quiet.sim.faults.partitioned.update(NODE_NAMES)
    for name in NODE_NAMES:
        await shut_down(quiet, name)
    assert addresses(quiet) == {}
    for name in NODE_NAMES:
        start(quiet, name)

    async def back() -> bool:
        return carrying(quiet) == set(NODE_NAMES)

    await quiet.sim.until(back)
    assert addresses(quiet) == before
    quiet.sim.faults.partitioned.clear()
    await quiet.rest()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_story_11_the_selector_changes_to_one_node(quiet: Quiet) -> None:
    """A selector that matches one node leaves the VLAN on this one alone."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = addresses(quiet)
    only = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
    await quiet.admin.patch(VLAN_CONFIGS, "one", only)
    await quiet.rest()
    assert carrying(quiet) == touched(quiet) == {"node1"}
    assert addresses(quiet)["node1"] == before["node1"]


@on_a_quiet_cluster
async def test_a_nic_with_a_profile_of_others(quiet: Quiet) -> None:
    """NetworkManager has a profile for the NIC that gets no address: once the NIC is in the bond, it stays there."""
    host = quiet.sim.hosts["node1"]
    host.daemon.manage_nic("eth1")
    await quiet.uplink()
    before = host.kernel.writes
    await asyncio.sleep(600)
    assert host.kernel.links["eth1"].master == "cluster-1-bo"
    assert host.kernel.writes == before

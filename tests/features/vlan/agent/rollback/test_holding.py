"""Which form of a network a node carries while a roll-out has not reached it."""

import asyncio

import msgspec
import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.l3 import L3
from lanloom.api.l3annotations import encode
from lanloom.api.meta import Key
from lanloom.features.vlan.rules.rollout.policy import RolloutState, revision
from lanloom.features.vlan.views.plan import annotated
from tests.features.vlan.cluster import cluster_network, vlan_config
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.sim.vlan_judge import objects

MOVED = {name: address.replace("192.168.1.", "192.168.2.") for name, address in STATIC.items()}
_BRIDGE = "cluster-1-br"


async def _with_a_policy(quiet: Quiet) -> None:
    """A network at rest whose roll-outs the test alone steers."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await asyncio.sleep(60)
    await quiet.leave_alone()
    await _annotate(quiet, {names.ROLLOUT: '{"maxUnavailable": 1}'}, ("*",))
    await asyncio.sleep(60)


async def _annotate(quiet: Quiet, annotations: dict[str, str], released: tuple[str, ...]) -> str:
    """Writes annotations and the state of their roll-out in one patch, as the manager does; the revision."""
    found = await objects(quiet.sim)
    network = annotated(found.networks[0], annotations)
    present = revision(network.metadata.annotations, found.configs, found.nads)
    state = RolloutState(revision=present, released=released)
    written = annotations | {names.ROLLOUT_STATE: msgspec.json.encode(state).decode()}
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": written}})
    return present


async def _move(quiet: Quiet, released: tuple[str, ...]) -> str:
    l3 = L3(vid=2012, mode="static", addresses=MOVED)
    return await _annotate(quiet, encode(Key("default", "vlan2012"), l3), released)


@on_a_quiet_cluster
async def test_a_node_waits_for_its_release(quiet: Quiet) -> None:
    """Until it is released a node keeps and reports the last configuration; then it takes up the present one."""
    await _with_a_policy(quiet)
    before = (await quiet.report("node2")).revision
    present = await _move(quiet, ("node1",))
    await quiet.until(lambda: quiet.addresses("node1") == (MOVED["node1"],))
    told = await quiet.told("Held", "node2")
    await asyncio.sleep(1800)
    assert quiet.addresses("node2") == (STATIC["node2"],)
    assert told.type == "L3Ready"
    assert (await quiet.report("node1")).revision == present
    assert (await quiet.report("node2")).revision == before != present
    await _move(quiet, ("node1", "node2"))
    await quiet.until(lambda: quiet.addresses("node2") == (MOVED["node2"],))
    await asyncio.sleep(10)
    assert (await quiet.report("node2")).revision == present
    assert quiet.addresses("node3") == (STATIC["node3"],)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_nodes_are_released_by_ranges_of_names(quiet: Quiet) -> None:
    """A range releases the nodes between two names and those two; another node waits."""
    await _with_a_policy(quiet)
    await _move(quiet, ("node1..node2",))
    await quiet.until(lambda: all(quiet.addresses(node) == (MOVED[node],) for node in ("node1", "node2")))
    assert (await quiet.told("Held", "node3")).type == "L3Ready"
    await asyncio.sleep(600)
    assert quiet.addresses("node3") == (STATIC["node3"],)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_node_that_waits_is_healed_and_survives_its_agent(quiet: Quiet) -> None:
    """A held network is repaired in its last form, also after a reboot."""
    await _with_a_policy(quiet)
    await _move(quiet, ())
    await quiet.told("Held")
    await quiet.sim.processes["node1"].kill()
    quiet.sim.hosts["node1"].reboot()
    quiet.sim.processes["node1"].start()
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    quiet.sim.hosts["node1"].drop_vlan(_BRIDGE, 2012, self_=True)
    await asyncio.sleep(10)
    assert quiet.sim.hosts["node1"].kernel.carries(_BRIDGE, 2012)
    assert quiet.addresses() == (STATIC["node1"],)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_mixture_of_old_and_new_objects_is_not_taken_up(quiet: Quiet) -> None:
    """Who sees new annotations under an old state of the roll-out waits."""
    await _with_a_policy(quiet)
    annotations = encode(Key("default", "vlan2012"), L3(vid=2012, mode="static", addresses=MOVED))
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": annotations}})
    await quiet.told("Held")
    await asyncio.sleep(600)
    assert quiet.addresses() == (STATIC["node1"],)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_what_is_deleted_is_not_held(quiet: Quiet) -> None:
    """A network that goes while its roll-out waits goes from every node at once."""
    await _with_a_policy(quiet)
    await _move(quiet, ())
    await quiet.told("Held")
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.until(lambda: not any(_BRIDGE in host.kernel.links for host in quiet.sim.hosts.values()), 30)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_node_that_never_had_the_network_waits_too(quiet: Quiet) -> None:
    """A network that is new on a node is not built before the release, and its report says so."""
    await quiet.leave_alone()
    network = cluster_network("cluster-1", **{names.ROLLOUT: '{"maxUnavailable": 1}'})
    config = vlan_config("one", "cluster-1")
    config["metadata"]["annotations"] = {names.MATCHED_NODES: '["node1"]'}
    await quiet.admin.create(CLUSTER_NETWORKS, network)
    await quiet.admin.create(VLAN_CONFIGS, config)
    told = await quiet.told("Held")
    assert "keeps no configuration of it" in told.message
    assert _BRIDGE not in quiet.sim.hosts["node1"].kernel.links
    await _annotate(quiet, {}, ("node1",))
    await quiet.until(lambda: _BRIDGE in quiet.sim.hosts["node1"].kernel.links)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_node_whose_memory_is_lost_loses_no_network(quiet: Quiet) -> None:
    """A node that has a network in a forgotten form takes up the present one rather than none."""
    await _with_a_policy(quiet)
    await _move(quiet, ())
    await quiet.told("Held")
    await quiet.sim.processes["node1"].kill()
    quiet.sim.hosts["node1"].state.contents.clear()
    quiet.sim.processes["node1"].start()
    await quiet.until(lambda: quiet.addresses() == (MOVED["node1"],))
    assert quiet.sim.hosts["node1"].kernel.carries(_BRIDGE, 2012)

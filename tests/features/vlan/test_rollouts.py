"""A configuration that reaches the nodes of a cluster in stages."""

import asyncio
import json
from functools import partial
from typing import Any

import msgspec
import pytest

from lanloom.api import names
from lanloom.api.core import EVENTS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.rollout.policy import RolloutState, rollout_state
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE
from lanloom.features.vlan.rules.rollout.stages import ROLLED_OUT
from lanloom.runtime.webhookconfig import CONFIGURATION_NAME
from tests.features.vlan.cluster import nad
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.features.vlan.test_manager import WEBHOOKS

CANARY = {"maxUnavailable": 1, "canary": ["node2"]}


async def policy(quiet: Quiet, value: Any) -> None:
    """Gives cluster-1 a policy, or takes it away."""
    text = None if value is None else value if isinstance(value, str) else json.dumps(value)
    patch = {"metadata": {"annotations": {names.ROLLOUT: text}}}
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", patch)


async def staged(quiet: Quiet, value: Any = CANARY) -> None:
    """cluster-1 with VLAN 2012, and a policy under which all of it is rolled out."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await policy(quiet, value)
    await quiet.rest()


def follow(quiet: Quiet) -> list[RolloutState]:
    """Every state that cluster-1 has from now on, in order."""
    states: list[RolloutState] = []

    def note(change: Any) -> None:
        if change.resource.plural == CLUSTER_NETWORKS.plural and change.after is not None:
            state = rollout_state(msgspec.convert(change.after.raw(), ClusterNetwork))
            if state not in states[-1:]:
                states.append(state)

    quiet.sim.engine.ledger.listen(note)
    return states


async def reasons(quiet: Quiet) -> list[str]:
    """What became of roll-outs, in order."""
    events = (await quiet.admin.list(EVENTS)).items
    told = [item for item in events if item.reason.startswith("Rollout")]
    return [item.reason for item in sorted(told, key=lambda item: item.last_timestamp or "")]


def modes(quiet: Quiet) -> dict[str, str]:
    """How each node gets its address on VLAN 2012, by its profile."""
    hosts = quiet.sim.hosts.items()
    return {
        name: "static" if b"method=manual" in host.directory.files[FILE].content else "dhcp"
        for name, host in hosts
    }


async def make_static(quiet: Quiet, addresses: dict[str, str] = STATIC) -> None:
    """Gives VLAN 2012 static addresses."""
    annotations = {names.MODE: "static", names.NODE_IP_MAP: json.dumps(addresses)}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": annotations}}, "default")


@on_a_quiet_cluster
async def test_nodes_follow_each_other(quiet: Quiet) -> None:
    """The canary first, then one node after the other, each when the one before is done; then all are free."""
    await staged(quiet)
    states = follow(quiet)
    await make_static(quiet)
    await quiet.rest()
    ahead = [state.released for state in states[1:]]
    assert ahead == [
        ("node2",),
        ("node2", "node1"),
        ("node2", "node1", "node3"),
        (EVERY_NODE,),
    ]
    assert set(modes(quiet).values()) == {"static"}
    assert await reasons(quiet) == ["RolloutStarted", "RolloutFinished"]


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_policy_for_what_is_there_already_moves_nothing(quiet: Quiet) -> None:
    """Nodes that carry the configuration when a policy comes are done at once."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = {name: host.writes for name, host in quiet.sim.hosts.items()}
    await policy(quiet, CANARY)
    await quiet.rest()
    assert (await quiet.condition(ROLLED_OUT)).reason == "Finished"
    assert {name: host.writes for name, host in quiet.sim.hosts.items()} == before


async def fails_on_the_canary(quiet: Quiet) -> None:
    """VLAN 2012 is to become VLAN 2013, where no DHCP server answers."""
    spec = nad("vlan2012", "cluster-1", 2013)["spec"]
    await quiet.admin.patch(NADS, "vlan2012", {"spec": spec}, "default")

    async def stopped() -> bool:
        return (await quiet.condition(ROLLED_OUT)).reason == "Stopped"

    await quiet.sim.until(stopped)


def carrying(quiet: Quiet, vid: int) -> list[str]:
    """The nodes with a profile for a VLAN."""
    file = f"cluster-1-vlan{vid}.nmconnection"
    return [name for name, host in quiet.sim.hosts.items() if file in host.directory.files]


@on_a_quiet_cluster
async def test_a_failure_keeps_it_from_the_others(quiet: Quiet) -> None:
    """When the canary gets no address, no other node gets the configuration; the condition says which node and why."""
    await staged(quiet)
    await fails_on_the_canary(quiet)
    condition = await quiet.condition(ROLLED_OUT)
    assert condition.message.startswith("node2: DHCPTimeout: VLAN 2013: no DHCP server answered")
    assert (carrying(quiet, 2013), carrying(quiet, 2012)) == (["node2"], ["node1", "node3"])
    assert "RolloutStopped" in await reasons(quiet)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_it_goes_on_when_the_node_recovers(quiet: Quiet) -> None:
    """A DHCP server that answers at last is enough for the others to follow."""
    await staged(quiet)
    await fails_on_the_canary(quiet)
    quiet.sim.switch.set_dhcp(2013, "10.115.8.0/21")
    await quiet.sim.until(lambda: all_on(quiet, 2013), seconds=1200)
    await quiet.rest()
    assert (await reasons(quiet))[-1] == "RolloutFinished"


async def all_on(quiet: Quiet, vid: int) -> bool:
    """Whether every node has a profile for the VLAN."""
    return len(carrying(quiet, vid)) == len(quiet.sim.hosts)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_it_goes_back_when_the_configuration_does(quiet: Quiet) -> None:
    """A configuration that is taken back is rolled out like any other, and only the canary has something to do."""
    await staged(quiet)
    await fails_on_the_canary(quiet)
    before = quiet.sim.hosts["node1"].writes
    spec = nad("vlan2012", "cluster-1", 2012)["spec"]
    await quiet.admin.patch(NADS, "vlan2012", {"spec": spec}, "default")
    await quiet.rest()
    assert carrying(quiet, 2012) == ["node1", "node2", "node3"]
    assert quiet.sim.hosts["node1"].writes == before


@pytest.mark.slow
@on_a_quiet_cluster
async def test_without_a_policy_nothing_is_held(quiet: Quiet) -> None:
    """A policy that is taken away frees all nodes; its state and its condition go with it."""
    await staged(quiet)
    await fails_on_the_canary(quiet)
    await policy(quiet, None)
    await quiet.sim.until(lambda: all_on(quiet, 2013))
    await quiet.sim.until(partial(unstaged, quiet))


async def unstaged(quiet: Quiet) -> bool:
    """Whether nothing on cluster-1 speaks of a roll-out."""
    network = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    types = {item.type for item in network.status.conditions}
    return names.ROLLOUT_STATE not in network.metadata.annotations and ROLLED_OUT not in types


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_policy_that_can_t_be_read_moves_nothing(quiet: Quiet) -> None:
    """Under a broken policy no node changes, and the condition says what is wrong with it."""
    await staged(quiet)
    for kind in WEBHOOKS:
        await quiet.admin.delete(kind, CONFIGURATION_NAME)
    await policy(quiet, '{"maxUnavailable": "all"}')
    await make_static(quiet)

    async def told() -> bool:
        return (await quiet.condition(ROLLED_OUT)).reason == "InvalidPolicy"

    await quiet.sim.until(told)
    condition = await quiet.condition(ROLLED_OUT)
    assert condition.message.startswith('network.harvesterhci.io/rollout.maxUnavailable is "all"; it must be')
    assert set(modes(quiet).values()) == {"dhcp"}


@pytest.mark.slow
@on_a_quiet_cluster
async def test_uplinks_are_staged_too(quiet: Quiet) -> None:
    """An MTU is changed on one node after the other."""
    await staged(quiet)
    states = follow(quiet)
    await quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": {"uplink": {"linkAttributes": {"mtu": 9000}}}})
    await quiet.rest()
    assert [len(state.released) for state in states[1:]] == [1, 2, 3, 1]
    mtus = {host.kernel.links["cluster-1-br"].mtu for host in quiet.sim.hosts.values()}
    assert mtus == {9000}


@pytest.mark.slow
@on_a_quiet_cluster
async def test_another_manager_goes_on(quiet: Quiet) -> None:
    """A roll-out survives its manager: what is needed to go on is on the ClusterNetwork."""
    await staged(quiet)
    await fails_on_the_canary(quiet)
    manager = quiet.sim.processes["manager-1"]
    await manager.kill()
    quiet.sim.switch.set_dhcp(2013, "10.115.8.0/21")
    await asyncio.sleep(600)
    assert carrying(quiet, 2013) == ["node2"]
    manager.start()
    await quiet.sim.until(lambda: all_on(quiet, 2013), seconds=1200)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_nodes_exchange_addresses(quiet: Quiet) -> None:
    """Two nodes that exchange static addresses, one at a time, don't wait for each other endlessly."""
    await staged(quiet, {"maxUnavailable": 1})
    await make_static(quiet)
    await quiet.rest()
    swapped = dict(zip(STATIC, reversed(STATIC.values()), strict=True))
    await make_static(quiet, swapped)
    await quiet.sim.until(lambda: with_addresses(quiet, swapped), seconds=1200)
    await quiet.rest()


async def with_addresses(quiet: Quiet, addresses: dict[str, str]) -> bool:
    """Whether each node has its address."""
    hosts = quiet.sim.hosts.items()
    return all(
        DEVICE in host.kernel.links and host.kernel.links[DEVICE].addresses == (addresses[name],)
        for name, host in hosts
    )

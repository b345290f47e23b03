"""What the manager writes, and what it leaves alone."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import msgspec
import pytest

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import (
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    VALIDATING_WEBHOOKS,
    Event,
)
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.runtime.webhookconfig import CONFIGURATION_NAME
from tests.features.vlan.cluster import cluster_network, nad
from tests.features.vlan.quiet import Quiet, on_a_quiet_cluster
from tests.sim.vlan import NODE_NAMES

WEBHOOKS: tuple[Resource[Any], ...] = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


async def events(quiet: Quiet, reason: str) -> list[Event]:
    """The Events with this reason."""
    return [item for item in (await quiet.admin.list(EVENTS)).items if item.reason == reason]


async def told(quiet: Quiet, reason: str) -> bool:
    """Whether there is such an Event."""
    return bool(await events(quiet, reason))


async def matched(quiet: Quiet) -> str | None:
    """The nodes that the manager wrote on the VlanConfig."""
    config = await quiet.admin.get(VLAN_CONFIGS, "one")
    return config.metadata.annotations.get(names.MATCHED_NODES)


@on_a_quiet_cluster
async def test_nodes_come_and_go(quiet: Quiet) -> None:
    """The matched nodes follow the nodes and their labels."""
    await quiet.uplink(nodeSelector={"zone": "a"})
    assert await matched(quiet) == '["node1", "node2"]'
    await quiet.admin.patch(NODES, "node3", {"metadata": {"labels": {"zone": "a"}}})
    await quiet.rest()
    assert await matched(quiet) == '["node1", "node2", "node3"]'
    await quiet.admin.patch(NODES, "node1", {"metadata": {"labels": {"zone": None}}})
    await quiet.rest()
    assert await matched(quiet) == '["node2", "node3"]'


@on_a_quiet_cluster
async def test_reports_go_with_their_node(quiet: Quiet) -> None:
    """When a node leaves the cluster its reports go, although its agent is dead."""
    await quiet.uplink()
    await quiet.sim.processes["node3"].kill()
    await quiet.admin.delete(NODES, "node3")

    async def gone() -> bool:
        reports = (await quiet.admin.list(CLUSTER_NETWORK_NODES)).items
        return {item.status.node for item in reports} == {"node1", "node2"}

    await quiet.sim.until(gone)
    assert (await quiet.condition("ready")).status == "True"


@on_a_quiet_cluster
async def test_a_node_that_is_down_is_not_waited_for(quiet: Quiet) -> None:
    """A node whose kubelet does not report keeps what it has and does not make the network unready."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.sim.processes["node3"].kill()
    down = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await quiet.admin.patch(NODES, "node3", down, subresource="status")
    await asyncio.sleep(60)
    assert await matched(quiet) == '["node1", "node2", "node3"]'
    assert {(await quiet.condition(kind)).status for kind in ("ready", "L3Ready")} == {"True"}


@on_a_quiet_cluster
async def test_what_a_webhook_should_have_refused_is_told(quiet: Quiet) -> None:
    """A NAD that can't be used, written while no webhook was there, gets an Event with the reason and the field."""
    await quiet.uplink()
    for kind in WEBHOOKS:
        await quiet.admin.delete(kind, CONFIGURATION_NAME)
    broken = nad("broken", "cluster-1", 2012, mode="static", addresses='{"node1": "x"}')
    await quiet.admin.create(NADS, broken, "default")

    await quiet.sim.until(partial(told, quiet, "InvalidNetwork"))
    (event,) = await events(quiet, "InvalidNetwork")
    assert (event.type, event.count, event.involved_object.name) == ("Warning", 1, "broken")
    assert event.message.startswith(
        "The network default/broken gets no node addresses because network.harvesterhci.io/node-ip-map"
    )
    await quiet.admin.patch(NODES, "node1", {"metadata": {"labels": {"zone": "c"}}})
    await asyncio.sleep(60)
    assert [item.count for item in await events(quiet, "InvalidNetwork")] == [1]


@on_a_quiet_cluster
async def test_foreign_annotations_stay(quiet: Quiet) -> None:
    """Annotations of a ClusterNetwork that are not the manager's survive its writing."""
    await quiet.uplink()
    patch = {"metadata": {"annotations": {"example.org/owner": "alice"}}}
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", patch)
    await quiet.network()
    await quiet.rest()
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.rest()
    annotations = (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).metadata.annotations
    assert annotations == {"example.org/owner": "alice", names.MTU_SOURCE: "one", names.UPLINK_MTU: "1500"}


@on_a_quiet_cluster
async def test_a_change_costs_what_it_touches(quiet: Quiet) -> None:
    """A network on three nodes costs a few writes of its cluster network, and each node a few of its own report."""
    await quiet.uplink()
    await asyncio.sleep(60)
    written: Counter[str] = Counter()
    quiet.sim.engine.ledger.listen(lambda change: written.update([change.resource.plural]))
    await quiet.network()
    await quiet.rest()
    await asyncio.sleep(60)
    del written[LEASES.plural]
    assert written.pop(NADS.plural) == 2  # the network itself, and its label
    assert written.pop(EVENTS.plural) == 1  # that it is ready
    assert written.pop(CLUSTER_NETWORKS.plural) <= 4
    assert written.pop(CLUSTER_NETWORK_NODES.plural) <= 3 * 3
    assert written.pop(VLAN_STATUSES.plural) <= 3 * 2  # that there is a VLAN, and its subnet
    assert not written


async def label(quiet: Quiet) -> str | None:
    """What the NAD says of its cluster network."""
    item = await quiet.admin.get(NADS, "vlan2012", "default")
    return item.metadata.labels.get(names.READY_LABEL)


@on_a_quiet_cluster
async def test_a_nad_says_whether_its_cluster_network_is_ready(quiet: Quiet) -> None:
    """The label is there at once; later it follows a cluster network that stays ready, or not, for ten seconds."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    assert await label(quiet) == "true"
    nic = quiet.sim.hosts["node1"]
    nic.unplug("eth1")
    await asyncio.sleep(5)
    assert ((await quiet.condition("ready")).status, await label(quiet)) == ("False", "true")
    await asyncio.sleep(10)
    assert await label(quiet) == "false"
    nic.plug("eth1")
    await asyncio.sleep(60)
    assert await label(quiet) == "true"
    assert len(await events(quiet, "NotReady")) == 1
    (ready,) = await events(quiet, "Ready")
    assert ready.count == 2


@on_a_quiet_cluster
async def test_a_nad_whose_cluster_network_is_gone_is_not_ready(quiet: Quiet) -> None:
    """Where a user got round the webhooks, the NADs that are left say so."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.leave_alone()
    quiet.sim.processes["manager-1"].start()
    await quiet.admin.delete(CLUSTER_NETWORKS, "cluster-1")
    await asyncio.sleep(30)
    assert await label(quiet) == "false"


@on_a_quiet_cluster
async def test_an_isolated_network_s_label_is_left_alone(quiet: Quiet) -> None:
    """The NAD of an isolated network waits for no uplink, and no manager says that it is not ready for want of one."""
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("dummy"))
    isolated = nad("vlan2012", "dummy")
    isolated["metadata"]["labels"] |= {UID_LABEL: "a", names.READY_LABEL: "true"}
    await quiet.admin.create(NADS, isolated, "default")
    await asyncio.sleep(60)
    assert await label(quiet) == "true"


@on_a_quiet_cluster
async def test_a_condition_that_somebody_else_wrote_is_good_enough(quiet: Quiet) -> None:
    """Labels follow a condition whose time can't be read, as if it had always been so."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    conditions = (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).status.conditions
    odd = [msgspec.to_builtins(item) | {"lastTransitionTime": "long ago"} for item in conditions]
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"status": {"conditions": odd}})
    await asyncio.sleep(5)
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"labels": {names.READY_LABEL: "no"}}}, "default")
    await asyncio.sleep(1)
    assert await label(quiet) == "true"


@on_a_quiet_cluster
async def test_mgmt_is_every_node_s(quiet: Quiet) -> None:
    """The nodes of mgmt are all but witnesses, and the MTU there is left to the user."""
    await quiet.admin.patch(NODES, "node3", {"metadata": {"labels": {names.WITNESS_ROLE: "true"}}})
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("mgmt", **{names.UPLINK_MTU: "9000"}))
    await asyncio.sleep(5)
    network = await quiet.admin.get(CLUSTER_NETWORKS, "mgmt")
    assert network.metadata.annotations == {
        names.UPLINK_MTU: "9000",
        names.MATCHED_NODES: '["node1", "node2"]',
    }
    await quiet.admin.patch(NODES, "node3", {"metadata": {"labels": {names.WITNESS_ROLE: None}}})
    await asyncio.sleep(5)
    network = await quiet.admin.get(CLUSTER_NETWORKS, "mgmt")
    assert network.metadata.annotations[names.MATCHED_NODES] == '["node1", "node2", "node3"]'


@on_a_quiet_cluster
async def test_a_selector_that_matches_nothing(quiet: Quiet) -> None:
    """Where nothing matches, the list of nodes is empty rather than missing, and the conditions say so."""
    await quiet.uplink()
    await quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": {"nodeSelector": {"zone": "nowhere"}}})
    await quiet.rest()
    assert await matched(quiet) == "[]"
    assert (await quiet.condition("ready")).reason == "NoNodes"


@on_a_quiet_cluster
async def test_a_burst_of_reports_is_few_patches(quiet: Quiet) -> None:
    """Reports that come within a second are summed up in one patch of the cluster network."""
    await quiet.uplink()
    await quiet.leave_alone()
    for name in NODE_NAMES:
        await quiet.sim.processes[name].kill()
    quiet.sim.processes["manager-1"].start()
    await asyncio.sleep(30)
    written: Counter[str] = Counter()
    quiet.sim.engine.ledger.listen(lambda change: written.update([change.resource.plural]))
    for number in range(100):
        await asyncio.sleep(0.03)
        failing = {"type": "ready", "status": "False", "reason": "UplinkDown", "message": f"look {number}"}
        report = report_name("cluster-1", NODE_NAMES[number % 3])
        patch = {"status": {"conditions": [failing]}}
        await quiet.admin.patch(CLUSTER_NETWORK_NODES, report, patch, subresource="status")
    await asyncio.sleep(5)
    assert written[CLUSTER_NETWORK_NODES.plural] == 100
    assert 2 <= written[CLUSTER_NETWORKS.plural] <= 5
    assert "look 99" in (await quiet.condition("ready")).message


@on_a_quiet_cluster
async def test_the_cluster_network_of_an_isolated_network(quiet: Quiet) -> None:
    """A cluster network without uplinks that an isolated network made is ready, and no Event calls it news."""
    body = cluster_network("iso")
    body["metadata"] |= {"labels": {UID_LABEL: "7"}, "annotations": {NAME_ANNOTATION: "iso"}}
    await quiet.admin.create(CLUSTER_NETWORKS, body)
    await asyncio.sleep(30)
    network = await quiet.admin.get(CLUSTER_NETWORKS, "iso")
    assert {(item.status, item.reason) for item in network.status.conditions} == {("True", "Isolated")}
    assert await quiet.events("Ready") == []


@pytest.mark.parametrize(
    ("edit", "waits"),
    [
        ({"uplink": {"linkAttributes": {"mtu": 9000}}}, True),
        ({"uplink": {"bondOptions": {"mode": "802.3ad"}}}, True),
        ({"uplink": {"nics": ["eth1", "eth2"]}}, True),
        ({"description": "of the storage"}, False),
    ],
)
def test_an_edited_uplink_is_not_ready_until_it_is_there(edit: dict[str, Any], waits: bool) -> None:
    """A cluster network with an edited uplink is ready when each node has applied the edit, and not before."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        await quiet.uplink()
        await quiet.network()
        await quiet.rest()
        late = quiet.sim.processes["node3"]
        await late.kill()
        await quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": edit})
        await asyncio.sleep(5)
        for type in ("ready", "L3Ready"):
            condition = await quiet.condition(type)
            assert (condition.status, condition.reason == "Configuring") == (("True", "False")[waits], waits)
            assert ("1 of 3 nodes: node3: Configuring" in condition.message) == waits
        late.start()
        await quiet.rest()
        assert {(await quiet.condition(type)).status for type in ("ready", "L3Ready")} == {"True"}
        assert not [item for item in await events(quiet, "NotReady") if item.type == "Warning"]

    story()

"""What got past the webhooks at once is settled by age, and both objects say so."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.core import EVENTS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.kube.errors import Forbidden
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.quiet import Quiet, on_a_quiet_cluster
from tests.harness.wallclock import WallClock


async def told(quiet: Quiet, reason: str) -> dict[str, str]:
    """What the Events of this reason say, by object; each was written once."""
    found = [item for item in (await quiet.admin.list(EVENTS)).items if item.reason == reason]
    assert {item.count for item in found} <= {1}
    return {item.involved_object.name: item.message for item in found}


async def past_the_webhooks(quiet: Quiet) -> None:
    """A cluster network on every node; from now on none is asked."""
    await quiet.uplink()
    await quiet.leave_alone()


async def settle(quiet: Quiet) -> None:
    """The manager comes back and looks."""
    quiet.sim.processes["manager-1"].start()
    await asyncio.sleep(30)


@on_a_quiet_cluster
async def test_both_networks_of_a_vlan_are_told(quiet: Quiet) -> None:
    """The older network keeps its VLAN; it and the younger one hear of each other."""
    await past_the_webhooks(quiet)
    for name in ("z-older", "a-younger"):
        await quiet.admin.create(NADS, nad(name, "cluster-1", 2012, mode="dhcp"), "default")
        await asyncio.sleep(2)
    await settle(quiet)
    annotations = (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).metadata.annotations
    assert f"{names.PREFIX}mode-default-z-older" in annotations
    assert await told(quiet, "DuplicateVlan") == {
        "z-older": "The younger network, NetworkAttachmentDefinition default/a-younger, "
        "also asks for node addresses on VLAN 2012, and gets none. "
        "Change its VLAN id, or disable its node addresses."
    }
    assert (await told(quiet, "InvalidNetwork"))["a-younger"].endswith(
        "for which NetworkAttachmentDefinition default/z-older already has node addresses on this cluster network."
    )


@on_a_quiet_cluster
async def test_both_vlan_configs_of_a_node_are_told(quiet: Quiet) -> None:
    """The older VlanConfig keeps the nodes; it and the younger one hear of each other."""
    await past_the_webhooks(quiet)
    younger = vlan_config("a-younger", "cluster-1", nics=["eth2"], nodeSelector={"zone": "a"})
    await asyncio.sleep(2)
    await quiet.admin.create(VLAN_CONFIGS, younger)
    await settle(quiet)
    assert (await quiet.report()).vlan_config == "one"
    assert await told(quiet, "OverlappingNodes") == {
        "one": "The younger VlanConfig a-younger also matches node1, node2, and has no effect there. Narrow "
        "spec.nodeSelector of one of the two, or delete it.",
        "a-younger": "spec.nodeSelector matches node1, node2, which the older VlanConfig one already covers: this one "
        "has no effect there. Narrow spec.nodeSelector of one of the two, or delete it.",
    }


@on_a_quiet_cluster
async def test_both_vlan_configs_of_a_nic_are_told(quiet: Quiet) -> None:
    """VlanConfigs of two cluster networks that name one NIC of a node hear of each other."""
    await past_the_webhooks(quiet)
    quiet.sim.processes["manager-1"].start()
    await asyncio.sleep(30)
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("other"))
    await quiet.admin.create(VLAN_CONFIGS, vlan_config("two", "other", nodeSelector={"zone": "b"}))
    await asyncio.sleep(30)
    found = await told(quiet, "SharedNic")
    assert found["one"] == (
        "spec.uplink.nics has eth1, which VlanConfig two of the cluster network other also names on node3: only one of "
        "the two can use it there. Name other NICs in one of the two."
    )
    assert "VlanConfig one of the cluster network cluster-1" in found["two"]


@on_a_quiet_cluster
async def test_a_vlan_config_without_its_cluster_network_is_told(quiet: Quiet) -> None:
    """Where a ClusterNetwork was deleted while its VlanConfig was made, the VlanConfig says so, once."""
    await past_the_webhooks(quiet)
    quiet.sim.processes["manager-1"].start()
    await quiet.admin.create(VLAN_CONFIGS, vlan_config("orphan", "nowhere", nics=["eth2"]))
    await asyncio.sleep(60)
    await quiet.admin.patch(VLAN_CONFIGS, "orphan", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(60)
    assert await told(quiet, "NoClusterNetwork") == {
        "orphan": "spec.clusterNetwork nowhere does not exist. Create the ClusterNetwork, or delete this VlanConfig."
    }


@on_a_quiet_cluster
async def test_an_orphan_after_the_clock_was_set(quiet: Quiet) -> None:
    """A VlanConfig waits its five seconds for its ClusterNetwork, however the clock is set meanwhile."""
    await past_the_webhooks(quiet)
    quiet.sim.now = clock = WallClock(quiet.sim.now)
    quiet.sim.processes["manager-1"].start()
    await asyncio.sleep(30)
    for name, ahead in (("back", -7200.0), ("forth", 7200.0)):
        clock.ahead = 0.0
        await quiet.admin.create(VLAN_CONFIGS, vlan_config(name, f"no-{name}", nics=["eth2"]))
        await asyncio.sleep(2)
        clock.ahead = ahead
        await quiet.admin.patch(VLAN_CONFIGS, name, {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(2)
        assert name not in await told(quiet, "NoClusterNetwork")
        await asyncio.sleep(4)
        assert name in await told(quiet, "NoClusterNetwork")


@on_a_quiet_cluster
async def test_a_vlan_config_that_comes_first_is_no_orphan(quiet: Quiet) -> None:
    """A ClusterNetwork that a watch brings a moment after its VlanConfig is there in time."""
    await past_the_webhooks(quiet)
    quiet.sim.processes["manager-1"].start()
    await quiet.admin.create(VLAN_CONFIGS, vlan_config("early", "late", nics=["eth2"]))
    await asyncio.sleep(2)
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("late"))
    await asyncio.sleep(60)
    assert await told(quiet, "NoClusterNetwork") == {}


def test_the_older_vlan_config_holds_on_a_node() -> None:
    """An agent takes the older of two VlanConfigs that match its node, whatever they are called."""
    older, younger = (
        vlan_config("z", "cluster-1", nics=["eth1"]),
        vlan_config("a", "cluster-1", nics=["eth2"]),
    )
    for day, body in enumerate((older, younger), start=1):
        metadata: dict[str, Any] = body["metadata"]
        metadata["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
    cluster = cluster_of([node("node1"), cluster_network("cluster-1"), younger, older]).managed()
    assert [network.vlan_config for network in cluster.on_node("node1")] == ["z"]


async def outcomes(requests: Iterable[Awaitable[object]]) -> int:
    """How many of these requests, sent at once, are accepted."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    assert {type(item) for item in answers if isinstance(item, BaseException)} <= {Forbidden}
    return sum(not isinstance(item, BaseException) for item in answers)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_of_many_at_once_one_is_accepted(quiet: Quiet) -> None:
    """Of 20 networks for one VLAN, 20 VlanConfigs for one node and 20 for one NIC, all at once, one is accepted."""
    await quiet.uplink(nodeSelector={"zone": "a"})
    titles = [f"net-{number}" for number in range(20)]
    assert (
        await outcomes(
            quiet.admin.create(NADS, nad(title, "cluster-1", 2012, mode="dhcp"), "default")
            for title in titles
        )
        == 1
    )
    others: dict[str, Any] = {"nics": ["eth2"], "nodeSelector": {"zone": "b"}}
    assert (
        await outcomes(
            quiet.admin.create(VLAN_CONFIGS, vlan_config(title, "cluster-1", **others)) for title in titles
        )
        == 1
    )
    for title in titles:
        await quiet.admin.create(CLUSTER_NETWORKS, cluster_network(title))
    shared: dict[str, Any] = {"nics": ["eth3"], "nodeSelector": {"zone": "a"}}
    assert (
        await outcomes(
            quiet.admin.create(VLAN_CONFIGS, vlan_config(f"for-{title}", title, **shared)) for title in titles
        )
        == 1
    )


@on_a_quiet_cluster
async def test_a_cluster_network_goes_or_gets_its_vlan_config(quiet: Quiet) -> None:
    """Of the deletion of a ClusterNetwork and the creation of its first VlanConfig, at once, one is accepted."""
    for number in range(10):
        name = f"net-{number}"
        await quiet.admin.create(CLUSTER_NETWORKS, cluster_network(name))
        both: list[Awaitable[object]] = [
            quiet.admin.delete(CLUSTER_NETWORKS, name),
            quiet.admin.create(VLAN_CONFIGS, vlan_config(name, name, nics=[f"eth{10 + number}"])),
        ]
        assert await outcomes(both if number % 2 else reversed(both)) == 1

"""Objects as the manager leaves them, judged by kstatus' rules: new, ready, in progress, failed, in deletion."""

from typing import Any

import msgspec
import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, ClusterNetwork, ClusterNetworkStatus
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.report.readiness import UNSEEN, Cause, NodeState, network_conditions
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import run
from tests.features.dummy.scenarios.events import NAD
from tests.features.dummy.scenarios.state import State
from tests.features.ipam.cluster import IpamCluster, in_a_cluster
from tests.features.lan.manager.scene import SPEC as LAN_SPEC
from tests.features.lan.manager.scene import Scene, in_a_scene
from tests.features.lan.samples import entry
from tests.gitops.health import argo, kstatus
from tests.harness.cluster import Cluster, play

Raw = dict[str, Any]

NEW: dict[Resource[Any], Raw] = {
    CLUSTER_NETWORKS: {},
    DUMMY_CLUSTER_NETWORKS: {"spec": on.SPEC},
    NETWORKS: {"spec": {"subnets": []}},
    NICS: {"spec": {"owner": {"kind": "Instance", "name": "a"}}},
    LANS: {"spec": LAN_SPEC},
    NETWORK_SWAPS: {
        "spec": {"machine": "vm", "network": "net", "from": "default/a", "to": "default/b"},
    },
}
"""The kinds that say in `Ready` how they fare, each with a body."""


def raw(item: Object) -> Raw:
    """The object as clients read it."""
    found: Raw = msgspec.to_builtins(item)
    return found


def verdicts(item: Object) -> tuple[str, str]:
    """What kstatus and Argo CD say of an object."""
    return kstatus(raw(item)), argo(raw(item))[0]


@pytest.mark.parametrize("resource", NEW, ids=lambda resource: resource.kind)
def test_a_new_object_is_in_progress(resource: Resource[Any]) -> None:
    """Nothing is current before Lanloom has looked at it, also where no manager runs."""

    async def story(cluster: Cluster) -> None:
        await cluster.client.create(CRDS, manifest(resource))
        namespace = "default" if resource.namespaced else ""
        made = await cluster.client.create(resource, {"metadata": {"name": "a"}} | NEW[resource], namespace)
        read = await cluster.client.get(resource, "a", namespace)
        assert [verdicts(item) for item in (made, read)] == [("InProgress", "Progressing")] * 2

    play(story, Cluster)


def a_cluster_network(*, deleted: bool = False, **nodes: NodeState) -> ClusterNetwork:
    """A ClusterNetwork whose live nodes fare like that."""
    stamp = "2026-01-01T00:00:00Z" if deleted else None
    status = ClusterNetworkStatus(conditions=network_conditions((), nodes, 0.0))
    return ClusterNetwork(
        metadata=ObjectMeta(name="a", generation=7, deletion_timestamp=stamp), status=status
    )


def failing(reason: str) -> Cause:
    """Why a node is not ready."""
    return Cause(reason, "why")


WELL = NodeState()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (a_cluster_network(n1=WELL), ("Current", "Healthy")),
        (a_cluster_network(), ("InProgress", "Progressing")),
        (a_cluster_network(n1=WELL, n2=UNSEEN), ("InProgress", "Progressing")),
        (a_cluster_network(n1=NodeState(uplink=failing("Configuring"))), ("InProgress", "Progressing")),
        (a_cluster_network(n1=NodeState(uplink=failing("UplinkDown"))), ("InProgress", "Progressing")),
        (a_cluster_network(n1=NodeState(addresses=failing("Activating"))), ("InProgress", "Progressing")),
        (a_cluster_network(n1=NodeState(addresses=failing("DuplicateAddress"))), ("Failed", "Degraded")),
        (a_cluster_network(n1=NodeState(uplink=failing("UplinkMissing"))), ("Failed", "Degraded")),
        (
            a_cluster_network(n1=UNSEEN, n2=NodeState(uplink=failing("UplinkMissing"))),
            ("Failed", "Degraded"),
        ),
        (a_cluster_network(n1=WELL, deleted=True), ("Terminating", "Progressing")),
        (a_cluster_network(n1=UNSEEN, deleted=True), ("Terminating", "Progressing")),
    ],
)
def test_cluster_networks(found: ClusterNetwork, expected: tuple[str, str]) -> None:
    """A ClusterNetwork is as ready as the worse of its uplinks and addresses; it has failed if a user must act."""
    assert verdicts(found) == expected


def test_a_cluster_network_of_an_isolated_network() -> None:
    """A cluster network without uplinks on purpose is current."""
    conditions = network_conditions((), {}, 0.0, isolated="iso")
    item = ClusterNetwork(metadata=ObjectMeta(name="iso"), status=ClusterNetworkStatus(conditions=conditions))
    assert verdicts(item) == ("Current", "Healthy")


@in_a_cluster
async def test_networks_and_nics(cluster: IpamCluster) -> None:
    """They are current when addresses are given, and a deletion that waits is one."""

    async def looks(*expected: str) -> None:
        await cluster.rest()
        found = await cluster.net(), await cluster.get("web")
        assert tuple(kstatus(raw(item)) for item in found) == expected

    await cluster.network()
    await cluster.nic("web", "192.0.2.4")
    await looks("Current", "Current")
    await cluster.nic("rival", "192.0.2.5")
    await cluster.rest()
    await cluster.kill("manager-1")
    await cluster.change("web", ips=["192.0.2.6"])
    await looks("Current", "InProgress")
    cluster.lead("manager-2")
    await looks("Current", "Current")
    await cluster.change("web", ips=["192.0.2.5"])
    await looks("Current", "InProgress")
    await cluster.change("web", ips=["192.0.2.0/24"])
    await looks("Current", "Failed")
    await cluster.change("web", ips=["192.0.2.6"])
    await cluster.client.delete(NETWORKS, "net")
    await looks("Terminating", "Current")


@in_a_scene
async def test_lans(scene: Scene) -> None:
    """A LAN is current when all its nodes are ready, and in progress while one is not."""
    lan = await scene.add()
    await scene.add_node("node1")
    for ready, expected in ((False, "InProgress"), (True, "Current")):
        await scene.carries("node1", entry(lan, ready=ready))
        await scene.rest()
        assert kstatus(raw(await scene.get())) == expected
    await scene.add_pod()
    await scene.rest()
    await scene.delete()
    await scene.rest()
    assert kstatus(raw(await scene.get())) == "Terminating"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (on.both(on.node("n1"), on.made()), "Current"),
        (on.both(on.node("n1", answers=False), on.made()), "InProgress"),
        (on.both(on.nad(NAD, "another"), on.node("n1"), on.made()), "Failed"),
    ],
)
def test_isolated_networks(event: Any, expected: str) -> None:
    """An isolated network is current when all nodes have the bridge, and has failed where something is in its way."""
    assert kstatus(raw(run(event, State()).dcn)) == expected
    deleted = run(on.both(on.used(on.VM), on.removed()), on.ready())
    assert kstatus(raw(deleted.dcn)) == "Terminating"

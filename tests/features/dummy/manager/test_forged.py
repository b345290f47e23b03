"""A tenant with all rights in a namespace of its own puts our marks on what it creates there."""

from lanloom.api.core import PODS
from lanloom.api.dummy import (
    ABSENT,
    BRIDGE_LABEL,
    DUMMY_CLUSTER_NETWORKS,
    UID_LABEL,
)
from lanloom.api.workloads import DAEMON_SETS
from tests.features.dummy.manager.scene import PLACE, Scene, in_a_scene


async def forge_daemon_set(each: Scene, uid: str) -> None:
    """A DaemonSet with our label in a tenant's namespace."""
    (own,) = await each.daemon_sets()
    meta = {"name": own.metadata.name, "labels": {UID_LABEL: uid}}
    spec = {"selector": own.spec.selector, "template": own.spec.template}
    await each.client.create(DAEMON_SETS, {"metadata": meta, "spec": spec}, PLACE)


async def forge_acknowledgement(each: Scene, uid: str, node: str) -> None:
    """A pod that says in the name of a node that its bridge is gone."""
    labels = {UID_LABEL: uid, BRIDGE_LABEL: ABSENT}
    spec = {"nodeName": node, "containers": [{"name": "bridge", "image": "x"}]}
    await each.client.create(PODS, {"metadata": {"name": "forged", "labels": labels}, "spec": spec}, PLACE)
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await each.client.patch(PODS, "forged", status, PLACE, subresource="status")


@in_a_scene("n1")
async def test_a_daemon_set_with_our_label_keeps_no_network(each: Scene) -> None:
    """A DaemonSet in a tenant's namespace is no part of a network, whatever its label, and is left alone."""
    await each.add()
    await each.rest()
    network = await each.get()
    await forge_daemon_set(each, network.metadata.uid)
    (theirs,) = (await each.client.list(DAEMON_SETS, PLACE)).items
    await each.rest()
    assert (await each.get()).status == network.status
    await each.delete()
    await each.rest()
    assert await each.is_gone()
    (left,) = await each.daemon_sets()
    assert (left.metadata.uid, left.spec) == (theirs.metadata.uid, theirs.spec)


@in_a_scene("n1", "n2")
async def test_nobody_acknowledges_in_a_node_s_name(each: Scene) -> None:
    """A Ready pod elsewhere with the labels of a network's own says nothing of its node, next to a DaemonSet or not."""
    await each.add()
    await each.rest()
    uid = (await each.get()).metadata.uid
    await forge_daemon_set(each, uid)
    await forge_acknowledgement(each, uid, "n2")
    each.fleet.silence("n2", "the bridge has a port")
    await each.delete()
    await each.rest()
    status = (await each.get()).status
    assert status.phase == "Terminating"
    assert status.nodes is not None
    assert (status.nodes.live, status.nodes.acknowledged) == (2, 1)


@in_a_scene("n1")
async def test_what_is_left_of_a_network_is_not_what_others_label_so(each: Scene) -> None:
    """A DaemonSet elsewhere with the uid of no network is not taken for the rest of one."""
    await each.add()
    await each.rest()
    await forge_daemon_set(each, "a-uid-that-nobody-has")
    await each.delete()
    await each.rest(60)
    assert await each.is_gone()
    assert [item.metadata.namespace for item in await each.daemon_sets()] == [PLACE]
    assert (await each.client.list(DUMMY_CLUSTER_NETWORKS)).items == ()

"""Nodes that come, go and fall silent while an isolated network lives, on either cluster."""

import time
from functools import partial

import pytest

from lanloom.api.core import NODES
from lanloom.api.names import BRIDGES_NAMESPACE
from tests.features.dummy.cluster.ground import Ground, eventually
from tests.features.dummy.cluster.managed import managed

pytestmark = pytest.mark.slow


async def test_a_new_node_is_waited_for(cluster: Ground) -> None:
    """A node that is added gets the bridge, too, and the network is ready again only when it has it."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        cluster.kubelets.verdict = lambda pod: (
            "a link of that name is there" if pod.spec.node_name == "n4" else None
        )
        await cluster.add_node("n4")
        pending = await net.reaches(
            "Pending", lambda dcn: "n4 (a link of that name is there)" in dcn.status.message
        )
        nodes = pending.status.nodes
        assert nodes is not None
        assert (nodes.live, nodes.acknowledged) == (4, 3)
        cluster.kubelets.verdict = lambda pod: None
        cluster.kubelets.look_again()
        await net.reaches("Ready", lambda dcn: dcn.status.nodes is not None and dcn.status.nodes.live == 4)
        assert (await net.bridge_pods(uid)).keys() == {"n1", "n2", "n3", "n4"}


async def test_a_node_that_is_away_for_long_is_not_waited_for(cluster: Ground) -> None:
    """The deletion goes on without a node that has not been ready for the time that nodes get, and says so."""
    async with managed(cluster) as net:
        await (await net.manager(node_timeout=60.0)).leads()
        uid = (await net.create_ready()).metadata.uid
        cluster.kubelets.silent.add("n3")
        await cluster.report("n3", "Unknown", time.time() - 3600)
        await net.delete()
        await net.released(uid)
        (told,) = await eventually(partial(net.events, "NodesSkipped"), bool)
        assert "n3" in told
        # The node's pod is there until the node comes back or is removed.
        cluster.kubelets.silent.clear()
        cluster.kubelets.look_again()
        await eventually(partial(net.made, uid), lambda found: found == [])


async def test_a_node_that_is_removed_is_not_waited_for(cluster: Ground) -> None:
    """The deletion goes on when the node that it waits for is removed from the cluster."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        cluster.kubelets.silent.add("n2")
        await net.delete()
        await net.reaches("Terminating", lambda dcn: "n2" in dcn.status.message)
        await net.client.delete(NODES, "n2")
        await net.released(uid)


async def test_a_network_says_why_its_pods_are_refused(cluster: Ground) -> None:
    """What the API server says of the pods is in the status with the remedy, until they are admitted."""
    if not cluster.is_real:
        pytest.skip("the embedded server has no ResourceQuota")
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        path = f"/api/v1/namespaces/{BRIDGES_NAMESPACE}/resourcequotas"
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
        await net.client.request("POST", path, quota)
        read = partial(net.client.request, "GET", f"{path}/few")
        await eventually(read, lambda found: "hard" in found.get("status", {}))
        await net.create()
        pending = await net.reaches("Pending", lambda dcn: "no pod can be created: " in dcn.status.message)
        assert f"kubectl -n {BRIDGES_NAMESPACE} describe resourcequota" in pending.status.message
        await net.client.request("DELETE", f"{path}/few")
        ready = await net.reaches("Ready")
        assert "quota" not in ready.status.message

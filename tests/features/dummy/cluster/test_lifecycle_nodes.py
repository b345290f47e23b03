"""Nodes that come, go and fall silent while an isolated network lives, on either cluster."""

import time
from functools import partial

import pytest

from lanloom.api.core import NODES
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

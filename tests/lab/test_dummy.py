"""Isolated networks on a lab's nodes: pods on them, and the end of a network, also on nodes that are in a bad state."""

import json

import pytest

from tests.lab.driver import eventually
from tests.lab.isolated import (
    BRIDGE,
    FOREIGN,
    NETWORK,
    PREFIX,
    Isolated,
    isolated,
    network,
    pod,
)
from tests.lab.looks import NODES

__all__ = ["isolated", "network"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_pods_on_a_network(network: Isolated) -> None:
    """Pods get addresses of the subnet, each its own; on one node they reach each other, and no pod elsewhere."""
    found = network.add_pods(a="node1", b="node1", c="node2")
    assert len(set(found.values())) == 3
    assert all(address.startswith(PREFIX) for address in found.values())
    eventually(lambda: network.reaches("node1", "a", found["b"]))
    eventually(lambda: network.reaches("node1", "b", found["a"]))
    assert not network.reaches("node2", "c", found["a"])
    assert "eth0" not in network.lab.on("node1", "ip -netns default.a -br link")


def test_a_network_that_is_used_stays(network: Isolated) -> None:
    """A deletion waits for the pods, names them, and admits no new users; after the last of them it is done."""
    network.add_pods(a="node1", b="node2", c="node2")
    network.delete()
    eventually(lambda: network.status().get("phase") == "DeletionBlocked")
    eventually(lambda: network.status().get("users") == ["Pod default/a", "Pod default/b", "Pod default/c"])
    eventually(network.drains)
    refusal = network.lab.apply(pod("late", "node1"), fails=True)
    assert NETWORK in refusal and "being deleted" in refusal
    network.lab.kubectl("delete", "pods", "a", "b", "--timeout=300s")
    eventually(lambda: network.status().get("users") == ["Pod default/c"])
    assert all(network.has_bridge(node) for node in NODES)
    network.lab.kubectl("delete", "pod", "c", "--timeout=300s")
    eventually(lambda: not network.status(), timeout=300)
    assert not any(network.has_bridge(node) for node in NODES)
    eventually(lambda: not network.traces())


def test_a_node_that_is_off(network: Isolated) -> None:
    """A deletion goes on without a node that is off; what that node still has of the network goes when it is back."""
    network.lab.run("node", "stop", "node3")
    uid = json.loads(network.lab.kubectl("get", "dcn", NETWORK, "-o", "json"))["metadata"]["uid"]
    network.delete()
    eventually(lambda: not network.status(), timeout=300)
    assert "node3" in network.skipped(uid)
    network.lab.run("node", "start", "node3")
    # A node of the lab loses its links with its power; one that was only cut off has them still.
    network.lab.on(
        "node3", f"ip link add {BRIDGE} type bridge && ip link set {BRIDGE} alias 'lanloom-dummy {uid}'"
    )
    eventually(lambda: not network.has_bridge("node3"), timeout=300)  # it asks, and once more after a minute


def test_a_bridge_that_somebody_uses(network: Isolated) -> None:
    """A bridge with a port of others is not taken away, and the network says where; it goes without the port."""
    network.lab.on("node2", f"ip link add {FOREIGN} type dummy && ip link set {FOREIGN} master {BRIDGE}")
    network.delete()
    told = eventually(lambda: (message := network.message()) and FOREIGN in message and message, timeout=300)
    assert "node2" in told
    eventually(lambda: not (network.has_bridge("node1") or network.has_bridge("node3")), timeout=300)
    assert network.has_bridge("node2")
    network.lab.on("node2", f"ip link delete {FOREIGN}")
    eventually(lambda: not network.status(), timeout=300)
    assert not network.has_bridge("node2")


def test_a_bridge_that_is_deleted_by_hand(network: Isolated) -> None:
    """A bridge that is deleted is made again, marked, and carries those who were on it."""
    address = network.add_pods(a="node1", b="node1")["b"]
    eventually(lambda: network.reaches("node1", "a", address))
    network.lab.on("node1", f"ip link delete {BRIDGE}")
    eventually(lambda: network.reaches("node1", "a", address))
    assert "lanloom-dummy" in network.bridge("node1")["ifalias"]


def test_a_link_of_that_name(isolated: Isolated) -> None:
    """A link of the bridge's name that is not ours is left alone and told of, with its node; without it all is well."""
    isolated.lab.on("node1", f"ip link add {BRIDGE} type bridge")
    isolated.create()
    eventually(lambda: (message := isolated.message()) and "node1" in message and BRIDGE in message)
    assert "alias" not in isolated.lab.on("node1", f"ip link show {BRIDGE}")
    isolated.lab.on("node1", f"ip link delete {BRIDGE}")
    isolated.ready()
    assert all(isolated.has_bridge(node) for node in NODES)

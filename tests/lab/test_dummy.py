"""Isolated networks on a lab's nodes: pods on them, and the end of a network, also on nodes that are in a bad state.

Pods are network namespaces that the lab's kubelets attach by the network's NAD, with the real plugin `bridge`.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

NETWORK, BRIDGE, NAD = "iso", "iso-br", "iso-net"
SUBNET, PREFIX = "10.77.0.0/24", "10.77.0."
STATUS = "k8s.v1.cni.cncf.io/network-status"

SOON = 10.0
"""Seconds within which a network is gone after its last user."""


class Isolated:
    """The lab, with words for what tests do to an isolated network of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def create(self) -> None:
        """Makes the network."""
        spec = {"bridgeName": BRIDGE, "nadName": NAD, "nadNamespace": "default", "subnet": SUBNET}
        body = {"apiVersion": "network.harvester.io/v1alpha1", "kind": "DummyClusterNetwork"}
        self.lab.apply({**body, "metadata": {"name": NETWORK}, "spec": spec})

    def ready(self) -> None:
        """Waits until every node has the bridge."""
        self.lab.kubectl("wait", "--for=condition=Ready", f"dcn/{NETWORK}", "--timeout=60s")

    def delete(self) -> str:
        """Wants the network gone; what kubectl prints."""
        return self.lab.kubectl("delete", "dcn", NETWORK, "--wait=false", "--ignore-not-found")

    def status(self) -> Raw:
        """The network's status; empty when it is gone."""
        text = self.lab.kubectl("get", "dcn", NETWORK, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)["status"]) if text.strip() else {}

    def message(self) -> str:
        """What the status says."""
        return str(self.status().get("message", ""))

    def add_pods(self, **nodes: str) -> dict[str, str]:
        """Pods on the network, by name and node, when they run; with their addresses."""
        self.lab.apply(*(pod(name, node) for name, node in nodes.items()))
        names = [f"pod/{name}" for name in nodes]
        self.lab.kubectl("wait", "--for=condition=Ready", *names, "--timeout=60s")
        return {name: self.address(name) for name in nodes}

    def address(self, name: str) -> str:
        """The address that the pod's status names for its interface on the network."""
        annotations = json.loads(self.lab.kubectl("get", "pod", name, "-o", "json"))["metadata"][
            "annotations"
        ]
        (status,) = json.loads(annotations[STATUS])
        assert (status["name"], status["interface"]) == (f"default/{NAD}", "net1")
        return str(status["ips"][0])

    def reaches(self, node: str, name: str, address: str) -> bool:
        """Whether an echo from a pod is answered."""
        script = f"ip netns exec default.{name} ping -c 1 -W 1 {address} >/dev/null && echo yes"
        return "yes" in self.lab.on(node, script, status=None)

    def has_bridge(self, node: str) -> bool:
        """Whether the node's kernel has the bridge."""
        return BRIDGE in self.lab.on(node, f"ip link show {BRIDGE}", status=None)

    def traces(self) -> list[str]:
        """What the cluster still has of the network."""
        kinds = "dcn,net-attach-def,daemonsets,networks.ipam.lanloom.io,clusternetworks"
        found = self.lab.kubectl("get", kinds, "-A", "-o", "name").split()
        return [name for name in found if f"/{NETWORK}" in name or "dummy-bridge" in name]


def pod(name: str, node: str) -> Raw:
    """A pod on the network."""
    metadata = {"name": name, "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/networks": NAD}}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def isolated(lab: Lab) -> Iterator[Isolated]:
    """The lab without an isolated network, before and after."""
    isolated = Isolated(lab)
    try:
        yield isolated
    finally:
        for node in lab.status()["nodes"]:
            if node["state"] == "stopped":
                lab.run("node", "start", node["name"])
        lab.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=60s")
        isolated.delete()
        eventually(lambda: not isolated.traces(), timeout=90)


@pytest.fixture
def network(isolated: Isolated) -> Isolated:
    """The lab with the network, whose bridge is on every node."""
    isolated.create()
    isolated.ready()
    return isolated


def test_pods_on_a_network(network: Isolated) -> None:
    """Pods get addresses of the subnet, each its own; on one node they reach each other, and nobody elsewhere."""
    found = network.add_pods(a="node1", b="node1", c="node2")
    assert len(set(found.values())) == 3
    assert all(address.startswith(PREFIX) for address in found.values())
    assert network.reaches("node1", "a", found["b"])
    assert network.reaches("node1", "b", found["a"])
    assert not network.reaches("node2", "c", found["a"])
    assert "eth0" not in network.lab.on("node1", "ip -netns default.a -br link")


def test_a_network_that_is_used_stays(network: Isolated) -> None:
    """A deletion waits for the pods, names them, and lets nobody new in; soon after the last of them it is done."""
    network.add_pods(a="node1", b="node2", c="node2")
    network.delete()
    eventually(lambda: network.status()["phase"] == "DeletionBlocked")
    assert network.status()["users"] == ["Pod default/a", "Pod default/b", "Pod default/c"]
    refusal = network.lab.apply(pod("late", "node1"), fails=True)
    assert NETWORK in refusal and "being deleted" in refusal
    network.lab.kubectl("delete", "pods", "a", "b", "--timeout=30s")
    eventually(lambda: network.status()["users"] == ["Pod default/c"])
    assert all(network.has_bridge(node) for node in NODES)
    network.lab.kubectl("delete", "pod", "c", "--timeout=30s")
    began = time.monotonic()
    eventually(lambda: not network.status(), timeout=60)
    assert time.monotonic() - began < SOON
    assert not any(network.has_bridge(node) for node in NODES)
    eventually(lambda: not network.traces())


def test_a_node_that_is_off(network: Isolated) -> None:
    """A deletion goes on without a node that is off; what that node still has of the network goes when it is back."""
    network.lab.run("node", "stop", "node3")
    uid = json.loads(network.lab.kubectl("get", "dcn", NETWORK, "-o", "json"))["metadata"]["uid"]
    network.delete()
    eventually(lambda: "node3" in network.message())
    eventually(lambda: not network.status(), timeout=60)
    network.lab.run("node", "start", "node3")
    # A node of the lab loses its links with its power; one that was only cut off has them still.
    network.lab.on(
        "node3", f"ip link add {BRIDGE} type bridge && ip link set {BRIDGE} alias 'lanloom-dummy {uid}'"
    )
    eventually(lambda: not network.has_bridge("node3"))


def test_a_bridge_that_somebody_uses(network: Isolated) -> None:
    """A bridge with a port of others is not taken away, and the network says where; it goes without the port."""
    network.lab.on("node2", f"ip link add foreign0 type dummy && ip link set foreign0 master {BRIDGE}")
    network.delete()
    eventually(lambda: "foreign0" in network.message(), timeout=120)
    assert "node2" in network.message()
    assert network.has_bridge("node2")
    assert not network.has_bridge("node1")
    network.lab.on("node2", "ip link delete foreign0")
    eventually(lambda: not network.status(), timeout=60)
    assert not network.has_bridge("node2")


def test_a_bridge_that_is_deleted_by_hand(network: Isolated) -> None:
    """A bridge that somebody deletes is made again, and marked."""
    network.lab.on("node1", f"ip link delete {BRIDGE}")
    eventually(lambda: "lanloom-dummy" in network.lab.on("node1", f"ip link show {BRIDGE}", status=None))


def test_a_link_of_that_name(isolated: Isolated) -> None:
    """A link of the bridge's name that is not ours is left alone and told of, with its node; without it all is well."""
    isolated.lab.on("node1", f"ip link add {BRIDGE} type bridge")
    isolated.create()
    eventually(lambda: "node1" in isolated.message() and BRIDGE in isolated.message(), timeout=60)
    assert "alias" not in isolated.lab.on("node1", f"ip link show {BRIDGE}")
    isolated.lab.on("node1", f"ip link delete {BRIDGE}")
    isolated.ready()
    assert all(isolated.has_bridge(node) for node in NODES)

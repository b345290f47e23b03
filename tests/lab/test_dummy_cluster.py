"""An isolated network that spans the nodes of a lab: its bridges are joined by a LAN, and nothing else is."""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.isolated import BRIDGE, NETWORK, PREFIX, SUBNET, Isolated, isolated, network_body
from tests.lab.looks import NODES
from tests.lab.objects import EXAMPLES

__all__ = ["isolated"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

UNDERLAY = "mgmt-br.2021"


@pytest.fixture
def spanning(isolated: Isolated) -> Iterator[Isolated]:
    """The network, ready on every node."""
    isolated.lab.apply(network_body(NETWORK, subnet=SUBNET, scope="cluster", underlay=UNDERLAY))
    isolated.ready()
    yield isolated


def lan(lab: Lab) -> str:
    """The LAN of the network, as namespace and name; empty when it is gone."""
    items = json.loads(lab.kubectl("get", "lans.lan.k8slan.io", "-A", "-o", "json"))["items"]
    return next((item["metadata"]["name"] for item in items), "")


@pytest.mark.kernel
def test_pods_of_all_nodes(spanning: Isolated) -> None:
    """Pods on three nodes get addresses and reach each other, whatever is deleted below; no node is on the network."""
    lab = spanning.lab
    found = spanning.add_pods(a="node1", b="node2", c="node3")
    assert len(set(found.values())) == 3
    for node, name in zip(NODES, found, strict=True):
        for address in found.values():
            eventually(partial(spanning.reaches, node, name, address))
    large = f"ip netns exec default.a ping -c 1 -w 4 -M do -s 1402 {found['b']} >/dev/null && echo yes"
    eventually(lambda: "yes" in lab.on("node1", large, status=None))
    ns = f"dcn-{lan(lab)}"
    for node in NODES:
        assert "inet" not in lab.on(node, f"ip address show dev {BRIDGE}")
        far = lab.on(node, f"ip -json link show master {BRIDGE}")
        (port,) = [item["ifname"] for item in json.loads(far) if item["ifname"].startswith("lan-")]
        assert "inet" not in lab.on(node, f"ip address show dev {port}")
    refusal = lab.kubectl("-n", "lanloom-bridges", "delete", "lans.lan.k8slan.io", lan(lab), fails=True)
    assert "an isolated network that spans the cluster stands on it" in refusal
    lab.on("node1", f"ip -n {ns} link delete hostB0")
    lab.on("node2", f"ip link delete {BRIDGE}")
    eventually(lambda: spanning.reaches("node1", "a", found["b"]))
    eventually(lambda: spanning.reaches("node3", "c", found["b"]))


@pytest.mark.kernel
def test_pods_with_both_ip_versions(isolated: Isolated) -> None:
    """With subnets of both IP versions, pods of two nodes have an address of each and reach each other by both."""
    lab = isolated.lab
    both = f"fd00:77::/64,{SUBNET}"
    lab.apply(network_body(NETWORK, subnet=both, scope="cluster", underlay=UNDERLAY))
    isolated.ready()
    isolated.add_pods(a="node1", b="node2")
    four, six = isolated.addresses("b")
    assert (four[: len(PREFIX)], six[:7]) == (PREFIX, "fd00:77")
    for address in (four, six):
        eventually(partial(isolated.reaches, "node1", "a", address))
    for node in NODES:
        assert "inet" not in lab.on(node, f"ip address show dev {BRIDGE}")
    refusal = lab.apply(network_body(NETWORK, subnet=SUBNET, scope="cluster", underlay=UNDERLAY), fails=True)
    assert "while the network is in use by Pod default/a, Pod default/b" in refusal


def test_example(isolated: Isolated) -> None:
    """The example makes such a network, and its pod runs on it."""
    lab = isolated.lab
    text = (EXAMPLES / "dummy-cluster.yaml").read_text()
    lab.kubectl(
        "apply",
        "-f",
        "-",
        given=text.replace("spec:\n  containers", "spec:\n  nodeName: node2\n  containers"),
    )
    try:
        isolated.ready("spanning")
        lab.kubectl("wait", "--for=condition=Ready", "pod/anywhere", "--timeout=300s")
        shown = lab.on("node2", "ip -n default.anywhere address show dev net1")
        assert "inet 10.77.0." in shown and "inet6 fd00:77::" in shown
    finally:
        lab.kubectl("delete", "pod", "anywhere", "--timeout=300s")
        lab.kubectl("delete", "dcn", "spanning", "--timeout=300s")


def test_it_goes_as_a_whole(spanning: Isolated) -> None:
    """The LAN stays under the last pod, and goes then before the bridges; nothing is left on any node."""
    lab = spanning.lab
    found = spanning.add_pods(a="node1", b="node2")
    eventually(lambda: spanning.reaches("node1", "a", found["b"]))
    spanning.delete()
    eventually(lambda: spanning.status().get("phase") == "DeletionBlocked")
    assert spanning.reaches("node1", "a", found["b"])
    lab.kubectl("delete", "pods", "a", "b", "--timeout=300s")
    eventually(lambda: not spanning.status(), timeout=300)
    assert not lan(lab)
    for node in NODES:
        assert not spanning.has_bridge(node)
        assert "dcn-" not in lab.on(node, "ip netns")
        assert "lan-" not in lab.on(node, "ip -br link")
    eventually(lambda: not spanning.traces())

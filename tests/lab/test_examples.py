"""The project's examples: every file can be applied as it is, and does what its comment says."""

import json

import pytest

from lanloom.features.vlan.rules.names import interface_name
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    look,
    looks,
    vlan_ids,
)
from tests.lab.objects import EXAMPLES, STATIC, example

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ON_CLUSTER_1 = (
    "vlan2012-dhcp.yaml",
    "vlan2012-static.yaml",
    "vlan2012-gateway.yaml",
    "vlan2013-routes.yaml",
    "trunk.yaml",
)
OTHERS = (
    "cluster-1.yaml",
    "cluster-2.yaml",
    "vlan2013-static.yaml",
    "mgmt-dhcp.yaml",
    "rollout.yaml",
    "jumbo-frames.yaml",
    "vlan2012-pool.yaml",
)
ELSEWHERE = (
    "ipam-nad.yaml",
    "ipam-network.yaml",
    "ipam-nic.yaml",
    "lan.yaml",
    "tenants.yaml",
    "dummy-cluster.yaml",
    "vm.yaml",
)
"""Tried by test_cni_ipam here, by test_ipam_page of the command line, by test_admission of LANs, by test_walk of
security, and by test_dummy_cluster and test_demo here."""

ISOLATED = {"dummy.yaml": ("isolated", "lonely"), "dummy-subnet.yaml": ("isolated-subnet", "addressed")}
"""With the name of the network and that of the pod on it."""


def ready(lab: Lab, network: str) -> None:
    """Waits until a cluster network is ready."""
    lab.kubectl("wait", "--for=condition=ready", f"clusternetwork/{network}", "--timeout=120s")


def test_every_example_is_tried() -> None:
    """The tests below and those that they name know every file of the examples."""
    assert {file.name for file in EXAMPLES.glob("*.yaml")} == {
        *ON_CLUSTER_1,
        *OTHERS,
        *ELSEWHERE,
        *ISOLATED,
    }


def test_networks_of_cluster_1(cluster: Lab) -> None:
    """The examples on cluster-1 give the nodes their addresses, with gateway, routes and DNS, and a trunk its VLANs."""
    for name in ON_CLUSTER_1:
        cluster.kubectl("apply", "-f", example(name))
    eventually(
        lambda: all_have(cluster, "cluster-1", 2012) == STATIC and all_have(cluster, "cluster-1", 2013)
    )
    eventually(lambda: "from 192.168.1.0/24" in cluster.on("node1", "ip rule"))
    routes = f"ip route show dev {interface_name('cluster-1', 2013)}"
    eventually(lambda: "10.50.8.0/24 via 192.168.2.2" in cluster.on("node1", routes))
    eventually(lambda: {*range(100, 200), 300} <= vlan_ids(cluster, "node1", "cluster-1-bo"))
    assert 100 not in look(cluster, "node1").ids["cluster-1-br"]


def test_nodes_from_a_pool(cluster: Lab) -> None:
    """The example with mode pool gives each node an address of the pool, which is free again when the NAD is gone."""
    cluster.kubectl("apply", "-f", example("vlan2012-pool.yaml"))
    given = eventually(lambda: all_have(cluster, "cluster-1", 2012))
    assert set(given.values()) == {f"192.168.1.{last}/24" for last in (20, 21, 22)}
    cluster.kubectl("delete", "network-attachment-definitions", "vlan2012", "--namespace=default")
    eventually(lambda: not json.loads(cluster.kubectl("get", "nics", "-A", "-o", "json"))["items"])
    cluster.kubectl("delete", "networks.ipam.lanloom.io", "vlan2012", "--timeout=120s")


def test_mgmt_and_a_pair(clean: Lab) -> None:
    """The example on mgmt reaches all nodes, the one on cluster-2 its two."""
    clean.kubectl("apply", "-f", example("cluster-2.yaml"))
    ready(clean, "mgmt")
    ready(clean, "cluster-2")
    clean.kubectl("apply", "-f", example("mgmt-dhcp.yaml"), "-f", example("vlan2013-static.yaml"))
    eventually(lambda: all_have(clean, "mgmt", 2014))
    pair = {"node1": "192.168.13.10/24", "node2": "192.168.13.11/24"}
    eventually(lambda: all_have(clean, "cluster-2", 2013, NODES[:2]) == pair)


def test_a_roll_out(clean: Lab) -> None:
    """A cluster network with a roll-out policy reaches all nodes, the canary first."""
    clean.kubectl("apply", "-f", example("rollout.yaml"))

    def reached() -> bool:
        # The canary last: whenever another one has it, the canary must have had it before.
        found = [node for node in reversed(NODES) if "careful-br" in look(clean, node).links]
        assert not found or found[-1] == "node1"
        return len(found) == len(NODES)

    eventually(reached, timeout=180)
    ready(clean, "careful")


def test_jumbo_frames(clean: Lab) -> None:
    """The cluster network with an MTU of 9000 has it on both NICs, bond and bridge."""
    clean.kubectl("apply", "-f", example("jumbo-frames.yaml"))
    ready(clean, "storage")

    def mtus() -> set[int]:
        links = look(clean, "node1").links
        return {links[name]["mtu"] for name in ("eth1", "eth2", "storage-bo", "storage-br")}

    eventually(lambda: mtus() == {9000})


def test_isolated_networks(clean: Lab) -> None:
    """The isolated networks come up with the pods on them, and go, with every bridge, once the pods are gone."""
    for name, (network, pod) in ISOLATED.items():
        clean.kubectl("apply", "-f", example(name))
        clean.kubectl("wait", "--for=condition=Ready", f"dcn/{network}", "--timeout=120s")
        clean.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--namespace=default", "--timeout=120s")
    assert all({"iso-br", "isosub-br"} <= seen.links.keys() for seen in looks(clean, NODES).values())
    for name in ISOLATED:
        clean.kubectl(
            "delete", "-f", example(name), "--timeout=150s"
        )  # waits for the network, and that for the pod
    assert not any({"iso-br", "isosub-br"} & seen.links.keys() for seen in looks(clean, NODES).values())

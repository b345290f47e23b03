"""A LAN that is joined to a VLAN of a cluster network: by one node, and by another one when its agent dies."""

import json
from functools import partial

import pytest

from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES
from tests.lab.objects import example
from tests.lab.test_lan import lan, pod

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.kernel]

STATIONS = {"node1": "192.168.1.10", "node2": "192.168.1.11", "node3": "192.168.1.12"}
"""The nodes' own addresses on the VLAN."""


PODS = {"node2": "u", "node3": "w"}
"""Pods of the LAN, on two nodes: one whose agent has died hears nothing of the next node."""


def joins(lab: Lab) -> str:
    """The node that joins the LAN to its VLAN, by its kernel; empty for none."""
    found = [
        node
        for node in NODES
        if any(
            item["ifname"].startswith("lan-")
            for item in json.loads(lab.on(node, "ip -json link show master cluster-1-br") or "[]")
        )
    ]
    assert len(found) <= 1, f"a loop over {found}"
    return found[0] if found else ""


def reported(lab: Lab) -> list[str]:
    """The node that joins it, by the status of the LAN."""
    status = json.loads(lab.kubectl("get", "lans.lan.k8slan.io", "yellow", "-o", "json")).get("status", {})
    return [item["name"] for item in status.get("nodes", ()) if item.get("uplink")]


def leases(lab: Lab) -> dict[str, str]:
    """The holders of the Leases of the bridges, by name."""
    found = json.loads(lab.kubectl("get", "leases", "-n", "lanloom-bridges", "-o", "json"))
    return {item["metadata"]["name"]: item["spec"].get("holderIdentity", "") for item in found["items"]}


def reaches(lab: Lab, node: str, address: str) -> bool:
    """Whether the LAN's pod on a node gets an answer."""
    command = f"ip netns exec default.{PODS[node]} ping -c 1 -W 1 {address} >/dev/null && echo yes"
    return "yes" in lab.on(node, command, status=None)


def test_pods_reach_the_vlan(cluster: Lab) -> None:
    """A pod reaches stations on the VLAN by the one node that joins it; another one does so when its agent dies."""
    cluster.kubectl("apply", "-f", example("changes/vlan2012-static.yaml"))
    body = lan("yellow", 4730, *PODS.values())
    body["spec"]["uplink"] = {"clusterNetwork": "cluster-1", "vlan": 2012}
    cluster.apply(body)
    try:
        cluster.apply(*(pod(name, node) for node, name in PODS.items()))
        cluster.kubectl("wait", "--for=condition=Ready", "pod/u", "pod/w", "--timeout=300s")
        for number, (node, name) in enumerate(PODS.items()):
            cluster.on(node, f"ip -n default.{name} address add 192.168.1.{77 + number}/24 dev net1")
            for address in STATIONS.values():
                eventually(partial(reaches, cluster, node, address), timeout=300)
        first = joins(cluster)
        eventually(lambda: reported(cluster) == [first])
        assert leases(cluster)["lan-uplink-2012-cluster-1"].startswith(f"{first}_")
        with without_agent(cluster, first):
            eventually(lambda: joins(cluster) != first)
            second = eventually(lambda: joins(cluster), timeout=300)
            assert second != first
            alive = next(node for node in PODS if node != first)
            for address in STATIONS.values():
                eventually(partial(reaches, cluster, alive, address))
        eventually(lambda: reported(cluster) == [second])
        for node in PODS:
            eventually(partial(reaches, cluster, node, STATIONS["node1"]))
        gone = '{"spec":{"uplink":null}}'
        cluster.kubectl("patch", "lans.lan.k8slan.io", "yellow", "--type=merge", "-p", gone)
        eventually(lambda: not joins(cluster))
        eventually(lambda: not leases(cluster), timeout=60)
        assert not reaches(cluster, "node2", STATIONS["node1"])
        trunks = [cluster.on(node, "bridge vlan show dev cluster-1-bo") for node in NODES]
        assert all("2012" in shown for shown in trunks)
    finally:
        cluster.kubectl("delete", "pod", "u", "w", "--ignore-not-found", "--timeout=300s")
        cluster.kubectl("delete", "lans.lan.k8slan.io", "yellow", "--timeout=300s")

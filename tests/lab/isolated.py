"""An isolated network of a lab, with words for what tests do to it, and the fixtures that make and remove it.

Pods are network namespaces that the lab's kubelets attach by the network's NAD, with the real plugin `bridge`.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lanloom.api.dummy import DRAINING
from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES

Raw = dict[str, Any]

NETWORK, BRIDGE, NAD = "iso", "iso-br", "iso-net"
FOREIGN = "foreign0"
"""A link of another program."""

SUBNET, PREFIX = "10.77.0.0/24", "10.77.0."
STATUS = "k8s.v1.cni.cncf.io/network-status"


class Isolated:
    """The lab, with words for what tests do to an isolated network of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def create(self) -> None:
        """Makes the network."""
        self.lab.apply(network_body(NETWORK, subnet=SUBNET))

    def ready(self, name: str = NETWORK) -> None:
        """Waits until every node has the bridge."""
        self.lab.kubectl("wait", "--for=condition=Ready", f"dcn/{name}", "--timeout=300s")

    def delete(self) -> str:
        """Wants the network gone; what kubectl prints."""
        return self.lab.kubectl("delete", "dcn", NETWORK, "--wait=false", "--ignore-not-found")

    def status(self) -> Raw:
        """The network's status; empty when it is gone, or while the manager has not processed it."""
        text = self.lab.kubectl("get", "dcn", NETWORK, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text).get("status", {})) if text.strip() else {}

    def message(self) -> str:
        """What the status says."""
        return str(self.status().get("message", ""))

    def drains(self) -> bool:
        """Whether the network accepts no new users: its status may say why it stays a moment before that."""
        return DRAINING in self.lab.kubectl("get", "net-attach-def", NAD, "-o", "json")

    def skipped(self, uid: str) -> str:
        """What Events say of nodes without which the deletion of the network with this uid went on."""
        events = json.loads(self.lab.kubectl("get", "events", "-A", "-o", "json"))["items"]
        found = [item for item in events if item["involvedObject"].get("uid") == uid]
        return "\n".join(item["message"] for item in found if item["reason"] == "NodesSkipped")

    def add_pods(self, **nodes: str) -> dict[str, str]:
        """Pods on the network, by name and node, when they run; with their addresses."""
        self.lab.apply(*(pod(name, node) for name, node in nodes.items()))
        names = [f"pod/{name}" for name in nodes]
        self.lab.kubectl("wait", "--for=condition=Ready", *names, "--timeout=300s")
        return {name: self.address(name) for name in nodes}

    def address(self, name: str) -> str:
        """The address that the pod's status names for its interface on the network, the first of several."""
        return self.addresses(name)[0]

    def addresses(self, name: str) -> list[str]:
        """All of them, as the status orders them."""
        annotations = json.loads(self.lab.kubectl("get", "pod", name, "-o", "json"))["metadata"][
            "annotations"
        ]
        (status,) = json.loads(annotations[STATUS])
        assert (status["name"], status["interface"]) == (f"default/{NAD}", "net1")
        return [str(address) for address in status["ips"]]

    def reaches(self, node: str, name: str, address: str) -> bool:
        """Whether one of a few echoes from a pod is answered: the first may be lost while neighbours get to know."""
        script = f"ip netns exec default.{name} ping -c 1 -w 4 {address} >/dev/null && echo yes"
        return "yes" in self.lab.on(node, script, status=None)

    def inside(self, node: str, name: str, *commands: str) -> None:
        """Runs `ip` in a pod's network namespace, once for each of these arguments."""
        self.lab.on(node, "".join(f"ip -netns default.{name} {words}\n" for words in commands))

    def has_bridge(self, node: str) -> bool:
        """Whether the node's kernel has the bridge."""
        return bool(self.bridge(node))

    def bridge(self, node: str) -> Raw:
        """What the node's kernel says of the bridge; empty where it has none."""
        shown = self.lab.on(node, f"ip -json link show {BRIDGE} 2>/dev/null", status=None)
        return dict(json.loads(shown)[0]) if shown.strip() else {}

    def daemon(self, node: str) -> str:
        """The pod that keeps the bridge of a node; empty while there is none. Pods of an earlier network end later."""
        found = json.loads(self.lab.kubectl("get", "daemonsets,pods", "-n", "lanloom-bridges", "-o", "json"))
        uids = {item["metadata"]["uid"] for item in found["items"] if item["kind"] == "DaemonSet"}
        here = [item["metadata"] for item in found["items"] if item["spec"].get("nodeName") == node]
        kept = (meta["name"] for meta in here if meta["ownerReferences"][0]["uid"] in uids)
        return next((f"pod/{name}" for name in kept), "")

    def traces(self) -> list[str]:
        """What the cluster still has of the network."""
        kinds = "dcn,net-attach-def,daemonsets,networks.ipam.lanloom.io,clusternetworks,lans.lan.k8slan.io"
        found = self.lab.kubectl("get", kinds, "-A", "-o", "name").split()
        return [name for name in found if f"/{NETWORK}" in name or "dummy-bridge" in name]


def network_body(name: str, **more: str) -> Raw:
    """A network; `more` are further fields of its spec."""
    spec = {"bridgeName": f"{name}-br", "nadName": f"{name}-net", "nadNamespace": "default", **more}
    body = {"apiVersion": "network.harvester.io/v1alpha1", "kind": "DummyClusterNetwork"}
    return {**body, "metadata": {"name": name}, "spec": spec}


def pod(name: str, node: str, nad: str = NAD) -> Raw:
    """A pod on the network, or on that of another NAD."""
    metadata = {"name": name, "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/networks": nad}}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def isolated(lab: Lab) -> Iterator[Isolated]:
    """The lab without an isolated network, before and after."""
    isolated = Isolated(lab)
    try:
        yield isolated
    finally:
        for node in NODES:
            lab.on(node, f"ip link delete {FOREIGN}", status=None)
        remove_networks(lab)
        for node in NODES:
            lab.on(
                node, f"ip link delete {BRIDGE}", status=None
            )  # one that a test made, and did not take away
        eventually(lambda: not isolated.traces())


@pytest.fixture
def network(isolated: Isolated) -> Isolated:
    """The lab with the network, whose bridge is on every node."""
    isolated.create()
    isolated.ready()
    return isolated

"""An isolated network for one namespace: what the pods of another one get of it, from the webhook and from a node."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.isolated import BRIDGE, NAD, NETWORK, SUBNET, Isolated, isolated, network_body
from tests.lab.test_lan_tenants import OWNER, THIEF, namespace_body

__all__ = ["isolated"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

EXCLUDED = (
    f"DummyClusterNetwork {NETWORK} does not admit namespace {THIEF}; use another network, or ask an administrator to "
    f"add {THIEF} to spec.namespaces of DummyClusterNetwork {NETWORK}"
)


def pod(name: str, namespace: str) -> Raw:
    """A pod on the network, which names the NAD with its namespace."""
    annotations = {"k8s.v1.cni.cncf.io/networks": f"{OWNER}/{NAD}@net1"}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    spec = {"nodeName": "node1", "containers": [{"name": "main", "image": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def foreign_nad() -> Raw:
    """A NAD of the other namespace that names the bridge."""
    config = {"cniVersion": "0.3.1", "name": "mine", "type": "bridge", "bridge": BRIDGE}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "mine", "namespace": THIEF},
        "spec": {"config": json.dumps(config)},
    }


@pytest.fixture
def tenants(isolated: Isolated) -> Iterator[Lab]:
    """The lab with the namespaces of two tenants, which go afterwards, and the network before them."""
    lab = isolated.lab
    lab.apply(*map(namespace_body, (OWNER, THIEF)))
    try:
        yield lab
    finally:
        for namespace in (OWNER, THIEF):
            lab.kubectl("delete", "pods", "--all", f"--namespace={namespace}", "--timeout=300s")
        lab.kubectl("delete", "dcn", NETWORK, "--ignore-not-found", "--timeout=300s")
        lab.kubectl("delete", "namespace", OWNER, THIEF, "--timeout=300s")


def runs(lab: Lab, name: str, namespace: str) -> str:
    """Waits for a pod; its address on the network."""
    lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", f"--namespace={namespace}", "--timeout=300s")
    shown = json.loads(lab.on("node1", f"ip -n {namespace}.{name} -json -4 address show dev net1"))
    return str(shown[0]["addr_info"][0]["local"])


def told(lab: Lab) -> str:
    """What the Events of the other namespace say."""
    return lab.kubectl("get", "events", f"--namespace={THIEF}", "-o", "jsonpath={.items[*].message}")


def limit(lab: Lab, *namespaces: str) -> None:
    """An administrator says which namespaces the network is for."""
    patch = json.dumps({"spec": {"namespaces": namespaces}})
    lab.kubectl("patch", "dcn", NETWORK, "--type=merge", "-p", patch)


def test_a_network_for_one_namespace(tenants: Lab) -> None:
    """Its pods are attached; those of another are refused by the webhook, and by the node if they were there before."""
    tenants.apply(pod("early", THIEF))
    body = network_body(NETWORK, nadNamespace=OWNER, subnet=SUBNET)
    body["spec"]["namespaces"] = [OWNER]
    tenants.apply(body)
    tenants.kubectl("wait", "--for=condition=Ready", f"dcn/{NETWORK}", "--timeout=300s")
    tenants.apply(pod("web", OWNER))
    address = runs(tenants, "web", OWNER)
    said = tenants.apply(pod("evil", THIEF), fails=True)
    assert f"Pod {THIEF}/evil: metadata.annotations[k8s.v1.cni.cncf.io/networks]: {EXCLUDED}" in said
    assert f"bridge {BRIDGE} is an isolated network's: {EXCLUDED}" in tenants.apply(foreign_nad(), fails=True)
    eventually(lambda: f"gives no addresses to namespace {THIEF}" in told(tenants))
    phase = ("get", "pod", "early", f"--namespace={THIEF}", "-o", "jsonpath={.status.phase}")
    assert tenants.kubectl(*phase) != "Running"
    given = ("get", "nics.ipam.lanloom.io", f"--namespace={THIEF}", "-o", "jsonpath={.items[*].status.ips}")
    assert not tenants.kubectl(*given)
    limit(tenants, OWNER, THIEF)
    runs(tenants, "early", THIEF)
    ping = f"ip netns exec {THIEF}.early ping -c 1 -w 4 {address} >/dev/null && echo yes"
    eventually(lambda: "yes" in tenants.on("node1", ping, status=None))
    limit(tenants, OWNER)
    assert EXCLUDED in tenants.apply(pod("evil", THIEF), fails=True)
    assert "yes" in tenants.on("node1", ping, status=None)

"""LAN and LANNode, as k8slan's manifests and definition have them."""

from typing import Any

import msgspec

from lanloom.api.crds import manifest
from lanloom.api.lan import (
    LAN,
    LAN_NODES,
    LANS,
    LANSpec,
    device_id,
    nad_name,
    resource_name,
)
from lanloom.api.meta import ObjectMeta
from lanloom.api.reading import ObjectDecoder

Raw = dict[str, Any]

SAMPLE: Raw = {
    "apiVersion": "lan.k8slan.io/v1beta1",
    "kind": "LAN",
    "metadata": {"name": "lan-example", "namespace": "default"},
    "spec": {
        "ns": "knlvrf",
        "bridge": "br2",
        "vxlan": "vx2",
        "vni": 222,
        "defaultVxlanDev": "eth0",
        "vxlanDevMap": {"worker1": "eth1", "worker2": "eth2"},
        "spokes": ["srl", "vm"],
    },
}
"""The fields of the LAN in k8slan's own instructions."""

LAN_OBJECT = LAN(
    api_version="lan.k8slan.io/v1beta1",
    kind="LAN",
    metadata=ObjectMeta(name="lan-example", namespace="default"),
    spec=LANSpec(
        ns="knlvrf",
        bridge="br2",
        vxlan="vx2",
        vni=222,
        default_vxlan_dev="eth0",
        vxlan_dev_map={"worker1": "eth1", "worker2": "eth2"},
        spokes=("srl", "vm"),
    ),
)


def test_a_manifest_of_k8slan_is_read() -> None:
    """A LAN as in k8slan's instructions means what it means there; the port is VXLAN's own."""
    lan = ObjectDecoder(LAN).decode(msgspec.json.encode(SAMPLE))
    assert lan == LAN_OBJECT
    assert lan.spec.vxlan_port == 4789
    assert [lan.spec.underlay(node) for node in ("worker1", "worker2", "worker3")] == ["eth1", "eth2", "eth0"]


def test_names_are_those_of_k8slan() -> None:
    """NADs, resources and device ids are called as machines and pods that were written for k8slan expect."""
    assert nad_name("srl", "veth") == "k8slan-veth-srl"
    assert resource_name("vm", "macvtap") == "macvtap.k8slan.io/k8slan-mac-vm"
    assert (device_id("vm", "macvtap"), device_id("vm", "veth")) == ("vmM0", "vmV0")


K8SLAN: dict[str, Raw] = {
    "bridge": {"type": "string"},
    "defaultVxlanDev": {"type": "string"},
    "ns": {"type": "string"},
    "spokes": {"type": "array", "items": {"type": "string"}},
    "vni": {"type": "integer", "format": "int32"},
    "vxlan": {"type": "string"},
    "vxlanDevMap": {"type": "object", "additionalProperties": {"type": "string"}},
    "vxlanGrp": {"type": "string"},
    "vxlanPort": {"type": "integer", "format": "int32"},
}
"""The schema of `spec` in k8slan's definition."""


def test_the_definition_is_a_superset_of_k8slans() -> None:
    """What k8slan's definition takes is taken and means the same; nothing more is required."""
    spec = manifest(LANS)["spec"]
    assert (spec["scope"], spec["names"]["kind"], spec["names"]["plural"]) == ("Namespaced", "LAN", "lans")
    version = spec["versions"][0]
    assert version["subresources"] == {"status": {}}
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["required"] == ["spec"]
    fields = schema["properties"]["spec"]
    assert K8SLAN.items() <= fields["properties"].items()
    assert fields["required"] == ["bridge", "ns", "spokes", "vni", "vxlan"]
    assert "conditions" in schema["properties"]["status"]["properties"]


def test_what_a_node_carries_is_cluster_scoped() -> None:
    """A LANNode is named as its node, and its status is written apart."""
    spec = manifest(LAN_NODES)["spec"]
    assert (spec["scope"], spec["group"]) == ("Cluster", "lan.lanloom.io")
    assert spec["versions"][0]["subresources"] == {"status": {}}

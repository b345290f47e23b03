"""The objects that lab tests apply, as plain data; what a test does not name is as in the project's examples."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lanloom.api import names

EXAMPLES = Path(__file__).parents[2] / "examples"

Object = dict[str, Any]

STATIC = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24", "node3": "192.168.1.12/24"}
"""A static address for each node."""

_HARVESTER = "network.harvesterhci.io/v1beta1"


def example(name: str) -> str:
    """The path of an example."""
    return str(EXAMPLES / name)


def cluster_network(name: str, **annotations: str) -> Object:
    """A ClusterNetwork. Annotations by their names without prefix."""
    return {
        "apiVersion": _HARVESTER,
        "kind": "ClusterNetwork",
        "metadata": {"name": name, "annotations": _prefixed(annotations)},
    }


def vlan_config(
    name: str,
    network: str,
    *,
    nics: Sequence[str] = ("eth1",),
    node: str = "",
    labels: Mapping[str, str] | None = None,
    mtu: int = 0,
    mode: str = "active-backup",
    **options: object,
) -> Object:
    """A VlanConfig for all nodes, for the one named, or for those with the labels; `options` are of its bond."""
    selector = {"kubernetes.io/hostname": node} if node else dict(labels or {})
    uplink: Object = {"nics": list(nics), "bondOptions": {"mode": mode, **options}}
    if mtu:
        uplink["linkAttributes"] = {"mtu": mtu}
    return {
        "apiVersion": _HARVESTER,
        "kind": "VlanConfig",
        "metadata": {"name": name},
        "spec": {"clusterNetwork": network, "nodeSelector": selector, "uplink": uplink},
    }


def vm_network(
    name: str,
    network: str,
    vid: int,
    mode: str = "dhcp",
    node_ip_map: Mapping[str, object] | None = None,
    **more: str,
) -> Object:
    """A VM network with node addresses; `more` are further annotations by their names without prefix."""
    annotations = {"l3-connectivity": "true", "mode": mode, **more}
    if node_ip_map is not None:
        annotations["node-ip-map"] = json.dumps(node_ip_map)
    config = {
        "cniVersion": "0.3.1",
        "name": name,
        "type": "bridge",
        "bridge": names.bridge_name(network),
        "promiscMode": True,
        "vlan": vid,
        "ipam": {},
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default", "annotations": _prefixed(annotations)},
        "spec": {"config": json.dumps(config)},
    }


def _prefixed(annotations: Mapping[str, str]) -> dict[str, str]:
    return {f"{names.PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}

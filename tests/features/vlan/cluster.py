"""A cluster's objects as values, and what a manager makes of them: input of the rules' tests and of simulations."""

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, Management
from lanloom.api.core import Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
)
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.node import node_networks
from lanloom.features.vlan.views import VlanObjects
from lanloom.features.vlan.views.plan import derived
from lanloom.kube.ports import Client

CLUSTER = "0b2f6d4e-4c0e-4b8e-9e57-7d1f1c1e3a55"
"""The cluster's identity, which is part of the UUIDs of profiles."""

_TYPES: dict[str, type[Object]] = {
    "Node": Node,
    "ClusterNetwork": ClusterNetwork,
    "VlanConfig": VlanConfig,
    "HostNetworkConfig": HostNetworkConfig,
    "NetworkAttachmentDefinition": NetworkAttachmentDefinition,
    "ClusterNetworkNode": ClusterNetworkNode,
    "VirtualMachineInstance": VirtualMachineInstance,
    "VirtualMachine": VirtualMachine,
}


class Cluster(VlanObjects, frozen=True):
    """The objects that VLAN networks are made from, with what a manager and agents make of them."""

    def managed(self) -> "Cluster":
        """The cluster after a manager has looked at it: matched nodes and L3 annotations are written."""
        return derived(self)

    def on_node(
        self, name: str, carried: Container[str] = (), management: Management | None = None
    ) -> tuple[NodeNetwork, ...]:
        """What a node should carry; `carried` are the cluster networks that it has now."""
        return node_networks(
            name,
            CLUSTER,
            self.networks,
            self.configs,
            self.nads,
            carried,
            management,
            coexisting=self.coexisting,
        )


def cluster_of(documents: Iterable[dict[str, Any]]) -> Cluster:
    """The cluster of some manifests."""
    items = [msgspec.convert(raw, _TYPES[raw["kind"]]) for raw in documents]

    def of(type: type[Any]) -> tuple[Any, ...]:
        return tuple(item for item in items if isinstance(item, type))

    return Cluster(
        nodes=of(Node),
        networks=of(ClusterNetwork),
        configs=of(VlanConfig),
        nads=of(NetworkAttachmentDefinition),
        statuses=of(ClusterNetworkNode),
        vms=of(VirtualMachineInstance),
        machines=of(VirtualMachine),
        host_networks=of(HostNetworkConfig),
    )


async def create(client: Client, cluster: Cluster) -> None:
    """Creates the cluster's objects, the NADs last."""
    for network in cluster.networks:
        await client.create(CLUSTER_NETWORKS, network)
    for config in cluster.configs:
        await client.create(VLAN_CONFIGS, config)
    for item in cluster.nads:
        await client.create(NADS, item, item.metadata.namespace)


def node(name: str, *, address: str = "", ready: bool | None = None, **labels: str) -> dict[str, Any]:
    """A Node; `address` is its InternalIP. The host name is a label as on every Kubernetes node."""
    status: dict[str, Any] = {}
    if address:
        status["addresses"] = [{"type": "InternalIP", "address": address}]
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def cluster_network(name: str, **annotations: str) -> dict[str, Any]:
    """A ClusterNetwork."""
    return {
        "apiVersion": "network.harvesterhci.io/v1beta1",
        "kind": "ClusterNetwork",
        "metadata": {"name": name, "annotations": annotations},
    }


def host_network(
    name: str, cluster_network: str = "cluster-1", vid: int = 2012, mode: str = "dhcp"
) -> dict[str, Any]:
    """Harvester's wish for node addresses on a VLAN."""
    return {
        "apiVersion": "network.harvesterhci.io/v1beta1",
        "kind": "HostNetworkConfig",
        "metadata": {"name": name},
        "spec": {"clusterNetwork": cluster_network, "vlanID": vid, "mode": mode},
    }


def vlan_config(
    name: str, cluster_network: str, *, nics: Iterable[str] = ("eth1",), **spec: Any
) -> dict[str, Any]:
    """A VlanConfig; further fields of the spec by their names on the wire."""
    uplink = {"nics": list(nics), **spec.pop("uplink", {})}
    return {
        "apiVersion": "network.harvesterhci.io/v1beta1",
        "kind": "VlanConfig",
        "metadata": {"name": name},
        "spec": {"clusterNetwork": cluster_network, "uplink": uplink, **spec},
    }


def nad(
    name: str,
    cluster_network: str,
    vid: int = 0,
    *,
    namespace: str = "default",
    mode: str = "",
    addresses: Mapping[str, str] | str | None = None,
    config: Mapping[str, Any] | str | None = None,
    more: Mapping[str, str] | None = None,
    created: str = "2026-01-01T00:00:00Z",
) -> dict[str, Any]:
    """A NAD with the labels that the webhook derives; a `mode` switches node addresses on.

    `addresses` is the map or its text, `config` what spec.config has besides the usual, or all of its text; `more` are
    further annotations.
    """
    annotations = dict(more or {})
    if mode:
        annotations |= {names.L3_CONNECTIVITY: "true", names.MODE: mode}
    if addresses is not None:
        text = addresses if isinstance(addresses, str) else json.dumps(addresses)
        annotations[names.NODE_IP_MAP] = text
    text = config if isinstance(config, str) else _config(name, cluster_network, vid, config)
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {names.CLUSTER_NETWORK_LABEL: cluster_network, **_implied(text)},
            "annotations": annotations,
            "creationTimestamp": created,
        },
        "spec": {"config": text},
    }


def _implied(config: str) -> dict[str, str]:
    try:
        network = parse_config(config)
    except AnnotationError:
        return {}
    if network is None:
        return {}
    labels: dict[str, str] = {names.TYPE_LABEL: network.type}
    return labels | ({names.VLAN_ID_LABEL: str(network.vid)} if network.vid else {})


def _config(name: str, cluster_network: str, vid: int, more: Mapping[str, Any] | None) -> str:
    base: dict[str, Any] = {
        "cniVersion": "0.3.1",
        "name": name,
        "type": "bridge",
        "bridge": names.bridge_name(cluster_network),
        "promiscMode": True,
        "ipam": {},
    }
    if vid:
        base["vlan"] = vid
    return json.dumps(base | dict(more or {}))

"""Clusters for tests of the views and the plan: manifests that a manager has looked at, and reports of their nodes."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.linknames import interface_name
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.features.vlan.views import VlanObjects
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)

NODES = ("node1", "node2", "node3")
STATIC = {name: f"192.168.1.{10 + index}/24" for index, name in enumerate(NODES)}
READY = Condition(type="ready", status="True", reason="UplinkReady")


def ground(*more: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Three nodes and the cluster network cluster-1 on all of them, and further manifests."""
    nodes = [node(name, address=f"10.0.0.{index + 1}") for index, name in enumerate(NODES)]
    return [*nodes, cluster_network("cluster-1"), vlan_config("one", "cluster-1"), *map(dict, more)]


def objects(documents: Iterable[dict[str, Any]], reports: Iterable[ClusterNetworkNode] = ()) -> VlanObjects:
    """A cluster of manifests after a manager has looked at it, with reports."""
    return replace(cluster_of(documents).managed(), statuses=tuple(reports))


def report(
    node: str,
    *interfaces: VlanInterface,
    cluster_network: str = "cluster-1",
    vlan_ids: str = "1,2012",
    conditions: tuple[Condition, ...] = (READY,),
) -> ClusterNetworkNode:
    """What a node says of a cluster network."""
    status = ClusterNetworkNodeStatus(
        cluster_network=cluster_network,
        node=node,
        bridge=f"{cluster_network}-br",
        uplink=f"{cluster_network}-bo",
        mtu=1500,
        vlan_ids=vlan_ids,
        addresses=",".join(item.address for item in interfaces if item.address),
        interfaces=interfaces,
        conditions=conditions,
    )
    labels = {names.CLUSTER_NETWORK_LABEL: cluster_network, names.NODE_LABEL: node}
    return ClusterNetworkNode(
        metadata=ObjectMeta(name=report_name(cluster_network, node), labels=labels), status=status
    )


def interface(node: str, **changes: Any) -> VlanInterface:
    """The sub-interface of VLAN 2012 with its static address, all well."""
    well = VlanInterface(
        vlan_id=2012,
        name=interface_name("cluster-1", 2012),
        network="default/vlan2012",
        mode="static",
        address=STATIC[node],
        state="Ready",
    )
    return replace(well, **changes)


def static_network(**more: Any) -> dict[str, Any]:
    """The NAD of VLAN 2012 with a static address for each node."""
    return nad("vlan2012", "cluster-1", 2012, mode="static", addresses=STATIC, **more)

"""Who may do what: each action with the roles that may, and those that a webhook refuses it.

`docs/security.md` has its table from these cases, and `test_matrix` tries each of them as each role.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource

Raw = dict[str, Any]

HARVESTER = "network.harvesterhci.io"
ROLES: Mapping[str, str] = {
    "viewer": "view",
    "editor": "edit",
    "admin": "admin",
    "nads": "NADs",
    "machines": "NetworkSwaps",
    "networks": "Networks",
    "uplinks": "ClusterNetworks",
    "isolated": "DummyClusterNetworks",
    "agent": "agent",
    "cluster": "cluster-admin",
}
"""Roles with their titles: users and writers of one kind in namespace `tenant-a`, then those of the cluster."""


class Action(NamedTuple):
    """Something that is tried. `allowed` may do it; `refused` have the right, and a webhook refuses it.

    All others have no right. `message` is a part of the refusal; `option` what an administrator restricts or opens it
    with. `patch` is a merge patch of the object at `path`, `body` a new one; without either the object is read. `named`
    is the object of another namespace that the user names.
    """

    path: str
    allowed: str
    refused: str = ""
    body: Raw | None = None
    patch: Raw | None = None
    message: str = ""
    option: str = ""
    named: str = "-"


def path(kind: Resource[Any], namespace: str = "", name: str = "") -> str:
    """The path of a kind's objects, or of one."""
    place = f"namespaces/{namespace}/" if namespace else ""
    return f"/apis/{kind.group}/{kind.version}/{place}{kind.plural}" + (f"/{name}" if name else "")


def nic(*ips: str, network: str = "open", owner: str = "Instance") -> Raw:
    """A new NIC."""
    spec = {"owner": {"kind": owner, "name": "new"}, "network": network, "ips": list(ips)}
    return {"metadata": {"name": "new"}, "spec": spec}


def lan(name: str = "new", **more: Any) -> Raw:
    """A new LAN."""
    spec = {
        "ns": name,
        "bridge": "br0",
        "vxlan": "vx0",
        "vni": 4242,
        "defaultVxlanDev": "eth0",
        "spokes": [f"{name}1"],
        **more,
    }
    return {"metadata": {"name": name}, "spec": spec}


def nad(config: Raw, cluster_network: str = "", **annotations: str) -> Raw:
    """A new NAD."""
    labels = {f"{HARVESTER}/clusternetwork": cluster_network, f"{HARVESTER}/type": "L2VlanNetwork"}
    meta: Raw = {"name": "new"}
    if cluster_network:
        meta["labels"] = labels
    if annotations:
        meta["annotations"] = {
            f"{HARVESTER}/{name.replace('_', '-')}": text for name, text in annotations.items()
        }
    return {
        "metadata": meta,
        "spec": {"config": json.dumps({"cniVersion": "0.3.1", "name": "new", **config})},
    }


def bridge(vlan: int, network: str = "plain") -> Raw:
    """The configuration of a VLAN network."""
    return {"type": "bridge", "bridge": f"{network}-br", "promiscMode": True, "vlan": vlan, "ipam": {}}


def swap(to: str) -> Raw:
    """A move of a machine's NIC."""
    return {
        "metadata": {"name": "new"},
        "spec": {"machine": "vm", "uid": "1", "network": "default", "from": "tenant-a/here", "to": to},
    }


STATUS: Raw = {"status": {"ips": ["10.1.0.66"], "network": "open"}}
EDITORS, ADMINS = "editor admin cluster", "admin cluster"
ADDRESSES = {
    "l3_connectivity": "true",
    "mode": "static",
    "node_ip_map": json.dumps({"node1": "192.168.77.1/24"}),
}
ACTIONS: Mapping[str, Action] = {
    "read NICs of the namespace": Action(path(NICS, "tenant-a"), "viewer editor admin agent cluster"),
    "read NICs of another namespace": Action(path(NICS, "tenant-b"), "agent cluster"),
    "take addresses of a Network": Action(
        path(NICS, "tenant-a"),
        EDITORS,
        "agent",
        nic("pool"),
        message="",
        option="`spec.namespaces`, `spec.quota` of the Network",
    ),
    "take addresses of a Network that does not serve the namespace": Action(
        path(NICS, "tenant-a"),
        "",
        f"{EDITORS} agent",
        nic("pool", network="closed"),
        message="gives no addresses to namespace tenant-a",
        option="`spec.namespaces` of the Network",
    ),
    "take more addresses than the quota": Action(
        path(NICS, "tenant-a"),
        "",
        f"{EDITORS} agent",
        nic("pool", network="small"),
        message="is exceeded",
        option="`spec.quota` of the Network",
    ),
    "take an address that a NIC of another namespace has": Action(
        path(NICS, "tenant-a"),
        "",
        f"{EDITORS} agent",
        nic("10.1.0.20"),
        message="(a NIC of another namespace)",
    ),
    "give a node an address by a NIC": Action(
        path(NICS, "tenant-a"), "", f"{EDITORS} agent", nic("pool4", owner="Node"), message="manager only"
    ),
    "create a NIC of a pod that is not there": Action(
        path(NICS, "tenant-a"), "", f"{EDITORS} agent", nic("pool", owner="Pod"), message="does not exist"
    ),
    "write the status of a NIC": Action(
        path(NICS, "tenant-a", "mine/status"), "", "cluster", patch=STATUS, message="manager only"
    ),
    "create a LAN": Action(
        path(LANS, "tenant-a"),
        ADMINS,
        body=lan(),
        option="`--lan-max-lans`, `--lan-max-spokes` of the manager",
    ),
    "join a LAN to a VLAN": Action(
        path(LANS, "tenant-a"),
        ADMINS,
        body=lan(uplink={"clusterNetwork": "plain", "vlan": 300}),
        option="`lan-uplink-namespaces` of the ClusterNetwork",
    ),
    "join a LAN to a VLAN that is not for the namespace": Action(
        path(LANS, "tenant-a"),
        "",
        ADMINS,
        lan(uplink={"clusterNetwork": "limited", "vlan": 300}),
        message="lan-uplink-namespaces",
        option="`lan-uplink-namespaces` of the ClusterNetwork",
    ),
    "join a LAN to the VLAN of the management network": Action(
        path(LANS, "tenant-a"),
        "",
        ADMINS,
        lan(uplink={"clusterNetwork": "mgmt", "vlan": 2021}),
        message="management",
        option="`management-vlan-namespaces` of ClusterNetwork `mgmt`",
    ),
    "bind a service's UDP port on nodes by a LAN": Action(
        path(LANS, "tenant-a"),
        "",
        ADMINS,
        lan(vxlanPort=53),
        message="vxlanPort",
        option="`--lan-port` of the manager",
    ),
    "send a LAN to the nodes' own groups": Action(
        path(LANS, "tenant-a"),
        "",
        ADMINS,
        lan(replication="multicast", vxlanGrp="224.0.0.1"),
        message="vxlanGrp",
    ),
    "take the VNI of another namespace's LAN": Action(
        path(LANS, "tenant-a"), "", ADMINS, lan(vni=777), message="of another namespace"
    ),
    "join a LAN to a bridge of nodes": Action(
        path(LANS, "tenant-a"),
        "",
        ADMINS,
        lan(spokes=[], hostBridge={"bridge": "plain-br", "owner": "x"}),
        message="hostBridge",
    ),
    "move a LAN in deletion to another VNI": Action(
        path(LANS, "tenant-a", "leaving"), "", ADMINS, patch={"spec": {"vni": 777}}, message="vni"
    ),
    "attach the namespace's machines to a VLAN": Action(
        path(NADS, "tenant-a"),
        "nads cluster",
        body=nad(bridge(300), "plain"),
        option="the right to write NADs",
    ),
    "give nodes addresses on a VLAN": Action(
        path(NADS, "tenant-a"),
        "nads cluster",
        body=nad(bridge(301), "plain", **ADDRESSES),
        option="`node-address-namespaces` of the ClusterNetwork",
    ),
    "give nodes addresses on a VLAN that is not for the namespace": Action(
        path(NADS, "tenant-a"),
        "",
        "nads cluster",
        nad(bridge(302, "limited"), "limited", **ADDRESSES),
        message="node-address-namespaces",
        option="`node-address-namespaces` of the ClusterNetwork",
    ),
    "attach pods to a LAN of another namespace": Action(
        path(NADS, "tenant-a"),
        "",
        "nads cluster",
        nad({"type": "k8slanveth", "veth": "blue1"}),
        message="LAN of another namespace",
        option="`spec.namespaces` of the LAN",
    ),
    "attach pods to an isolated network that is not for the namespace": Action(
        path(NADS, "tenant-a"),
        "",
        "nads cluster",
        nad({"type": "bridge", "bridge": "closed-br"}),
        message="does not admit namespace tenant-a",
        option="`spec.namespaces` of the DummyClusterNetwork",
    ),
    "give an IPAM program a path": Action(
        path(NADS, "tenant-a"),
        "",
        "nads cluster",
        nad({"type": "k8slanveth", "veth": "green1", "ipam": {"type": "host-local", "dataDir": "/etc"}}),
        message="dataDir",
        option="`--ipam-program` of the LAN agent",
    ),
    "move a machine to a NAD of the namespace": Action(
        path(NETWORK_SWAPS, "tenant-a"),
        "editor admin machines cluster",
        body=swap("tenant-a/there"),
    ),
    "move a machine to a NAD of another namespace": Action(
        path(NETWORK_SWAPS, "tenant-a"),
        "",
        "editor admin machines cluster",
        swap("tenant-b/secret"),
        message="isolat",
        named="tenant-b/secret",
        option="`--namespace-isolation`, `--global-namespaces` of the manager",
    ),
    "create a Network of addresses": Action(
        path(NETWORKS),
        "networks cluster",
        body={"metadata": {"name": "new"}},
    ),
    "create a ClusterNetwork": Action(
        path(CLUSTER_NETWORKS),
        "uplinks cluster",
        body={"metadata": {"name": "new"}},
    ),
    "use NICs of nodes by a VlanConfig": Action(
        path(VLAN_CONFIGS),
        "uplinks cluster",
        body={
            "metadata": {"name": "new"},
            "spec": {"clusterNetwork": "plain", "nodeSelector": {"rack": "9"}, "uplink": {"nics": ["eth9"]}},
        },
    ),
    "create an isolated network": Action(
        path(DUMMY_CLUSTER_NETWORKS),
        "isolated cluster",
        body={
            "metadata": {"name": "new"},
            "spec": {"bridgeName": "new-br", "nadName": "n", "nadNamespace": "tenant-b"},
        },
    ),
    "report for the agent's own node": Action(
        path(LAN_NODES),
        "agent cluster",
        body={"metadata": {"name": "node1"}},
    ),
    "report for another node": Action(
        path(LAN_NODES),
        "cluster",
        "agent",
        {"metadata": {"name": "node2"}},
        message="node2",
    ),
}

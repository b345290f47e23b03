"""A small cluster, and for each kind what no user may write of its objects: refused of a living one, so in deletion."""

import json
from typing import Any, NamedTuple

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from lanloom.api.names import NODE_USER_PREFIX
from lanloom.api.resource import Resource
from lanloom.features.lan.rules.spec import default_group
from tests.features.vlan.cluster import nad, vlan_config

Raw = dict[str, Any]
PLACE = "nets"
HELD = "example.com/held"
AGENT = f"{NODE_USER_PREFIX}node1"
BRIDGE = {"name": "iso-br", "alias": "lanloom-dummy 5e1f4a0c-0000-4000-8000-0000000000aa"}
L3 = names.L3_CONNECTIVITY
STATUS = ("clusterNetwork", "vlanConfig", "linkMonitor", "node")
"""What the schema of a VlanStatus requires."""


class Target(NamedTuple):
    """An object whose `edits`, merge patches by what they are about, the webhooks refuse to `user`."""

    resource: Resource[Any]
    name: str
    edits: dict[str, Raw]
    namespace: str = ""
    user: str = "alice"


def lan(name: str, vni: int, *spokes: str) -> Raw:
    """A LAN."""
    spec = {"ns": name, "bridge": "br0", "vxlan": "vx0", "vni": vni, "vxlanGrp": default_group(vni)}
    spec |= {"defaultVxlanDev": "eth0", "spokes": list(spokes)}
    return {"metadata": {"name": name}, "spec": spec}


def isolated(name: str) -> Raw:
    """An isolated network with the bridge `<name>-br` and the NAD nets/<name>."""
    spec = {"bridgeName": f"{name}-br", "nadName": name, "nadNamespace": PLACE}
    return {"metadata": {"name": name}, "spec": spec}


def nic(name: str, *ips: str, network: str = "net1") -> Raw:
    """A NIC of an instance."""
    owner = {"kind": "Instance", "name": "web"}
    return {"metadata": {"name": name}, "spec": {"owner": owner, "network": network, "ips": list(ips)}}


def swap() -> Raw:
    """A move that is never made, as the machine is not there."""
    spec = {"machine": "db", "uid": "u1", "network": "n", "from": f"{PLACE}/one", "to": f"{PLACE}/two"}
    return {"metadata": {"name": "move"}, "spec": spec}


def vlan_nad(name: str) -> Raw:
    """A network on VLAN 2012 of cluster-1, as its author writes it."""
    body = nad(name, "cluster-1", 2012, namespace=PLACE)
    return {"metadata": {"name": name}, "spec": body["spec"]}


def config(**more: Any) -> Raw:
    """A patch of the configuration of that network."""
    usual = {"cniVersion": "0.3.1", "name": "vlan", "type": "bridge", "bridge": "cluster-1-br", "vlan": 2012}
    return {"spec": {"config": json.dumps({**usual, **more})}}


def spec(**fields: Any) -> Raw:
    """A patch of a spec."""
    return {"spec": fields}


def annotation(key: str, text: str, **more: str) -> Raw:
    """A patch of annotations."""
    return {"metadata": {"annotations": {key: text, **more}}}


OBJECTS: tuple[tuple[Resource[Any], str, Raw], ...] = (
    (NODES, "", {"metadata": {"name": "node1"}}),
    (NODES, "", {"metadata": {"name": "node2"}}),
    (CLUSTER_NETWORKS, "", {"metadata": {"name": "cluster-1"}}),
    (CLUSTER_NETWORKS, "", {"metadata": {"name": "loose"}}),
    (CLUSTER_NETWORKS, "", {"metadata": {"name": "bare"}}),
    (VLAN_CONFIGS, "", {key: vlan_config("one", "cluster-1")[key] for key in ("metadata", "spec")}),
    (NADS, PLACE, vlan_nad("vlan")),
    (LANS, PLACE, lan("victim", 777, "secret")),
    (LANS, PLACE, lan("mine", 888, "a", "b")),
    (DUMMY_CLUSTER_NETWORKS, "", isolated("theirs")),
    (DUMMY_CLUSTER_NETWORKS, "", isolated("mine")),
    (NETWORKS, "", {"metadata": {"name": "net1"}, "spec": {"subnets": [{"cidr": "192.0.2.0/24"}]}}),
    (NETWORKS, "", {"metadata": {"name": "net2"}, "spec": {"subnets": [{"cidr": "203.0.113.0/24"}]}}),
    (NICS, PLACE, nic("theirs", "192.0.2.7")),
    (NICS, PLACE, nic("mine", "192.0.2.8")),
    (NETWORK_SWAPS, PLACE, swap()),
    (LAN_NODES, "", {"metadata": {"name": "node2"}}),
    (CLUSTER_NETWORK_NODES, "", {"metadata": {"name": "mgmt-node2"}}),
    (VLAN_STATUSES, "", {"metadata": {"name": "mgmt-node2"}, "status": dict.fromkeys(STATUS, "x")}),
    (VIRTUAL_MACHINES, PLACE, {"metadata": {"name": "db"}, "spec": {"template": {"spec": {}}}}),
    (DUMMY_CLUSTER_NETWORKS, "", isolated("going")),
)
"""What the cluster has; each object is held by a finalizer of another controller."""

POD: Raw = {
    "metadata": {"name": "user", "annotations": {"k8s.v1.cni.cncf.io/networks": f"{PLACE}/going"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
}
"""A user of the isolated network `going`, which therefore stays in deletion and accepts no new users."""

LABELS = {"a label": {"metadata": {"labels": {"a": "b"}}}}

TARGETS = (
    Target(
        LANS,
        "mine",
        {
            "another's VNI": spec(vni=777),
            "a VNI that there is not": spec(vni=1 << 24),
            "ns": spec(ns="victim"),
            "bridge": spec(bridge="br9"),
            "vxlan": spec(vxlan="vx9"),
            "vxlanPort": spec(vxlanPort=4790),
            "vxlanGrp": spec(vxlanGrp="ff15::1"),
            "hostBridge": spec(hostBridge=BRIDGE),
            "another's spoke": spec(spokes=["a", "b", "secret"]),
            "a spoke that is a path": spec(spokes=["a", "b", "../x"]),
        },
        PLACE,
    ),
    Target(
        DUMMY_CLUSTER_NETWORKS,
        "mine",
        {
            "another's bridge": spec(bridgeName="theirs-br"),
            "a bridge that is a path": spec(bridgeName="../x"),
            "no bridge": spec(bridgeName=""),
            "another's NAD": spec(nadName="theirs"),
            "another namespace": spec(nadNamespace="default"),
        },
    ),
    Target(
        NADS,
        "vlan",
        {
            "another cluster network": config(bridge="bare-br"),
            "a cluster network that there is not": config(bridge="absent-br"),
            "a VLAN id that there is not": config(vlan=4095),
            "a VLAN id that is none": config(vlan="x"),
            "no JSON": spec(config="{"),
            "connectivity": annotation(L3, "maybe"),
            "mode without a map": annotation(L3, "true", **{names.MODE: "static"}),
            "a map that is none": annotation(L3, "true", **{names.MODE: "static", names.NODE_IP_MAP: "{"}),
            "a label": {"metadata": {"labels": {names.VLAN_ID_LABEL: "2013"}}},
        },
        PLACE,
    ),
    Target(
        CLUSTER_NETWORKS,
        "loose",
        {
            "an MTU that is none": annotation(names.UPLINK_MTU, "wide"),
            "an MTU that is too large": annotation(names.UPLINK_MTU, "20000"),
            "a policy": annotation(names.ROLLOUT, "{"),
        },
    ),
    Target(
        VLAN_CONFIGS,
        "one",
        {
            "another cluster network": spec(clusterNetwork="bare"),
            "mgmt": spec(clusterNetwork="mgmt"),
            "a cluster network that there is not": spec(clusterNetwork="absent"),
            "a path": spec(uplink={"nics": ["../x"]}),
            "the loopback": spec(uplink={"nics": ["lo"]}),
            "no NIC": spec(uplink={"nics": []}),
            "an MTU": spec(uplink={"linkAttributes": {"mtu": 20000}}),
        },
    ),
    Target(
        NICS,
        "mine",
        {
            "another's address": spec(ips=["192.0.2.7"]),
            "an address outside": spec(ips=["198.51.100.1"]),
            "a MAC address": spec(mac="zz"),
            "another owner": spec(owner={"kind": "VirtualMachine", "name": "other"}),
        },
        PLACE,
    ),
    Target(NICS, "mine", {"of a strange agent": spec(ips=[])}, PLACE, AGENT),
    Target(
        NETWORKS,
        "net2",
        {
            "a subnet that is none": spec(subnets=[{"cidr": "nothing"}]),
            "a gateway outside": spec(subnets=[{"cidr": "192.0.2.0/24", "gateway": "198.51.100.1"}]),
        },
    ),
    Target(NETWORK_SWAPS, "move", {"where to": spec(to=f"{PLACE}/three")}, PLACE),
    Target(LAN_NODES, "node2", LABELS, user=AGENT),
    Target(CLUSTER_NETWORK_NODES, "mgmt-node2", LABELS, user=AGENT),
    Target(VLAN_STATUSES, "mgmt-node2", LABELS, user=AGENT),
    Target(
        VIRTUAL_MACHINES,
        "db",
        {
            "a network that goes": {
                "spec": {
                    "template": {
                        "spec": {"networks": [{"name": "n", "multus": {"networkName": f"{PLACE}/going"}}]}
                    }
                }
            }
        },
        PLACE,
    ),
    Target(
        NADS,
        "k8slan-veth-a",
        {
            "a LAN's configuration": config(),
            "a LAN's mark": annotation(DRAINING, "2026-01-01T00:00:00Z"),
        },
        PLACE,
    ),
    Target(
        NADS,
        "mine",
        {
            "an isolated network's configuration": config(),
            "its label": {"metadata": {"labels": {UID_LABEL: "another"}}},
        },
        PLACE,
    ),
)
"""The order in which they are deleted: what hangs on others goes with them."""

POOL: tuple[Any, ...] = (
    *("", "../x", "lo", "mgmt", "mine", "theirs", "theirs-br", "victim", "secret", "br0", "node"),
    *("192.0.2.7", "198.51.100.0/24", "9999", "ff01::1", "multicast", "{", "[]", "Ü"),
    *(-1, 0, 1, 68, 777, 888, 4789, 4790, 65536, 1 << 24, 1 << 31),
    *([], ["secret"], ["../x"], ["192.0.2.7"], {}, True, None),
    *({"name": "iso-br", "alias": "x"}, {"nics": ["lo"]}, [{"cidr": "10.0.0.0/8"}]),
)
"""Values that a fuzz writes into any field."""

FIELDS: dict[Resource[Any], tuple[str, ...]] = {
    LANS: (
        "ns",
        "bridge",
        "vxlan",
        "vni",
        "vxlanGrp",
        "vxlanPort",
        "defaultVxlanDev",
        "spokes",
        "replication",
        "mtu",
        "maxLearnedMacs",
        "hostBridge",
        "uplink",
        "namespaces",
    ),
    DUMMY_CLUSTER_NETWORKS: ("bridgeName", "nadName", "nadNamespace", "subnet", "gateway", "scope", "mtu"),
    NADS: ("config",),
    VLAN_CONFIGS: ("clusterNetwork", "uplink", "nodeSelector", "description"),
    NICS: ("owner", "network", "ips", "mac", "mode", "vlan", "release", "force"),
    NETWORKS: ("subnets", "name", "uuid", "connections"),
    NETWORK_SWAPS: ("machine", "uid", "network", "from", "to"),
}
"""Fields of specs that a fuzz writes into."""

WRONG: tuple[tuple[Resource[Any], Raw], ...] = (
    (LANS, spec(ns="../x", bridge="lo", vxlan="lo", vni=7, defaultVxlanDev="lo", spokes=["a", "a"])),
    (DUMMY_CLUSTER_NETWORKS, spec(bridgeName="lo", nadName="UP", nadNamespace="nets")),
    (NADS, spec(config="{")),
    (CLUSTER_NETWORKS, {}),
    (VLAN_CONFIGS, spec(clusterNetwork="absent", uplink={"nics": ["lo", "../x"]})),
    (NETWORKS, spec(subnets=[{"cidr": "nothing"}])),
    (NICS, spec(owner={"kind": "Nobody", "name": "x"}, network="net1", ips=["nothing"], mac="zz")),
    (NETWORK_SWAPS, spec(**{"machine": "DB", "uid": "u", "network": "n", "from": "a", "to": "a"})),
)
"""Objects that could be written while no webhook answered."""

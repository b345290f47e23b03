"""Names, labels and annotations that Lanloom shares with Harvester and with its own agents."""

PREFIX = "network.harvesterhci.io/"

# Labels of a NetworkAttachmentDefinition.
CLUSTER_NETWORK_LABEL = PREFIX + "clusternetwork"
TYPE_LABEL = PREFIX + "type"
VLAN_ID_LABEL = PREFIX + "vlan-id"
READY_LABEL = PREFIX + "ready"

# Annotations of a NetworkAttachmentDefinition.
L3_CONNECTIVITY = PREFIX + "l3-connectivity"
MODE = PREFIX + "mode"
IP_POOL = PREFIX + "ip-pool"
NODE_IP_MAP = PREFIX + "node-ip-map"
IPV6_SUBNET = PREFIX + "ipv6-subnet"
GATEWAY = PREFIX + "gateway"
ROUTES = PREFIX + "routes"
DNS = PREFIX + "dns"

# Annotations of a ClusterNetwork.
UPLINK_MTU = PREFIX + "uplink-mtu"
MTU_SOURCE = PREFIX + "mtu-source-vc"
NODE_VLANS = PREFIX + "node-vlans"
ROLLOUT = PREFIX + "rollout"
ROLLOUT_STATE = PREFIX + "rollout-state"
NODE_ADDRESS_NAMESPACES = PREFIX + "node-address-namespaces"
NODE_ROUTING_NAMESPACES = PREFIX + "node-routing-namespaces"
LAN_UPLINK_NAMESPACES = PREFIX + "lan-uplink-namespaces"
MANAGEMENT_VLAN_NAMESPACES = PREFIX + "management-vlan-namespaces"
ADOPT_LINKS = PREFIX + "adopt-links"

# Annotation of a NAD that takes the place of a HostNetworkConfig, or leaves it to one.
HOST_NETWORK = PREFIX + "host-network-config"

# Annotation of a VlanConfig, and of the ClusterNetwork `mgmt`, which has none: a JSON list of node names.
MATCHED_NODES = PREFIX + "matched-nodes"

# Labels of a ClusterNetworkNode and of a VlanStatus, in addition to that of its cluster network.
NODE_LABEL = PREFIX + "node"
VLAN_CONFIG_LABEL = PREFIX + "vlanconfig"

HARVESTER_NAMESPACE = "harvester-system"
"""The namespace of Harvester's own objects, such as the NAD of its storage network."""

EXCLUSIVE_VLAN_LABEL = "storage-network.settings.harvesterhci.io/exclusivevlan"
"""`true` on the NAD of Harvester's storage network whose VLAN no other network may use."""

WITNESS_ROLE = "node-role.harvesterhci.io/witness"

MGMT = "mgmt"
"""The cluster network whose bridge and management VLAN belong to the installer."""

CLUSTER_NETWORK_NAME_MAX = 12
"""Longest name of a ClusterNetwork, so that `<name>-br` and `<name>-bo` are names of links."""

LINK_NAME_MAX = 15
"""Longest name of a link (IFNAMSIZ less the final NUL)."""

LANLOOM_NAMESPACE = "lanloom-system"
"""The namespace of the manager, its Lease and its Secret."""

BRIDGES_NAMESPACE = "lanloom-bridges"
"""The namespace of the pods that keep the bridges of isolated networks."""

HARVESTER_ACCOUNT = "harvester-network-controller"
"""The service account of Harvester's network controller: it is there as long as that controller can write."""

HARVESTER_CONTROLLER = f"system:serviceaccount:{HARVESTER_NAMESPACE}:{HARVESTER_ACCOUNT}"
"""Username with which Harvester's own network controller writes these kinds, where it coexists with Lanloom."""

HARVESTER_WEBHOOK = "harvester-network-webhook"
"""The service account of Harvester's webhook for networks, and the name of its configurations."""

HARVESTER_FINALIZERS = "wrangler.cattle.io/harvester-network-"
"""How the finalizers of Harvester's network controller begin. It puts them on Nodes, too."""

NODE_USER_PREFIX = "system:lanloom:node:"
"""User name of an agent on the embedded server: this prefix and the node's name."""

AGENTS_GROUP = "system:lanloom:agents"
"""The group of every agent on the embedded server."""


BRIDGE_SUFFIX, BOND_SUFFIX = "-br", "-bo"
"""The suffixes of the names of a cluster network's links."""


def bridge_name(cluster_network: str) -> str:
    """Return the bridge of a cluster network on a node."""
    return cluster_network + BRIDGE_SUFFIX


def bond_name(cluster_network: str) -> str:
    """Return the bond of a cluster network on a node."""
    return cluster_network + BOND_SUFFIX


MGMT_BRIDGE, MGMT_BOND = bridge_name(MGMT), bond_name(MGMT)
"""The links of `mgmt`, which the installer makes."""

"""ClusterNetworkNode (network.lanloom.io/v1alpha1): what one node carries of one cluster network.

Written by the node's agent alone. A kind of Lanloom's own, in addition to Harvester's VlanStatus: a cluster that runs
Harvester has that kind already, its schema has no place for these fields, and its objects are written by Harvester's
agents.
"""

from msgspec import Struct

from lanloom.api.meta import Condition, Object
from lanloom.api.resource import AGE, L3_READY_PATH, MESSAGE_PATH, READY_PATH, REASON_PATH, Column, Resource

GROUP = "network.lanloom.io"
VERSION = "v1alpha1"


class DhcpLease(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A DHCP lease. `expiry` is RFC 3339, empty when the server gave none."""

    server: str = ""
    expiry: str = ""


class VlanInterface(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One VLAN sub-interface of a node as its agent sees it.

    `state` is Ready, Pending or Failed; `reason` is a CamelCase word and `message` says what to do. `network` is the
    NAD's `namespace/name`. `mode` is static or dhcp. With `,slaac` after it the node makes an IPv6 address itself, and
    with `,dhcp6` it gets one of a DHCPv6 server. `address` is the CIDR that profile or lease gave, or empty, and
    `address6` that of IPv6. `other_addresses` are CIDRs that other programs put on the sub-interface. `table` is the
    number of the routing table that holds the way over the VLAN's gateway, 0 without one.
    """

    vlan_id: int
    name: str
    network: str = ""
    mode: str = ""
    address: str = ""
    address6: str = ""
    other_addresses: tuple[str, ...] = ()
    state: str = "Pending"
    reason: str = ""
    message: str = ""
    lease: DhcpLease | None = None
    table: int = 0

    @property
    def own_addresses(self) -> str:
        """The addresses of both families, with a comma between them."""
        return ", ".join(address for address in (self.address, self.address6) if address)


class Management(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The node's management network as its agent sees it: VLAN id (0: untagged), link and address as a CIDR.

    `cidr` is of IPv4, empty without one. `subnets6` are those of the link's IPv6 addresses. `other_addresses` are all
    other addresses of the link, of both families, such as a virtual one of the control plane.
    """

    vlan_id: int = 0
    interface: str = ""
    cidr: str = ""
    subnets6: tuple[str, ...] = ()
    other_addresses: tuple[str, ...] = ()


class ClusterNetworkNodeStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the node carries of the cluster network.

    `vlan_ids` are ranges as `bridge vlan` prints them (1,2012-2014); `addresses` are those of all `interfaces`, for a
    column: a list can't be shown in one. `revision` is that of the configuration that the node carries; `uplink_hash`
    is that of the uplink which the agent knows to be wanted, empty where nothing is. `management` is reported of the
    cluster network `mgmt` only. `mode` is `beside` where Harvester's controller makes bridge and uplink, else `alone`.
    """

    cluster_network: str = ""
    node: str = ""
    mode: str = ""
    vlan_config: str = ""
    bridge: str = ""
    uplink: str = ""
    mtu: int = 0
    vlan_ids: str = ""
    addresses: str = ""
    interfaces: tuple[VlanInterface, ...] = ()
    desired_hash: str = ""
    revision: str = ""
    uplink_hash: str = ""
    management: Management | None = None
    conditions: tuple[Condition, ...] = ()


class ClusterNetworkNode(Object, frozen=True, kw_only=True):
    """The report of one node's agent about one cluster network."""

    status: ClusterNetworkNodeStatus = ClusterNetworkNodeStatus()


CLUSTER_NETWORK_NODES = Resource(
    group=GROUP,
    version=VERSION,
    kind="ClusterNetworkNode",
    plural="clusternetworknodes",
    type=ClusterNetworkNode,
    namespaced=False,
    short_names=("cnn",),
    status=True,
    columns=(
        Column("Node", ".status.node"),
        Column("Ready", READY_PATH),
        Column("L3", L3_READY_PATH),
        Column("Reason", REASON_PATH),
        Column("VLANs", ".status.vlanIds"),
        Column("Addresses", ".status.addresses"),
        Column("MTU", ".status.mtu"),
        AGE,
        Column("ClusterNetwork", ".status.clusterNetwork", priority=1),
        Column("VlanConfig", ".status.vlanConfig", priority=1),
        Column("Uplink", ".status.uplink", priority=1),
        Column("Mode", ".status.mode", priority=1),
        Column("Message", MESSAGE_PATH, priority=1),
    ),
)

"""Harvester's network kinds (network.harvesterhci.io/v1beta1), wire-compatible with Harvester's own objects.

VlanStatus carries Harvester's fields and, beside them, what Lanloom's agents observe per VLAN.
"""

from typing import Annotated

from msgspec import Meta, Struct

from lanloom.api.meta import Condition, Object
from lanloom.api.resource import Column, Resource
from lanloom.api.uplinks import BOND_MODES

GROUP = "network.harvesterhci.io"
VERSION = "v1beta1"

Mtu = Annotated[int, Meta(ge=0, le=9000)]

# Bounds for the schema alone, as Harvester's definitions have them: an object that breaks one is still read.
_UNSET = {"default": -1, "minimum": -1}
_MODE = {"default": "active-backup", "enum": list(BOND_MODES)}


class ClusterNetworkStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions `ready` (every live node has its uplink) and `L3Ready` (and all its addresses)."""

    conditions: tuple[Condition, ...] = ()


class ClusterNetwork(Object, frozen=True, kw_only=True):
    """A network of uplinks: one bridge on every node that a VlanConfig of it matches."""

    status: ClusterNetworkStatus = ClusterNetworkStatus()


class LinkAttributes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Attributes of the uplink. `mtu` in bytes, 0 for the default of 1500.

    `txQLen` is in packets; -1, 0 and an empty `hardwareAddr` leave the bond what the kernel gave it.
    """

    mtu: Mtu = 0
    txQLen: Annotated[int, Meta(extra_json_schema=_UNSET)] = -1
    hardwareAddr: str = ""


class BondOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of the bond. `miimon` is in milliseconds; 0 or -1 mean 100."""

    mode: Annotated[str, Meta(extra_json_schema=_MODE)] = "active-backup"
    miimon: Annotated[int, Meta(extra_json_schema=_UNSET)] = -1


class Uplink(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The NICs of a node that carry a cluster network, and how they are bound together."""

    nics: tuple[str, ...] = ()
    linkAttributes: LinkAttributes = LinkAttributes()
    bondOptions: BondOptions = BondOptions()


class VlanConfigSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Which nodes carry a cluster network, and over which uplink. An empty selector matches every node."""

    cluster_network: str = ""
    description: str = ""
    node_selector: dict[str, str] = {}
    uplink: Uplink = Uplink()


class VlanConfig(Object, frozen=True, kw_only=True):
    """The uplink of a cluster network on some nodes."""

    spec: VlanConfigSpec = VlanConfigSpec()


class LocalArea(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A VLAN that the node carries, in Harvester's form."""

    vlanID: int
    cidr: str = ""


class DhcpLease(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A DHCP lease. `expiry` is RFC 3339, empty when the server gave none."""

    server: str = ""
    expiry: str = ""


class VlanInterface(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One VLAN sub-interface of a node as its agent sees it.

    `state` is Ready, Pending or Failed; `reason` is a CamelCase word and `message` says what to do. `network` is the
    NAD's `namespace/name`. `mode` is static or dhcp; `address` is a CIDR or empty. `table` is the number of the routing
    table that holds the way over the VLAN's gateway, 0 without one.
    """

    vlan_id: int
    name: str
    network: str = ""
    mode: str = ""
    address: str = ""
    state: str = "Pending"
    reason: str = ""
    message: str = ""
    lease: DhcpLease | None = None
    table: int = 0


class Management(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The node's management network as its agent sees it: VLAN id (0: untagged), link and address as a CIDR."""

    vlan_id: int = 0
    interface: str = ""
    cidr: str = ""


class VlStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What one node carries of one cluster network.

    `vlan_ids` are ranges as `bridge vlan` prints them (1,2012-2014); `addresses` are those of all `interfaces`, for a
    column: a list can't be shown in one. `revision` is that of the configuration that the
    node carries (see `lanloom.vlan.rules.rollout`); `management` is told of the cluster network `mgmt` only.
    """

    cluster_network: str = ""
    vlan_config: str = ""
    link_monitor: str = ""
    node: str = ""
    local_areas: tuple[LocalArea, ...] = ()
    bridge: str = ""
    uplink: str = ""
    mtu: int = 0
    vlan_ids: str = ""
    addresses: str = ""
    interfaces: tuple[VlanInterface, ...] = ()
    desired_hash: str = ""
    revision: str = ""
    management: Management | None = None
    conditions: tuple[Condition, ...] = ()


class VlanStatus(Object, frozen=True, kw_only=True):
    """The report of one node's agent about one cluster network."""

    status: VlStatus = VlStatus()


_READY = '.status.conditions[?(@.type=="ready")].status'
_L3_READY = '.status.conditions[?(@.type=="L3Ready")].status'
_REASON = '.status.conditions[?(@.status!="True")].reason'
_MESSAGE = '.status.conditions[?(@.status!="True")].message'
"""Of the first condition that is not well: empty where all are."""

_AGE = Column("Age", ".metadata.creationTimestamp", "date")

CLUSTER_NETWORKS = Resource(
    group=GROUP,
    version=VERSION,
    kind="ClusterNetwork",
    plural="clusternetworks",
    type=ClusterNetwork,
    namespaced=False,
    short_names=("cn", "cns"),
    status=True,
    columns=(
        Column("Ready", _READY),
        Column("L3", _L3_READY),
        Column("Reason", _REASON),
        Column("Roll-out", '.status.conditions[?(@.type=="RolledOut")].reason'),
        Column("MTU", r".metadata.annotations.network\.harvesterhci\.io/uplink-mtu"),
        _AGE,
        Column("Message", _MESSAGE, priority=1),
    ),
)
VLAN_CONFIGS = Resource(
    group=GROUP,
    version=VERSION,
    kind="VlanConfig",
    plural="vlanconfigs",
    type=VlanConfig,
    namespaced=False,
    short_names=("vc", "vcs"),
    columns=(
        Column("ClusterNetwork", ".spec.clusterNetwork"),
        Column("NICs", ".spec.uplink.nics"),
        Column("Bond", ".spec.uplink.bondOptions.mode"),
        Column("MTU", ".spec.uplink.linkAttributes.mtu"),
        Column("Nodes", r".metadata.annotations.network\.harvesterhci\.io/matched-nodes"),
        _AGE,
        Column("Description", ".spec.description", priority=1),
    ),
)
VLAN_STATUSES = Resource(
    group=GROUP,
    version=VERSION,
    kind="VlanStatus",
    plural="vlanstatuses",
    type=VlanStatus,
    namespaced=False,
    short_names=("vs", "vss"),
    status=True,
    columns=(
        Column("Node", ".status.node"),
        Column("Ready", _READY),
        Column("L3", _L3_READY),
        Column("Reason", _REASON),
        Column("VLANs", ".status.vlanIds"),
        Column("Addresses", ".status.addresses"),
        Column("MTU", ".status.mtu"),
        _AGE,
        Column("ClusterNetwork", ".status.clusterNetwork", priority=1),
        Column("VlanConfig", ".status.vlanConfig", priority=1),
        Column("Uplink", ".status.uplink", priority=1),
        Column("Message", _MESSAGE, priority=1),
    ),
)

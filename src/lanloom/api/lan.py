"""LAN (lan.k8slan.io/v1beta1) and LANNode (lan.lanloom.io/v1alpha1): virtual LANs across the nodes of a cluster.

LAN is k8slan's kind, wire-compatible: its manifests apply unchanged. Every field that Lanloom adds is optional.
LANNode is Lanloom's own: what one node carries of all LANs, written by that node's agent alone. The other agents
read from it where to send frames for many receivers, the manager what stands in the status of a LAN.

Names that clients rely on (NADs, resources of the device plugin, device ids) are those of k8slan.
"""

from collections.abc import Collection
from typing import Annotated, Literal

from msgspec import Meta, Struct

from lanloom.api.meta import Condition, Object
from lanloom.api.resource import AGE, READY_MESSAGE, Column, Resource
from lanloom.api.resource import READY as READY_COLUMN

GROUP = "lan.k8slan.io"
VERSION = "v1beta1"

NODE_GROUP = "lan.lanloom.io"
NODE_VERSION = "v1alpha1"

RESOURCE_PREFIX = "macvtap.k8slan.io/"
"""Of the device plugin's resources: this and the name of a NAD."""

MACVTAP_NAD, VETH_NAD = "k8slan-mac-", "k8slan-veth-"
"""What the names of a spoke's NADs begin with; the rest is the spoke."""

FINALIZER = f"{NODE_GROUP}/lan"
"""Keeps a LAN until it has no users and no live node carries it."""

UID_LABEL = f"{NODE_GROUP}/lan-uid"
"""On NADs: the uid of the LAN for which they were made; on the Lease of an uplink that of the LAN it is held for."""

VNI_LABEL = f"{NODE_GROUP}/vni"
"""On a Lease of an uplink: VNI and port of the LAN for which it is held, such as 222-4789."""

UPLINK_LEASE = "lan-uplink-"
"""What the names of the Leases of uplinks begin with, all of them in `BRIDGES_NAMESPACE`."""

FORCE_DELETE = "lanloom.io/force-delete"
"""Annotation of a LAN: `true` lets it be deleted although pods or machines use it.

They keep what they have until they end, and can't restart.
"""

DEFAULT_PORT = 4789
"""VXLAN's port (RFC 7348)."""

RESERVED_VNIS = {(4096, DEFAULT_PORT): "Calico", (1, 8472): "flannel"}
"""VNIs, each at a port, of networks of pods that other projects make: no LAN may be one of them."""

VNI_MAX = 0xFFFFFF
SPOKES_MAX = 4095
NAME_MAX = 13
"""Longest name of a spoke, bridge or VXLAN link: two more characters tell the ends of a spoke's links apart."""

EVERY_NAMESPACE = "*"
"""In `spec.namespaces`: every namespace."""

NAMESPACES_MAX = 1000
"""Most entries of `spec.namespaces`."""

SUBNETS_MAX = 8
"""Most entries of `spec.subnets`."""

NAME_ANNOTATION = f"{NODE_GROUP}/lan"
"""On the Network of a LAN's own subnets: the LAN, as `namespace/name`."""

READY, IN_USE, UNDERLAY_READY = "Ready", "InUse", "UnderlayReady"
"""Conditions. `InUse` is there only while users keep a LAN that is being deleted. `UnderlayReady`: every node that
reports has the underlay link that the LAN names for it, also where nothing is attached yet.
"""

Mode = Literal["macvtap", "veth"]
Replication = Literal["head-end", "multicast"]
UnderlayFamily = Literal["", "IPv4", "IPv6"]
AddressKind = Literal["IPv4", "IPv6", "IPv4-link-local", "IPv6-link-local"]

# For the schema alone: an object that breaks a rule is still read. The group has a default, so none is required.
_INT32 = {"format": "int32"}
_REQUIRED = {"required": ["bridge", "ns", "spokes", "vni", "vxlan"]}


def nad_name(spoke: str, mode: Mode) -> str:
    """Return the NAD by which machines (macvtap) or pods (veth) attach to a spoke."""
    return (MACVTAP_NAD if mode == "macvtap" else VETH_NAD) + spoke


def resource_name(spoke: str, mode: Mode) -> str:
    """Return the resource that the device plugin advertises for a spoke, of capacity 1 on each node."""
    return RESOURCE_PREFIX + nad_name(spoke, mode)


def device_id(spoke: str, mode: Mode) -> str:
    """Return the id of the one device of such a resource."""
    return spoke + ("M0" if mode == "macvtap" else "V0")


def admits(own: str, namespaces: Collection[str], namespace: str) -> bool:
    """Return whether a LAN of namespace `own` with these `spec.namespaces` admits pods and machines of `namespace`."""
    return namespace == own or namespace in namespaces or EVERY_NAMESPACE in namespaces


def not_admitted(spoke: str, namespace: str) -> str:
    """Return why users of a namespace can't have a spoke: its LAN, which they may not read, is not for them."""
    return (
        f"the spoke {spoke} is of a LAN of another namespace, which does not admit namespace {namespace}; add "
        f"{namespace} to spec.namespaces of that LAN, or take a spoke of a LAN in namespace {namespace}"
    )


class SpokeOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Options of one spoke. They may change at any time.

    An `isolated` spoke exchanges frames with spokes that are not isolated only, on all nodes. With `port_security` the
    spoke sends only from the MAC address that its interface was given; absent means as the LAN says. `max_learned_macs`
    is how many source MAC addresses the spoke may send from in five minutes, `mtu` in bytes that of its interface; 0
    sets neither. With `binding` bridge its NAD for pods is for machines with KubeVirt's bridge binding: it names no
    resource, so that they need no device.
    """

    isolated: bool = False
    port_security: bool | None = None
    max_learned_macs: Annotated[int, Meta(extra_json_schema=_INT32)] = 0
    mtu: Annotated[int, Meta(extra_json_schema=_INT32)] = 0
    binding: Literal["", "bridge"] = ""


class HostBridge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bridge of the nodes: its name, and its ifalias, which says whose it is."""

    name: str = ""
    alias: str = ""


STORM_DEFAULT = 20_000
"""How many frames for many or unknown receivers pass from a spoke in a second, unless the LAN says otherwise."""


class StormControl(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The storm control of switches: how many broadcast, multicast and unknown unicast frames pass from each spoke in
    a second; 0 for any number.
    """

    packets_per_second: Annotated[int, Meta(extra_json_schema=_INT32)] = STORM_DEFAULT


class VlanUplink(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A VLAN of a cluster network (Harvester's ClusterNetwork), by its id."""

    cluster_network: str = ""
    vlan: Annotated[int, Meta(extra_json_schema=_INT32)] = 0

    @property
    def lease(self) -> str:
        """The Lease of the node that joins a LAN to this VLAN: a DNS label, and unique, as a VLAN id has no hyphen."""
        return f"{UPLINK_LEASE}{self.vlan}-{self.cluster_network}"


class LanSubnet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subnet of a LAN's own: a CIDR, of IPv4 or IPv6, and optionally the address of a gateway on the LAN in it.

    With `dhcp`, pods and machines get their addresses of it by DHCP.
    """

    cidr: str
    gateway: str = ""
    dhcp: bool = False


class LANSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the LAN is made of. Only the spokes, the underlay of single nodes and the options may change later.

    `ns` is the network namespace of the LAN on each node, `bridge` and `vxlan` are links in it. `vni` and `vxlan_port`
    tell LANs apart on the underlay. `default_vxlan_dev` is the underlay link of nodes that `vxlan_dev_map`, by the
    node's name, does not list. `spokes` are the LAN's places: each takes one pod or one machine. With `replication`
    head-end (the default) a frame for many receivers is sent to each node of the LAN; with multicast it is sent
    once, to the group `vxlan_grp`. `underlay_family` is the IP version of the underlay on every node; without it,
    each node uses IPv4 if it has that. `host_bridge`, which only Lanloom's manager writes, is a bridge of the nodes to
    which the LAN is joined on every node that has it; such a LAN may have no spokes. `uplink` is a physical VLAN to
    which one node at a time joins the LAN; it may change at any time. `namespaces` are those, besides the LAN's own,
    whose pods and machines may attach to its spokes, `*` for all. They may change at any time; attached pods and
    machines stay. `subnets` give pods and machines on the LAN addresses, from a Network that the manager creates.

    Options: with `port_security` spokes send only from the MAC address that their interface was given.
    `max_learned_macs` is how many MAC addresses each node learns, 0 for 65,535. `mtu` in bytes is that of the
    interfaces, 0 for the largest that fits on every node. `storm_control` limits frames for many receivers, with 20,000
    in a second where it is absent. `spoke_options` are by the spoke's name.
    """

    ns: str = ""
    bridge: str = ""
    vxlan: str = ""
    vni: Annotated[int, Meta(extra_json_schema=_INT32)] = 0
    vxlan_grp: str = ""
    vxlan_port: Annotated[int, Meta(extra_json_schema=_INT32)] = DEFAULT_PORT
    default_vxlan_dev: str = ""
    vxlan_dev_map: dict[str, str] = {}
    spokes: tuple[str, ...] = ()
    replication: Replication = "head-end"
    underlay_family: UnderlayFamily = ""
    port_security: bool = False
    max_learned_macs: Annotated[int, Meta(extra_json_schema=_INT32)] = 0
    mtu: Annotated[int, Meta(extra_json_schema=_INT32)] = 0
    storm_control: StormControl | None = None
    spoke_options: dict[str, SpokeOptions] = {}
    host_bridge: HostBridge | None = None
    uplink: VlanUplink | None = None
    namespaces: tuple[str, ...] = ()
    subnets: tuple[LanSubnet, ...] = ()

    def underlay(self, node: str) -> str:
        """Return the link of a node that carries the LAN's VXLAN; empty if none is named."""
        return self.vxlan_dev_map.get(node) or self.default_vxlan_dev


class NodeResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the LAN is on one node. `address` is the node's VXLAN endpoint, `mtu` what its underlay allows in bytes.

    `message` says what is missing where `ready` is false, `warning` what is to be looked at although it may be true.
    `uplink` is true on the node that joins the LAN to its VLAN.
    """

    name: str
    ready: bool = False
    address: str = ""
    mtu: int = 0
    message: str = ""
    warning: str = ""
    uplink: bool = False


class LANStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How the LAN is.

    `mtu` is the largest packet in bytes that fits on every node of the LAN, 0 while no node carries it. `nodes` are
    those that carry it; `summary` says how many of them are ready, such as 2/3. `users` are those that keep the LAN
    from being deleted, at most 50 of them. `network` is the Network of the LAN's own subnets.
    """

    observed_generation: int = 0
    mtu: int = 0
    summary: str = ""
    network: str = ""
    nodes: tuple[NodeResult, ...] = ()
    users: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class LAN(Object, frozen=True, kw_only=True):
    """A virtual LAN across the cluster, for pods and machines. They may send with any source MAC address."""

    spec: Annotated[LANSpec, Meta(extra_json_schema=_REQUIRED)] = LANSpec()
    status: LANStatus = LANStatus()

    def admits(self, namespace: str) -> bool:
        """Return whether pods and machines of a namespace may attach to the spokes."""
        return admits(self.metadata.namespace, self.spec.namespaces, namespace)


class Spoke(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A spoke of a LAN that is attached on the node: `macvtap` for a machine, `veth` for a pod.

    `pod` is the pod that has it, as `namespace/name`; empty where that is not known. `mac` is the only address that it
    may send from, with port security; empty without. `storming`: storm control dropped frames from it lately.
    """

    name: str
    mode: Mode
    pod: str = ""
    mac: str = ""
    storming: bool = False


class LANEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One LAN on one node.

    `namespace`, `name` and `uid` are the LAN's. `address` is the node's VXLAN endpoint, an IP address of the underlay
    link `device`; `mtu` in bytes is what that link leaves for the LAN. `message` says what is missing where `ready` is
    false, `warning` what is to be looked at although it may be true. `spokes` are those that are attached on this node.
    `uplink`: the node joins the LAN to its VLAN. `generation` is that of the LAN of which all this is said; 0 of an
    agent that does not report it.
    """

    namespace: str
    name: str
    uid: str
    generation: int = 0
    vni: int = 0
    port: int = DEFAULT_PORT
    address: str = ""
    device: str = ""
    mtu: int = 0
    ready: bool = False
    message: str = ""
    warning: str = ""
    spokes: tuple[Spoke, ...] = ()
    uplink: bool = False


class MultusReport(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Multus' configuration on a node, as far as it is about namespaces.

    `file` is the name of the file that says so; `global_namespaces` has commas between its names, empty for the
    default.
    """

    file: str
    namespace_isolation: bool = False
    global_namespaces: str = ""


class UnderlayLink(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A link of the node that some LAN names as its underlay: MTU in bytes, 0 if it is not there, kinds of addresses,
    and whether it is down, or has no carrier.

    The addresses themselves, which may change often, are in the entries of LANs that the node carries.
    """

    name: str
    mtu: int = 0
    addresses: tuple[AddressKind, ...] = ()
    down: bool = False


class LANNodeStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the node carries: one entry per LAN, by namespace and name.

    `summary` says how many of them are ready, such as 2/3. `multus` is the configuration of Multus on the node, None
    where none was read. `underlays` are the links that any LAN names for this node, by name. `conditions` are the
    manager's, everything else is the agent's.
    """

    summary: str = ""
    lans: tuple[LANEntry, ...] = ()
    multus: MultusReport | None = None
    underlays: tuple[UnderlayLink, ...] = ()
    conditions: tuple[Condition, ...] = ()


class LANNode(Object, frozen=True, kw_only=True):
    """The report of one node's agent about the LANs on it. It is named as the node, which owns it."""

    status: LANNodeStatus = LANNodeStatus()


LANS = Resource(
    group=GROUP,
    version=VERSION,
    kind="LAN",
    plural="lans",
    type=LAN,
    namespaced=True,
    status=True,
    required=("spec",),
    columns=(
        READY_COLUMN,
        Column("VNI", ".spec.vni", "integer"),
        Column("Nodes", ".status.summary"),
        Column("MTU", ".status.mtu", "integer"),
        AGE,
        Column("Namespace-On-Nodes", ".spec.ns", priority=1),
        READY_MESSAGE,
    ),
)
LAN_NODES = Resource(
    group=NODE_GROUP,
    version=NODE_VERSION,
    kind="LANNode",
    plural="lannodes",
    type=LANNode,
    namespaced=False,
    status=True,
    columns=(
        Column("LANs", ".status.summary"),
        AGE,
    ),
)

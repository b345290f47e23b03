"""Harvester's network kinds (network.harvesterhci.io/v1beta1), wire-compatible with Harvester's own objects.

As Harvester defines them, ClusterNetwork and VlanStatus have no status subresource: a status is a field of the object.
The parsers of an uplink's values serve the webhooks, and again the agents, where the values reach the kernel.
"""

import re
from base64 import b64decode, b64encode
from typing import Annotated, Any

from msgspec import Meta, Struct

from lanloom.api.bonds import UNSET, BondOptions
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Condition, Object, unseen
from lanloom.api.resource import AGE, L3_READY_PATH, MESSAGE_PATH, READY_PATH, REASON_PATH, Column, Resource
from lanloom.text import quote

GROUP = "network.harvesterhci.io"
VERSION = "v1beta1"

# For the schema alone, as Harvester's definitions have it: an object that breaks a rule is still read.
_NATURAL = {"minimum": 0}
_BYTES = {"format": "byte"}

DEFAULT_MTU = 1500
MTU_MIN, MTU_MAX = 576, 9000
"""Bytes: what every IPv4 host must take (RFC 791), and what switches commonly take."""

TX_QUEUE_MAX = 1_000_000
"""Longest transmit queue in packets; the kernel takes any 32-bit number, which would be gigabytes of packets."""

_NUMBER = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_BASE64 = re.compile(r"[0-9A-Za-z+/]{8}", re.ASCII)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", re.ASCII)


def parse_mac(field: str, text: str) -> str:
    """Return a NIC's own address in lower case, such as 52:54:00:12:34:56. Group addresses (IEEE 802) are no NIC's.

    The six bytes in base64, as Harvester's clients write them, mean the same.
    """
    if _BASE64.fullmatch(text):
        text = b64decode(text).hex(":")
    if not _MAC.fullmatch(text):
        raise AnnotationError(field, f"is {quote(text)}; it must be a MAC address such as 52:54:00:12:34:56")
    if int(text[:2], 16) & 1 or set(text) <= {"0", ":"}:
        raise AnnotationError(field, f"is {quote(text)}, which can't be the address of a single NIC")
    return text.lower()


def mac_in_base64(field: str, text: str) -> str:
    """Return the same address as its six bytes in base64, the one form that Harvester's clients can read."""
    return b64encode(bytes.fromhex(parse_mac(field, text).replace(":", ""))).decode()


def usable_mtu(value: int) -> int:
    """Return the MTU, or 0, for the default, where no uplink can have it."""
    return value if MTU_MIN <= value <= MTU_MAX else 0


def parse_uplink_mtu(field: str, text: str) -> int:
    """Return the MTU of a cluster network's uplinks in bytes, written as a decimal number; 0 for the default."""
    if text == "0" or (_NUMBER.fullmatch(text) and usable_mtu(int(text))):
        return int(text)
    raise AnnotationError(field, f"is {quote(text)}; it must be 0 or from {MTU_MIN} to {MTU_MAX}")


def parse_tx_queue_length(field: str, value: int) -> int:
    """Parse the length of a transmit queue in packets; 0 for the kernel's own (Harvester also writes -1)."""
    if not -1 <= value <= TX_QUEUE_MAX:
        raise AnnotationError(
            field, f"is {value}; it must be 0, for the default, or from 1 to {TX_QUEUE_MAX} packets"
        )
    return max(value, 0)


_CONFIGURED = {"required": ["clusterNetwork", "uplink"]}
_REPORTED = {"required": ["clusterNetwork", "linkMonitor", "node", "vlanConfig"]}


class ClusterNetworkStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions `ready` (every live node has its uplink), `L3Ready` (and all its addresses), and `Ready` (both)."""

    conditions: tuple[Condition, ...] = ()


class ClusterNetwork(Object, frozen=True, kw_only=True):
    """A network of uplinks: one bridge on every node that a VlanConfig of it matches."""

    # `kubectl wait` ignores case, and finds Harvester's `ready` first.
    status: Annotated[ClusterNetworkStatus, unseen("ready", "Ready")] = ClusterNetworkStatus()


class LinkAttributes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Attributes of the uplink. `mtu` in bytes, 0 for the default of 1500.

    `txQLen` is in packets; -1, 0 and an empty `hardwareAddr` leave the bond what the kernel gave it. `hardwareAddr` is
    a MAC address in base64; one with colons is turned into that by a webhook.
    """

    mtu: Annotated[int, Meta(extra_json_schema=_NATURAL)] = 0
    txQLen: Annotated[int, Meta(extra_json_schema=UNSET)] = -1
    hardwareAddr: Annotated[str, Meta(extra_json_schema=_BYTES)] = ""


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

    spec: Annotated[VlanConfigSpec, Meta(extra_json_schema=_CONFIGURED)] = VlanConfigSpec()


class LocalArea(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A VLAN that the node carries, in Harvester's form."""

    vlanID: int
    cidr: str = ""


class VlanStatusFields(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one node carries of one cluster network, in Harvester's form: an empty field is written all the same."""

    cluster_network: str = ""
    vlan_config: str = ""
    link_monitor: str = ""
    node: str = ""
    local_areas: tuple[LocalArea, ...] = ()
    conditions: tuple[Condition, ...] = ()


class VlanStatus(Object, frozen=True, kw_only=True):
    """One node's report about one cluster network, for Harvester's clients."""

    status: Annotated[VlanStatusFields, Meta(extra_json_schema=_REPORTED)] = VlanStatusFields()


class HostNetworkConfigSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The VLAN of a cluster network on which Harvester gives addresses to nodes: of mode static, `ips` by node.

    `node_selector` is a label selector, and `underlay` says that overlay networks run over these addresses.
    """

    cluster_network: str = ""
    vlanID: int = 0
    mode: str = ""
    ips: dict[str, str] = {}
    node_selector: dict[str, Any] = {}
    underlay: bool = False


class HostNetworkConfig(Object, frozen=True, kw_only=True):
    """Harvester's own answer to node addresses on VLANs: Lanloom gives none where one asks for them."""

    spec: HostNetworkConfigSpec = HostNetworkConfigSpec()


CLUSTER_NETWORKS = Resource(
    group=GROUP,
    version=VERSION,
    kind="ClusterNetwork",
    plural="clusternetworks",
    type=ClusterNetwork,
    namespaced=False,
    short_names=("cn", "cns"),
    columns=(
        Column("Ready", READY_PATH),
        Column("L3", L3_READY_PATH),
        Column("Reason", REASON_PATH),
        Column("Roll-out", '.status.conditions[?(@.type=="RolledOut")].reason'),
        Column("MTU", r".metadata.annotations.network\.harvesterhci\.io/uplink-mtu"),
        AGE,
        Column("Message", MESSAGE_PATH, priority=1),
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
    required=("spec",),
    columns=(
        Column("ClusterNetwork", ".spec.clusterNetwork"),
        Column("NICs", ".spec.uplink.nics"),
        Column("Bond", ".spec.uplink.bondOptions.mode"),
        Column("MTU", ".spec.uplink.linkAttributes.mtu"),
        Column("Nodes", r".metadata.annotations.network\.harvesterhci\.io/matched-nodes"),
        AGE,
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
    required=("status",),
    columns=(
        Column("ClusterNetwork", ".status.clusterNetwork"),
        Column("VlanConfig", ".status.vlanConfig"),
        Column("Node", ".status.node"),
        Column("Ready", READY_PATH),
        AGE,
    ),
)
HOST_NETWORK_CONFIGS = Resource(
    group=GROUP,
    version=VERSION,
    kind="HostNetworkConfig",
    plural="hostnetworkconfigs",
    type=HostNetworkConfig,
    namespaced=False,
    short_names=("hnc", "hncs"),
)
"""Served only where Harvester defines it."""
LINK_MONITORS = Resource(
    group=GROUP,
    version=VERSION,
    kind="LinkMonitor",
    plural="linkmonitors",
    type=Object,
    namespaced=False,
    short_names=("lm", "lms"),
)
"""Harvester's reports about NICs, which Lanloom neither reads nor writes. They have its controller's finalizer."""

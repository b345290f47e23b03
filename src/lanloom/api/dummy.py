"""DummyClusterNetworks (network.harvester.io/v1alpha1): isolated networks, a bridge without an uplink on every node.

Also the marks by which the objects that belong to one are known. What has the label `UID_LABEL` was made for the
DummyClusterNetwork of that uid, and nothing without it is ever changed or deleted. There are no owner references from
these objects: a foreground deletion would take them away first, while the network is in use.
"""

from typing import Literal

from msgspec import Struct

from lanloom.api.lan import UnderlayFamily, admits
from lanloom.api.meta import Condition, Key, Object
from lanloom.api.resource import AGE, READY_MESSAGE, Column, Resource
from lanloom.api.resource import READY as READY_COLUMN

GROUP = "network.harvester.io"
VERSION = "v1alpha1"

Scope = Literal["node", "cluster"]
Gateway = Literal["none", "node"]

Phase = Literal[
    "Ready",
    "InvalidSpec",
    "ErrorEnsuringNAD",
    "ErrorEnsuringLAN",
    "ErrorEnsuringDaemonSet",
    "DeletionBlocked",
    "Terminating",
    "Pending",
    "",
]
"""How far a network is. Pending is one whose bridges are on their way; empty, one that no controller has looked at yet.
"""

FINALIZER = f"{GROUP}/dummy-controller"
"""Keeps a DummyClusterNetwork until it has no users and its bridges are gone."""

MANAGED_BY, MANAGED_BY_CONTROLLER = f"{GROUP}/managed-by", "dummy-controller"
"""The annotation of the object that is made at start, and its value."""

UID_LABEL = f"{GROUP}/dummy-uid"
"""On NADs, DaemonSets, their pods, and whatever else was made for a DummyClusterNetwork: its uid."""

NAME_ANNOTATION = f"{GROUP}/dummy-name"
"""In addition to `UID_LABEL`, for people: the name of the DummyClusterNetwork."""

BRIDGE_LABEL = f"{GROUP}/dummy-bridge"
"""On a DaemonSet's pods: whether they keep the bridge (`present`) or take it away (`absent`)."""

PRESENT, ABSENT = "present", "absent"

DRAINING = f"{GROUP}/draining"
"""Annotation of a NAD: since when (RFC 3339) it accepts no new users, because its network is being deleted."""

ADMITTED = f"{GROUP}/admitted"
"""Annotation of a NAD: requests allowed to refer to it and may not be stored yet (`lanloom.nads.guard`)."""

GUARDED = "lanloom.io/guarded-for"
"""Annotation of another feature's NAD that is guarded as those of isolated networks are: the object that it was made
for, such as `LAN default/blue`.

A webhook records on the NAD each request that it allows to refer to it, before the API server stores the object. The
controller that removes the NAD marks it as draining first, waits for the recorded requests, and looks for users then.
"""

READY, NAD_READY, BRIDGES_READY = "Ready", "NADReady", "BridgesReady"
LAN_READY = "LANReady"
DRIFTED, CONFLICT, IN_USE = "Drifted", "Conflict", "InUse"
"""Conditions. `LANReady` is there with the scope cluster only. The last three are there only while they say something:
what was changed by others and can't be put right while it is used, what is in the way, and who keeps a network that is
being deleted."""


class DummyClusterNetworkSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the network is made of. Only `subnet`, `gateway` and `namespaces` may change later.

    `bridge_name` is the bridge on every node; `nad_name` and `nad_namespace` name the NAD by which machines and pods
    use the network. With `scope` node each node has a network of its own; cluster is one over all nodes: a LAN, which
    the link `underlay` carries between the nodes, with packets of at most `mtu` bytes, 0 for what fits a usual link,
    and by the IP version `underlay_family`, or that of each node.
    With a `subnet` (a CIDR, or one of IPv4 and one of IPv6 with a comma between) those who use it get addresses of it,
    each only once in the cluster; `gateway` node gives every node's bridge the first address of each subnet and hides
    what goes out behind the node's own. `namespaces` are those, besides `nad_namespace`, whose machines and pods may
    use the network; missing, or `*`, for all.
    """

    bridge_name: str = ""
    nad_name: str = ""
    nad_namespace: str = ""
    scope: Scope = "node"
    subnet: str = ""
    gateway: Gateway = "none"
    underlay: str = ""
    underlay_family: UnderlayFamily = ""
    mtu: int = 0
    namespaces: tuple[str, ...] = ()

    def admits(self, namespace: str) -> bool:
        """Return whether machines and pods of a namespace may use the network."""
        return not self.namespaces or admits(self.nad_namespace, self.namespaces, namespace)

    @property
    def nad(self) -> Key:
        """The NAD that the network claims, whatever else stands in its spec."""
        return Key(self.nad_namespace, self.nad_name)


class DummyResource(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An object that was made for the network."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class NodeCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of the `live` nodes, how many have acknowledged: the bridge is there, or is gone where the network goes."""

    live: int = 0
    acknowledged: int = 0


class DummyClusterNetworkStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How the network is. `users` are those that keep it from being deleted, at most 50 of them.

    `bridge_name` is the bridge that was built for it, which stays whatever the spec says since.
    """

    phase: Phase = ""
    message: str = ""
    bridge_name: str = ""
    observed_generation: int = 0
    nodes: NodeCounts | None = None
    users: tuple[str, ...] = ()
    resources: tuple[DummyResource, ...] = ()
    conditions: tuple[Condition, ...] = ()


class DummyClusterNetwork(Object, frozen=True, kw_only=True):
    """An isolated network: a bridge without an uplink on every node, and a NAD for it."""

    spec: DummyClusterNetworkSpec = DummyClusterNetworkSpec()
    status: DummyClusterNetworkStatus = DummyClusterNetworkStatus()

    @property
    def bridge_name(self) -> str:
        """The bridge on the nodes: the one that was built, else that of the spec."""
        return self.status.bridge_name or self.spec.bridge_name


DUMMY_CLUSTER_NETWORKS = Resource(
    group=GROUP,
    version=VERSION,
    kind="DummyClusterNetwork",
    plural="dummyclusternetworks",
    type=DummyClusterNetwork,
    namespaced=False,
    short_names=("dcn",),
    status=True,
    columns=(
        READY_COLUMN,
        Column("Phase", ".status.phase"),
        Column("Bridge", ".spec.bridgeName"),
        Column("NAD-Namespace", ".spec.nadNamespace"),
        Column("NAD", ".spec.nadName"),
        AGE,
        Column("Scope", ".spec.scope", priority=1),
        Column("Subnet", ".spec.subnet", priority=1),
        READY_MESSAGE,
    ),
)

"""Networks and NICs of address management (ipam.lanloom.io/v1alpha1), with their labels and annotations.

Numbers of addresses are decimal text: an IPv6 pool has more of them than fit into 64 bits.
"""

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Annotated

from msgspec import Meta, Struct

from lanloom.api.meta import Condition, Object
from lanloom.api.resource import AGE, READY_MESSAGE, Column, Resource
from lanloom.api.resource import READY as READY_COLUMN

GROUP = "ipam.lanloom.io"
VERSION = "v1alpha1"

FINALIZER = f"{GROUP}/addresses"
"""Keeps a NIC until its owner has ended, so that no address is given to another while it is in use.

It keeps a network as well, until none of its addresses is owned any more and no write of one can be under way.
"""

ALLOCATED = "Allocated"
"""The condition of a NIC: whether it has what its spec asks for. Reasons are those of the errors of the rules."""

READY, NEARLY_FULL, FULL = "Ready", "NearlyFull", "Full"
"""The conditions of a network."""

UNIQUE = "Unique"
"""The condition of NICs and networks with an address that is in use twice; there is none elsewhere.

The other user is another NIC, or another device on a wire of the network."""

NAME_UNIQUE = "NameUnique"
"""The condition of networks whose name or UUID another network has as well; there is none elsewhere."""

PERMITTED = "Permitted"
"""The condition of NICs with addresses of a network that no longer serves their namespace; there is none elsewhere."""

INSTANCE, VIRTUAL_MACHINE, POD, NODE = "Instance", "VirtualMachine", "Pod", "Node"
"""Kinds of owners. An instance is nothing but its NICs; it ends when its last NIC is deleted."""


class PoolSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Addresses that NICs get automatically. `range` is `first-last`, one address, or a CIDR.

    Several pools may share a `name`. A `disabled` pool hands out nothing; what it has given stays given.
    """

    range: str
    name: str = ""
    disabled: bool = False


class SubnetSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A subnet of a network. `external` are ranges that are reserved for something outside, and not given away.

    The network and broadcast addresses and the gateway are reserved of themselves and not listed. With `dhcp`, agents
    answer the DHCP requests of pods and machines for their own addresses of the subnet, for `lease_seconds`, or a day
    for 0. `uuid` is set for a subnet that was brought along from elsewhere; the status has those of all.
    """

    cidr: str
    uuid: str = ""
    name: str = ""
    gateway: str = ""
    dhcp: bool = False
    lease_seconds: Annotated[int, Meta(ge=0)] = 0
    pools: tuple[PoolSpec, ...] = ()
    external: tuple[str, ...] = ()


class ConnectionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How NICs of a node group are connected.

    `mode` is bridged, routed or openvswitch; `vlan` is empty, a VLAN id, or several as Open vSwitch has them: .10 is
    untagged, :20:30 are tagged, .10:20 is both.
    """

    group: str
    mode: str
    link: str
    vlan: str = ""


class NetworkSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A network: subnets with their pools, none for one that is L2 only.

    `name` is what users call it where that is not the object's own name; `uuid` is set for a network that was brought
    along from elsewhere. `mac_prefix` is three octets such as aa:00:00.

    `namespaces` are those whose NICs may take addresses: all if absent or with `*`. `quota` has how many addresses a
    namespace may have, by its name; `*` stands for each namespace that is not named. `force_namespaces` are those whose
    NICs may have `force`: all if absent or with `*`. `sticky_for` says for how long the addresses of a name are kept
    while no object has it, by the kind of owner: {"StatefulSet": "12h"}.
    """

    name: str = ""
    uuid: str = ""
    mac_prefix: str = ""
    tags: tuple[str, ...] = ()
    subnets: tuple[SubnetSpec, ...] = ()
    connections: tuple[ConnectionSpec, ...] = ()
    namespaces: Annotated[tuple[str, ...], Meta(extra_json_schema={"minItems": 1})] = ()
    quota: dict[str, Annotated[int, Meta(ge=0)]] = {}
    force_namespaces: Annotated[tuple[str, ...], Meta(extra_json_schema={"minItems": 1})] = ()
    sticky_for: dict[str, str] = {}


class PoolStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How full a pool is: `size` is the sum of `used`, `reserved` (externally, not used) and `free`.

    A `disabled` pool gives nothing away, however much is free.
    """

    range: str
    name: str = ""
    subnet: str = ""
    size: str = "0"
    used: str = "0"
    reserved: str = "0"
    free: str = "0"
    disabled: bool = False


class Allocator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who gives addresses away. Each new one raises `epoch`; a write of an earlier epoch is refused."""

    holder: str = ""
    epoch: int = 0


class Grant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Addresses that are given to a NIC (`namespace/name`, and its uid) and not yet known to be in its status.

    `version` is the resourceVersion of the NIC on which the write of its status is based; 0 if that is not known. The
    write is refused once the NIC has a later one.
    """

    nic: str
    uid: str
    ips: tuple[str, ...] = ()
    version: int = 0


class OtherUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address that something on the network's wires has, without being one of its NICs.

    `by` says what that is, and `of` names the object that says so, such as `NetworkAttachmentDefinition default/lan`.
    """

    ip: str
    by: str = ""
    of: str = ""


class SubnetStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subnet: its CIDR as it is meant, without host bits, and the UUID that it keeps."""

    cidr: str
    uuid: str
    name: str = ""


class NetworkStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How full a network is, over all of its pools, and who gives its addresses away.

    Conditions: `Ready` (the spec can be used), `NearlyFull` (a pool has given away 80 %), `Full` (a pool has nothing
    left) and, only where they are False, `Unique` (no two NICs have the same address) and `NameUnique` (no
    other network has its name or UUID). `usage` is the share of the
    addresses that can't be given any more, such as 42 %. `cidrs` lists the subnets in one text: a column shows but the
    first item of a list. `in_use` are addresses that others on the network's wires have, at most 1,000 of them, and
    `shared_with` the networks there whose subnets overlap: nothing of both is given away by itself.
    """

    observed_generation: int = 0
    cidrs: str = ""
    size: str = "0"
    used: str = "0"
    reserved: str = "0"
    free: str = "0"
    usage: str = ""
    nics: int = 0
    modified: str = ""
    subnets: tuple[SubnetStatus, ...] = ()
    pools: tuple[PoolStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()
    allocator: Allocator = Allocator()
    grants: tuple[Grant, ...] = ()
    in_use: tuple[OtherUse, ...] = ()
    shared_with: tuple[str, ...] = ()


class Network(Object, frozen=True, kw_only=True):
    """A network whose addresses are managed."""

    spec: NetworkSpec = NetworkSpec()
    status: NetworkStatus = NetworkStatus()

    @property
    def called(self) -> str:
        """What users call it."""
        return self.spec.name or self.metadata.name

    @property
    def pool_ranges(self) -> list[tuple[str, str]]:
        """Name and range of each of its pools."""
        return [(pool.name, pool.range) for subnet in self.spec.subnets for pool in subnet.pools]

    @property
    def uuids(self) -> frozenset[str]:
        """Its UUIDs in lower case: the one that it was brought along with, and that of the object."""
        return frozenset({self.spec.uuid.lower(), self.metadata.uid.lower()} - {""})


_UUID_LENGTH = 36


def network_referred(networks: Sequence[Network], ident: str) -> Network | None:
    """Return the network that an object such as a NAD names, by UUID, object name or name; None if there is none.

    The object name comes before the name, because it never changes: what is on a network stays there when that is
    renamed and another one gets its name.
    """
    by_uuid = (item for item in networks if len(ident) == _UUID_LENGTH and ident.lower() in item.uuids)
    by_object = (item for item in networks if item.metadata.name == ident)
    by_name = (item for item in networks if item.called == ident)
    return next(chain(by_uuid, by_object, by_name), None)


class OwnerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a NIC belongs to. `kind` is Instance, VirtualMachine, Pod or Node; `uid` tells one from a later namesake."""

    kind: str
    name: str
    uid: str = ""


class NicSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A NIC and what it asks for.

    Each of `ips` is an address, or `pool`, `pool4`, `pool6` or the name of a pool, for the lowest free address there.
    An automatic entry keeps the address that it has, unless `release` lists it, and gets none that is listed there.
    `force` allows addresses that are externally reserved, or that others on the network's wires have. `index` orders
    the NICs of an owner; `interface` is the owner's own name for it.
    """

    owner: OwnerSpec
    network: str = ""
    ips: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    force: bool = False
    index: Annotated[int, Meta(ge=0)] = 0
    interface: str = ""
    name: str = ""
    uuid: str = ""
    mac: str = ""
    mode: str = ""
    link: str = ""
    vlan: str = ""


class NicStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The addresses that a NIC owns, in the order of `spec.ips`: the truth from which all reservations follow.

    `network` is the one that they belong to; `address` lists them in one text, for a column. `epoch` is that of the
    allocator who wrote it. The condition `Allocated` says whether the NIC has what its spec asks for; `Unique` is there
    where another NIC has one of the addresses as well, and `Permitted` where the network no longer serves the NIC's
    namespace.
    """

    observed_generation: int = 0
    network: str = ""
    ips: tuple[str, ...] = ()
    address: str = ""
    epoch: int = 0
    conditions: tuple[Condition, ...] = ()


class Nic(Object, frozen=True, kw_only=True):
    """A network interface of an instance, a virtual machine, a pod or a node."""

    spec: NicSpec
    status: NicStatus = NicStatus()

    @property
    def is_sticky(self) -> bool:
        """Whether it belongs to its owner's name, and not to one owner alone."""
        owner = self.spec.owner
        return (
            owner.kind in (POD, VIRTUAL_MACHINE) and not owner.uid and STICKY_FOR in self.metadata.annotations
        )


NETWORKS = Resource(
    group=GROUP,
    version=VERSION,
    kind="Network",
    plural="networks",
    type=Network,
    namespaced=False,
    short_names=("ipnet",),
    status=True,
    columns=(
        Column("Called", ".spec.name"),
        READY_COLUMN,
        Column("Subnets", ".status.cidrs"),
        Column("Size", ".status.size"),
        Column("Used", ".status.used"),
        Column("Reserved", ".status.reserved"),
        Column("Free", ".status.free"),
        Column("Usage", ".status.usage"),
        Column("NICs", ".status.nics", "integer"),
        AGE,
        READY_MESSAGE,
    ),
)
NICS = Resource(
    group=GROUP,
    version=VERSION,
    kind="Nic",
    plural="nics",
    type=Nic,
    namespaced=True,
    short_names=("ipnic",),
    status=True,
    columns=(
        Column("Owner", ".spec.owner.name"),
        Column("Kind", ".spec.owner.kind"),
        Column("Interface", ".spec.interface"),
        Column("Network", ".spec.network"),
        Column("Addresses", ".status.address"),
        READY_COLUMN,
        Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        AGE,
        READY_MESSAGE,
        Column("MAC", ".spec.mac", priority=1),
    ),
)


ADDRESSES = f"{GROUP}/addresses"
"""Annotation of a pod, or of a virtual machine's template: a JSON object, interface or NAD → list as in `spec.ips`."""

STICKY_FOR = f"{GROUP}/sticky-for"
"""Annotation of a pod, or of a template: how long its addresses are kept for its name, such as 12h; 0s for not at all.

Of a NIC: it belongs to the name of its owner, whose uid it does not say, and is kept for so long without one.
"""

HELD_UNTIL = f"{GROUP}/held-until"
"""Annotation of a NIC that belongs to a name which no object has: when it is deleted (RFC 3339)."""

NODE_LABEL = f"{GROUP}/node"
"""Label of a pod's NIC: the node on which the pod is."""

MACHINE_LABEL = f"{GROUP}/virtual-machine"
"""Label of a machine's NIC that an agent made: the name of the machine."""

NETWORK_NAME = f"{GROUP}/cni-network"
"""Annotation of a pod's NIC: the name of the CNI network (of its configuration), by which runtimes collect garbage."""

CONTAINER = f"{GROUP}/cni-container"
"""Annotation of a pod's NIC: the id of the container (sandbox) for which it was made.

Of a machine's NIC that is being deleted: the container that uses it all the same.
"""

NAD = f"{GROUP}/nad"
"""Annotation of a machine's NIC: the NAD (`namespace/name`) of the machine's network for which it was made."""

MOVED_NADS = f"{GROUP}/nads"
"""Annotation in place of NAD, once the NIC has moved: all of its NADs, all of one network, with commas between them.

Managers up to 0.2 release a NIC that is not on its NAD, and keep one without the annotation.
"""

LINK = f"{GROUP}/cni-interface"
"""Annotation of a pod's NIC: the interface's name inside that container."""

_LABEL_MAX = 63


def nads_of(nic: Nic) -> tuple[str, ...]:
    """Return the NADs (`namespace/name`) for which a machine has a NIC; none for a NIC that no agent made."""
    marks = nic.metadata.annotations
    return tuple(filter(None, marks.get(MOVED_NADS, marks.get(NAD, "")).split(",")))


def label_value(name: str) -> str:
    """Return an object's name as the value of a label: cut, with a hash, where it is longer than that may be."""
    if len(name) <= _LABEL_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LABEL_MAX - 9].rstrip('.-')}-{digest}"

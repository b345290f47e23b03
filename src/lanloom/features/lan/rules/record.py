"""What a node carries of a LAN, as its agent records it before it changes the kernel.

The record outlives the API server's absence, the agent's death and a reboot. What makes a link is taken from it and
not from the LAN: a namespace or a bridge keeps the name under which it was made.

So do VNI, port, group and the bridge of the host: the identity of a LAN stays until nothing of it is left on the node.
No webhook lets these fields change. They stay even if they were changed while no webhook answered: a LAN that is
rebuilt under its pods would put them on the LAN of others. Where a LAN is built on no node, it is built as it says.
Underlay, uplink and replication are no part of it: they say how frames of this LAN come to its other nodes, and may
change alive.
"""

from collections.abc import Container, Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import PODS
from lanloom.api.lan import (
    DEFAULT_PORT,
    LAN,
    LANS,
    HostBridge,
    LANNode,
    Mode,
    Replication,
    UnderlayFamily,
    VlanUplink,
    admits,
    device_id,
    not_admitted,
)
from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.features.lan.rules.options import Options, entry_limit, options_of
from lanloom.refusals import title_for
from lanloom.text import listed, quote

ALLOCATION_SECONDS = 600.0
"""How long a device that kubelet allocated is kept ready for a pod that has not come."""

LEAVING_SECONDS = 30.0
"""The same where the LAN is being deleted, or is gone: it waits for its nodes, and ADD builds what a pod needs."""

_IDENTITY = {
    "ns": "ns",
    "bridge": "bridge",
    "vxlan": "vxlan",
    "vni": "vni",
    "vxlanPort": "port",
    "vxlanGrp": "group",
    "hostBridge.name": "host_bridge",
    "hostBridge.alias": "host_alias",
}
"""The fields of a LAN's spec, each with that of the record."""


class SpokeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A spoke in one mode on this node.

    `index` is that of the macvtap, kept for as long as the LAN is carried, because it names the device `/dev/tapN`; 0
    for veth. `allocated` is when kubelet allocated the device (seconds since the epoch), 0 if it did not or a pod came.
    The other fields are those of the attachment; `container` is empty without one. `netns_cookie` is the kernel's
    number of the namespace at `netns`, unique until the node reboots; 0 while it is not known. `addresses` and `routes`
    are what the interface gets whenever it is made; `mtu` in bytes is what it asks for, 0 for that of the LAN.
    `bridged`: a machine behind KubeVirt's bridge uses it. `in_transit`: another feature brings the port of a running
    machine, or takes it away; it is neither made nor deleted meanwhile.
    """

    spoke: str
    mode: Mode
    index: int = 0
    allocated: float = 0.0
    container: str = ""
    netns: str = ""
    netns_cookie: int = 0
    interface: str = ""
    pod: str = ""
    network: str = ""
    mac: str = ""
    mtu: int = 0
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()
    bridged: bool = False
    in_transit: bool = False

    @property
    def id(self) -> str:
        """The device's id, which is the name of the bridge port."""
        return device_id(self.spoke, self.mode)

    @property
    def attached(self) -> bool:
        """Whether a pod has it."""
        return bool(self.container)

    def is_used(self, now: float) -> bool:
        """Return whether the LAN must be there for it."""
        # A clock that was set back must not keep an allocation endlessly.
        return self.attached or (self.allocated > 0 and abs(now - self.allocated) < ALLOCATION_SECONDS)

    def free(self) -> "SpokeRecord":
        """Return the place without its pod."""
        return SpokeRecord(spoke=self.spoke, mode=self.mode, index=self.index, allocated=self.allocated)


class LanRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A LAN on this node: of its spec what links are made of, and the places that were ever used here.

    `device` is the underlay link, `family` the IP version on it, empty for any; `group` the multicast group. `built`
    says that the kernel may have something of it. `options` are those of the LAN and of its spokes, which are applied
    to what is there. `host_bridge` and its ifalias `host_alias` are a bridge of the host that the LAN is joined to,
    empty for none; `uplink` and `uplink_vlan` the cluster network and the VLAN, for the node that joins the LAN to it.
    `was` is the uid of the LAN for which that was made, if it is another one than `uid`. `namespaces` are the others
    whose pods may attach.
    `entry_limit` is how many forwarding entries the VXLAN link has; 0 of one that a version made that set no limit.
    """

    uid: str
    namespace: str
    name: str
    ns: str
    bridge: str
    vxlan: str
    vni: int
    port: int = DEFAULT_PORT
    device: str = ""
    group: str = ""
    replication: Replication = "head-end"
    family: UnderlayFamily = ""
    options: Options = Options()
    places: tuple[SpokeRecord, ...] = ()
    built: bool = False
    host_bridge: str = ""
    host_alias: str = ""
    uplink: str = ""
    uplink_vlan: int = 0
    was: str = ""
    namespaces: tuple[str, ...] = ()
    entry_limit: int = 0

    def admits(self, namespace: str) -> bool:
        """Return whether pods and machines of a namespace may attach to the spokes."""
        return admits(self.namespace, self.namespaces, namespace)

    @property
    def title(self) -> str:
        """The LAN, for messages."""
        return f"LAN {self.namespace}/{self.name}"

    def place(self, device: str) -> SpokeRecord | None:
        """Return the place of a device's id."""
        return next((each for each in self.places if each.id == device), None)

    def used(self, now: float) -> tuple[SpokeRecord, ...]:
        """Return the places for which the LAN must be there."""
        return tuple(each for each in self.places if each.is_used(now))

    def with_place(self, place: SpokeRecord) -> "LanRecord":
        """Return the record with this place in the stead of what it had for the device; ordered."""
        others = [each for each in self.places if each.id != place.id]
        return replace(self, places=tuple(sorted([*others, place], key=lambda each: each.id)))


def record_of(lan: LAN, node: str) -> LanRecord:
    """Return a LAN that this node begins to carry."""
    spec = lan.spec
    return LanRecord(
        uid=lan.metadata.uid,
        namespace=lan.metadata.namespace,
        name=lan.metadata.name,
        ns=spec.ns,
        bridge=spec.bridge,
        vxlan=spec.vxlan,
        vni=spec.vni,
        port=spec.vxlan_port,
        device=spec.underlay(node),
        group=spec.vxlan_grp,
        replication=spec.replication,
        family=spec.underlay_family,
        options=options_of(spec),
        host_bridge=_host(lan).name,
        host_alias=_host(lan).alias,
        uplink=_uplink(lan).cluster_network,
        uplink_vlan=_uplink(lan).vlan,
        namespaces=spec.namespaces,
        entry_limit=entry_limit(options_of(spec), len(spec.spokes)),
    )


def _host(lan: LAN) -> HostBridge:
    """Return the bridge of the host that a LAN is joined to; a LAN that is being deleted leaves it."""
    return HostBridge() if lan.metadata.is_deleting else lan.spec.host_bridge or HostBridge()


def _uplink(lan: LAN) -> VlanUplink:
    return VlanUplink() if lan.metadata.is_deleting else lan.spec.uplink or VlanUplink()


def apart(record: LanRecord) -> LanRecord:
    """Return the record of a LAN that is joined to no bridge of the host."""
    return replace(record, host_bridge="", host_alias="", uplink="", uplink_vlan=0)


def followed(record: LanRecord, lan: LAN, node: str) -> LanRecord:
    """Return the record after a look at its LAN.

    What identifies the LAN stays while anything is built, whatever the LAN says (`rules.identity`): the names of links,
    the VNI with its port and group, and the bridge of the host, which a LAN leaves that is being deleted.
    """
    fresh = record_of(lan, node)
    if not record.built:
        return replace(fresh, places=record.places)
    return replace(
        record,
        device=fresh.device,
        replication=fresh.replication,
        family=fresh.family,
        options=fresh.options,
        host_bridge="" if lan.metadata.is_deleting else record.host_bridge,
        host_alias="" if lan.metadata.is_deleting else record.host_alias,
        uplink=fresh.uplink,
        uplink_vlan=fresh.uplink_vlan,
        namespaces=fresh.namespaces,
        entry_limit=followed_limit(record, lan),
    )


def followed_limit(record: LanRecord, lan: LAN) -> int:
    """Return the limit of a VXLAN link that is there.

    Another one has it made again, so it stays as long as it will do.
    """
    same = record.options.max_learned_macs == lan.spec.max_learned_macs
    fits = not record.entry_limit or record.entry_limit > len(lan.spec.spokes)
    return record.entry_limit if same and fits else entry_limit(options_of(lan.spec), len(lan.spec.spokes))


def continues(record: LanRecord, lan: LAN) -> bool:
    """Return whether a LAN is one of this node, recreated: it has the names of that one's links and its spokes."""
    spec = lan.spec
    attached = {place.spoke for place in record.places if place.attached}
    return (
        record.uid != lan.metadata.uid
        and (record.ns, record.bridge, record.vxlan) == (spec.ns, spec.bridge, spec.vxlan)
        and attached <= set(spec.spokes)
    )


def refused(owner: LAN | LanRecord | None, spoke: str, pod: str) -> str:
    """Return why a pod (`namespace/name`) can't have a spoke of a LAN by the cluster or the record; empty if it can.

    A runtime that is not Kubernetes' names no pod, and is the node's own.
    """
    namespace = pod.partition("/")[0]
    return not_admitted(spoke, namespace) if namespace and owner and not owner.admits(namespace) else ""


def pod_beside(pod: str, reader: str) -> str:
    """Return a pod, for a message to users of the pod `reader`, both as `namespace/name`.

    It is empty for one that is not known.
    """
    (namespace, _, name), mine = pod.partition("/"), reader.partition("/")[0]
    return pod if not mine or mine == namespace else title_for(mine, PODS.kind, namespace, name)


def leaving(record: LanRecord, now: float) -> LanRecord:
    """Return the record of a LAN that is being deleted or gone.

    It lacks devices that wait for a pod for a while already.
    """
    return replace(
        record,
        places=tuple(
            replace(place, allocated=0.0)
            if place.allocated and not place.attached and abs(now - place.allocated) >= LEAVING_SECONDS
            else place
            for place in record.places
        ),
    )


FIRST_INDEX, LAST_INDEX = 1 << 28, (1 << 31) - 2
"""Indices of macvtaps: far above those that the kernel gives, so that no `/dev/tapN` of others is met by chance."""


def choose_index(device: str, *taken: Container[int]) -> int:
    """Return an index for a device that nothing on the node has.

    The search begins at a place that follows from the device, so that a lost record mostly leads to the same index.
    """
    count = LAST_INDEX - FIRST_INDEX + 1
    start = _checksum(device) % count
    for offset in range(count):
        index = FIRST_INDEX + (start + offset) % count
        if not any(index in each for each in taken):
            return index
    raise AssertionError("more indices are taken than there are")


def conflict(candidate: LanRecord, others: Iterable[LanRecord]) -> str:
    """Return why a LAN can't be built next to those that this node carries; empty if it can."""
    for other in others:
        if other.uid == candidate.uid:
            continue
        title = title_for(candidate.namespace, LANS.kind, other.namespace, other.name)
        if other.ns == candidate.ns:
            return (
                f"spec.ns {candidate.ns} is the network namespace of {title} on this node; give each LAN a "
                "name of its own"
            )
        if (other.vni, other.port) == (candidate.vni, candidate.port):
            return (
                f"spec.vni {candidate.vni} on port {candidate.port} is that of {title} on this node; give each "
                "LAN a VNI of its own"
            )
    return ""


def at_port(record: LanRecord, others: Iterable[LanRecord]) -> tuple[LanRecord, ...]:
    """Return the other LANs of the node that are built at the UDP port of a LAN."""
    return tuple(
        each for each in others if each.built and each.port == record.port and each.uid != record.uid
    )


def _checksum(text: str) -> int:
    value = 0
    for byte in text.encode():
        value = (value * 16777619 ^ byte) & 0xFFFFFFFF
    return value


def divergence(record: LanRecord, lan: LAN | None, node: str) -> str:
    """Return how a LAN differs from what this node has built, with the remedy; empty if it doesn't, or is not known."""
    fresh = record_of(lan, node) if lan is not None else record
    wrong = [
        f"spec.{field} is {quote(getattr(fresh, name))}, but it is built here with {quote(getattr(record, name))}"
        for field, name in _IDENTITY.items()
        if record.built and getattr(fresh, name) != getattr(record, name)
    ]
    if not wrong:
        return ""
    return f"{', '.join(wrong)}, which stays until nothing on this node uses the LAN; set it back"


def built_elsewhere(record: LanRecord, node: str, reports: Iterable[LANNode]) -> str:
    """Return why a LAN can't be built on `node`: another one has it under another identity. Empty if none has."""
    others = [
        f"{report.metadata.name} (VNI {entry.vni}, port {entry.port})"
        for report in reports
        for entry in report.status.lans
        if report.metadata.name != node
        and entry.uid == record.uid
        and entry.address
        and (entry.vni, entry.port) != (record.vni, record.port)
    ]
    if not others:
        return ""
    return (
        f"spec.vni is {record.vni} and spec.vxlanPort {record.port}, but it is built otherwise on {listed(others)}; "
        "set them back, or delete the LAN and create another one"
    )

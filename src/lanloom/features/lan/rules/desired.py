"""What a node should have of a LAN: from the record of what it carries, its underlay and its peers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import SPOKES_MAX, Mode
from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.features.lan.rules.flood import (
    DEFAULT_MTU,
    LEAST_MTU,
    Peers,
    family,
    is_link_local,
    largest_mtu,
    mtu_budget,
)
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge
from lanloom.features.lan.rules.observed import HostVxlan, SeenLan, Underlay
from lanloom.features.lan.rules.options import PacketFilter, PortFilter, PortFlags, StormFilter, entry_limit
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord
from lanloom.node.links import Vtep

NO_UNDERLAY = ("no underlay link", "the underlay link")
"""What a node's message begins with where its underlay is wrong; frames within the node pass."""


class DesiredPort(Struct, frozen=True, kw_only=True):
    """A bridge port, and what is at its far end.

    A macvtap has the index `index` and stands on `inner`, the other end of the port. The far end is made in the pod's
    namespace `netns` (a path), under the name `interface` and with the address `mac`, `addresses` and `routes`; what
    the pod does with it later is the pod's business. It is set up again only while it is `fresh`: being attached. One
    that is `bridged` is for a machine behind a bridge of the pod (`rules.binding`). `flags` are those of the bridge
    port; `mtu` in bytes is what the far end asks for, 0 for that of the LAN. One that is `in_transit` may be there or
    not, and is left as it is.
    """

    name: str
    spoke: str
    mode: Mode
    netns: str
    interface: str
    index: int = 0
    mac: str = ""
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()
    fresh: bool = False
    bridged: bool = False
    flags: PortFlags = PortFlags()
    mtu: int = 0
    in_transit: bool = False

    @property
    def inner(self) -> str:
        """The name of the port's other end where that stays in the LAN's namespace."""
        return f"{self.spoke}M1"


class DesiredLan(Struct, frozen=True, kw_only=True):
    """A LAN's part of the kernel as it should be: all of this, or, unless `present`, nothing.

    Without `vtep` it reaches no other node. `mtu` in bytes is that of all links of the LAN. `built`: the kernel may
    have something of it already; an empty namespace of its name is its own only then. `was` is the uid under which it
    was made, if that is another one.

    `isolates`: the VXLAN link must send the marks of frames; `plain`: it must not. `learned_limit` is how many
    MAC addresses the bridge learns, 0 for any number, `entry_limit` how many forwarding entries the VXLAN link has; one
    that is `unlimited` was made by an earlier version, and stays if it is there, as the kernel changes no such limit.
    `static_entries` are endpoints of peers by the MAC addresses of secured spokes there. `host` is a bridge of the host
    to which the LAN is joined.
    """

    uid: str
    ns: str
    bridge: str = ""
    vxlan: str = ""
    vtep: Vtep | None = None
    mtu: int = DEFAULT_MTU
    ports: tuple[DesiredPort, ...] = ()
    flood: frozenset[str] = frozenset()
    present: bool = True
    built: bool = False
    isolates: bool = False
    plain: bool = False
    learned_limit: int = 0
    entry_limit: int = 0
    unlimited: bool = False
    static_entries: Mapping[str, str] = {}
    packet_filter: PacketFilter | None = None
    port_filter: PortFilter | None = None
    storm_filter: StormFilter | None = None
    host: DesiredHostBridge | None = None
    was: str = ""


class Endpoint(Struct, frozen=True):
    """A node's own end of a LAN: the VXLAN, the address to report, the MTU that the underlay allows.

    A `problem` is why there is no end; `dead` why no frame passes it at present. One that is `plain` sends no marks of
    frames, as a VXLAN link of the host does not with which it shares its UDP port.
    """

    vtep: Vtep | None
    address: str = ""
    mtu: int = 0
    problem: str = ""
    dead: str = ""
    plain: bool = False


_CHECK_LINK = "set it up, or check its cables and the switch"


def endpoint(record: LanRecord, underlay: Underlay | None) -> Endpoint:
    """Return the endpoint on an underlay link, or why there can be none."""
    if not record.device:
        return Endpoint(
            None, problem=f"{NO_UNDERLAY[0]}: set spec.defaultVxlanDev, or spec.vxlanDevMap for this node"
        )
    if underlay is None:
        other = (
            "recreate the DummyClusterNetwork with another spec.underlay"
            if record.host_bridge
            else "correct spec.defaultVxlanDev or spec.vxlanDevMap for this node"
        )
        return Endpoint(
            None, problem=f"{NO_UNDERLAY[1]} {record.device} is not there; {other}, or add the link"
        )
    if address := _address(record, underlay):
        multicast = record.replication == "multicast"
        # IPv6 chooses the source for a multicast group itself; a link-local one given to VXLAN would be bound to it.
        local = "" if multicast and is_link_local(address) else address
        group = str(ip_address(record.group)) if multicast else ""
        vtep = Vtep(record.vni, record.port, underlay.index, local, group)
        mtu = largest_mtu(underlay.mtu, family(address))
        if mtu < LEAST_MTU:
            return _too_small(underlay)
        sharing = [
            each for each in underlay.vxlans if each.port == record.port and family(address) in each.versions
        ]
        if problem := _not_shared(record, sharing):
            return Endpoint(None, problem=problem)
        dead = "" if underlay.running else f"the underlay link {underlay.name} has no carrier; {_CHECK_LINK}"
        return Endpoint(vtep, address, mtu, dead=dead, plain=bool(sharing))
    return Endpoint(None, problem=f"{NO_UNDERLAY[1]} {record.device} {_lack(record)}")


def _address(record: LanRecord, underlay: Underlay) -> str:
    """Return the node's endpoint: of the group's IP version with multicast, else of the one that the LAN names.

    It is a link-local one of IPv6 where there is no other.
    Those of IPv4 are for a link that waits for its address, and for services of the node.
    """
    asked = _asked_family(record)
    found = (each for each in underlay.addresses if asked in (0, family(each)))
    if record.replication != "multicast":
        found = (each for each in found if family(each) == 6 or not is_link_local(each))
    return next(found, "")


def _asked_family(record: LanRecord) -> int:
    """Return the IP version that a node's endpoint must have: 4 or 6; 0 for either."""
    if record.replication == "multicast":
        return family(record.group)
    return {"IPv4": 4, "IPv6": 6}.get(record.family, 0)


def _lack(record: LanRecord) -> str:
    """Return what an underlay link has not, with the remedy.

    With IPv6, it has a link-local address as soon as it is up.
    """
    remedy = "set it up with IPv6 enabled, which gives it a link-local one"
    other = "if it became a port of a bond or bridge, name that one as the underlay"
    match _asked_family(record):
        case 0:
            return f"has no IP address, not even a link-local one; give it one, or {remedy}; {other}"
        case 6:
            return f"has no IPv6 address; give it one, or {remedy}; {other}"
        case _:
            return f"has no IPv4 address; give it one; {other}"


def _not_shared(record: LanRecord, sharing: Sequence[HostVxlan]) -> str:
    """Return why a LAN can't have its UDP port, with the remedy; empty if it can.

    A VXLAN link of the host comes first, as the network of all pods may depend on it: which of the two the kernel lets
    have the port would depend on which came first.
    """
    exclusive = [each.name for each in sharing if each.exclusive]
    if not (exclusive or (sharing and record.options.isolates)):
        return ""
    name = min(exclusive or [each.name for each in sharing])
    how = (
        "which it shares with none"
        if exclusive
        else "without the group policy extension, which isolated spokes need"
    )
    return (
        f"{NO_UNDERLAY[1]} {record.device} can't carry it: the VXLAN link {name} of this node has UDP port "
        f"{record.port}, {how}; recreate the LAN with another spec.vxlanPort, or delete that link"
    )


def _too_small(underlay: Underlay) -> Endpoint:
    return Endpoint(
        None,
        problem=f"{NO_UNDERLAY[1]} {underlay.name} has MTU {underlay.mtu}, which is too small for VXLAN; set it to "
        f"that of the link that it stands on: ip link set {underlay.name} mtu MTU",
    )


def desired(
    record: LanRecord,
    own: Endpoint,
    peers: Peers,
    node: str,
    now: float,
    fresh: Collection[str] = (),
    host: DesiredHostBridge | None = None,
    shares_marking: bool = False,
) -> DesiredLan:
    """Return what should be there. Without a place that is used nothing should, unless the LAN is joined to the `host`.

    `fresh` are ports that are being attached. `shares_marking`: another LAN of the node at the UDP port needs marks of
    frames, which all VXLAN links at a port send or none.
    """
    used = record.used(now)
    if not used and host is None:
        return DesiredLan(
            uid=record.uid,
            ns=record.ns,
            bridge=record.bridge,
            vxlan=record.vxlan,
            present=False,
            built=record.built,
            was=record.was,
        )
    options, fits = record.options, mtu_budget(node, own.mtu, peers).mtu
    is_open = options.is_open or bool(record.uplink or record.host_bridge)
    moving = _moving(record, used, peers, node)
    ports = tuple(_port(place, record, node, place.id in fresh, place.id in moving) for place in used)
    return DesiredLan(
        uid=record.uid,
        ns=record.ns,
        bridge=record.bridge,
        vxlan=record.vxlan,
        vtep=own.vtep,
        mtu=min(fits, options.mtu or fits),
        ports=tuple(port for port in ports if port.netns),
        flood=peers.flood if own.vtep and not own.vtep.group else frozenset(),
        built=record.built,
        isolates=(options.isolates or shares_marking) and not own.plain,
        plain=own.plain,
        learned_limit=options.learned_limit,
        entry_limit=record.entry_limit or entry_limit(options, SPOKES_MAX),
        unlimited=not record.entry_limit,
        static_entries=_peers_static_entries(peers, moving) if own.vtep and is_open else {},
        packet_filter=_packet_filter(record, used),
        port_filter=_port_filter(ports, moving, peers, record.vxlan if own.vtep and is_open else ""),
        storm_filter=StormFilter(rate=rate, vxlan=record.vxlan) if (rate := options.storm_rate) else None,
        host=host,
        was=record.was,
    )


def undisturbed(wanted: DesiredLan, seen: SeenLan) -> DesiredLan:
    """Return the same with the peers and the MTU that are there, while the other nodes are not known."""
    vxlan = seen.links.get(wanted.vxlan)
    if vxlan is None:
        return wanted
    group = wanted.vtep.group if wanted.vtep is not None else ""
    static_entries = {mac: entry.peer for mac, entry in seen.static_entries.items() if entry.peer}
    return replace(wanted, flood=seen.flood - {group}, mtu=vxlan.mtu, static_entries=static_entries)


def _moving(record: LanRecord, used: Iterable[SpokeRecord], peers: Peers, node: str) -> dict[str, str]:
    """Return secured ports whose MAC address is at a peer as well, with the address: a machine migrates.

    The address is pinned nowhere then. It is learned from either node, and packet filters check sources: the port of
    the machine sends from no other address, and nothing else on any node from this one.
    """
    found = {place.id: address_of(place, record, node) for place in used if _is_secured(record, place)}
    return {port: mac for port, mac in found.items() if mac in peers.claimed}


def _peers_static_entries(peers: Peers, moving: Mapping[str, str]) -> dict[str, str]:
    own = frozenset(moving.values())
    return {mac: peer for mac, peer in peers.static_entries.items() if mac not in own}


def _is_secured(record: LanRecord, place: SpokeRecord) -> bool:
    return record.options.port(place.spoke).secured


def _packet_filter(record: LanRecord, used: Iterable[SpokeRecord]) -> PacketFilter | None:
    limits = {place.id: limit for place in used if (limit := record.options.port(place.spoke).limit)}
    isolates = record.options.isolates
    if not (limits or isolates):
        return None
    return PacketFilter(isolates=isolates, vxlan=record.vxlan if isolates else "", limits=limits)


def _port_filter(
    ports: Iterable[DesiredPort], moving: Mapping[str, str], peers: Peers, vxlan: str
) -> PortFilter | None:
    """Return what is checked at ports.

    Addresses are guarded where there is a `vxlan`: others may send from any address.
    """
    sources = {port.name: port.mac for port in ports if port.flags.locked or port.name in moving}
    isolated = tuple(port.name for port in ports if port.flags.isolated)
    elsewhere = dict.fromkeys(sorted(peers.claimed - peers.static_entries.keys()), "")
    guarded = elsewhere | {mac: port for port, mac in moving.items()} if vxlan else {}
    if not (sources or isolated or guarded):
        return None
    return PortFilter(
        sources=sources,
        guarded=guarded,
        isolated=isolated,
        vxlan=vxlan if guarded else "",
        needed=bool(moving),
    )


def address_of(place: SpokeRecord, record: LanRecord, node: str) -> str:
    """Return the MAC address that a place's interface is given."""
    return place.mac or hardware_address(record.uid, place.id, "" if place.bridged else node)


def _port(place: SpokeRecord, record: LanRecord, node: str, fresh: bool, moving: bool) -> DesiredPort:
    options = record.options.port(place.spoke)
    mtus = [mtu for mtu in (place.mtu, options.mtu) if mtu]
    return DesiredPort(
        name=place.id,
        spoke=place.spoke,
        mode=place.mode,
        index=place.index,
        netns=place.netns,
        interface=place.interface,
        mac=address_of(place, record, node),
        addresses=place.addresses,
        routes=place.routes,
        fresh=fresh,
        bridged=place.bridged,
        flags=PortFlags(options.secured and not moving, options.isolated),
        mtu=min(mtus, default=0),
        in_transit=place.in_transit,
    )


def hardware_address(uid: str, device: str, node: str) -> str:
    """Return the address of a spoke on a node where the pod asks for none: it stays when the link is made again.

    A machine keeps its address when it migrates, so that of its spoke is the same on every node: `node` is empty.
    """
    digest = bytearray(blake2b(f"{uid}/{device}/{node}".encode(), digest_size=6).digest())
    digest[0] = digest[0] & 0xFC | 0x02
    return digest.hex(":")

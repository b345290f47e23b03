"""What a node should have of a LAN: from the record of what it carries, its underlay and its peers."""

from collections.abc import Collection
from hashlib import blake2b
from ipaddress import ip_address

from msgspec import Struct

from lanloom.api.lan import Mode
from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.features.lan.rules.carried import Carried, Place
from lanloom.features.lan.rules.flood import Peers, family, largest_mtu
from lanloom.features.lan.rules.observed import Underlay, Vtep

DEFAULT_MTU = 1450
"""Of a LAN on a node without an underlay: what fits on the most common one."""


NO_UNDERLAY = ("no underlay link", "the underlay link")
"""What a node's message begins with where its underlay is wrong; frames within the node pass."""


class DesiredPort(Struct, frozen=True, kw_only=True):
    """A bridge port, and what is at its far end.

    A macvtap has the index `index` and stands on `inner`, the other end of the port. With a `netns` (a path) the far
    end belongs there, under the name `interface` and with the address `mac`, `addresses` and `routes` when it is put
    there; what the pod does with it later is the pod's business. It is set up again only while it is `fresh`: being
    attached.
    """

    name: str
    spoke: str
    mode: Mode
    index: int = 0
    netns: str = ""
    interface: str = ""
    mac: str = ""
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()
    fresh: bool = False

    @property
    def inner(self) -> str:
        """The name of the port's other end where that stays in the LAN's namespace."""
        return f"{self.spoke}M1"


class DesiredLan(Struct, frozen=True, kw_only=True):
    """A LAN's part of the kernel as it should be: all of this, or, unless `present`, nothing.

    Without `vtep` it reaches no other node. `mtu` in bytes is that of all links of the LAN. `built`: the kernel may
    have something of it already; an empty namespace of its name is its own only then.
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


class Endpoint(Struct, frozen=True):
    """A node's own end of a LAN: the VXLAN, the address to report, the MTU that the underlay allows."""

    vtep: Vtep | None
    address: str = ""
    mtu: int = 0
    problem: str = ""


def endpoint(record: Carried, underlay: Underlay | None) -> Endpoint:
    """The endpoint on an underlay link, or why there can be none."""
    if not record.device:
        return Endpoint(
            None, problem=f"{NO_UNDERLAY[0]}: set spec.defaultVxlanDev, or spec.vxlanDevMap for this node"
        )
    if underlay is None:
        return Endpoint(
            None,
            problem=f"{NO_UNDERLAY[1]} {record.device} is not there; correct spec.defaultVxlanDev or "
            "spec.vxlanDevMap for this node, or add the link",
        )
    multicast = record.replication == "multicast"
    candidates = [
        address for address in underlay.addresses if multicast or not ip_address(address).is_link_local
    ]
    if multicast:
        candidates = [address for address in candidates if family(address) == family(record.group)]
    if candidates:
        address = candidates[0]
        # IPv6 chooses the source for a multicast group itself; a link-local one given to VXLAN would be bound to it.
        local = "" if ip_address(address).is_link_local else address
        group = str(ip_address(record.group)) if multicast else ""
        vtep = Vtep(record.vni, record.port, underlay.index, local, group)
        return Endpoint(vtep, address, largest_mtu(underlay.mtu, family(address)))
    kind = f"IPv{family(record.group)} address" if multicast else "IP address"
    remedy = "give it one" if multicast else "give it one, or set spec.replication to multicast"
    return Endpoint(None, problem=f"{NO_UNDERLAY[1]} {record.device} has no {kind}; {remedy}")


def desired(
    record: Carried, own: Endpoint, peers: Peers, node: str, now: float, fresh: Collection[str] = ()
) -> DesiredLan:
    """What should be there. Without a place that is used nothing should. `fresh` are ports that are being attached."""
    used = record.used(now)
    if not used:
        return DesiredLan(
            uid=record.uid, ns=record.ns, bridge=record.bridge, vxlan=record.vxlan, present=False
        )
    return DesiredLan(
        uid=record.uid,
        ns=record.ns,
        bridge=record.bridge,
        vxlan=record.vxlan,
        vtep=own.vtep,
        mtu=min([value for value in (own.mtu, peers.mtu) if value], default=DEFAULT_MTU),
        ports=tuple(_port(place, record, node, place.id in fresh) for place in used),
        flood=peers.flood if own.vtep and not own.vtep.group else frozenset(),
        built=record.built,
    )


def _port(place: Place, record: Carried, node: str, fresh: bool) -> DesiredPort:
    return DesiredPort(
        name=place.id,
        spoke=place.spoke,
        mode=place.mode,
        index=place.index,
        netns=place.netns,
        interface=place.interface,
        mac=place.mac or hardware_address(record.uid, place.id, node),
        addresses=place.addresses,
        routes=place.routes,
        fresh=fresh,
    )


def hardware_address(uid: str, device: str, node: str) -> str:
    """The address of a spoke on a node where the pod asks for none: it stays when the link is made anew."""
    digest = bytearray(blake2b(f"{uid}/{device}/{node}".encode(), digest_size=6).digest())
    digest[0] = digest[0] & 0xFC | 0x02
    return digest.hex(":")

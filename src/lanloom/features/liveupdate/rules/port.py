"""A NIC's port on a node: how it is found, where it is, and where it should be.

The port of a NIC is known by the kernel alone: the launcher pod's namespace is the one whose interfaces have the names
and hardware addresses that Multus reported and the pod's own address, the NIC is the port of KubeVirt's bridge there,
and the port is the other end of its veth pair. Names on the host, and what bridges have learned, are never believed: a
program in a pod or a guest can make such.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

from msgspec import Struct

from lanloom.api.kubevirt import bridged_name, guest_bridge
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget
from lanloom.node.links import KernelLink
from lanloom.node.vlanids import VlanEntry

LAN_FORWARDING = 0xFFFD
"""The mask of reserved addresses whose frames pass a port of a LAN, as the LAN's own ports have it."""


class PortConflict(Exception):
    """A port can't be found, or can't be where it should. The message says why and what to do.

    `final` says that another try can't help before a user changes something.
    """

    def __init__(self, message: str, *, final: bool = True) -> None:
        super().__init__(message)
        self.final = final


class PodIdentity(Struct, frozen=True, kw_only=True):
    """By what a launcher pod's namespace is known, and the NIC in it.

    `addresses` are the pod's own; `macs` are the interfaces that Multus reported, with their hardware addresses as far
    as it did. `interface` is the NIC's.
    """

    title: str
    uid: str
    interface: str
    addresses: frozenset[str] = frozenset()
    macs: Mapping[str, str] = {}


class Bridge(Struct, frozen=True, kw_only=True):
    """A bridge, as far as ports go. `default_pvid` is 0 where it gives its ports no id."""

    name: str
    mtu: int
    up: bool = True
    filtering: bool = False
    default_pvid: int = 0


class PortBinding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a port is bound. KubeVirt's binding of a NIC is the other end of the pair.

    `ns` is the path of a LAN's namespace, empty for the node's own.
    `bridge` is empty for a port of none. `entries` are VLAN ids, none on a bridge that does not filter them. `mtu` in
    bytes, 0 for any.
    """

    link: str
    ns: str = ""
    bridge: str = ""
    entries: tuple[VlanEntry, ...] = ()
    hairpin: bool = False
    isolated: bool = False
    group_forwarding: int = 0
    mtu: int = 0
    up: bool = True

    @property
    def title(self) -> str:
        """The place, for messages."""
        vlan = next((f" in VLAN {item.first}" for item in self.entries if item.pvid), "")
        where = f" of the namespace {self.ns}" if self.ns else ""
        return f"the bridge {self.bridge}{where}{vlan}" if self.bridge else f"no bridge{where}"


def is_of_pod(identity: PodIdentity, links: Iterable[KernelLink], addresses: frozenset[str]) -> bool:
    """Return whether a namespace with these links and addresses is the pod's, as far as can be seen from inside."""
    macs = {link.name: link.mac for link in links}
    if identity.interface not in macs or not identity.addresses <= addresses:
        return False
    if not identity.addresses and not any(identity.macs.values()):
        return False
    return all(macs.get(name) == mac for name, mac in identity.macs.items() if mac)


def nic_in(identity: PodIdentity, links: Iterable[KernelLink]) -> KernelLink:
    """Return the end of the NIC's veth pair in the launcher pod. Raises PortConflict."""
    by_name = {link.name: link for link in links}
    name, inside = bridged_name(identity.interface), guest_bridge(identity.interface)
    found, bridge = by_name.get(name), by_name.get(inside)
    title = f"the NIC {identity.interface} of Pod {identity.title}"
    if found is None or bridge is None:
        raise PortConflict(
            f"{title} is not bound to the machine: its namespace lacks {name if found is None else inside}; wait until "
            "KubeVirt has bound it",
            final=False,
        )
    if found.kind != "veth" or bridge.kind != "bridge" or found.master != bridge.index:
        raise PortConflict(
            f"{title}: {name} is no port of {inside} by a veth pair, so its port is unknown; restart it"
        )
    return found


def goal_on(place: BridgeTarget, bridge: Bridge | None, link: str) -> PortBinding:
    """Return how a port belongs onto a bridge of the node. Raises PortConflict."""
    if bridge is None:
        raise PortConflict(
            f"there is no bridge {place.bridge} on this node; add the node to its network", final=False
        )
    if (place.pvid or place.vids) and not bridge.filtering:
        raise PortConflict(
            f"the bridge {place.bridge} does not filter VLANs, so it can't carry VLAN {place.pvid or 'ids'}"
        )
    return PortBinding(
        link=link,
        bridge=place.bridge,
        entries=_entries(place, bridge) if bridge.filtering else (),
        hairpin=place.hairpin,
        isolated=place.isolated,
        mtu=place.mtu or bridge.mtu,
    )


def goal_in(ns: str, bridge: str, link: str, mtu: int) -> PortBinding:
    """Return how a port belongs onto the bridge of a LAN."""
    return PortBinding(link=link, ns=ns, bridge=bridge, group_forwarding=LAN_FORWARDING, mtu=mtu)


def is_bound(binding: PortBinding, goal: PortBinding) -> bool:
    """Return whether a port is where it should be: on that bridge, in these VLANs, with these flags, and up.

    On a LAN the flags are the LAN's, and so is the name.
    """
    if goal.ns:
        return binding.up and (binding.link, binding.ns, binding.bridge) == (goal.link, goal.ns, goal.bridge)
    return binding.up and (
        binding.ns,
        binding.bridge,
        binding.entries,
        binding.hairpin,
        binding.isolated,
    ) == (
        goal.ns,
        goal.bridge,
        goal.entries,
        goal.hairpin,
        goal.isolated,
    )


def host_name(identity: PodIdentity) -> str:
    """Return a name on the node for a port that comes from a LAN: like those of CNI's plugins, the same each time."""
    return f"veth{sha256(f'{identity.uid}/{identity.interface}'.encode()).hexdigest()[:8]}"


def extra_entries(before: Iterable[VlanEntry], wanted: Iterable[VlanEntry]) -> tuple[VlanEntry, ...]:
    """Return the ids that a port has and should not have."""
    kept = _expanded(wanted)
    return _ranges({vid: flags for vid, flags in _expanded(before).items() if vid not in kept})


def keeps_flags(before: Iterable[VlanEntry], wanted: Iterable[VlanEntry]) -> bool:
    """Return whether each id that a port has and keeps has the same flags then.

    Once the others are removed, such a port passes only frames that it passes in its new place, too.
    """
    kept = _expanded(wanted)
    return all(kept.get(vid, flags) == flags for vid, flags in _expanded(before).items())


def normal(entries: Iterable[VlanEntry]) -> tuple[VlanEntry, ...]:
    """Return the same ids in the one form in which two sets of them can be compared."""
    return _ranges(_expanded(entries))


_Flags = tuple[bool, bool]


def _entries(place: BridgeTarget, bridge: Bridge) -> tuple[VlanEntry, ...]:
    """Return the ids as CNI's plugin gives them: the bridge's default, the NAD's own, tagged ones.

    The last one counts.
    """
    found: dict[int, _Flags] = {}
    if bridge.default_pvid and place.default_vid:
        found[bridge.default_pvid] = (not place.pvid, True)
    if place.pvid:
        found[place.pvid] = (True, True)
    for first, last in place.vids:
        found |= dict.fromkeys(range(first, last + 1), (False, False))
    return _ranges(found)


def _expanded(entries: Iterable[VlanEntry]) -> dict[int, _Flags]:
    return {vid: (item.pvid, item.untagged) for item in entries for vid in range(item.first, item.last + 1)}


def _ranges(found: Mapping[int, _Flags]) -> tuple[VlanEntry, ...]:
    ranges: list[VlanEntry] = []
    for vid, (pvid, untagged) in sorted(found.items()):
        last = ranges[-1] if ranges else None
        if (
            last is not None
            and last.last == vid - 1
            and (last.pvid, last.untagged) == (pvid, untagged)
            and not pvid
        ):
            ranges[-1] = VlanEntry(last.first, vid, pvid=pvid, untagged=untagged)
        else:
            ranges.append(VlanEntry(vid, vid, pvid=pvid, untagged=untagged))
    return tuple(ranges)

"""From what the kernel has of a LAN to what it should have: only the difference, in an order that is safe to stop
anywhere.

A pod's interface that the pod sets down stays down. So a port is marked as unfinished until all is done to its far end,
and what an agent left behind at its death is finished. That comes last: a route that IPAM gave may be none that can be.

The namespace is sealed before anything is in it, and has its packet filter before a port needs that. A port is a port
from the moment on that it is there. What is wrong is deleted before it is made again. A link whose far end is lost is
made again as a pair: deleting one end takes the other and what stands on it away, wherever they are.

MAC addresses of secured spokes are pinned where each of them is for good, on this node or at a peer. A pinned address
can't be learned elsewhere, so another sender from it gets none of the frames for it: the bridge keeps the entry, and
the VXLAN link drops frames from it that come from another peer than its own. Addresses at peers are pinned only while
some spoke of the LAN may send from any address.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.flood import change
from lanloom.features.lan.rules.hostbridge import PORT as HOST_PORT
from lanloom.features.lan.rules.hostbridge import JoinHostBridge, MakeHostPort, far_mac
from lanloom.features.lan.rules.lansteps import (
    AddFlood,
    DeleteLanLink,
    IsolateNamespace,
    JoinBridge,
    MakeBridge,
    MakeNamespace,
    MakeVtep,
    RemoveFlood,
    RemoveNamespace,
    RepairBridge,
    SetLanMtu,
    SetLanUp,
)
from lanloom.features.lan.rules.linksteps import FORWARD_ALL, LanStep
from lanloom.features.lan.rules.observed import PodLink, SeenHost, SeenLan, StaticEntry
from lanloom.features.lan.rules.options import UNFLAGGED, PortFlags
from lanloom.features.lan.rules.optionsteps import (
    AddStaticEntry,
    LimitLearned,
    RemoveStaticEntry,
    SetPacketFilter,
    SetPortFilter,
    SetStormFilter,
)
from lanloom.features.lan.rules.portsteps import (
    LimitPodMtu,
    MakePair,
    MakeTap,
    MakeVeth,
    RepairPod,
)
from lanloom.node.links import KernelLink
from lanloom.node.ownership import is_marked_for

_PORT = re.compile(r".+(M[01]|V0)")
"""How the names of ports end, and of what macvtaps stand on. Other links in the namespace are left alone."""


def plan(wanted: DesiredLan, seen: SeenLan) -> tuple[LanStep, ...]:
    """Return the steps, none where all is well. A foreign namespace under the LAN's name is left alone."""
    if seen.foreign:
        return ()
    if not wanted.present:
        if not (seen.exists or seen.bound):
            return ()
        links = tuple(sorted(name for name, link in seen.links.items() if link.kind))
        return (RemoveNamespace(ns=wanted.ns, links=links),)
    steps = tuple(_steps(wanted, seen))
    return (*steps, *static_entry_steps(wanted, seen, steps), *_finish(wanted, seen, steps))


def _steps(wanted: DesiredLan, seen: SeenLan) -> Iterator[LanStep]:
    if not (seen.exists and seen.bound):
        yield MakeNamespace(ns=wanted.ns, uid=wanted.uid, again=wanted.built)
    if seen.exists and not seen.sealed:
        yield IsolateNamespace(ns=wanted.ns)
    keeps_bridge = _is_bridge(wanted, seen)
    if (wanted.packet_filter.digest if wanted.packet_filter else "") != seen.packet_filter:
        yield SetPacketFilter(ns=wanted.ns, packet_filter=wanted.packet_filter)
    yield from _port_filter(wanted, seen)
    yield from _storm_filter(wanted, seen)
    links = dict(seen.links) if keeps_bridge else _without_ports(seen)
    if not keeps_bridge:
        if wanted.bridge in seen.links and seen.links[wanted.bridge].kind == "bridge":
            yield DeleteLanLink(ns=wanted.ns, name=wanted.bridge)
        yield MakeBridge(ns=wanted.ns, uid=wanted.uid, name=wanted.bridge, learned_limit=wanted.learned_limit)
    elif not is_marked_for(links[wanted.bridge].alias, wanted.uid):
        yield MakeBridge(
            ns=wanted.ns,
            uid=wanted.uid,
            name=wanted.bridge,
            learned_limit=wanted.learned_limit,
            was=wanted.was,
        )
    elif not links[wanted.bridge].up:
        yield SetLanUp(ns=wanted.ns, name=wanted.bridge)
    if keeps_bridge and (drift := links[wanted.bridge].drift):
        yield RepairBridge(ns=wanted.ns, bridge=wanted.bridge, settings=tuple(sorted(drift)))
    if keeps_bridge and links[wanted.bridge].learned_limit not in (None, wanted.learned_limit):
        yield LimitLearned(ns=wanted.ns, bridge=wanted.bridge, limit=wanted.learned_limit)
    yield from _orphans(wanted, links)
    bridge = links[wanted.bridge].index if wanted.bridge in links else 0
    yield from _vtep(wanted, seen, links, bridge)
    for port in wanted.ports:
        if port.name not in seen.absent and not port.in_transit:
            make = _tap if port.mode == "macvtap" else _veth
            yield from make(wanted, port, seen, links, bridge)
    yield from _host(wanted, seen.host, links, bridge)


def _port_filter(wanted: DesiredLan, seen: SeenLan) -> Iterator[LanStep]:
    asked = wanted.port_filter
    if (asked.digest if asked else "") == seen.port_filter:
        return
    if asked is None or asked.needed or seen.filters:
        yield SetPortFilter(ns=wanted.ns, port_filter=asked)


def _storm_filter(wanted: DesiredLan, seen: SeenLan) -> Iterator[LanStep]:
    asked = wanted.storm_filter
    if (asked.digest if asked else "") != seen.storm_filter and not (asked and seen.storm_fault):
        yield SetStormFilter(ns=wanted.ns, storm_filter=asked)


def _is_bridge(wanted: DesiredLan, seen: SeenLan) -> bool:
    found = seen.links.get(wanted.bridge)
    whole = found is not None and found.kind == "bridge" and not found.snooping
    return whole and found is not None and is_marked_for(found.alias, wanted.uid, wanted.was)


def _without_ports(seen: SeenLan) -> dict[str, KernelLink]:
    """Return the links once the bridge is made again: none of them is a port of it yet."""
    return {name: link for name, link in seen.links.items() if link.kind != "bridge"}


def _orphans(wanted: DesiredLan, links: dict[str, KernelLink]) -> Iterator[LanStep]:
    kept = {name for port in wanted.ports for name in (port.name, port.inner)}
    for name, link in sorted(links.items()):
        if link.kind == "veth" and _PORT.fullmatch(name) and name not in kept and name in links:
            yield DeleteLanLink(ns=wanted.ns, name=name)
            _forget(name, links)


def _forget(name: str, links: dict[str, KernelLink]) -> None:
    """Take a link and its other end out of the picture."""
    found = links.pop(name)
    if found.nsid is None:
        for other in [each.name for each in links.values() if each.index == found.lower]:
            del links[other]


def _vtep(wanted: DesiredLan, seen: SeenLan, links: dict[str, KernelLink], bridge: int) -> Iterator[LanStep]:
    found = links.get(wanted.vxlan)
    flood = seen.flood
    if found is not None and not _is_vtep(wanted, found):
        yield DeleteLanLink(ns=wanted.ns, name=wanted.vxlan)
        found = None
    if wanted.vtep is None:
        return
    if found is None:
        flood = frozenset()
        yield MakeVtep(
            ns=wanted.ns,
            name=wanted.vxlan,
            bridge=wanted.bridge,
            vtep=wanted.vtep,
            mtu=wanted.mtu,
            marking=wanted.isolates,
            plain=wanted.plain,
            limit=wanted.entry_limit,
        )
    else:
        yield from _kept(wanted, found, bridge)
    difference = change(wanted.flood, flood - {wanted.vtep.group})
    for peer in difference.remove:
        yield RemoveFlood(ns=wanted.ns, vxlan=wanted.vxlan, peer=peer)
    for peer in difference.add:
        yield AddFlood(ns=wanted.ns, vxlan=wanted.vxlan, peer=peer)


def _is_vtep(wanted: DesiredLan, found: KernelLink) -> bool:
    """Return whether a link is the VXLAN link that is wanted, in what the kernel changes of none that is there."""
    same = found.vtep is not None and found.vtep == wanted.vtep
    marks = not found.policy if wanted.plain else found.policy or not wanted.isolates
    limited = found.entry_limit == wanted.entry_limit or (wanted.unlimited and not found.entry_limit)
    return same and marks and limited


def _kept(
    wanted: DesiredLan, found: KernelLink, bridge: int, flags: PortFlags = UNFLAGGED
) -> Iterator[LanStep]:
    """Yield what a port that stays needs."""
    joined = bridge and found.master == bridge and found.group_forwarding == FORWARD_ALL and found.up
    if not joined or not flags.are_set(found) or found.drift:
        yield JoinBridge(ns=wanted.ns, name=found.name, bridge=wanted.bridge, flags=flags)
    if found.mtu != wanted.mtu:
        yield SetLanMtu(ns=wanted.ns, name=found.name, mtu=wanted.mtu)


def _host(wanted: DesiredLan, seen: SeenHost, links: dict[str, KernelLink], bridge: int) -> Iterator[LanStep]:
    near, host, far = links.get(HOST_PORT), wanted.host, seen.port
    if near is not None and (host is None or far is None or far.lower != near.index):
        yield DeleteLanLink(ns=wanted.ns, name=HOST_PORT)
        near = None
    if host is None:
        return
    if near is None or far is None:
        yield MakeHostPort(ns=wanted.ns, uid=wanted.uid, host=host, mtu=wanted.mtu, bridge=wanted.bridge)
        return
    yield from _kept(wanted, near, bridge)
    mtu = host.port_mtu(seen.mtu, wanted.mtu)
    fitting = (seen.bridge, mtu, far_mac(wanted.uid), True, host.vlan)
    if (
        (far.master, far.mtu, far.mac, far.up, far.vlan) != fitting
        or far.drift
        or (host.isolated and seen.accepts_routers)
    ):
        yield JoinHostBridge(ns=wanted.ns, uid=wanted.uid, host=host, mtu=wanted.mtu)


def _tap(
    wanted: DesiredLan, port: DesiredPort, seen: SeenLan, links: dict[str, KernelLink], bridge: int
) -> Iterator[LanStep]:
    outer, inner = links.get(port.name), links.get(port.inner)
    end = seen.ends.get(port.name)
    lost = port.name in seen.ends and end is None
    paired = outer is not None and inner is not None and outer.lower == inner.index and outer.nsid is None
    if outer is None or inner is None or not paired or lost:
        for name in (port.name, port.inner):
            if name in links:
                yield DeleteLanLink(ns=wanted.ns, name=name)
                _forget(name, links)
        yield MakePair(
            ns=wanted.ns,
            port=port.name,
            inner=port.inner,
            bridge=wanted.bridge,
            mac=port.mac,
            mtu=wanted.mtu,
            flags=port.flags,
        )
        yield MakeTap(
            ns=wanted.ns,
            port=port.name,
            inner=port.inner,
            index=port.index,
            netns=port.netns,
            interface=port.interface,
            mtu=wanted.mtu,
            far_mtu=_far_mtu(wanted, port),
        )
        return
    yield from _kept(wanted, outer, bridge, port.flags)
    if inner.mtu != wanted.mtu:
        yield SetLanMtu(ns=wanted.ns, name=inner.name, mtu=wanted.mtu)
    if not inner.up:
        yield SetLanUp(ns=wanted.ns, name=inner.name)
    yield from _limited(wanted, port, end)


def _veth(
    wanted: DesiredLan, port: DesiredPort, seen: SeenLan, links: dict[str, KernelLink], bridge: int
) -> Iterator[LanStep]:
    found, end = links.get(port.name), seen.ends.get(port.name)
    if found is not None and not (port.name in seen.ends and end is None):
        yield from _kept(wanted, found, bridge, port.flags)
        yield from _limited(wanted, port, end)
        return
    if found is not None:
        yield DeleteLanLink(ns=wanted.ns, name=port.name)
    yield MakeVeth(
        ns=wanted.ns,
        port=port.name,
        bridge=wanted.bridge,
        netns=port.netns,
        interface=port.interface,
        mac=port.mac,
        addresses=port.addresses,
        routes=port.routes,
        mtu=wanted.mtu,
        bridged=port.bridged,
        far_mtu=_far_mtu(wanted, port),
        flags=port.flags,
    )


def _far_mtu(wanted: DesiredLan, port: DesiredPort) -> int:
    """Return the MTU of the pod's interface: what it asks for, and not more than the LAN has."""
    return min(wanted.mtu, port.mtu or wanted.mtu)


def _limited(wanted: DesiredLan, port: DesiredPort, end: PodLink | None) -> Iterator[LanStep]:
    if end is not None and end.mtu > (mtu := _far_mtu(wanted, port)):
        yield LimitPodMtu(ns=wanted.ns, port=port.name, netns=port.netns, index=end.index, mtu=mtu)


def _finish(wanted: DesiredLan, seen: SeenLan, before: Sequence[LanStep]) -> Iterator[LanStep]:
    """Yield the steps for interfaces that are there, after those `before`, by which some are made again."""
    made = {step.port for step in before if isinstance(step, MakePair | MakeVeth)}
    for port in wanted.ports:
        near, end = seen.links.get(port.name), seen.ends.get(port.name)
        if near is None or end is None or port.name in made or port.in_transit:
            continue
        lacks = port.fresh and (not end.up or _lacks_addresses(port, end))
        if near.unfinished or lacks:
            veth = port.mode == "veth"
            yield RepairPod(
                ns=wanted.ns,
                port=port.name,
                netns=port.netns,
                interface=port.interface,
                index=end.index,
                addresses=port.addresses if veth else (),
                routes=port.routes if veth else (),
                bridged=port.bridged and veth,
                mtu=wanted.mtu,
            )


def _lacks_addresses(port: DesiredPort, end: PodLink) -> bool:
    if port.mode != "veth" or not port.addresses:
        return False
    return not end.addresses.issuperset(port.addresses) or not end.destinations.issuperset(
        route.dst for route in port.routes
    )


def wanted_static_entries(wanted: DesiredLan, seen: SeenLan) -> dict[str, StaticEntry]:
    """Return where addresses should be pinned; what is on this node comes before what a peer says."""
    peers = wanted.static_entries if wanted.vtep else {}
    found = {mac: StaticEntry(wanted.vxlan, peer) for mac, peer in peers.items()}
    for port in wanted.ports:
        if port.name not in seen.absent and port.flags.locked and port.mac:
            found[port.mac] = StaticEntry(port.name)
    return found


def static_entry_steps(wanted: DesiredLan, seen: SeenLan, before: Sequence[LanStep]) -> Iterator[LanStep]:
    """Yield the steps for addresses, after those `before`, with which the static entries at a link go."""
    asked, there = wanted_static_entries(wanted, seen), _left(wanted, seen.static_entries, before)
    for mac, entry in sorted(there.items()):
        if asked.get(mac) != entry:
            yield RemoveStaticEntry(ns=wanted.ns, mac=mac, entry=entry)
    for mac, entry in sorted(asked.items()):
        if there.get(mac) != entry:
            yield AddStaticEntry(ns=wanted.ns, mac=mac, entry=entry)


def _left(
    wanted: DesiredLan, present: Mapping[str, StaticEntry], before: Sequence[LanStep]
) -> dict[str, StaticEntry]:
    """Return what is pinned once those steps are done.

    An entry at a peer has a part in the bridge and one in the VXLAN link.
    """
    lost = {step.name for step in before if isinstance(step, DeleteLanLink | MakeVtep)}
    lost |= {step.port for step in before if isinstance(step, MakePair | MakeVeth)}
    rebuilt = any(isinstance(step, MakeBridge) for step in before)
    found = {
        mac: StaticEntry(
            "" if rebuilt or entry.port in lost else entry.port,
            "" if wanted.vxlan in lost else entry.peer,
        )
        for mac, entry in present.items()
    }
    return {mac: entry for mac, entry in found.items() if entry != StaticEntry("")}

"""The way of a frame: each hop with what is known of it. Pure: facts in, hops out.

Pod, interface, port and bridge of the sender; on another node VXLAN, underlay and the network between; and all of it
the other way round to the receiver. Instead of a port of a spoke there may be a VLAN, or the bridge of an isolated
network. Later hops are judged although an earlier one stops the frame: the next fault is reported as well. Hops that
depend on a reported fault are unknown.
"""

from collections.abc import Iterator
from functools import partial
from typing import Literal

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.lan import FORCE_DELETE, READY, LANEntry
from lanloom.features.lan.rules.desired import NO_UNDERLAY
from lanloom.features.lan.rules.flood import (
    UNREACHABLE,
    Peers,
    family,
    is_link_local,
    is_silent,
    peers,
    reaches,
)
from lanloom.features.lan.rules.hostbridge import PORT as HOST_PORT
from lanloom.features.lan.rules.options import UNENFORCED, options_of
from lanloom.features.lan.trace import kernels
from lanloom.features.lan.trace.facts import End, Facts, HopFinding, State, combined, ok, stops, unknown
from lanloom.features.lan.trace.guards import guarded
from lanloom.features.lan.trace.uplink import at_bridge, uplink
from lanloom.kube.conditions import find

Kind = Literal[
    "lan", "pod", "interface", "port", "bridge", "vxlan", "underlay", "network", "hostbridge", "uplink"
]

_AGENT = "is the agent of LANs running there? See the Events of the pod: kubectl describe pod"
_PING_EXTRA = 22
"""Bytes that a ping's payload between the nodes is larger than a packet of the LAN, to be as large on the underlay.

A network that drops large packets without a word lets ARP and small pings of the LAN through, and no transfer of data.
"""


class Hop(Struct, frozen=True):
    """A hop: where it is, what it is called there, and what is known. `node` is empty for what is on none."""

    number: int
    node: str
    kind: Kind
    name: str
    state: State
    reason: str


def trace(facts: Facts) -> tuple[Hop, ...]:
    """Return the hops in the order of the frame."""
    return tuple(
        Hop(number, node, kind, name, finding.state, finding.reason)
        for number, (node, kind, name, finding) in enumerate(_way(facts), 1)
    )


def stopped_at(hops: tuple[Hop, ...]) -> Hop | None:
    """Return the hop at which the frame stops; None if nothing is known to stop it."""
    return next((hop for hop in hops if hop.state == "stops"), None)


_Step = tuple[str, Kind, str, HopFinding]


def _way(facts: Facts) -> Iterator[_Step]:
    sender, receiver, lan = facts.sender, facts.receiver, facts.lan
    yield "", "lan", str(lan.metadata.key), _lan(facts)
    yield from _side(facts, sender, sends=True)
    if not sender.is_placed:
        return
    if not _is_beside(facts):
        yield sender.node, "bridge", lan.spec.bridge, _bridge(facts, sender.node)
        if receiver.is_placed and receiver.node != sender.node:
            yield from _between(facts, sender.node, receiver.node)
    yield from reversed(tuple(_side(facts, receiver, sends=False)))


def _is_beside(facts: Facts) -> bool:
    """Return whether both ends are at one bridge of a host, so that the frame does not come into the LAN."""
    ends = (facts.sender, facts.receiver)
    return all(end.at == "bridge" for end in ends) and len({end.node for end in ends}) == 1


def _side(facts: Facts, end: End, *, sends: bool) -> Iterator[_Step]:
    """Yield the hops from a pod to the port of its spoke, or from a VLAN to the LAN."""
    if end.at == "uplink":
        assert facts.lan.spec.uplink is not None
        for kind, name, finding in uplink(facts, end, facts.lan.spec.uplink):
            yield end.node, kind, name, finding
        return
    if end.pod is not None:
        yield end.node, "pod", end.title, _pod(end)
    if end.at == "bridge":
        yield from _at_bridge(facts, end, sends=sends)
        return
    if not end.spoke:
        yield end.node, "interface", "none", stops(end.elsewhere)
        return
    if not end.node:
        if end.pod is None:
            words = f"nothing is attached to the {end.title} on any node; start a pod or machine that uses it"
            yield "", "port", end.port, stops(words)
        return
    size = facts.size if sends else 0  # by the reports all nodes have one MTU: the sender's hop tells of it
    live = facts.kernels.get(end.node)
    seen = kernels.interface(live, end, facts.size) if live is not None else None
    yield (
        end.node,
        "interface",
        end.interface or "in the pod",
        _guest(end, combined(_interface(facts, end, size), seen)),
    )
    seen = kernels.port(live, end, facts.size) if live is not None else None
    found = combined(_port(facts, end), seen)
    yield end.node, "port", end.port, guarded(facts, end, found, sends=sends)


def _at_bridge(facts: Facts, end: End, *, sends: bool) -> Iterator[_Step]:
    """Yield the hops from the interface of a pod to what joins the LAN to the bridge of an isolated network."""
    if not end.node or facts.lan.spec.host_bridge is None:
        return
    size = facts.size if sends else 0
    yield end.node, "interface", end.interface or "in the pod", _interface(facts, end, size)
    there, finding = at_bridge(facts, end)
    if sends or not _is_beside(facts):
        yield end.node, "hostbridge", facts.lan.spec.host_bridge.name, there
    if not _is_beside(facts):
        yield end.node, "port", HOST_PORT, finding


def _between(facts: Facts, here: str, there: str) -> Iterator[_Step]:
    """Yield the hops from one node's bridge to the other's."""
    own, peer = facts.entry(here), facts.entry(there)
    spec = facts.lan.spec
    away = partial(_live, facts)
    yield here, "vxlan", spec.vxlan, combined(_sending(facts, here, there), away(here, peer, sends=True))
    for node, entry in ((here, own), (there, peer)):
        if node == there:
            yield "", "network", f"{here} - {there}", _network(facts, own, peer)
        name = entry.device if entry is not None else ""
        seen = kernels.underlay(kernel, entry) if (kernel := facts.kernels.get(node)) and entry else None
        yield node, "underlay", name or spec.underlay(node), combined(_underlay(entry), seen)
    yield there, "vxlan", spec.vxlan, combined(_receiving(peer), away(there, own, sends=False))
    yield there, "bridge", spec.bridge, _bridge(facts, there)


def _live(facts: Facts, node: str, peer: LANEntry | None, *, sends: bool) -> HopFinding | None:
    kernel = facts.kernels.get(node)
    if kernel is None or peer is None:
        return None
    return kernels.vxlan(kernel, peer, facts.size, sends=sends)


def _lan(facts: Facts) -> HopFinding:
    lan = facts.lan
    ready = find(lan.status.conditions, READY)
    if lan.metadata.is_deleting:
        if lan.metadata.annotations.get(FORCE_DELETE) == "true":
            return ok("being deleted by force: what is attached stays until it ends, and can't restart")
        return ok("being deleted: pods that are attached keep it, and no new one is accepted")
    if ready is None:
        return unknown("no manager has looked at it yet; is one running?")
    if ready.status != "True" and ready.reason in ("Conflict", "InvalidSpec"):
        if facts.entry(facts.sender.node) is None:
            return stops(f"{ready.reason}: {ready.message}")
        return unknown(f"{ready.reason}: {ready.message}")
    return ok("ready" if ready.status == "True" else f"{ready.reason}; see the hops below")


def _pod(end: End) -> HopFinding:
    assert end.pod is not None
    pod, hint = end.pod, f"kubectl describe pod -n {end.pod.metadata.namespace} {end.pod.metadata.name}"
    if not end.node:
        return stops(f"no node was chosen for it yet; see why: {hint}")
    if pod.has_ended:
        return stops(f"it has ended ({pod.status.phase}); start another one")
    if pod.status.phase != "Running":
        waiting = [item.state.waiting for item in pod.status.container_statuses]
        reasons = ", ".join(item.reason for item in waiting if item is not None and item.reason)
        words = f"{pod.status.phase or 'Pending'}, not Running" + (f" ({reasons})" if reasons else "")
        return stops(f"it is {words}; see why: {hint}")
    return ok("running, and being deleted" if pod.metadata.is_deleting else "running")


def _guest(end: End, found: HopFinding) -> HopFinding:
    """Return what a guest does with its NIC is in the guest alone."""
    if end.mode != "macvtap" or found.state == "stops":
        return found
    return unknown(
        f"{found.reason}. The NIC inside the machine can't be seen from here; look there, e.g. with `ip link`"
    )


def _interface(facts: Facts, end: End, size: int) -> HopFinding:
    mtu = _mtu(facts, end)
    if mtu and size > mtu:
        return stops(
            f"the LAN has MTU {mtu} on {end.node}, and a packet of {size} bytes does not fit; send smaller ones, or "
            "raise the MTU of the underlay on every node"
        )
    if end.pod is None:
        return unknown("not looked at: name the pod instead of the spoke")
    if not end.interface or not end.mac:
        return unknown("Multus reports no interface in the pod's annotation network-status")
    return ok(f"attached with {end.mac}, as Multus reports" + (f"; MTU of the LAN {mtu}" if mtu else ""))


def _port(facts: Facts, end: End) -> HopFinding:
    entry = facts.entry(end.node)
    if entry is None:
        there = _attached_at(facts, end)
        also = f" (it is attached on {there})" if there else ""
        closed = "; the LAN is being deleted and accepts no new users" if _is_closed(facts) else ""
        return stops(f"{end.node} does not carry the LAN{also}{closed}; {_AGENT}")
    modes = [each.mode for each in entry.spokes if each.name == end.spoke]
    if end.mode not in modes:
        there = f"it is attached on {found}" if (found := _attached_at(facts, end)) else ""
        other = f"it is attached as {modes[0]}" if modes else there
        closed = "the LAN is being deleted and accepts no new users" if _is_closed(facts) else ""
        more = "".join(f"; {words}" for words in (other, closed) if words)
        return stops(
            f"the spoke {end.spoke} is not attached as {end.mode} on {end.node}{more}; see the Events of the pod: "
            "kubectl describe pod"
        )
    node = facts.nodes.get(end.node)
    if node is None or not _is_ready(node):
        words = "is gone" if node is None else "is not Ready"
        return unknown(f"attached, as {end.node} reported last; the node {words}")
    return ok(f"attached, as {end.node} reports")


def _is_closed(facts: Facts) -> bool:
    return facts.lan.metadata.is_deleting


def _attached_at(facts: Facts, end: End) -> str:
    found = (
        name
        for name in sorted(facts.reports)
        if name != end.node and (entry := facts.entry(name)) is not None
        if any(each.name == end.spoke for each in entry.spokes)
    )
    return next(found, "")


def _bridge(facts: Facts, node: str) -> HopFinding:
    live = facts.kernels.get(node)
    return combined(_reported_bridge(facts, node), kernels.bridge(live) if live is not None else None)


def _reported_bridge(facts: Facts, node: str) -> HopFinding:
    entry = facts.entry(node)
    if entry is None:
        return unknown(f"{node} does not carry the LAN")
    if entry.ready:
        return ok(f"ready, as {node} reports")
    if entry.message.startswith((UNREACHABLE, UNENFORCED, *NO_UNDERLAY)):
        return ok(f"there, as {node} reports; not ready for other nodes")
    return stops(f"{node} reports: {entry.message or 'not ready'}; see the log of its agent of LANs")


def _peers(facts: Facts, node: str, entry: LANEntry) -> Peers:
    """Return what the agent of the node makes of the reports of the others."""
    uid = facts.lan.metadata.uid
    multicast = facts.lan.spec.replication == "multicast"
    return peers(uid, entry.vni, entry.port, node, entry.address, facts.live_reports, multicast=multicast)


def _mtu(facts: Facts, end: End) -> int:
    """Return the MTU that an interface of the spoke has on its node; 0 if it is not known."""
    entry = facts.entry(end.node)
    if entry is None:
        return 0
    asked = options_of(facts.lan.spec).port(end.spoke).mtu
    found = (entry.mtu, _peers(facts, end.node, entry).mtu, asked)
    return min((mtu for mtu in found if mtu), default=0)


def _sending(facts: Facts, here: str, there: str) -> HopFinding:
    own, peer = facts.entry(here), facts.entry(there)
    if own is None:
        return unknown(f"{here} does not carry the LAN")
    if not own.address:
        return _no_endpoint(here, own)
    if peer is None:
        return stops(f"{there} does not carry the LAN, so {here} sends nothing there; {_AGENT}")
    if fault := _peer_fault(facts, own, peer, there):
        return stops(fault)
    group = facts.lan.spec.vxlan_grp
    if facts.lan.spec.replication == "multicast":
        return ok(f"sends frames for many receivers to the group {group}, as {here} should")
    node, report = facts.nodes.get(there), facts.reports.get(there)
    if node is None or (report is not None and is_silent(report)):
        words = "is gone" if node is None else "has not been Ready for five minutes"
        return stops(f"the node {there} {words}, so no frames are sent there; repair the node")
    count = len(_peers(facts, here, own).flood)
    which = "its only peer" if count == 1 else f"one of {count} peers"
    return ok(f"sends to {peer.address}, {which}, by the reports")


def _peer_fault(facts: Facts, own: LANEntry, peer: LANEntry, there: str) -> str:
    """Return why the agent leaves a peer out; empty if it does not."""
    if not peer.address:
        return ""  # reported at the peer's own VXLAN
    if (own.vni, own.port) != (peer.vni, peer.port):
        return (
            f"{there} has VNI {peer.vni} and port {peer.port} instead of {own.vni} and {own.port}; delete its pods of "
            "this LAN, so that its agent builds the LAN again"
        )
    if family(own.address) != family(peer.address):
        return (
            f"{there} has the endpoint {peer.address} and this node {own.address}: all nodes of a LAN need addresses "
            "of one IP version; give both underlay links addresses of the same one"
        )
    if not reaches(own.address, peer.address, multicast=facts.lan.spec.replication == "multicast"):
        return (
            f"{there} has the endpoint {peer.address} and this node {own.address}: one of them is known on its link "
            "only; give both underlay links addresses, or none but link-local ones"
        )
    if own.address == peer.address:
        return f"{there} has the same endpoint {own.address}; give each underlay link an address of its own"
    return ""


def _no_endpoint(node: str, entry: LANEntry) -> HopFinding:
    if entry.message and not entry.message.startswith((UNREACHABLE, UNENFORCED, *NO_UNDERLAY)):
        return unknown(f"{node} reports no endpoint; see its bridge")
    return stops(f"{node} has no VXLAN endpoint: {entry.message or 'see the log of its agent of LANs'}")


def _receiving(entry: LANEntry | None) -> HopFinding:
    if entry is None:
        return unknown("the node does not carry the LAN")
    if not entry.address:
        return _no_endpoint("the node", entry)
    return ok(f"receives at {entry.address}, VNI {entry.vni}, port {entry.port}, as the node reports")


def _underlay(entry: LANEntry | None) -> HopFinding:
    if entry is None or not entry.address:
        return unknown("the node reports no endpoint")
    mtu = f"; room for packets of {entry.mtu} bytes" if entry.mtu else ""
    return ok(f"has {entry.address}, as the node reports{mtu}")


def _network(facts: Facts, own: LANEntry | None, peer: LANEntry | None) -> HopFinding:
    if own is None or peer is None or not own.address or not peer.address:
        return unknown("not looked at: an endpoint is missing")
    if family(own.address) != family(peer.address):
        return unknown("not looked at: the endpoints have addresses of two IP versions")
    size = facts.size or min((mtu for mtu in (own.mtu, peer.mtu) if mtu), default=0)
    target = f"{peer.address}%{own.device}" if is_link_local(peer.address) else peer.address
    text = f"can't be seen from here; on {facts.sender.node}: ping {target}"
    if size:
        text += (
            f", and ping -M do -s {size + _PING_EXTRA} {target}; if only the latter fails, lower the MTU of the LAN, "
            "or raise that of the network"
        )
    text += f"; UDP port {own.port} must pass"
    if facts.lan.spec.replication == "multicast":
        text += f". The network must carry multicast to {facts.lan.spec.vxlan_grp}"
    return unknown(text)


def _is_ready(node: Node) -> bool:
    return all(item.status == "True" for item in node.status.conditions if item.type == READY)

"""Peers of a LAN: where frames for many receivers are sent, and the MTU that fits on all nodes.

A node is a peer of a LAN while it lists the LAN in its LANNode and is live. A node that is silent for a while stays a
peer: its kernel forwards frames without kubelet and agent, and pods on it may be well.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import NamedTuple

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.lan import LANEntry, LANNode, Replication
from lanloom.api.meta import Condition
from lanloom.kube.conditions import Finding, find, with_finding

SILENCE_SECONDS = 300.0
"""How long a node may be not ready until frames are no longer sent to it."""

OVERHEAD = {4: 50, 6: 70}
"""Bytes that VXLAN adds to a frame, by the version of IP: Ethernet, IP, UDP and VXLAN headers."""

DEFAULT_MTU = 1450
"""Of a LAN on a node without an underlay: what fits on the most common one."""

LEAST_MTU = 68
"""The smallest MTU of a link."""


def family(address: str) -> int:
    """Return the version of IP of an address that has been validated: 4 or 6."""
    return 6 if ":" in address else 4


def is_link_local(address: str) -> bool:
    """Return whether an address is one of a link, and so known with that link only."""
    return ip_address(address).is_link_local


def reaches(own: str, peer: str, *, multicast: bool) -> bool:
    """Return whether frames pass between two endpoints: by IP addresses of one version, and of one scope.

    With a group, a node learns the address of a peer as that chooses it, whatever its scope is.
    """
    return family(own) == family(peer) and (multicast or is_link_local(own) == is_link_local(peer))


def largest_mtu(underlay: int, address_family: int) -> int:
    """Return what an underlay link with this MTU leaves for a LAN; it may be less than `LEAST_MTU`."""
    return underlay - OVERHEAD[address_family]


LIVE = "Live"
"""The condition of a LANNode that is False while its node is given up; where it is not, there is none."""


def is_live(node: Node, now: float) -> bool:
    """Return whether frames are sent to a node. `now` in seconds since the epoch."""
    end = silent_from(node)
    return end is None or now < end


def silent_from(node: Node) -> float | None:
    """Return from when on a node is given up unless it is Ready again, in seconds since the epoch; None while it is."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            return _seconds(condition.last_transition_time) + SILENCE_SECONDS
    return None


def judged(
    conditions: tuple[Condition, ...], node: Node | None, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return the conditions of a LANNode with what its node is: given up, or not. `now` in seconds since the epoch.

    The manager alone judges: if each agent followed all nodes, most of what the API server sends would be heartbeats.
    A report whose Node is gone goes with it.
    """
    if node is None:
        return conditions
    text = f"not Ready for {SILENCE_SECONDS:.0f} s: no frames for many receivers are sent to it"
    found = None if is_live(node, now) else Finding("False", "NodeNotReady", text)
    return with_finding(conditions, LIVE, found, generation=generation, now=now)


def is_silent(report: LANNode) -> bool:
    """Return whether the manager says that the node of a report is given up."""
    found = find(report.status.conditions, LIVE)
    return found is not None and found.status == "False"


class Peers(Struct, frozen=True):
    """The other nodes of a LAN: `flood` are addresses, `mtu` the least of them, 0 without any, at the node `narrowest`.

    `strangers` are nodes whose endpoint this node can't reach, with the reason. `claimed` are the MAC addresses that
    secured spokes have there, and `static_entries` the endpoints of those that are at one node only: a machine that
    migrates is at two, and it is unknown yet when it will answer at which. `uplinks` are the endpoints of nodes that
    say that they join the LAN to its VLAN: besides the elected one perhaps one whose agent has died since.
    """

    flood: frozenset[str] = frozenset()
    mtu: int = 0
    strangers: tuple[str, ...] = ()
    narrowest: str = ""
    static_entries: Mapping[str, str] = {}
    claimed: frozenset[str] = frozenset()
    uplinks: frozenset[str] = frozenset()


class MtuBudget(NamedTuple):
    """The largest packet in bytes that fits on every node of a LAN, and the node that allows no more."""

    mtu: int
    node: str = ""

    def fault(self, asked: int, ceiling: int = 0) -> str:
        """Return why an MTU is too large, with the remedy; empty if it fits. `ceiling` is the LAN's own, 0 for none."""
        if asked > self.mtu:
            where = f" of node {self.node}" if self.node else ""
            allows = f", as node {self.node} allows no more" if self.node else ""
            return (
                f"the LAN has MTU {self.mtu}{allows}; ask for at most {self.mtu}, or raise the MTU of the underlay"
                f"{where}"
            )
        if ceiling and asked > ceiling:
            return f"the LAN has MTU {ceiling} by its spec.mtu; ask for at most {ceiling}, or raise spec.mtu"
        return ""


def mtu_budget(node: str, own: int, around: Peers) -> MtuBudget:
    """Return the room on `node`, whose underlay leaves `own` bytes, and on its peers; 0 for what is not known."""
    found = [MtuBudget(own, node), MtuBudget(around.mtu, around.narrowest)]
    return min((each for each in found if each.mtu), default=MtuBudget(DEFAULT_MTU))


def peers(
    uid: str,
    vni: int,
    port: int,
    own: str,
    address: str,
    nodes: Iterable[LANNode],
    *,
    multicast: bool = False,
) -> Peers:
    """Return the peers of node `own`, with the endpoint `address`, among the reports of live nodes."""
    flood: set[str] = set()
    mtus: list[MtuBudget] = []
    claims: list[tuple[str, str]] = []
    strangers: list[str] = []
    uplinks: set[str] = set()
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        name = node.metadata.name
        entry = _entry(node, uid)
        if name == own or entry is None or not entry.address:
            continue
        if (entry.vni, entry.port) != (vni, port):
            strangers.append(f"{name} (VNI {entry.vni}, port {entry.port})")
        elif not address or not reaches(address, entry.address, multicast=multicast):
            strangers.append(f"{name} ({entry.address})")
        elif entry.address == address:
            strangers.append(f"{name} (the same address {address})")
        else:
            flood.add(entry.address)
            uplinks |= {entry.address} if entry.uplink else set()
            claims += [(spoke.mac, entry.address) for spoke in entry.spokes if spoke.mac]
            if entry.mtu:
                mtus.append(MtuBudget(entry.mtu, name))
    least = min(mtus, default=MtuBudget(0))
    count = Counter(mac for mac, _ in claims)
    static_entries = {mac: address for mac, address in claims if count[mac] == 1}
    return Peers(
        frozenset(flood),
        least.mtu,
        tuple(strangers),
        least.node,
        static_entries,
        frozenset(count),
        frozenset(uplinks),
    )


UNREACHABLE = "no frames reach"
"""What a node's message begins with where only nodes that it can't reach are wrong."""


def unreachable(around: Peers) -> str:
    """Return the nodes that get no frames, and the remedy; empty without any."""
    if not around.strangers:
        return ""
    return (
        f"{UNREACHABLE} {', '.join(around.strangers)}: all nodes of a LAN need the same VNI and port, and addresses "
        "of their own of one IP version on the underlay, either link-local ones or others; spec.underlayFamily sets "
        "the IP version for all nodes"
    )


def stays_here(group: str) -> bool:
    """Return whether frames to a multicast group never leave a node: IPv6's scopes 0, 1 and 15 (RFC 7346)."""
    return family(group) == 6 and int(ip_address(group)) >> 112 & 0xF in (0x0, 0x1, 0xF)


def confined(replication: Replication, group: str) -> str:
    """Return why no frames for many receivers come to other nodes, with the remedy; empty if they do."""
    if replication != "multicast" or not stays_here(group):
        return ""
    return f"{UNREACHABLE} other nodes: spec.vxlanGrp {group} never leaves a node; set spec.replication to head-end"


class FloodChange(Struct, frozen=True):
    """What differs between two lists of receivers."""

    add: tuple[str, ...]
    remove: tuple[str, ...]


def change(wanted: frozenset[str], present: frozenset[str]) -> FloodChange:
    """Return only what differs: a node that joins or leaves costs one entry."""
    return FloodChange(tuple(sorted(wanted - present)), tuple(sorted(present - wanted)))


def _entry(node: LANNode, uid: str) -> LANEntry | None:
    return next((each for each in node.status.lans if each.uid == uid), None)


def _seconds(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0

"""Conclusions from the nodes' reports of a cluster network: readiness, failing nodes, and Events.

A report is read once, into a `NodeState`, and again only when it or what is wanted changes: with 500 nodes of 200
networks it would be too much to look at every interface whenever one node says something.

Nodes fail one after the other, and a repair takes some seconds, so a network counts as degraded only some time after a
node failed; its one Event then names all the nodes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.core import EventDraft
from lanloom.api.l3 import L3, join_modes
from lanloom.api.meta import Condition
from lanloom.features.vlan.rules.desired.network import AWAITING_ADDRESS
from lanloom.features.vlan.rules.report.status import L3_READY, PASSING, READY
from lanloom.kube.conditions import Finding, find, set_ready, with_finding

NO_ADDRESS = frozenset({"MissingAddress", AWAITING_ADDRESS})
"""Reasons of a node for which the configuration has no address."""

WITHHELD = {"Held", "RolledBack"}
"""Reasons of a node that knows the present configuration, and does not carry it."""

_NAMED = 5
"""So many nodes are named in a message, each with its own words; of more, the number by reason."""

_LONGEST = 300
"""Characters of one node's words in a message about many nodes."""


class Cause(Struct, frozen=True):
    """A cause why a node is not ready: the reason of its report, and the remedy."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


class NodeState(Struct, frozen=True, kw_only=True):
    """The report of one node about a cluster network, in short.

    `uplink` and `addresses` say why the node is not ready, or not L3Ready; None where it is. `causes` hold every
    reason once, but for those of `NO_ADDRESS`, of which the node is not guilty. `unready` are the interfaces without an
    address. `current` is False where the report does not speak of what is wanted now.
    """

    uplink: Cause | None = None
    addresses: Cause | None = None
    causes: tuple[Cause, ...] = ()
    unready: tuple[VlanInterface, ...] = ()
    revision: str = ""
    current: bool = True


NO_REPORT = Cause("NoReport", "its agent has not reported yet")
UNSEEN = NodeState(uplink=NO_REPORT, addresses=NO_REPORT, causes=(NO_REPORT,), current=False)
"""The state of a node that reports nothing."""

_OUTDATED = Cause("Configuring", "its agent has not applied the current configuration yet")


class Wanted(Struct, frozen=True):
    """The addresses that nodes should have now: mode of the profile by VLAN id, and the maps of static ones."""

    modes: dict[int, str]
    maps: dict[int, dict[str, str]]
    maps6: dict[int, dict[str, str]] = {}


def wanted_of(values: Iterable[L3]) -> Wanted:
    """Return the node addresses that a cluster network's L3 configurations ask for."""
    known = {value.vid: value for value in values}
    return Wanted(
        modes={
            vid: join_modes("static" if value.fixed else "dhcp", value.mode6) for vid, value in known.items()
        },
        maps={vid: value.addresses for vid, value in known.items() if value.fixed},
        maps6={vid: value.addresses6 for vid, value in known.items() if value.fixed and not value.mode6},
    )


def node_state(status: ClusterNetworkNodeStatus, wanted: Wanted, uplink_hash: str = "") -> NodeState:
    """Return the state that a report shows of the present configuration.

    `uplink_hash` is that of the uplink that the node should have. Agents of earlier versions report none.
    """
    unready = tuple(item for item in status.interfaces if item.state != "Ready")
    settled = not uplink_hash or status.uplink_hash in ("", uplink_hash)
    current = settled and not _outdated(status, wanted)
    uplink = _failing(status, READY)
    addresses = _failing(status, L3_READY)
    if not current and (addresses is None or addresses.reason not in WITHHELD):
        addresses = _OUTDATED
    reported = [_cause(item) for item in status.conditions if item.status != "True"]
    reported += [Cause(item.reason, item.message) for item in unready]
    if find(status.conditions, READY) is None:
        reported.append(NO_REPORT)
    reasons = {item.reason: item for item in reversed(reported) if item.reason not in NO_ADDRESS}
    return NodeState(
        uplink=uplink if settled or uplink is not None else _OUTDATED,
        addresses=addresses,
        causes=tuple(reasons[key] for key in sorted(reasons)),
        unready=unready,
        revision=status.revision,
        current=current,
    )


def _outdated(status: ClusterNetworkNodeStatus, wanted: Wanted) -> bool:
    """Return whether a report is not about what is wanted now."""
    reported = {item.vlan_id: item for item in status.interfaces if item.vlan_id}
    if wanted.modes != {vid: item.mode for vid, item in reported.items()}:
        return True
    return any(
        reported[vid].state == "Ready"
        and (
            addresses.get(status.node, reported[vid].address) != reported[vid].address
            or (vid in wanted.maps6 and wanted.maps6[vid].get(status.node, "") != reported[vid].address6)
        )
        for vid, addresses in wanted.maps.items()
    )


def _failing(status: ClusterNetworkNodeStatus, type: str) -> Cause | None:
    found = find(status.conditions, type)
    if found is None:
        return NO_REPORT
    return None if found.status == "True" else _cause(found)


def _cause(condition: Condition) -> Cause:
    return Cause(condition.reason, condition.message)


NOTHING_ASKED = "NothingToAssign"
"""The reason of `L3Ready` where the manager knows no network that asks for node addresses: none, or not yet."""

ISOLATED = "Isolated"
"""The reason of the cluster network of an isolated network, which needs no uplinks to be as it should."""


WAITING = PASSING | {"NoNodes", "InterfaceDown", "RouteMissing", "UplinkDown"}
"""Reasons for which a ClusterNetwork is not ready for now; for others a user has to change something."""


def network_conditions(
    previous: tuple[Condition, ...],
    nodes: Mapping[str, NodeState],
    now: float,
    *,
    asked: bool = True,
    isolated: str = "",
) -> tuple[Condition, ...]:
    """`ready`: every live node that should carry the network has its uplink. `L3Ready`: and all its addresses.

    `Ready` is both, for clients that follow kstatus. `asked` says whether any network asks for addresses. `isolated`
    names the DummyClusterNetwork whose bridges the cluster network stands for: no node has its uplink.
    """
    uplinks = {name: state.uplink for name, state in nodes.items() if state.uplink is not None}
    addresses = {name: state.addresses for name, state in nodes.items() if state.addresses is not None}
    up, l3 = _finding(uplinks, len(nodes)), _finding(addresses, len(nodes))
    if isolated and not nodes:
        text = f"has no uplinks; DummyClusterNetwork {isolated} reports its bridges"
        up = l3 = Finding("True", ISOLATED, text)
    elif l3.status == "True" and not asked:
        l3 = Finding("True", NOTHING_ASKED)
    conditions = with_finding(previous, READY, up, generation=0, now=now)
    conditions = with_finding(conditions, L3_READY, l3, generation=0, now=now)
    worse = up if up.status != "True" else l3
    return set_ready(
        conditions,
        ready=worse.status == "True",
        reason=worse.reason,
        message=worse.message,
        stalled=worse.reason not in WAITING,
        generation=0,
        now=now,
    )


def _finding(failing: Mapping[str, Cause], nodes: int) -> Finding:
    if not nodes:
        message = (
            "no live node carries this cluster network; create a VlanConfig for it or widen its nodeSelector"
        )
        return Finding("False", "NoNodes", message)
    if not failing:
        return Finding("True", "AllNodesReady")
    return Finding("False", _worst(failing)[0][1].reason, summary(failing, nodes))


def summary(failing: Mapping[str, Cause], nodes: int) -> str:
    """List the nodes that are not ready, and the causes: a few by name, the others by number and reason."""
    ordered = _worst(failing)
    texts = [f"{name}: {cause}"[:_LONGEST] for name, cause in ordered[:_NAMED]]
    others = Counter(cause.reason for _, cause in ordered[_NAMED:])
    if others:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(others.items()))
        texts.append(f"and {others.total()} more ({reasons})")
    return f"{len(failing)} of {nodes} nodes: {'; '.join(texts)}"


def _worst(failing: Mapping[str, Cause]) -> list[tuple[str, Cause]]:
    """Sort by name, those first that do not become well by themselves."""
    return sorted(failing.items(), key=lambda item: (item[1].reason in PASSING, item[0]))


def awaited(node: str, wanted: Wanted, reports: Iterable[ClusterNetworkNodeStatus]) -> tuple[str, ...]:
    """Return the nodes that still have an address which `node` should have."""
    maps = (*wanted.maps.items(), *wanted.maps6.items())
    mine = {(vid, addresses[node]) for vid, addresses in maps if node in addresses}
    return tuple(
        sorted(
            status.node
            for status in reports
            if status.node != node
            and any(
                (item.vlan_id, address) in mine
                for item in status.interfaces
                for address in (item.address, item.address6)
            )
        )
    )


SETTLE_SECONDS = 10.0
"""Seconds that a node is without its address before an Event."""


class LastReported(Struct, frozen=True):
    """The last Event about a network, if any, and since when some node fails (seconds since the epoch).

    A node that tries again is about to be ready for a moment; `since` stays until all are.
    """

    reason: Literal["", "NetworkReady", "NetworkDegraded"] = ""
    since: float | None = None


class NetworkHealth(Struct, frozen=True):
    """The health of the networks of a cluster network on its live nodes.

    `failing` are the nodes without their address, by the NAD's `namespace/name`; `pending` those networks that are
    about to be ready on some node, `stale` whether some node has not taken up the present configuration.
    """

    nodes: int
    failing: dict[str, dict[str, Cause]]
    pending: frozenset[str]
    stale: bool


def network_health(states: Mapping[str, NodeState]) -> NetworkHealth:
    """Return the networks' state, in one pass over what is not well."""
    failing: dict[str, dict[str, Cause]] = {}
    pending: set[str] = set()
    for node, state in states.items():
        for item in state.unready:
            if item.state == "Failed":
                failing.setdefault(item.network, {})[node] = Cause(item.reason, item.message)
            else:
                pending.add(item.network)
    stale = any(not state.current for state in states.values())
    return NetworkHealth(len(states), failing, frozenset(pending), stale)


def network_event(
    last_reported: LastReported | None, network: str, now_on: NetworkHealth, now: float
) -> tuple[LastReported, EventDraft | None, float | None]:
    """Return the state to remember of a network, the Event to record, and the seconds until the next one may be due.

    A network that is ready when it is first seen (`last_reported` is None) is no news.
    """
    failing = now_on.failing.get(network, {})
    if not failing and not now_on.stale and network not in now_on.pending and now_on.nodes:
        ready = LastReported("NetworkReady")
        if last_reported is None or last_reported.reason == "NetworkReady":
            return ready, None, None
        return ready, EventDraft("Normal", "NetworkReady", _everywhere(now_on.nodes)), None
    last_reported = last_reported or LastReported()
    if not failing or last_reported.reason == "NetworkDegraded":
        return last_reported, None, None
    since = now if last_reported.since is None else last_reported.since
    due = since + SETTLE_SECONDS - now
    if due > 0:
        return LastReported(last_reported.reason, since), None, due
    return (
        LastReported("NetworkDegraded", since),
        EventDraft("Warning", "NetworkDegraded", summary(failing, now_on.nodes)),
        None,
    )


def _everywhere(nodes: int) -> str:
    return (
        f"the network has its addresses on all {nodes} nodes" if nodes > 1 else "the network has its address"
    )


def soonest(waits: Iterable[float | None]) -> float | None:
    """Return the shortest of these waits, if there is any."""
    return min((item for item in waits if item is not None), default=None)

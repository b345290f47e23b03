"""The reports of a node's networks, and the changes between two reports that deserve an Event.

A report says what the node carries, and why that is not the present revision, if so. An Event is made only of what
changed, so a cluster where everything fails alike costs one Event for each thing that fails.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, Management, VlanInterface
from lanloom.api.core import EventDraft, ObjectReference
from lanloom.api.meta import Condition
from lanloom.features.vlan.agent.apply import Problems
from lanloom.features.vlan.agent.rollback.revisions import Selection, explanation
from lanloom.features.vlan.rules.desired.network import Problem
from lanloom.features.vlan.rules.desired.plan import Drift
from lanloom.features.vlan.rules.report.status import (
    PASSING,
    READY,
    RESYNC_SECONDS,
    leftover_status,
    node_status,
    recheck_after,
)
from lanloom.kube.conditions import find
from lanloom.kube.events import node_reference
from lanloom.node.ports import Connection, LinkState


class HostSnapshot(Struct, frozen=True):
    """The observed host. `connections` is None without NetworkManager; `now` is in seconds since the epoch.

    `management` is its management network.
    """

    observed: LinkState
    connections: Mapping[str, Connection] | None
    management: Management | None
    now: float


class NodeReports(Struct, frozen=True):
    """The reports by cluster network, and in how many seconds the host is to be looked at again because of them."""

    statuses: dict[str, ClusterNetworkNodeStatus]
    recheck_after: float

    @property
    def in_force(self) -> bool:
        """Whether every sub-interface is ready: one that failed may yet come up, and change how packets go."""
        interfaces = (item for status in self.statuses.values() for item in status.interfaces)
        return all(item.state == "Ready" for item in interfaces if item.name)


Previous = Callable[[str], tuple[Condition, ...]]
"""The conditions that were reported last of a cluster network."""


def node_reports(
    node: str, selections: Iterable[Selection], problems: Problems, snapshot: HostSnapshot, previous: Previous
) -> NodeReports:
    """Return the reports of what was chosen, and of networks that are to go but can't be let go of yet."""
    statuses: dict[str, ClusterNetworkNodeStatus] = {}
    wait = RESYNC_SECONDS
    for selection in selections:
        name = selection.present.name
        status = _status(node, selection, problems.get(name, ()), snapshot, previous(name))
        wait = min(wait, RESYNC_SECONDS if _merely_withheld(status, selection) else recheck_after(status))
        statuses[name] = status
    for name, blocking in problems.items():
        if name and name not in statuses:
            status = statuses[name] = leftover_status(node, name, blocking, previous(name), snapshot.now)
            wait = min(wait, recheck_after(status))
    return NodeReports(statuses, wait)


def _status(
    node: str,
    selection: Selection,
    blocking: tuple[Problem, ...],
    snapshot: HostSnapshot,
    previous: tuple[Condition, ...],
) -> ClusterNetworkNodeStatus:
    withheld = None
    if selection.reason:
        withheld = Problem(vid=0, network="", reason=selection.reason, message=explanation(selection))
    if selection.carried is None:
        reasons = (*blocking, *((withheld,) if withheld else ()))
        return leftover_status(node, selection.present.name, reasons, previous, snapshot.now)
    return node_status(
        node,
        selection.carried.network,
        blocking,
        snapshot.observed,
        snapshot.connections,
        previous,
        snapshot.now,
        revision=selection.carried.id,
        uplink_hash=selection.present.network.uplink_hash,
        withheld=withheld,
        own=snapshot.management,
    )


def _merely_withheld(status: ClusterNetworkNodeStatus, selection: Selection) -> bool:
    """Return whether the only problem is that the present revision is withheld: retrying would not help."""
    return {item.reason for item in status.conditions if item.status != "True"} == {selection.reason}


_QUIET = PASSING | {""}
"""Reasons of a network that is not ready yet, or not to be."""


Networks = Callable[[str], ObjectReference | None]
"""The NAD of a `namespace/name`, if it is known."""


def report_events(
    node: str, before: ClusterNetworkNodeStatus | None, after: ClusterNetworkNodeStatus, networks: Networks
) -> tuple[EventDraft, ...]:
    """Return the Events for the changes of a node's report."""
    return (*_uplink(node, before, after), *_addresses(node, before, after, networks))


def repair_events(node: str, drift: Iterable[Drift]) -> Iterator[EventDraft]:
    """Yield one Event for each cluster network that another program changed."""
    texts: dict[str, list[str]] = {}
    for item in drift:
        texts.setdefault(item.cluster_network, []).append(item.text)
    for name, found in texts.items():
        message = f"restored on {name}: {'; '.join(found)}"
        yield EventDraft("Normal", "DriftRepaired", message, node_reference(node))


def _uplink(
    node: str, before: ClusterNetworkNodeStatus | None, after: ClusterNetworkNodeStatus
) -> Iterator[EventDraft]:
    old, new = _ready(before), _ready(after)
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return
    name = after.cluster_network
    failed = old is not None and old.status == "False" and old.reason not in _QUIET
    was_up = old is not None and old.status == "True"
    if new.status == "True" and failed:
        yield EventDraft("Normal", "UplinkReady", f"{name} works again", node_reference(node))
    if new.status == "False" and new.reason not in _QUIET and (new.reason != "UplinkDown" or was_up):
        yield EventDraft("Warning", new.reason, f"{name}: {new.message}", node_reference(node))


def _ready(status: ClusterNetworkNodeStatus | None) -> Condition | None:
    return find(status.conditions, READY) if status else None


def _addresses(
    node: str, before: ClusterNetworkNodeStatus | None, after: ClusterNetworkNodeStatus, networks: Networks
) -> Iterator[EventDraft]:
    known = {(item.vlan_id, item.network): item for item in (before.interfaces if before else ())}
    uplink = _ready(after)
    worse: dict[str, list[VlanInterface]] = {}
    for item in after.interfaces:
        old = known.get((item.vlan_id, item.network))
        if item.state == "Failed" and (old is None or (old.state, old.reason) != (item.state, item.reason)):
            worse.setdefault(item.reason, []).append(item)
        elif item.state == "Ready" and old is not None and old.state == "Failed":
            message = f"VLAN {item.vlan_id} of {after.cluster_network} has the address {item.own_addresses}"
            yield EventDraft("Normal", "AddressAssigned", message, node_reference(node))
    for reason, items in worse.items():
        if uplink is None or uplink.reason != reason:  # else it is reported already
            more = f" (and {len(items) - 1} more VLANs)" if len(items) > 1 else ""
            message = f"VLAN {items[0].vlan_id} of {after.cluster_network}: {items[0].message}{more}"
            yield EventDraft("Warning", reason, message, node_reference(node))
        for item in items:
            if (about := networks(item.network)) is not None:
                yield EventDraft("Warning", reason, f"node {node}: {item.message}", about)

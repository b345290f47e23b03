"""The status of a DummyClusterNetwork, and the Events of its changes."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lanloom.api.core import EventDraft
from lanloom.api.dummy import (
    BRIDGES_READY,
    CONFLICT,
    DRIFTED,
    IN_USE,
    LAN_READY,
    NAD_READY,
    DummyClusterNetworkStatus,
    DummyResource,
    NodeCounts,
    Phase,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.meta import Condition, Key, Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.daemonset import Acknowledgement
from lanloom.features.dummy.rules.observed import Made, Observed
from lanloom.kube.conditions import Finding, find, set_ready, with_finding
from lanloom.nads.references import User
from lanloom.text import LISTED

USERS_MAX = 50
"""Users that a status lists."""

REMOVED = "Removed"
"""The reason of BridgesReady once every bridge is gone: what makes them is not made again."""


def condition_or(status: DummyClusterNetworkStatus, type: str, otherwise: Finding) -> Finding:
    """Return the value of a condition in a status, if it is True or False; `otherwise` if it is neither."""
    known = find(status.conditions, type)
    if known is None or known.status == "Unknown":
        return otherwise
    return Finding("True" if known.status == "True" else "False", known.reason, known.message)


class Findings(Struct, frozen=True, kw_only=True):
    """The parts of a status. `lan`, `drifted`, `conflict` and `in_use` are None if there is nothing to report.

    `bridge_name` is the bridge that is to be built, empty if none is.
    """

    phase: Phase
    reason: str
    message: str
    nad: Finding
    bridges: Finding
    lan: Finding | None = None
    drifted: Finding | None = None
    conflict: Finding | None = None
    in_use: Finding | None = None
    users: tuple[User, ...] = ()
    nodes: Acknowledgement | None = None
    bridge_name: str = ""


def status_of(
    observed: Observed, found: Findings, resources: tuple[DummyResource, ...]
) -> DummyClusterNetworkStatus:
    """Return the status with these findings; equal to the present one if that has them already.

    The name of the bridge is recorded before it is built, and stays.
    """
    generation = observed.dcn.metadata.generation
    conditions = set_ready(
        observed.dcn.status.conditions,
        ready=found.phase == "Ready",
        reason=found.reason,
        message=found.message,
        stalled=found.phase == "InvalidSpec" or found.conflict is not None,
        generation=generation,
        now=observed.now,
    )
    for type, finding in (
        (NAD_READY, found.nad),
        (BRIDGES_READY, found.bridges),
        (LAN_READY, found.lan),
        (DRIFTED, found.drifted),
        (CONFLICT, found.conflict),
        (IN_USE, found.in_use),
    ):
        conditions = with_finding(conditions, type, finding, generation=generation, now=observed.now)
    nodes = found.nodes
    return DummyClusterNetworkStatus(
        phase=found.phase,
        message=found.message,
        bridge_name=observed.dcn.status.bridge_name or found.bridge_name,
        observed_generation=generation,
        nodes=NodeCounts(live=len(nodes.live), acknowledged=len(nodes.acknowledged))
        if nodes
        else observed.dcn.status.nodes,
        users=tuple(map(str, found.users[:USERS_MAX])),
        resources=resources,
        conditions=conditions,
    )


def resources_of(observed: Observed, made: Made, *, keep: frozenset[str]) -> tuple[DummyResource, ...]:
    """Return the created objects in a fixed order; of the kinds in `keep` also those recorded and not replaced.

    So the status remembers a NAD whose users may still exist, and a DaemonSet whose bridges may.
    """
    found = [
        *_entries(NADS, made.nads),
        *_entries(DAEMON_SETS, made.daemon_sets),
        *_entries(NETWORKS, made.networks),
        *_entries(CLUSTER_NETWORKS, made.cluster_networks),
        *_entries(LANS, made.lans),
    ]
    places = {_place(item) for item in found}
    found += [
        item
        for item in observed.dcn.status.resources
        if item.kind in keep
        and _place(item) not in places
        and not (item.kind == NADS.kind and Key(item.namespace, item.name) in observed.foreign)
    ]
    return tuple(sorted(found, key=_place))


def _entries(resource: Resource[Any], items: Iterable[Object]) -> list[DummyResource]:
    return [
        DummyResource(
            api_version=resource.api_version,
            kind=resource.kind,
            name=item.metadata.name,
            namespace=item.metadata.namespace,
            uid=item.metadata.uid,
        )
        for item in items
    ]


def _place(item: DummyResource) -> tuple[str, str, str]:
    return item.kind, item.namespace, item.name


_EVENT_REASONS = {CONFLICT: "Conflict", DRIFTED: "Drifted"}
_PROBLEMS = ("InvalidSpec", "ErrorEnsuringNAD", "ErrorEnsuringLAN", "ErrorEnsuringDaemonSet")


def status_events(old: DummyClusterNetworkStatus, new: DummyClusterNetworkStatus) -> tuple[EventDraft, ...]:
    """Return the Events of a change of the status: for each part when it begins, and when it changes.

    If many users disappear one after the other, each would be a change: only the last ones that fit into a message
    count.
    """
    events = [
        EventDraft("Warning", reason, condition.message)
        for type, reason in _EVENT_REASONS.items()
        if (condition := _begun(old, new, type)) is not None
        and not (type == DRIFTED and find(old.conditions, DRIFTED))  # only its users have changed
    ]
    is_another = (old.phase, old.message) != (new.phase, new.message) and new.message != _words(new, DRIFTED)
    if not events and new.phase in _PROBLEMS and is_another:
        events.append(EventDraft("Warning", new.phase, new.message))
    if new.phase == "Ready" and old.phase != "Ready":
        events.append(EventDraft("Normal", "Ready", new.message))
    if _blocked_anew(old, new):
        events.append(EventDraft("Warning", "DeletionBlocked", new.message))
    if new.phase == "Terminating" and old.phase != "Terminating":
        events.append(
            EventDraft("Normal", "Terminating", "the network has no users left; it is being removed")
        )
    return tuple(events)


def _words(status: DummyClusterNetworkStatus, type: str) -> str:
    found = find(status.conditions, type)
    return found.message if found is not None else ""


def _blocked_anew(old: DummyClusterNetworkStatus, new: DummyClusterNetworkStatus) -> bool:
    if new.phase != "DeletionBlocked" or not (_begun(old, new, IN_USE) or old.users != new.users):
        return False
    known = find(old.conditions, IN_USE)
    return known is None or known.status != "True" or len(new.users) <= LISTED


def _begun(old: DummyClusterNetworkStatus, new: DummyClusterNetworkStatus, type: str) -> Condition | None:
    """Return whether a condition is new, or has another reason or message."""
    before, after = find(old.conditions, type), find(new.conditions, type)
    if after is None or after.status != "True" or (before is not None and before.message == after.message):
        return None
    return after

"""The life of a DummyClusterNetwork as a state machine: from its observed state to actions and status.

Deletion is checked before anything else, so that an invalid object can be deleted like any other. The state is in the
objects only, so any order of events and any number of crashes end alike.
"""

from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.dummy import (
    BRIDGES_READY,
    DUMMY_CLUSTER_NETWORKS,
    FINALIZER,
    DummyClusterNetwork,
    Phase,
)
from lanloom.api.multus import NADS
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.bridges import Bridges, bridge_of, keeping
from lanloom.features.dummy.rules.ensure import ensure
from lanloom.features.dummy.rules.observed import (
    Action,
    Change,
    Decision,
    Live,
    Observed,
    on_version,
)
from lanloom.features.dummy.rules.spec import parse
from lanloom.features.dummy.rules.status import (
    REMOVED,
    Findings,
    condition_or,
    resources_of,
    status_events,
    status_of,
)
from lanloom.features.dummy.rules.teardown import Teardown, teardown
from lanloom.kube.conditions import Finding, find
from lanloom.refusals import Malformed
from lanloom.text import listed

_DELETING = "Deleting"
_GOING = Finding("False", _DELETING, "the network is being deleted")
_DRAINING = Finding("False", "Draining", "the network is being deleted and accepts no new users")
_REASONS = {"users": "Users", "requests": "Requests", "closing": "NotDrained", "asking": "Unanswered"}
"""Why a network does not go, as the reason of its conditions, by the step that is waited for."""


def decide(observed: Observed) -> Decision:
    """Return the decision for a DummyClusterNetwork: actions, status and Events."""
    return _finalize(observed) if observed.dcn.metadata.is_deleting else ensure(observed)


def _finalize(observed: Observed) -> Decision:
    """Return the decision for a network that is being deleted. Without Lanloom's finalizer, nothing is done."""
    dcn = observed.dcn
    if FINALIZER not in dcn.metadata.finalizers:
        return Decision(status=dcn.status)
    committed, removed = is_committed(dcn), are_removed(dcn)
    step = teardown(observed, committed=committed, removed=removed, recorded=dcn.status.resources)
    if step.live_read:
        return Decision(status=dcn.status, live_read=step.live_read)
    if step.stage == "done" and committed:
        return Decision(status=dcn.status, actions=(_release(dcn),))
    if step.stage == "closing" and observed.failure is None:
        return Decision(status=dcn.status, actions=step.actions)  # nothing to say yet: it takes a moment
    return _reported(observed, step)


def on_read_error(observed: Observed, why: str) -> Decision:
    """Return the decision if the live read failed: users that no watch delivered may exist."""
    if not observed.dcn.metadata.is_deleting:
        return ensure(replace(observed, live=Live(made=observed.made)))
    if is_committed(observed.dcn):
        return Decision(status=observed.dcn.status)
    message = f"the users of the network can't be determined: {why}; the manager retries"
    return _reported(observed, Teardown(stage="asking", message=message))


def is_committed(dcn: DummyClusterNetwork) -> bool:
    """Return whether the status records that the network has no users: then its NADs may be missing for that reason."""
    return dcn.status.phase == "Terminating"


def are_removed(dcn: DummyClusterNetwork) -> bool:
    """Return whether the status records that all bridges are removed: then the DaemonSet may be missing."""
    found = find(dcn.status.conditions, BRIDGES_READY)
    return is_committed(dcn) and found is not None and found.reason == REMOVED


def _release(dcn: DummyClusterNetwork) -> Action:
    left = [item for item in dcn.metadata.finalizers if item != FINALIZER]
    event = EventDraft("Normal", "Deleted", "all objects of the network are deleted")
    patch = on_version(dcn, finalizers=left)
    return Change(DUMMY_CLUSTER_NETWORKS, dcn.metadata.key, patch, event)


def _reported(observed: Observed, step: Teardown) -> Decision:
    """Return the step, with the conditions that the network reports with it."""
    terminating = step.stage in ("nads", "lans", "bridges", "others", "done")
    phase: Phase = "Terminating" if terminating else "DeletionBlocked"
    message = step.message
    if observed.failure is not None and step.actions:
        message = f"{observed.failure.message}; the manager retries"
    kept = frozenset(([] if terminating else [NADS.kind]) + ([] if step.removed else [DAEMON_SETS.kind]))
    bridges = _keeping(observed) if step.stage == "users" else None
    found = Findings(
        phase=phase,
        reason=_DELETING if terminating else _REASONS[step.stage],
        message=message,
        nad=_GOING if terminating else _DRAINING,
        bridges=bridges.finding if bridges is not None else _bridges(observed, step),
        in_use=_in_use(step, message) if not terminating else None,
        users=step.users,
        nodes=bridges.acknowledgement if bridges is not None else step.nodes,
    )
    made = observed.live.made if observed.live is not None else observed.made
    status = status_of(observed, found, resources_of(observed, made, keep=kept))
    events = status_events(observed.dcn.status, status)
    if step.removed and not are_removed(observed.dcn) and step.nodes is not None and step.nodes.away:
        text = (
            f"the deletion continues without {listed(step.nodes.away)}, which can't be reached; "
            "their agents remove the bridge when they return"
        )
        events = (*events, EventDraft("Warning", "NodesSkipped", text))
    actions = (*step.actions, *(bridges.actions if bridges is not None else ()))
    return Decision(status=status, actions=actions, events=events, wait=step.wait)


def _keeping(observed: Observed) -> Bridges | None:
    """Return the bridges that users need as long as they exist; None if none were created.

    None, too, if the spec names another bridge by now, written while no webhook answered.
    """
    if not any(item.kind == DAEMON_SETS.kind for item in observed.dcn.status.resources):
        return None
    try:
        net = parse(observed.dcn)
    except Malformed:
        return None
    if observed.daemon_set is not None and bridge_of(observed.daemon_set) not in ("", net.bridge):
        return None
    return keeping(observed, net)


def _bridges(observed: Observed, step: Teardown) -> Finding:
    if step.removed:
        return Finding("False", REMOVED, "all bridges are removed")
    if step.stage == "bridges":
        return Finding("False", "Removing", step.message)
    return condition_or(observed.dcn.status, BRIDGES_READY, _GOING)


def _in_use(step: Teardown, message: str) -> Finding:
    return Finding("True" if step.stage == "users" else "Unknown", _REASONS[step.stage], message)

"""Staged roll-out: which nodes are released next, and why no more are.

A pure state machine: the policy, what was written last, the present revision and what the nodes report make the next
state, which the manager writes on the ClusterNetwork in the same patch as the configuration itself. It remembers
nothing else, so a manager that dies at any point is followed by one that decides the same.

What holds at every step:

* Canaries go first; no other node is released until each of them that lives carries the configuration and is well.
  Until then it does not count that others are unready, because they can't be cured before.
* Any other node that is well is released only while fewer than `maxUnavailable` nodes are unavailable: released and
  not done, or unready for whatever reason of their own.
* A node that is unready anyhow can't get worse, so it is released although others are unready, and before those that
  are well; else what repairs nodes could not reach them. Even so no more than `maxUnavailable` nodes are on their way
  at a time. One that has arrived and merely lacks a carrier is not on its way: a cable that is out holds up only the
  nodes that are well.
* A node that is down when its turn comes is skipped. It is released by the same rules once it returns, rather than
  beforehand: when many nodes are cut off and come back at once, they must not all change at once.
* A node that went down after it was released, before it was done, counts as on its way until it returns or leaves
  the cluster. It is unknown whether the configuration took it down, and the next node must not find out.
* A failure stops everything until that node recovers or the configuration changes.
* An address that is another node's until that is released, too, as when two nodes exchange theirs, is no failure: the
  holder is released at once, whatever the limit says, because neither of them could get any further.

`MissingAddress` and `AwaitingAddress` are no obstacles: the configuration has no address for that node, and so the node
carries all there is. A node that should no longer carry the network lets it go at once, and is no part of this.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import EventDraft
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.l3 import AnnotationError
from lanloom.features.vlan.rules.report.readiness import Cause
from lanloom.features.vlan.rules.report.status import PASSING
from lanloom.features.vlan.rules.rollout.policy import (
    RolloutPolicy,
    RolloutState,
    parse_rollout,
    rollout_state,
)
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE, MOST_NAMED, ReleasedNodes
from lanloom.kube.conditions import Finding

ROLLED_OUT = "RolledOut"
"""The type of the ClusterNetwork's condition."""

FINISHED, PROGRESSING, STOPPED, INVALID = "Finished", "Progressing", "Stopped", "InvalidPolicy"
"""Its reasons."""

NO_CARRIER, HELD, ROLLED_BACK, DUPLICATE = "UplinkDown", "Held", "RolledBack", "DuplicateAddress"
_PASSING = PASSING | {NO_CARRIER}
"""Reasons of a node that may yet become well by itself."""

_NAMED = 5
"""So many nodes are named in a message; of more, the number."""


class Member(Struct, frozen=True, kw_only=True):
    """A node that should carry the network: the revision that it reports, and why it is not well, if so.

    `awaits` are the nodes that still have an address which this one should have.
    """

    live: bool
    revision: str = ""
    causes: tuple[Cause, ...] = ()
    awaits: tuple[str, ...] = ()


class NodeProgress(Enum):
    """The progress of a node."""

    DONE = "carries the configuration and is well"
    FAILED = "took it up and is not well"
    UPDATING = "released and not done"
    NO_CARRIER = "carries it but has no carrier"
    READY = "not released, and well"
    UNREADY = "not released, and not well"
    DOWN = "not released, and not live"


_WAITING = (NodeProgress.READY, NodeProgress.UNREADY)


def roll_out(
    policy: RolloutPolicy, previous: RolloutState, present: str, members: Mapping[str, Member]
) -> tuple[RolloutState, Finding]:
    """Return the next state of the rollout of the revision `present`, and the finding for the condition `RolledOut`.

    Once every member is done the state is that of every node, and stays so until the revision changes: nodes that
    join later carry it at once.
    """
    state = previous if previous.revision == present else RolloutState(revision=present)
    if EVERY_NODE in state.released:
        return state, Finding("True", FINISHED)
    before = ReleasedNodes(state.released)
    progress = _progress(members, present, before)
    awaited = _awaited(members, present, before, progress)
    failed = [name for name, value in progress.items() if value is NodeProgress.FAILED]
    stopped = "; ".join(f"{name}: {_worst(members[name]).reason}" for name in failed[:_NAMED])
    new = [name for name, value in progress.items() if value is NodeProgress.DONE]
    if not failed:
        holders = _holders(members, progress)
        progress |= dict.fromkeys(holders, NodeProgress.UPDATING)
        live = sum(member.live for member in members.values())
        new += (*holders, *_next(policy, progress, live))
    released = before.added(new, members, awaited)
    if all(value is NodeProgress.DONE for value in progress.values()):
        released = (EVERY_NODE,)
    state = replace(state, released=released, stopped=stopped)
    return state, _finding(state, progress, members)


def progress_of(member: Member, present: str, released: bool) -> NodeProgress:
    """Return the progress of one node."""
    reasons = {item.reason for item in member.causes}
    arrived = member.revision == present
    if arrived and not reasons:
        return NodeProgress.DONE
    if not member.live:
        return NodeProgress.UPDATING if released else NodeProgress.DOWN
    if (arrived and reasons - _PASSING) or (released and ROLLED_BACK in reasons):
        return NodeProgress.FAILED
    if arrived and NO_CARRIER in reasons:
        return NodeProgress.NO_CARRIER
    if arrived or released:
        return NodeProgress.UPDATING
    return NodeProgress.UNREADY if reasons - {HELD} else NodeProgress.READY


def _progress(
    members: Mapping[str, Member], present: str, released: ReleasedNodes
) -> dict[str, NodeProgress]:
    """Return the progress of each node, by name."""
    found = {name: progress_of(members[name], present, name in released) for name in sorted(members)}
    for name, value in found.items():
        if value is NodeProgress.FAILED and _merely_waits(members[name], members):
            found[name] = NodeProgress.UPDATING
    return found


def _awaited(
    members: Mapping[str, Member],
    present: str,
    released: ReleasedNodes,
    progress: Mapping[str, NodeProgress],
) -> frozenset[str]:
    """Return released nodes that have not taken the configuration up: their agents may know no ranges.

    They are named until they have, at most `MOST_NAMED` at a time. Other agents take it up before they would be.
    """
    found = [
        name
        for name, value in progress.items()
        if value is NodeProgress.UPDATING and members[name].live and members[name].revision != present
    ]
    earlier = frozenset(released.names)  # they may be about to read their names
    return frozenset(sorted(found, key=lambda name: name not in earlier)[:MOST_NAMED])


def _merely_waits(member: Member, members: Mapping[str, Member]) -> bool:
    """Return whether nothing keeps a node from being done but an address that another live one still has."""
    reasons = {item.reason for item in member.causes}
    holders = [other for other in member.awaits if other in members and members[other].live]
    return bool(holders) and DUPLICATE in reasons and reasons <= _PASSING | {DUPLICATE}


def _holders(members: Mapping[str, Member], progress: Mapping[str, NodeProgress]) -> tuple[str, ...]:
    """Return the nodes that must let an address go before another one can be done."""
    moving = [name for name, value in progress.items() if value is NodeProgress.UPDATING]
    wanted = {other for name in moving for other in members[name].awaits}
    return tuple(sorted(name for name in wanted if progress.get(name) in _WAITING))


def _next(policy: RolloutPolicy, progress: Mapping[str, NodeProgress], live: int) -> tuple[str, ...]:
    """Return the nodes that may be released now. A percentage is one of the nodes that live."""
    limit = policy.limit(live)
    concerned = _pending_canaries(policy, progress) or list(progress)
    counts = Counter(progress.values())
    moving = counts[NodeProgress.UPDATING]
    unready = sum(progress[name] is NodeProgress.UNREADY for name in concerned)
    unavailable = moving + counts[NodeProgress.NO_CARRIER] + unready
    waiting = [name for name in concerned if progress[name] in _WAITING]
    released = []
    for name in sorted(waiting, key=lambda name: progress[name] is NodeProgress.READY):
        if moving >= limit:
            break
        if progress[name] is NodeProgress.READY:
            if unavailable >= limit:
                break
            unavailable += 1
        moving += 1
        released.append(name)
    return tuple(released)


def _pending_canaries(policy: RolloutPolicy, progress: Mapping[str, NodeProgress]) -> list[str]:
    """Return the canaries that all other nodes wait for."""
    settled = (NodeProgress.DONE, NodeProgress.DOWN)
    return [name for name in policy.canary if progress.get(name, NodeProgress.DOWN) not in settled]


def _worst(member: Member) -> Cause:
    """Return the obstacle that made a node's roll-out fail."""
    return min(member.causes, key=lambda item: (item.reason != ROLLED_BACK, item.reason in _PASSING))


def _finding(
    state: RolloutState, progress: Mapping[str, NodeProgress], members: Mapping[str, Member]
) -> Finding:
    if EVERY_NODE in state.released:
        return Finding("True", FINISHED)
    kinds: dict[NodeProgress, list[str]] = {kind: [] for kind in NodeProgress}
    for name, value in progress.items():
        kinds[value].append(name)
    done, down = len(kinds[NodeProgress.DONE]), len(kinds[NodeProgress.DOWN])
    summary = f"{done} of {len(progress)} nodes carry the current configuration"
    if kinds[NodeProgress.FAILED]:
        reasons = (f"{name}: {_worst(members[name])}" for name in kinds[NodeProgress.FAILED][:_NAMED])
        message = "; ".join(reasons) + _more(len(kinds[NodeProgress.FAILED]))
        remedy = (
            "no other node gets the current configuration until this recovers or the configuration changes"
        )
        return Finding("False", STOPPED, f"{message}; {remedy}; {summary}")
    if done and done + down == len(progress):
        return Finding(
            "True", FINISHED, f"{summary}; {_named(kinds[NodeProgress.DOWN])} get it when they return"
        )
    return Finding("False", PROGRESSING, "; ".join((summary, *_waits(state, kinds, members))))


def _waits(
    state: RolloutState, kinds: Mapping[NodeProgress, list[str]], members: Mapping[str, Member]
) -> Iterable[str]:
    """Return the clauses that name what a roll-out waits for."""
    moving = [name for name in kinds[NodeProgress.UPDATING] if members[name].live]
    released = ReleasedNodes(state.released)
    waiting = (*kinds[NodeProgress.READY], *kinds[NodeProgress.UNREADY])
    starting = [name for name in waiting if name in released]
    if moving or starting:
        yield f"updating: {_named(sorted((*moving, *starting)))}"
    lost = [name for name in kinds[NodeProgress.UPDATING] if not members[name].live]
    if lost:
        yield f"{_named(lost)} went down during the update: start them again, or remove them from the cluster"
    if kinds[NodeProgress.NO_CARRIER]:
        yield f"without a carrier: {_named(kinds[NodeProgress.NO_CARRIER])}"
    unready = [name for name in kinds[NodeProgress.UNREADY] if name not in released]
    if unready:
        yield f"not ready before the update: {_named(unready)}"
    if kinds[NodeProgress.DOWN]:
        yield f"down: {_named(kinds[NodeProgress.DOWN])}"


def _named(nodes: list[str]) -> str:
    return ", ".join(nodes[:_NAMED]) + _more(len(nodes))


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""


def next_step(
    network: ClusterNetwork, present: str, members: Mapping[str, Member]
) -> tuple[RolloutState | None, Finding | None]:
    """Return the state and the finding of the ClusterNetwork's roll-out: both None without a policy.

    Under a policy that can't be read nothing moves on.
    """
    text = network.metadata.annotations.get(names.ROLLOUT)
    if text is None:
        return None, None
    previous = rollout_state(network)
    try:
        policy = parse_rollout(text)
    except AnnotationError as error:
        return previous, Finding("False", INVALID, f"{error}; until then no node gets another configuration")
    return roll_out(policy, previous, present, members)


def rollout_events(before: RolloutState, after: RolloutState, message: str) -> tuple[EventDraft, ...]:
    """Return the Events of one step of a roll-out; `message` is the condition's."""
    finished = EVERY_NODE in after.released
    if after.revision != before.revision:
        if finished:  # nothing had to be done, or there was no node to do it
            return ()
        started = (EventDraft("Normal", "RolloutStarted", message),)
        return (*started, EventDraft("Warning", "RolloutStopped", message)) if after.stopped else started
    if finished and EVERY_NODE not in before.released:
        return (EventDraft("Normal", "RolloutFinished", "every node carries the current configuration"),)
    if after.stopped and not before.stopped:
        return (EventDraft("Warning", "RolloutStopped", message),)
    return ()

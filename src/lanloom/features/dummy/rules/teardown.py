"""How the objects of a network are removed, step by step, and never while they have users.

First, the NADs are marked, so that they accept no new users. Then they must have no users, nor any on the way, by the
watches and then by a live read. Only then the NADs are deleted, each in the version that was read: until then, a user
may create further objects, and a record on the NAD changes its version. A process that crashes between two steps leaves
a state from which the next one continues: decisions follow from missing objects, from the status, or both.

The same holds for the remains of a network whose finalizer was removed by force. It has no status, but its remaining
objects contain as much.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from lanloom.api.dummy import DummyResource
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LAN, LANS
from lanloom.api.meta import Key, Object, rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.bridges import acknowledgement_of, remover, removing
from lanloom.features.dummy.rules.daemonset import Acknowledgement, UnknownImage, awaited
from lanloom.features.dummy.rules.observed import (
    REREAD_SECONDS,
    Action,
    Change,
    LiveRead,
    Made,
    Observed,
    deletion,
    on_version,
)
from lanloom.nads.guard import (
    Reservation,
    closing,
    reservations_of,
    unsettled,
)
from lanloom.nads.references import NadUse, User
from lanloom.text import listed

Stage = Literal[
    "users", "requests", "closing", "asking", "nads", "lans", "bridges", "others", "last look", "done"
]
"""What is waited for, in order: that users go; that requests end which were allowed before; that the NADs are marked;
an answer of the API server; that the NADs are gone; that the LAN is, which has a port at each bridge; that the bridges
are; that the rest is; one more answer; nothing.
"""


class Teardown(Struct, frozen=True, kw_only=True):
    """The present step. `removed` is true once all awaited bridges are removed."""

    stage: Stage
    message: str = ""
    users: tuple[User, ...] = ()
    actions: tuple[Action, ...] = ()
    live_read: LiveRead = ""
    wait: float | None = None
    nodes: Acknowledgement | None = None
    removed: bool = False


def teardown(
    observed: Observed, *, committed: bool, removed: bool, recorded: tuple[DummyResource, ...] = ()
) -> Teardown:
    """Return the next step. `committed`: the NADs were unused and may be deleted; `removed`: the bridges are gone.

    `recorded` are objects known to have existed, besides those that exist.
    """
    made = observed.live.made if observed.live is not None else observed.made
    if committed and made.nads and observed.live is None:  # gone perhaps: it takes a watch a moment to tell
        return Teardown(stage="nads", live_read="made")
    if made.nads or not committed:
        blocker = _blocker(observed, made.nads, recorded)
        if blocker is not None:
            return blocker
    if made.nads:
        return _nads(made.nads)
    if made.lans:
        return _lans(observed, made.lans)
    if not removed:
        step = _bridges(observed, made, recorded)
        if step is not None:
            return step
    return _others(observed, made)


def _blocker(
    observed: Observed, nads: tuple[NetworkAttachmentDefinition, ...], recorded: tuple[DummyResource, ...]
) -> Teardown | None:
    """Return why the NADs may not be deleted yet."""
    marks = tuple(
        Change(NADS, nad.metadata.key, on_version(nad, annotations=missing))
        for nad in nads
        if (missing := closing(nad, observed.users.seen, observed.now))
    )
    keys = _keys(observed, nads, recorded)
    if users := _users(observed.users, keys):
        return _blocked(users, marks)
    if marks:
        return Teardown(stage="closing", message="no new users are accepted", actions=marks)
    if requests := _requests(observed, nads):
        return _awaited(observed, requests)
    if observed.live is None or observed.live.users is None:
        return Teardown(stage="asking", live_read="users")
    if users := _users(observed.live.users, keys):
        return _blocked(users, wait=REREAD_SECONDS)
    return None


def _keys(
    observed: Observed, nads: Iterable[NetworkAttachmentDefinition], recorded: Iterable[DummyResource]
) -> list[Key]:
    """Return the NADs whose users count: existing ones, and those that were deleted while they had users.

    A NAD in whose place is an object of another owner does not count: that object stays, and so do its users.
    """
    there = {nad.metadata.key for nad in nads}
    were = {Key(item.namespace, item.name) for item in recorded if item.kind == NADS.kind}
    return sorted(there | (were - observed.foreign))


def _users(view: NadUse, keys: Iterable[Key]) -> tuple[User, ...]:
    return tuple(sorted({user for key in keys for user in view.users_of(key)}))


def _blocked(
    users: tuple[User, ...], actions: tuple[Action, ...] = (), wait: float | None = None
) -> Teardown:
    message = f"in use by {listed(map(str, users))}; the network is removed when it has no users left"
    return Teardown(stage="users", message=message, users=users, actions=actions, wait=wait)


def _requests(observed: Observed, nads: Iterable[NetworkAttachmentDefinition]) -> tuple[Reservation, ...]:
    """Return the requests that may still add a user."""
    every = [item for nad in nads for item in reservations_of(nad)]
    return unsettled(every, lambda uid: _seen(observed, uid), observed.now)


def _seen(observed: Observed, uid: str) -> int | None:
    views = [
        observed.users,
        *([observed.live.users] if observed.live is not None and observed.live.users is not None else []),
    ]
    versions = [version for view in views if (version := view.seen(uid)) is not None]
    return max(versions, default=None)


def _awaited(observed: Observed, requests: tuple[Reservation, ...]) -> Teardown:
    until = max(item.until for item in requests)
    message = (
        f"waits until {rfc3339(until + 1)} at the latest for requests that were admitted before the deletion: "
        f"{listed(item.title for item in requests)}"
    )
    soonest = min(item.until for item in requests)
    return Teardown(stage="requests", message=message, wait=max(0.0, soonest - observed.now))


def _nads(nads: tuple[NetworkAttachmentDefinition, ...]) -> Teardown:
    leaving = tuple(deletion(NADS, item, unchanged=True) for item in nads if not item.metadata.is_deleting)
    return Teardown(stage="nads", message=_waiting("NAD", nads), actions=leaving)


def _lans(observed: Observed, lans: tuple[LAN, ...]) -> Teardown:
    """Return the next step: the LAN goes node by node, by its finalizer, after NADs, which a watch may lack."""
    actions = tuple(deletion(LANS, item) for item in _staying(lans))
    if actions and observed.live is None:
        return Teardown(stage="asking", live_read="made")
    return Teardown(stage="lans", message=_waiting("LAN", lans), actions=actions)


def _bridges(observed: Observed, made: Made, recorded: tuple[DummyResource, ...]) -> Teardown | None:
    """Return the removal of the bridges; None if none can exist."""
    nodes = acknowledgement_of(observed, "absent")
    sets = made.daemon_sets
    if not sets and observed.live is None:
        return Teardown(stage="asking", live_read="made")
    if not sets:
        lost = any(item.kind == DAEMON_SETS.kind for item in recorded)
        again = remover(observed, observed.dcn.bridge_name) if lost and nodes.live else None
        if again is None:
            return None
        message = f"the DaemonSet {again.key} was deleted; it is recreated to remove the bridges"
        return Teardown(stage="bridges", message=message, actions=(again,), nodes=nodes)
    wait = None if nodes.until is None else max(0.0, nodes.until - observed.now)
    count = f"{len(nodes.acknowledged)} of {len(nodes.live)} nodes have removed the bridge"
    actions, why = _removing(observed, sets)
    if actions:
        if observed.live is None:  # a watch may not have brought the NADs, and they go first
            return Teardown(stage="asking", live_read="made")
        return Teardown(stage="bridges", message=count, actions=actions, nodes=nodes, wait=wait)
    if nodes.missing:
        message = f"{count}; {why or awaited(nodes)}"
        return Teardown(stage="bridges", message=message, nodes=nodes, wait=wait)
    leaving = tuple(deletion(DAEMON_SETS, item) for item in sets if not item.metadata.is_deleting)
    message = f"{count}{_without(nodes)}"
    return Teardown(stage="others", message=message, actions=leaving, nodes=nodes, removed=True)


def _removing(observed: Observed, sets: tuple[DaemonSet, ...]) -> tuple[tuple[Action, ...], str]:
    """Return the actions by which the DaemonSets remove the bridges, or why that is impossible."""
    try:
        return removing(observed, sets), ""
    except UnknownImage as error:
        return (), str(error)


def _without(nodes: Acknowledgement) -> str:
    if not nodes.away:
        return ""
    return f"; skipping {listed(nodes.away)}, whose agents remove it when they return"


def _others(observed: Observed, made: Made) -> Teardown:
    """Return the remaining objects besides NADs: the DaemonSets, and objects that only the NADs depended on."""
    used = [item for item in made.networks if _has_addresses(item)]
    actions: list[Action] = [deletion(DAEMON_SETS, item) for item in _staying(made.daemon_sets)]
    actions += [deletion(NETWORKS, item) for item in _staying(made.networks) if item not in used]
    actions += [deletion(CLUSTER_NETWORKS, item, or_release=True) for item in _staying(made.cluster_networks)]
    left = [
        (kind, item)
        for kind, items in (
            ("DaemonSet", made.daemon_sets),
            ("Network", made.networks),
            ("ClusterNetwork", made.cluster_networks),
        )
        for item in items
    ]
    if used:
        names = listed(item.metadata.name for item in used)
        message = f"waits until all addresses of the Network {names} are released"
        return Teardown(stage="others", message=message, actions=tuple(actions), removed=True)
    if left:
        message = "; ".join(_waiting(kind, (item,)) for kind, item in left)
        return Teardown(stage="others", message=message, actions=tuple(actions), removed=True)
    if observed.live is None:
        return Teardown(stage="last look", live_read="made", removed=True)
    return Teardown(stage="done", removed=True)


def _staying(items: Iterable[Object]) -> Iterator[Object]:
    return (item for item in items if not item.metadata.is_deleting)


def _has_addresses(network: Network) -> bool:
    return any(pool.used not in ("", "0") for pool in network.status.pools)


def _waiting(kind: str, items: Iterable[Object]) -> str:
    texts = []
    for item in items:
        meta = item.metadata
        why = f" (it waits for its finalizers {', '.join(meta.finalizers)})" if meta.finalizers else ""
        texts.append(f"{meta.key}{why}")
    return f"deletes the {kind} {listed(texts)}"

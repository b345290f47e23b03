"""How what was made for a network is taken away, one step after the other, and never from under a user.

First nobody new may come (the NADs are marked), then nobody may be there or on the way, by the watches and then by what
the API server says at that moment; only then the NADs go, each in the version that was looked at: who uses one may make
something anew until then, and a note on it tells. Whoever dies between two steps leaves a state from which the next one
goes on: what was decided is told by what is gone, by the status, or both.

The same holds for what was left by a network whose finalizer somebody removed by force. It has no status any more, but
what is left of it tells as much.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from lanloom.api.dummy import DummyResource
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.meta import Key, Object, rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.acknowledgements import Acknowledgement, titles
from lanloom.features.dummy.rules.admit_references import (
    Reservation,
    closing,
    reservations_of,
    unsettled,
)
from lanloom.features.dummy.rules.bridges import acknowledgement_of, remover, removing
from lanloom.features.dummy.rules.daemonset import UnknownImage
from lanloom.features.dummy.rules.model import User, UserView
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
from lanloom.text import listed

Stage = Literal["users", "requests", "closing", "asking", "nads", "bridges", "others", "last look", "done"]
"""What is waited for, in order: that users go; that requests end which were allowed before; that the NADs are marked;
an answer of the API server; that the NADs are gone; that the bridges are; that the rest is; one more answer; nothing.
"""


class Teardown(Struct, frozen=True, kw_only=True):
    """The present step. `removed` is true once all bridges are gone that are waited for."""

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
    """The next step. `committed` tells that the NADs were unused and may be gone; `removed`, that the bridges are.

    `recorded` are the objects that are known to have been there, besides those that are.
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
    if not removed:
        step = _bridges(observed, made, recorded)
        if step is not None:
            return step
    return _others(observed, made)


def _blocker(
    observed: Observed, nads: tuple[NetworkAttachmentDefinition, ...], recorded: tuple[DummyResource, ...]
) -> Teardown | None:
    """Why the NADs may not go yet."""
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
    """The NADs whose users count: those that there are, and those that somebody took away from under users.

    Not those in whose place there is somebody else's: it stays where it is, and so do its users.
    """
    there = {nad.metadata.key for nad in nads}
    were = {Key(item.namespace, item.name) for item in recorded if item.kind == NADS.kind}
    return sorted(there | (were - observed.foreign))


def _users(view: UserView, keys: Iterable[Key]) -> tuple[User, ...]:
    return tuple(sorted({user for key in keys for user in view.users_of(key)}))


def _blocked(
    users: tuple[User, ...], actions: tuple[Action, ...] = (), wait: float | None = None
) -> Teardown:
    message = f"in use by {listed(map(str, users))}; the network is removed when it has no users left"
    return Teardown(stage="users", message=message, users=users, actions=actions, wait=wait)


def _requests(observed: Observed, nads: Iterable[NetworkAttachmentDefinition]) -> tuple[Reservation, ...]:
    """Requests that may still bring a user."""
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


def _bridges(observed: Observed, made: Made, recorded: tuple[DummyResource, ...]) -> Teardown | None:
    """The removal of the bridges; None where nothing can be there to be removed."""
    nodes = acknowledgement_of(observed, "absent")
    sets = made.daemon_sets
    if not sets and observed.live is None:
        return Teardown(stage="asking", live_read="made")
    if not sets:
        lost = any(item.kind == DAEMON_SETS.kind for item in recorded)
        again = remover(observed, observed.dcn.spec.bridge_name) if lost and nodes.live else None
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
        message = f"{count}; {why or f'waiting for {listed(titles(nodes.missing))}'}"
        return Teardown(stage="bridges", message=message, nodes=nodes, wait=wait)
    leaving = tuple(deletion(DAEMON_SETS, item) for item in sets if not item.metadata.is_deleting)
    message = f"{count}{_without(nodes)}"
    return Teardown(stage="others", message=message, actions=leaving, nodes=nodes, removed=True)


def _removing(observed: Observed, sets: tuple[DaemonSet, ...]) -> tuple[tuple[Action, ...], str]:
    """What makes the DaemonSets remove the bridges, or why nothing can."""
    try:
        return removing(observed, sets), ""
    except UnknownImage as error:
        return (), str(error)


def _without(nodes: Acknowledgement) -> str:
    if not nodes.away:
        return ""
    return f"; skipping {listed(nodes.away)}, whose agents remove it when they return"


def _others(observed: Observed, made: Made) -> Teardown:
    """What is left besides NADs: the DaemonSets, which have done their work, and what only stood behind the NADs."""
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

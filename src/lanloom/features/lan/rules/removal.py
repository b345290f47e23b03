"""Who uses a LAN, and in which order its NADs go, and the LAN itself: never from under a user.

Users are objects that refer to a NAD of the LAN, or to another NAD that names a spoke, and what is attached. A
reference keeps a LAN before anything is attached, and nodes report what is, whichever NAD it came by.

First no new users may come (the NADs are marked), then none may be there or on the way, by the watches and then by what
the API server says at that moment; only then the NADs go, each in the version that was looked at: a note of a new user
changes that version. A LAN goes after its NADs, and after every node that is up has said that it carries nothing of it.
Each step may be the last that a manager takes: the next one goes on from what it left.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from lanloom.api.core import PODS, Node
from lanloom.api.lan import LAN, LANNode, Spoke
from lanloom.api.meta import Key, parse_rfc3339, rfc3339
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.nads import owner_of
from lanloom.kube.conditions import find
from lanloom.nads.guard import closing, pending
from lanloom.nads.references import NadUse
from lanloom.text import listed

NODE_SECONDS = 300.0
"""For so many seconds a node that is not Ready is waited for. Its own agent cleans up when it is back."""

REREAD_SECONDS = 15.0
"""Until the API server is asked again for what it showed, and no watch: a watch that never brought it may never tell of
its end either.
"""

Stage = Literal["users", "closing", "requests", "read", "delete", "gone"]


class Mark(NamedTuple):
    """Annotations to write on a NAD, in the version that was looked at."""

    nad: NetworkAttachmentDefinition
    annotations: dict[str, str]


class Retirement(Struct, frozen=True, kw_only=True):
    """The next step of the removal of NADs. `wait` are the seconds after which to look again, if time decides."""

    stage: Stage
    message: str = ""
    users: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    delete: tuple[NetworkAttachmentDefinition, ...] = ()
    wait: float | None = None


def attached(uid: str, reports: Iterable[LANNode]) -> Iterator[tuple[str, Spoke]]:
    """Yield the attached spokes of a LAN, each with its node."""
    for report in reports:
        for entry in report.status.lans:
            if entry.uid == uid:
                yield from ((report.metadata.name, spoke) for spoke in entry.spokes)


def admitted(lan: LAN, naming: Iterable[NetworkAttachmentDefinition]) -> frozenset[Key]:
    """Return the NADs of others by which users come to a LAN, out of those that are `naming` a spoke of it.

    NADs of namespaces that the LAN does not admit bring no users: these can't keep it.
    """
    others = (nad.metadata for nad in naming if owner_of(nad.metadata) != lan.metadata.uid)
    return frozenset(meta.key for meta in others if lan.admits(meta.namespace))


def users_of(use: NadUse, nads: Iterable[Key], lan: LAN | None) -> tuple[str, ...]:
    """Return the users of a LAN's NADs, for messages; ordered.

    An object that refers to a NAD from a namespace that the LAN does not admit attaches nowhere, and can't keep the
    LAN. Of a LAN that is gone, None, all users count.
    """
    found = (user for nad in nads for user in use.users_of(nad))
    return tuple(sorted({str(user) for user in found if lan is None or lan.admits(user.namespace)}))


def with_attached(use: NadUse, users: Iterable[str], there: Iterable[tuple[str, Spoke]]) -> tuple[str, ...]:
    """Return the users, and those of the attached spokes who are not among them, by whichever NAD they came."""
    every = set(users)
    for _, spoke in there:
        namespace, _, name = spoke.pod.partition("/")
        title = str(use.user_of(Key(namespace, name))) if name else ""
        if title and not any(user == title or user.startswith(f"{title} (") for user in every):
            every.add(title)
    return tuple(sorted(every))


def title_at(node: str, spoke: Spoke) -> str:
    """Return an attached spoke for messages, with its pod if that is known."""
    pod = f": {PODS.kind} {spoke.pod}" if spoke.pod else ""
    return f"spoke {spoke.name} ({spoke.mode}) on node {node}{pod}"


def retirement(
    nads: Sequence[NetworkAttachmentDefinition],
    use: NadUse,
    *,
    now: float,
    live: bool,
    others: Iterable[Key] = (),
    lan: LAN | None = None,
) -> Retirement:
    """Return the next step for NADs that are to go together.

    With `live`, NADs and users were read just now, in this order.
    `others` are NADs that stay, and whose users keep these as their own do. `lan` is that of the NADs, None for one
    that is gone.
    """
    if not nads:
        return Retirement(stage="gone")
    marks = tuple(Mark(nad, missing) for nad in nads if (missing := closing(nad, use.seen, now)))
    users = users_of(use, (*(nad.metadata.key for nad in nads), *others), lan)
    reread = REREAD_SECONDS if live else None
    if users:
        message = f"in use by {listed(users)}"
        return Retirement(stage="users", message=message, users=users, marks=marks, wait=reread)
    if marks:
        return Retirement(
            stage="closing", message="no new users are let in any more", marks=marks, wait=reread
        )
    if requests := [request for nad in nads for request in pending(nad, use.seen, now)]:
        last = max(request.until for request in requests)
        titles = listed(dict.fromkeys(request.title for request in requests))
        message = (
            f"waits until {rfc3339(last + 1)} at the latest for requests that were allowed before: {titles}"
        )
        soonest = min(request.until for request in requests)
        return Retirement(stage="requests", message=message, wait=max(0.0, soonest - now) + 1)
    if not live:
        return Retirement(stage="read", message="looks for users a last time")
    going = tuple(nad for nad in nads if not nad.metadata.is_deleting)
    message = f"deletes the NAD {listed(map(_name, nads))}"
    return Retirement(stage="delete", message=message, delete=going, wait=reread)


class CarryingNodes(NamedTuple):
    """Nodes that carry a LAN: those that are waited for, those that are not any more, and the next change by time.

    `until` is in seconds since the epoch, None if time changes nothing.
    """

    waited: tuple[str, ...]
    away: tuple[str, ...]
    until: float | None


def carrying_nodes(uid: str, reports: Iterable[LANNode], nodes: Iterable[Node], now: float) -> CarryingNodes:
    """Return the nodes that report a LAN, by what is known of them."""
    known = {node.metadata.name: node for node in nodes}
    ends: dict[str, float | None] = {}
    for report in reports:
        if any(entry.uid == uid for entry in report.status.lans):
            node = known.get(report.metadata.name)
            ends[report.metadata.name] = given_up(node) if node is not None else 0.0
    waited = tuple(sorted(name for name, end in ends.items() if end is None or now < end))
    until = min((end for name in waited if (end := ends[name]) is not None), default=None)
    return CarryingNodes(waited, tuple(sorted(ends.keys() - set(waited))), until)


def given_up(node: Node) -> float | None:
    """Return when a node is not waited for any more, in seconds since the epoch; None while it is Ready."""
    if node.metadata.is_deleting:
        return 0.0
    found = find(node.status.conditions, "Ready")
    if found is not None and found.status == "True":
        return None
    since = (found.last_transition_time if found else "") or node.metadata.creation_timestamp or ""
    try:
        return parse_rfc3339(since) + NODE_SECONDS
    except ValueError:
        return 0.0


def _name(nad: NetworkAttachmentDefinition) -> str:
    meta = nad.metadata
    return (
        f"{meta.name} (it waits for its finalizers {', '.join(meta.finalizers)})"
        if meta.finalizers
        else meta.name
    )

"""What happened lately, of all kinds in one time line: Lanloom's Events, and conditions with the time of a change."""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import EVENTS, Event
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import BACK, NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Condition, Object
from lanloom.api.resource import Resource
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Names, Page, Table
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.ports import Reader

CONDITIONED: tuple[Resource[Any], ...] = (
    CLUSTER_NETWORKS,
    CLUSTER_NETWORK_NODES,
    DUMMY_CLUSTER_NETWORKS,
    LANS,
    NETWORKS,
    NETWORK_SWAPS,
)
"""The kinds whose conditions are in the time line."""

TROUBLES = frozenset({"Full", "NearlyFull", "Stalled"})
"""Conditions that tell of a problem when they are true."""

OURS = "lanloom"
"""How the components begin that write Lanloom's Events."""

NORMAL, WARNING = "Normal", "Warning"


class Change(Struct, frozen=True, kw_only=True):
    """Something that changed at a time (RFC 3339). `what` is the object, `count` how often it happened."""

    time: str
    type: str
    what: str
    reason: str
    message: str
    count: int = 1


CHANGE_FIELDS: Query[Change] = Query(
    (
        Field("time", "Time", "timestamp", "When it last happened", lambda item: item.time or None),
        Field(
            "type",
            "Type",
            "text",
            "Normal or Warning",
            lambda item: item.type,
            style=lambda item: "green" if item.type == NORMAL else "red",
        ),
        Field("what", "Object", "text", "Kind and name", lambda item: item.what),
        Field("reason", "Reason", "text", "Reason", lambda item: item.reason),
        Field("message", "Message", "text", "Message", lambda item: item.message),
        Field("count", "Times", "number", "How often", lambda item: item.count),
    ),
    ("time", "type", "what", "reason", "message", "count"),
)
"""The fields of the time line."""


async def changes(client: Reader, _names: Names) -> Content:
    """Return the time line, the latest first, as far as the reader may see it."""
    events, *conditioned = await asyncio.gather(
        _listed(client, EVENTS), *(_listed(client, kind) for kind in CONDITIONED)
    )
    found = [change_of(event) for event in events if _is_ours(event)]
    for kind, items in zip(CONDITIONED, conditioned, strict=True):
        found += [
            _condition(kind, item, condition)
            for item in items
            for condition in item.status.conditions
            if condition.last_transition_time  # without one no controller has written it yet
        ]
    found.sort(key=lambda item: (item.time, item.what, item.reason), reverse=True)
    return Content(
        title="Changes", tables=(Table(title="Changes", query=CHANGE_FIELDS, rows=found, first=FIRST),)
    )


FIRST = (
    "No change has been reported that you may see. Lanloom's Events, and conditions that change, come here by "
    "themselves, once there is a network."
)


async def _listed(client: Reader, kind: Resource[Any]) -> Iterable[Any]:
    try:
        return (await client.list(kind)).items
    except (Forbidden, NotFound):
        return ()


def change_of(event: Event) -> Change:
    """Return an Event as a line."""
    about = event.involved_object
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    return Change(
        time=event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or "",
        type=event.type,
        what=f"{about.kind} {name}",
        reason=event.reason,
        message=event.message,
        count=event.count,
    )


def _condition(kind: Resource[Any], item: Object, condition: Condition) -> Change:
    bad = condition.status == ("True" if condition.type in TROUBLES else "False")
    if isinstance(item, NetworkSwap) and item.status.phase not in BACK:
        bad = False  # a step that is not done yet
    return Change(
        time=condition.last_transition_time,
        type=WARNING if bad else NORMAL,
        what=f"{kind.kind} {item.metadata.key}",
        reason=f"{condition.type} {condition.status}: {condition.reason}",
        message=condition.message,
    )


def _is_ours(event: Event) -> bool:
    return (event.source.component or event.reporting_component).startswith(OURS)


CHANGES = Page(
    path="/changes",
    menu="Changes",
    front=False,
    command="kubectl get events --all-namespaces",
    kinds=(EVENTS, *CONDITIONED),
    read=changes,
)

"""Nodes: what all features have on one, as one drawing from its NICs to its pods and machines."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from lanloom.api.core import EVENTS, NODES, Node
from lanloom.api.resource import Resource
from lanloom.cli.query import Field, Query
from lanloom.console.changes import CHANGE_FIELDS, Change, change_of
from lanloom.console.page import (
    LAYERS,
    Box,
    Content,
    Drawing,
    Names,
    NodePart,
    NodeView,
    NoSuchPage,
    NotReady,
    Page,
    Table,
)
from lanloom.kube.conditions import find
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.ports import Reader
from lanloom.refusals import Refusal

NODE_FIELDS: Query[Node] = Query(
    (
        Field("name", "Node", "text", "Name", lambda node: node.metadata.name),
        Field(
            "addresses",
            "Addresses",
            "list",
            "Internal addresses",
            lambda node: _addresses(node),
        ),
    ),
    ("name", "addresses"),
)
"""The fields of nodes."""


def node_pages(views: Sequence[NodeView]) -> tuple[Page, ...]:
    """Return the pages of nodes, from what each feature shows of one."""
    every: list[Resource[Any]] = [NODES, EVENTS, *(kind for view in views for kind in view.kinds)]
    kinds = tuple(dict.fromkeys(every))
    return (
        Page(path="/nodes", menu="Nodes", front=False, command="lanloom status", kinds=(NODES,), read=_nodes),
        Page(path="/nodes/{name}", command="lanloom status", kinds=kinds, read=partial(_node, views)),
    )


async def _nodes(client: Reader, _names: Names) -> Content:
    table = Table(
        title="Nodes",
        query=NODE_FIELDS,
        rows=sorted((await client.list(NODES)).items, key=lambda node: node.metadata.name),
        first="No node has joined the cluster. One is here once its kubelet runs; see `kubectl get nodes`.",
        name=lambda node: node.metadata.name,
        href=lambda node: f"/nodes/{node.metadata.name}",
        not_ready=_not_ready,
    )
    return Content(title="Nodes", tables=(table,))


async def _node(views: Sequence[NodeView], client: Reader, names: Names) -> Content:
    """Return what there is on one node. Raises NoSuchPage."""
    name = names["name"]
    try:
        node = await client.get(NODES, name)
    except NotFound:
        raise NoSuchPage(f"there is no node {name}") from None
    parts = await asyncio.gather(*(_part(view, client, name) for view in views))
    layers = [(title, [box for part in parts for box in part.boxes.get(title, ())]) for title in LAYERS]
    lines = [line for part in parts for line in part.lines]
    events = await _events(client, name)
    changes = Table(title="Changes and repairs", query=CHANGE_FIELDS, rows=events)
    return Content(
        title=name,
        not_ready=_not_ready(node),
        facts=(("Addresses", ", ".join(_addresses(node))),),
        drawing=Drawing(title=f"Networks of {name}", layers=_unique(layers), lines=lines),
        tables=(*(table for part in parts for table in part.tables), changes),
    )


async def _part(view: NodeView, client: Reader, name: str) -> NodePart:
    """Return what a feature has there; nothing of kinds that the reader may not see, or that are not served."""
    try:
        return await view.read(client, name)
    except (Forbidden, NotFound, Refusal):
        return NodePart()


async def _events(client: Reader, node: str) -> list[Change]:
    fields = f"involvedObject.kind=Node,involvedObject.name={node}"
    try:
        found = (await client.list(EVENTS, fields=fields)).items
    except Forbidden:
        return []
    return sorted(map(change_of, found), key=lambda item: item.time, reverse=True)


def _unique(layers: Sequence[tuple[str, list[Box]]]) -> list[tuple[str, list[Box]]]:
    """Return each box once: two features may know the same NIC, or the same pod."""
    known: set[str] = set()
    found = []
    for title, boxes in layers:
        fresh = {
            box.key: box for box in reversed(boxes) if box.key not in known
        }  # of two the first one counts
        known.update(fresh)
        found.append((title, list(fresh.values())))
    return found


def _addresses(node: Node) -> list[str]:
    return [item.address for item in node.status.addresses if item.type == "InternalIP"]


def _not_ready(node: Node) -> NotReady | None:
    ready = find(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return None
    return NotReady(ready.reason or "NotReady", ready.message, ready.last_transition_time)

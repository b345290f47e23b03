"""Isolated networks in the console."""

import time

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.cli.query import Field, Query
from lanloom.console.deletion import USER_FIELDS, page_of
from lanloom.console.page import (
    NOT_READY,
    READY,
    Box,
    Content,
    Names,
    NodePart,
    NodeView,
    NoSuchPage,
    NotReady,
    Page,
    Table,
)
from lanloom.features.dummy.blockers import usage
from lanloom.features.dummy.views import (
    KINDS,
    NETWORK_FIELDS,
    NODE_FIELDS,
    Awaited,
    DummyView,
    dummy_views,
    read_dummies,
)
from lanloom.kube.conditions import READY as IS_READY
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader
from lanloom.kube.scoped import Widest

_UNDER_WAY = frozenset({"Pending", "Terminating"})
"""The phases that end by themselves."""


AWAITED_FIELDS: Query[Awaited] = Query(
    (
        Field("title", "Request", "text", "Object", lambda item: item.title),
        Field("until", "At the latest", "timestamp", "Until when it may be stored", lambda item: item.until),
    ),
    ("title", "until"),
)
"""The requests that a draining network waits for."""


async def networks(client: Reader, _names: Names) -> Content:
    """Return all isolated networks."""
    table = Table(
        title="Isolated networks",
        query=NETWORK_FIELDS,
        rows=await _views(client),
        first="No isolated network exists. To begin, create a DummyClusterNetwork: "
        "`kubectl apply -f examples/dummy.yaml` (docs/dummy.md).",
        name=lambda view: view.name,
        href=lambda view: f"/isolated/{view.name}",
        not_ready=_not_ready,
    )
    return Content(title="Isolated networks", tables=(table,))


async def network(client: Reader, names: Names) -> Content:
    """Return one isolated network: nodes and users. Raises NoSuchPage."""
    views = {view.name: view for view in await _views(client)}
    if names["name"] not in views:
        raise NoSuchPage(f"there is no DummyClusterNetwork {names['name']}")
    view = views[names["name"]]
    nodes = Table(
        title="Nodes",
        query=NODE_FIELDS,
        rows=view.nodes,
        name=lambda item: item.node,
        not_ready=lambda item: None if item.acknowledged else NotReady(item.state, item.message),
    )
    facts = (
        ("Scope", view.scope),
        ("Bridge", view.bridge),
        ("NAD", view.nad),
        ("Subnet", view.subnet),
        ("Users", str(len(view.users))),
        ("Being deleted since", view.deleting),
        ("Takes no new users since", view.draining),
        ("Not reaching each other", ", ".join(view.divided)),
    )
    users = Table(
        title="Users",
        query=USER_FIELDS,
        rows=tuple(map(usage, view.users)),
        name=lambda item: item.title,
        href=page_of,
    )
    awaited = Table(title="Requests that may still be stored", query=AWAITED_FIELDS, rows=view.awaited)
    tables = (users, awaited, nodes)
    return Content(title=view.name, not_ready=_not_ready(view), facts=facts, tables=tables)


async def on_node(client: Reader, node: str) -> NodePart:
    """Return the isolated networks of a node, with their users there. Raises KubeError."""
    views = [view for view in await _views(client) if any(item.node == node for item in view.nodes)]
    states = {view.name: next(item for item in view.nodes if item.node == node) for view in views}
    bridges = [
        Box(
            key=f"link {view.bridge}",
            label=view.bridge,
            note=f"isolated network {view.name}",
            words=states[view.name].message,
            state=READY if states[view.name].acknowledged else NOT_READY,
            href=f"/isolated/{view.name}",
        )
        for view in views
    ]
    users = [(view, user) for view in views for user in view.users if node in user.nodes]
    return NodePart(
        boxes={
            "Bridges": bridges,
            "Pods and machines": [
                Box(
                    key=f"pod {user.namespace}/{user.name}",
                    label=f"{user.namespace}/{user.name}",
                    note=user.kind,
                )
                for _, user in users
            ],
        },
        lines=[(f"link {view.bridge}", f"pod {user.namespace}/{user.name}") for view, user in users],
    )


async def _views(client: Reader) -> tuple[DummyView, ...]:
    """Return all networks, which are in no namespace, with what belongs to them in all namespaces."""
    objects, users = await read_dummies(Widest(client))
    return dummy_views(objects, users, time.time())


def _not_ready(view: DummyView) -> NotReady | None:
    if view.is_ready:
        return None
    found = find(view.conditions, IS_READY)
    since = found.last_transition_time if found is not None and found.status == "False" else ""
    return NotReady(view.shown_phase, view.message, since, under_way=view.phase in _UNDER_WAY)


PAGES = (
    Page(
        path="/isolated",
        menu="Isolated networks",
        command="lanloom dummy list",
        kinds=KINDS,
        read=networks,
        wide=KINDS,
    ),
    Page(
        path="/isolated/{name}",
        command="lanloom dummy show {name}",
        kinds=KINDS,
        read=network,
        about=DUMMY_CLUSTER_NETWORKS,
        wide=KINDS,
    ),
)

NODE = NodeView(KINDS, on_node)

"""LANs in the console."""

from lanloom.api.lan import LAN_NODES, LANS, LANEntry
from lanloom.cli.query import Field, Query
from lanloom.console.page import (
    READY,
    TROUBLE,
    Box,
    Content,
    Drawing,
    Names,
    NodePart,
    NodeView,
    NoSuchPage,
    Page,
    Table,
    Trouble,
)
from lanloom.features.lan.views import LAN_FIELDS, NODE_FIELDS, SPOKE_FIELDS, LanView, read_views
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Reader

KINDS = (LANS, LAN_NODES)

ENTRY_FIELDS: Query[LANEntry] = Query(
    (
        Field("lan", "LAN", "text", "Namespace and name", lambda item: f"{item.namespace}/{item.name}"),
        Field("vni", "VNI", "number", "VNI", lambda item: item.vni),
        Field("device", "Underlay", "text", "Underlay link", lambda item: item.device or None),
        Field("address", "Endpoint", "text", "Its address", lambda item: item.address or None),
        Field("mtu", "MTU", "number", "MTU in bytes", lambda item: item.mtu or None),
        Field("spokes", "Spokes", "list", "Attached spokes", lambda item: [s.name for s in item.spokes]),
    ),
    ("lan", "vni", "device", "address", "mtu", "spokes"),
)
"""The fields of a LAN on a node."""


async def lans(client: Reader, _names: Names) -> Content:
    """Return all LANs."""
    table = Table(
        title="LANs",
        query=LAN_FIELDS,
        rows=await read_views(client),
        name=lambda view: view.title,
        href=lambda view: f"/lans/{view.title}",
        trouble=_trouble,
    )
    return Content(title="LANs", tables=(table,))


async def lan(client: Reader, names: Names) -> Content:
    """Return one LAN: nodes and spokes. Raises NoSuchPage."""
    title = f"{names['namespace']}/{names['name']}"
    views = {view.title: view for view in await read_views(client)}
    if title not in views:
        raise NoSuchPage(f"there is no LAN {title}")
    view = views[title]
    nodes = Table(
        title="Nodes",
        query=NODE_FIELDS,
        rows=view.nodes,
        name=lambda item: item.name,
        trouble=lambda item: None if item.ready else Trouble("NotReady", item.message),
    )
    spokes = Table(title="Spokes", query=SPOKE_FIELDS, rows=view.spokes, name=lambda item: item.name)
    facts = (
        ("VNI", str(view.vni)),
        ("Underlay", view.underlay),
        ("Replication", view.replication),
        ("MTU", str(view.mtu or "")),
        ("Uplink", view.uplink),
        ("Admits", ", ".join(view.namespaces)),
        ("Being deleted since", view.deleting),
        ("Kept by", ", ".join(view.users)),
    )
    return Content(
        title=title, trouble=_trouble(view), facts=facts, drawing=_drawing(view), tables=(nodes, spokes)
    )


def _drawing(view: LanView) -> Drawing:
    """Return the LAN over its nodes, with what is attached on each."""
    top = Box(key="lan", label=view.title, note=f"VNI {view.vni}", state=READY if view.ready else TROUBLE)
    nodes = [
        Box(
            key=f"node {node.name}",
            label=node.name,
            note=node.address,
            words=node.message or node.warning,
            state=READY if node.ready else TROUBLE,
            href=f"/nodes/{node.name}",
        )
        for node in view.nodes
    ]
    used = [(spoke, node) for spoke in view.spokes for node in spoke.node.split(", ") if node]
    spokes = [
        Box(key=f"spoke {spoke.name}", label=spoke.name, note=spoke.pod or str(spoke.mode))
        for spoke in view.spokes
        if spoke.node
    ]
    lines = [("lan", node.key) for node in nodes]
    lines += [(f"node {node}", f"spoke {spoke.name}") for spoke, node in used]
    layers = (("LAN", [top] if nodes else []), ("Nodes", nodes), ("Spokes", spokes))
    return Drawing(title=f"LAN {view.title} over its nodes", layers=layers, lines=lines)


async def on_node(client: Reader, node: str) -> NodePart:
    """Return the LANs on a node, between its underlay links and what is attached. Raises KubeError."""
    try:
        entries = (await client.get(LAN_NODES, node)).status.lans
    except NotFound:
        return NodePart()
    links = {
        entry.device: Box(key=f"link {entry.device}", label=entry.device) for entry in entries if entry.device
    }
    spokes = [(entry, spoke) for entry in entries for spoke in entry.spokes]
    lines = [(f"link {entry.device}", _key(entry)) for entry in entries]
    lines += [(_key(entry), f"pod {spoke.pod or spoke.name}") for entry, spoke in spokes]
    boxes = {
        "Bonds and links": tuple(links.values()),
        "Networks": [_box(entry) for entry in entries],
        "Pods and machines": [
            Box(
                key=f"pod {spoke.pod or spoke.name}",
                label=spoke.pod or spoke.name,
                note=f"spoke {spoke.name}",
            )
            for _, spoke in spokes
        ],
    }
    table = Table(
        title="LANs",
        query=ENTRY_FIELDS,
        rows=entries,
        name=lambda item: f"{item.namespace}/{item.name}",
        href=lambda item: f"/lans/{item.namespace}/{item.name}",
        trouble=lambda item: None if item.ready else Trouble("NotReady", item.message),
    )
    return NodePart(boxes=boxes, lines=lines, tables=(table,))


def _key(entry: LANEntry) -> str:
    return f"lan {entry.namespace}/{entry.name}"


def _box(entry: LANEntry) -> Box:
    title = f"{entry.namespace}/{entry.name}"
    return Box(
        key=_key(entry),
        label=title,
        note=f"LAN, VNI {entry.vni}",
        words=entry.message or entry.warning or f"LAN {title}: MTU {entry.mtu}",
        state=READY if entry.ready else TROUBLE,
        href=f"/lans/{title}",
    )


def _trouble(view: LanView) -> Trouble | None:
    return None if view.ready else Trouble(view.reason, view.message)


PAGES = (
    Page(path="/lans", menu="LANs", command="lanloom lan list", kinds=KINDS, read=lans),
    Page(
        path="/lans/{namespace}/{name}",
        command="lanloom lan show {namespace}/{name}",
        kinds=KINDS,
        read=lan,
    ),
)

NODE = NodeView(KINDS, on_node)

"""LANs in the console."""

import time

from msgspec.structs import replace

from lanloom.api.core import NODES, PODS
from lanloom.api.lan import LAN_NODES, LANS, LANEntry, NodeResult
from lanloom.cli.query import Field, Query
from lanloom.console.page import (
    NOT_READY,
    READY,
    Box,
    Chain,
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
from lanloom.features.lan.counters import COUNTER_FIELDS, read_counters
from lanloom.features.lan.trace.hops import Hop
from lanloom.features.lan.trace.reading import Asked, read_facts
from lanloom.features.lan.trace.views import HOP_FIELDS, trace_view
from lanloom.features.lan.views import LAN_FIELDS, NODE_FIELDS, SPOKE_FIELDS, LanView, read_views
from lanloom.kube.conditions import READY as IS_READY
from lanloom.kube.conditions import find
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Reader
from lanloom.refusals import Denied

KINDS = (LANS, LAN_NODES, PODS)

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

PAIR_FIELDS: Query[tuple[str, str]] = Query(
    (Field("way", "From and to", "text", "Spokes", lambda pair: f"{pair[0]} → {pair[1]}"),),
    ("way",),
)
"""The fields of a way through a LAN."""

NO_SPOKES = "It has no spoke. A LAN for pods and machines names them in `spec.spokes` (docs/lan.md)."

UPLINK = "uplink"
"""The end of a trace that is the VLAN of a LAN."""

TRAFFIC = (
    "Counted since each port was made. Prometheus has the course: "
    'lanloom_agent_lan_spoke_bytes_total{{namespace="{namespace}",lan="{name}"}}, in Grafana "Traffic of spokes".'
)
"""What counters are not, and where that is."""

MOST_TRACES = 100
"""Ways that a page offers; the address of a trace takes any two spokes."""


async def lans(client: Reader, _names: Names) -> Content:
    """Return all LANs."""
    table = Table(
        title="LANs",
        query=LAN_FIELDS,
        rows=await read_views(client),
        first="No LAN exists. To begin, create one: `kubectl apply -f examples/lan.yaml` (docs/lan.md).",
        name=lambda view: view.title,
        href=lambda view: f"/lans/{view.title}",
        not_ready=_not_ready,
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
        query=_with_peers(view),
        rows=view.nodes,
        first="No node reports it. Whether an agent can run on a node, `lanloom doctor` says there.",
        name=lambda item: item.name,
        not_ready=lambda item: None if item.ready else NotReady("NotReady", item.message),
    )
    spokes = Table(
        title="Spokes",
        query=SPOKE_FIELDS,
        rows=view.spokes,
        first=NO_SPOKES,
        name=lambda item: item.name,
    )
    facts = (
        ("Nodes ready", view.summary),
        ("Spokes attached", f"{view.attached} of {len(view.spokes)}"),
        ("VNI", str(view.vni)),
        ("Underlay", view.underlay),
        ("Replication", view.replication),
        ("MTU", str(view.mtu or "")),
        ("Uplink", view.uplink),
        ("Admits", ", ".join(view.namespaces)),
        ("Subnets", ", ".join(view.subnets)),
        ("Network", view.network),
        ("Being deleted since", view.deleting),
        ("Kept by", ", ".join(view.users)),
        ("Attachments", "those of pods that you may see" if view.partial else ""),
    )
    traces = Table(
        title="Traces",
        query=PAIR_FIELDS,
        rows=_pairs(view),
        name=" to ".join,
        href=lambda pair: f"/lans/{title}/trace/{pair[0]}/{pair[1]}",
    )
    return Content(
        title=title,
        not_ready=_not_ready(view),
        facts=facts,
        drawing=_drawing(view),
        tables=(nodes, spokes, traces),
        parts=(("Traffic", f"/lans/{title}/counters"),),
    )


async def counters(client: Reader, names: Names) -> Content:
    """Return what passed the spokes of one LAN, as the agents count it. Raises NoSuchPage."""
    title = f"{names['namespace']}/{names['name']}"
    try:
        found = await read_counters(client, title)
    except Denied:
        raise NoSuchPage(f"there is no LAN {title}") from None
    table = Table(
        title="Traffic",
        query=COUNTER_FIELDS,
        rows=found.spokes,
        first="No spoke is attached where an agent answers, so nothing was counted.",
        name=lambda item: f"{item.spoke} {item.node}",
    )
    return Content(
        title=f"{title}: traffic",
        links=((title, f"/lans/{title}"),),
        tables=() if found.missing else (table,),
        remarks=(*found.remarks(), TRAFFIC.format(**names)),
    )


def _with_peers(view: LanView) -> Query[NodeResult]:
    """Return the fields of nodes, with how many others each of them exchanges frames with."""
    ready = {node.name for node in view.nodes if node.ready and node.address}

    def peers(node: NodeResult) -> str | None:
        others = len(ready - {node.name})
        return f"{others if node.name in ready else 0} of {len(view.nodes) - 1}"

    field: Field[NodeResult] = Field(
        "peers", "Peers", "text", "Other nodes that carry it and are ready", peers
    )
    return Query(
        (*NODE_FIELDS.fields, field), ("node", "ready", "address", "mtu", "peers", "message"), identity="node"
    )


def _pairs(view: LanView) -> list[tuple[str, str]]:
    """Return the ways between attached spokes, and to its VLAN; none for who may not read what nodes report."""
    if view.partial:
        return []
    spokes = [spoke.name for spoke in view.spokes if spoke.node]
    ends = [*spokes, UPLINK] if view.uplink else spokes
    pairs = [(sender, receiver) for sender in ends for receiver in ends if sender != receiver]
    return pairs[:MOST_TRACES]


async def trace(client: Reader, names: Names) -> Content:
    """Return the way of a frame from one spoke to another, hop by hop. Raises Denied and Malformed."""
    title = f"{names['namespace']}/{names['name']}"
    asked = Asked(lan=title, sender=names["sender"], receiver=names["receiver"])
    view = trace_view(await read_facts(client, asked, now=time.time()))
    hops = [(f"{hop.number}. {hop.node}" if hop.node else f"{hop.number}.", _hop(hop)) for hop in view.hops]
    return Content(
        title=f"{title}: from {view.sender} to {view.receiver}",
        not_ready=None if view.passes else NotReady("Stops", view.verdict),
        facts=(("Verdict", view.verdict if view.passes else ""),),
        drawing=Chain(title="The way of the frame", boxes=hops),
        tables=(Table(title="Hops", query=_HOPS, rows=view.hops, name=lambda hop: hop.name),),
    )


_STATES = {"ok": READY, "stops": NOT_READY}
_STYLES = {"ok": "green", "stops": "red"}
_HOPS = Query(
    tuple(
        replace(field, style=lambda hop: _STYLES.get(hop.state, "")) if field.style is not None else field
        for field in HOP_FIELDS.fields
    ),
    HOP_FIELDS.default,
)
"""The fields of hops. What was not seen is neither ready nor not ready."""


def _hop(hop: Hop) -> Box:
    state = _STATES.get(hop.state, "")
    return Box(key=str(hop.number), label=hop.name, note=hop.kind, words=hop.reason, state=state)


def _drawing(view: LanView) -> Drawing:
    """Return the LAN over its nodes, with what is attached on each."""
    top = Box(key="lan", label=view.title, note=f"VNI {view.vni}", state=READY if view.ready else NOT_READY)
    nodes = [
        Box(
            key=f"node {node.name}",
            label=node.name,
            note=node.address,
            words=node.message or node.warning,
            state=READY if node.ready else NOT_READY,
            href="" if view.partial else f"/nodes/{node.name}",
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
        not_ready=lambda item: None if item.ready else NotReady("NotReady", item.message),
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
        state=READY if entry.ready else NOT_READY,
        href=f"/lans/{title}",
    )


def _not_ready(view: LanView) -> NotReady | None:
    if view.ready:
        return None
    found = find(view.conditions, IS_READY)
    return NotReady(view.reason, view.message, found.last_transition_time if found is not None else "")


PAGES = (
    Page(path="/lans", menu="LANs", command="lanloom lan list", kinds=KINDS, read=lans),
    Page(
        path="/lans/{namespace}/{name}",
        command="lanloom lan show {namespace}/{name}",
        kinds=KINDS,
        read=lan,
        about=LANS,
    ),
    Page(
        path="/lans/{namespace}/{name}/counters",
        command="lanloom lan counters {namespace}/{name}",
        kinds=KINDS,
        read=counters,
    ),
    Page(
        path="/lans/{namespace}/{name}/trace/{sender}/{receiver}",
        command="lanloom lan trace {namespace}/{name} --from {sender} --to {receiver}",
        kinds=(*KINDS, NODES),
        read=trace,
    ),
)

NODE = NodeView(KINDS, on_node)

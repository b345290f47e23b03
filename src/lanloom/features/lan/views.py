"""LANs as people and programs are shown them, from what the API server says now."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from lanloom.api.core import EVENTS, Event
from lanloom.api.lan import LAN, LAN_NODES, LANS, READY, LANNode, Mode, NodeResult, nad_name
from lanloom.api.meta import Condition
from lanloom.cli.query import Field, Query
from lanloom.kube.conditions import find
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client
from lanloom.refusals import Denied
from lanloom.text import listed, quote

T = TypeVar("T")

UNSEEN = "no manager has looked at it yet; is one running?"


class SpokeView(Struct, frozen=True, kw_only=True):
    """A spoke: its NADs, and the node and mode in which something is attached to it, empty if nothing is."""

    name: str
    pods: str
    machines: str
    node: str = ""
    mode: Mode | str = ""


class EventView(Struct, frozen=True, kw_only=True):
    """What was told of a LAN: when last (RFC 3339), and how often."""

    last: str
    type: str
    reason: str
    message: str
    count: int = 1


class LanView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A LAN. `deleting` is when its deletion was asked for; `users` are those that keep it then."""

    namespace: str
    name: str
    uid: str
    ready: bool
    reason: str
    message: str
    ns: str
    bridge: str
    vni: int
    port: int
    group: str
    replication: str
    underlay: str
    underlays: dict[str, str] = {}
    mtu: int = 0
    summary: str = ""
    nodes: tuple[NodeResult, ...] = ()
    spokes: tuple[SpokeView, ...] = ()
    users: tuple[str, ...] = ()
    deleting: str = ""
    created: str = ""
    conditions: tuple[Condition, ...] = ()
    events: tuple[EventView, ...] = ()

    @property
    def title(self) -> str:
        """The LAN's namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def attached(self) -> int:
        """How many of its spokes are in use on some node."""
        return sum(bool(spoke.node) for spoke in self.spokes)


def lan_views(lans: Iterable[LAN], reports: Iterable[LANNode]) -> tuple[LanView, ...]:
    """Every LAN, ordered by namespace and name."""
    places = _places(reports)
    return tuple(_view(lan, places) for lan in sorted(lans, key=lambda item: item.metadata.key))


async def read_views(client: Client) -> tuple[LanView, ...]:
    """Read every LAN, and what nodes report. Raises KubeError."""
    lans, reports = await asyncio.gather(list_or_empty(client, LANS), list_or_empty(client, LAN_NODES))
    return lan_views(lans, reports)


async def read_events(client: Client, uid: str) -> tuple[EventView, ...]:
    """What was told of the LAN of that uid, the latest last. Raises KubeError."""
    found = (await client.list(EVENTS, fields=f"involvedObject.uid={uid}")).items
    return tuple(
        _event(item) for item in sorted(found, key=lambda item: (_last(item), item.metadata.version))
    )


def choose(name: str, by_title: Mapping[str, T]) -> T:
    """The LAN of that name, with its namespace or without. Raises Denied for none, and for several."""
    titles = sorted(title for title in by_title if name in (title, title.partition("/")[2]))
    if name in titles:
        titles = [name]
    if len(titles) == 1:
        return by_title[titles[0]]
    if titles:
        raise Denied(f"several LANs are called {quote(name)}: {listed(titles)}; give the namespace as well")
    there = f"there are {listed(sorted(by_title))}" if by_title else "there is none"
    raise Denied(f"there is no LAN {quote(name)}; {there}")


Places = Mapping[tuple[str, str], tuple[str, str]]
"""By a LAN's uid and a spoke: the node on which it is attached, and its mode."""


def _places(reports: Iterable[LANNode]) -> Places:
    return {
        (entry.uid, spoke.name): (report.metadata.name, spoke.mode)
        for report in reports
        for entry in report.status.lans
        for spoke in entry.spokes
    }


def _view(lan: LAN, places: Places) -> LanView:
    meta, spec, status = lan.metadata, lan.spec, lan.status
    ready = find(status.conditions, READY)
    return LanView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        ready=ready is not None and ready.status == "True",
        reason=ready.reason if ready is not None else "New",
        message=ready.message if ready is not None else UNSEEN,
        ns=spec.ns,
        bridge=spec.bridge,
        vni=spec.vni,
        port=spec.vxlan_port,
        group=spec.vxlan_grp,
        replication=spec.replication,
        underlay=spec.default_vxlan_dev,
        underlays=spec.vxlan_dev_map,
        mtu=status.mtu,
        summary=status.summary,
        nodes=status.nodes,
        spokes=tuple(_spoke(name, places.get((meta.uid, name), ("", ""))) for name in spec.spokes),
        users=status.users,
        deleting=meta.deletion_timestamp or "",
        created=meta.creation_timestamp or "",
        conditions=status.conditions,
    )


def _spoke(name: str, place: tuple[str, str]) -> SpokeView:
    node, mode = place
    return SpokeView(
        name=name, pods=nad_name(name, "veth"), machines=nad_name(name, "macvtap"), node=node, mode=mode
    )


def _last(item: Event) -> str:
    return item.last_timestamp or item.first_timestamp or item.metadata.creation_timestamp or ""


def _event(item: Event) -> EventView:
    return EventView(
        last=_last(item), type=item.type, reason=item.reason, message=item.message, count=item.count
    )


LAN_FIELDS: Query[LanView] = Query(
    (
        Field("namespace", "Namespace", "text", "Namespace", lambda view: view.namespace, whole=True),
        Field("name", "Name", "text", "Name", lambda view: view.name, whole=True),
        Field(
            "ready",
            "Ready",
            "text",
            "Reason of the condition Ready",
            lambda view: view.reason,
            style=lambda view: "green" if view.ready else "yellow",
            whole=True,
        ),
        Field("vni", "VNI", "number", "VXLAN network identifier", lambda view: view.vni, whole=True),
        Field("port", "Port", "number", "UDP port of the VXLAN", lambda view: view.port, whole=True),
        Field("group", "Group", "text", "Multicast group", lambda view: view.group, whole=True),
        Field("replication", "Replication", "text", "head-end or multicast", lambda view: view.replication),
        Field("ns", "Namespace on nodes", "text", "Network namespace on the nodes", lambda view: view.ns),
        Field(
            "mtu", "MTU", "number", "Largest packet that fits on every node", lambda view: view.mtu or None
        ),
        Field(
            "nodes",
            "Nodes",
            "text",
            "Number of nodes on which it is ready, and of those that carry it",
            lambda view: view.summary,
            whole=True,
        ),
        Field(
            "spokes",
            "Spokes",
            "text",
            "Number of spokes with something attached, and of all",
            lambda view: f"{view.attached}/{len(view.spokes)}",
            whole=True,
        ),
        Field("message", "Message", "text", "Message of the condition Ready", lambda view: view.message),
    ),
    ("namespace", "name", "ready", "vni", "nodes", "mtu", "spokes"),
    ruled=True,
)
"""The fields of `lanloom lan list`."""

NODE_FIELDS: Query[NodeResult] = Query(
    (
        Field("node", "Node", "text", "Node", lambda item: item.name, whole=True),
        Field(
            "ready",
            "Ready",
            "bool",
            "Whether the LAN is ready there",
            lambda item: item.ready,
            style=lambda item: "green" if item.ready else "yellow",
        ),
        Field("address", "Endpoint", "text", "VXLAN endpoint", lambda item: item.address or None, whole=True),
        Field("mtu", "MTU", "number", "What the underlay allows", lambda item: item.mtu or None),
        Field("message", "Message", "text", "What is missing", lambda item: item.message),
    ),
    ("node", "ready", "address", "mtu", "message"),
    ruled=True,
)
"""The nodes in `lanloom lan show`."""

SPOKE_FIELDS: Query[SpokeView] = Query(
    (
        Field("spoke", "Spoke", "text", "Spoke", lambda item: item.name, whole=True),
        Field("pods", "NAD for pods", "text", "NAD for pods", lambda item: item.pods, whole=True),
        Field(
            "machines", "NAD for machines", "text", "NAD for machines", lambda item: item.machines, whole=True
        ),
        Field("node", "On node", "text", "Node on which it is attached", lambda item: item.node or None),
        Field("mode", "As", "text", "veth for a pod, macvtap for a machine", lambda item: item.mode or None),
    ),
    ("spoke", "pods", "machines", "node", "mode"),
    ruled=True,
)
"""The spokes in `lanloom lan show`."""

"""LANs as people and programs are shown them, from what the API server says now."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import (
    LAN,
    LAN_NODES,
    LANS,
    READY,
    UNDERLAY_READY,
    LANNode,
    LANSpec,
    Mode,
    NodeResult,
    nad_name,
)
from lanloom.api.meta import Condition
from lanloom.cli.details import EventView
from lanloom.cli.query import Field, Query
from lanloom.features.lan.attachments import Attached, Places, places_of_reports, read_own_places
from lanloom.features.lan.rules.options import Options, PortOptions, options_of
from lanloom.features.lan.rules.status import narrowest, title_of_uplink
from lanloom.features.lan.rules.underlays import ADDRESSES_DIFFER
from lanloom.kube.conditions import find
from lanloom.kube.errors import Forbidden
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.refusals import Denied
from lanloom.text import listed, quote

T = TypeVar("T")

UNSEEN = "no manager has looked at it yet; is one running?"


class SpokeView(Struct, frozen=True, kw_only=True):
    """A spoke: its NADs, and the node and mode in which something is attached to it, empty if nothing is.

    `node` names two nodes, separated by a comma, while a machine migrates from one to the other; `pod` the pods that
    have it there, as `namespace/name`. `options` are in words those that hold for it, empty without any.
    """

    name: str
    pods: str
    machines: str
    node: str = ""
    pod: str = ""
    mode: Mode | str = ""
    options: str = ""


class LanView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A LAN. `deleting` is when its deletion was asked for; `users` are those that keep it then. `uplink` is the VLAN
    that the node `uplink_node` joins it to.

    `underlay_fault` says which nodes can't carry the LAN, or would not reach each other.
    `limited_by` is the node that allows no larger MTU; `limits` are the options of the whole LAN, in words.
    `namespaces` are those that it admits in addition to its own, `network` the Network of its own `subnets`. With
    `partial`, spokes show the pods that the reader may see.
    """

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
    uplink: str = ""
    uplink_node: str = ""
    mtu: int = 0
    limited_by: str = ""
    underlay_fault: str = ""
    limits: str = ""
    namespaces: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    network: str = ""
    summary: str = ""
    nodes: tuple[NodeResult, ...] = ()
    spokes: tuple[SpokeView, ...] = ()
    users: tuple[str, ...] = ()
    deleting: str = ""
    created: str = ""
    conditions: tuple[Condition, ...] = ()
    events: tuple[EventView, ...] = ()
    partial: bool = False

    @property
    def title(self) -> str:
        """The LAN's namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def attached(self) -> int:
        """How many of its spokes are in use on some node."""
        return sum(bool(spoke.node) for spoke in self.spokes)


def lan_views(lans: Iterable[LAN], reports: Iterable[LANNode]) -> tuple[LanView, ...]:
    """Return every LAN, ordered by namespace and name."""
    return _views(lans, places_of_reports(reports))


def _views(lans: Iterable[LAN], places: Places) -> tuple[LanView, ...]:
    return tuple(_view(lan, places) for lan in sorted(lans, key=lambda item: item.metadata.key))


async def read_views(client: Reader, namespace: str = "") -> tuple[LanView, ...]:
    """Read every LAN, or those of a namespace, and what nodes report. Raises KubeError.

    Who may not read the nodes' reports, as a tenant, gets what the LAN's status says, and the attachments of his pods.
    """
    lans = await list_or_empty(client, LANS, namespace)
    try:
        return lan_views(lans, await list_or_empty(client, LAN_NODES))
    except Forbidden:
        places = await read_own_places(client, lans, namespace)
        return tuple(replace(view, partial=True) for view in _views(lans, places))


async def read_served(client: Reader, namespace: str = "") -> tuple[LanView, ...]:
    """Read the same. Raises KubeError, also where the kind is not served."""
    views = await read_views(client, namespace)
    if not views:
        await client.list(LANS, namespace)  # which fails where no LAN can be
    return views


async def read_visible(client: Reader, namespace: str) -> tuple[LanView, ...]:
    """Read every LAN; those of `namespace` alone for who may not list others, as a tenant. Raises KubeError."""
    try:
        return await read_served(client)
    except Forbidden:
        if not namespace:
            raise
        return await read_served(client, namespace)


async def read_view(client: Reader, name: str, namespace: str = "") -> LanView:
    """Read the LAN that a user means, as `choose`. Raises KubeError, and Denied."""
    views = await read_visible(client, name.partition("/")[0] if "/" in name else namespace)
    return choose(name, {view.title: view for view in views}, namespace)


def choose(name: str, by_title: Mapping[str, T], namespace: str = "") -> T:
    """Return the LAN of that name, with its namespace or without: then `namespace` goes before others.

    Raises Denied for none, and for several.
    """
    if (own := f"{namespace}/{name}") in by_title:
        return by_title[own]
    titles = sorted(title for title in by_title if name in (title, title.partition("/")[2]))
    if name in titles:
        titles = [name]
    if len(titles) == 1:
        return by_title[titles[0]]
    if titles:
        raise Denied(f"several LANs are called {quote(name)}: {listed(titles)}; give the namespace as well")
    there = f"there are {listed(sorted(by_title))}" if by_title else "there is none"
    raise Denied(f"there is no LAN {quote(name)}; {there}")


def _view(lan: LAN, places: Places) -> LanView:
    meta, spec, status = lan.metadata, lan.spec, lan.status
    limited, options = narrowest(status.nodes), options_of(spec)
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
        uplink=title_of_uplink(spec.uplink) if spec.uplink is not None else "",
        uplink_node=next((item.name for item in status.nodes if item.uplink), ""),
        mtu=status.mtu,
        summary=status.summary,
        nodes=status.nodes,
        limited_by=limited.node if limited is not None else "",
        underlay_fault=_fault(status.conditions),
        limits=", ".join(_limits(spec)),
        namespaces=spec.namespaces,
        subnets=tuple(item.cidr for item in spec.subnets),
        network=status.network,
        spokes=tuple(_spoke(name, places.get((meta.uid, name), Attached()), options) for name in spec.spokes),
        users=status.users,
        deleting=meta.deletion_timestamp or "",
        created=meta.creation_timestamp or "",
        conditions=status.conditions,
    )


def _fault(conditions: tuple[Condition, ...]) -> str:
    found = find(conditions, UNDERLAY_READY)
    if found is None or found.status != "False":
        return ""
    return found.message if found.reason == ADDRESSES_DIFFER else f"no underlay on {found.message}"


def _limits(spec: LANSpec) -> Iterator[str]:
    """Yield the options of the whole LAN, in words."""
    if spec.port_security:
        yield "port security"
    if spec.max_learned_macs:
        yield f"at most {spec.max_learned_macs} learned MAC addresses on each node"
    if spec.storm_control is not None:
        rate = spec.storm_control.packets_per_second
        yield f"storm control at {rate} frames a second from each spoke" if rate else "no storm control"
    if spec.mtu:
        yield f"interfaces with MTU {spec.mtu}"


def _spoke(name: str, at: Attached, options: Options) -> SpokeView:
    return SpokeView(
        name=name,
        pods=nad_name(name, "veth"),
        machines=nad_name(name, "macvtap"),
        node=at.node,
        pod=at.pod,
        mode=at.mode,
        options=", ".join(_words(options.port(name))),
    )


def _words(port: PortOptions) -> Iterator[str]:
    if port.isolated:
        yield "isolated"
    if port.secured:
        yield "port security"
    if port.limit:
        yield f"{port.limit} MACs"
    if port.mtu:
        yield f"MTU {port.mtu}"


def _remarks(item: NodeResult) -> str:
    return "; ".join(filter(None, (item.message, item.warning)))


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
    resource=f"{LANS.singular}.{LANS.group}",
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
        Field("message", "Message", "text", "What is missing, or to be looked at", _remarks),
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
        Field("pod", "Pod", "text", "Pod that has it", lambda item: item.pod or None, whole=True),
        Field("mode", "As", "text", "veth for a pod, macvtap for a machine", lambda item: item.mode or None),
        Field("options", "Options", "text", "Options that hold for it", lambda item: item.options or None),
    ),
    ("spoke", "pods", "machines", "node", "pod", "mode", "options"),
    ruled=True,
)
"""The spokes in `lanloom lan show`."""

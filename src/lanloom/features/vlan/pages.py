"""VLAN networks in the console."""

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.cli.query import Field, Query
from lanloom.console.page import (
    BUSY,
    NOT_READY,
    Box,
    Cell,
    Content,
    Drawing,
    Matrix,
    Names,
    NoSuchPage,
    NotReady,
    Page,
    Table,
)
from lanloom.console.page import READY as WELL
from lanloom.features.vlan.planpage import PLANS
from lanloom.features.vlan.rules.report.status import PASSING
from lanloom.features.vlan.rules.rollout.stages import PROGRESSING, ROLLED_OUT
from lanloom.features.vlan.views import VlanObjects, read_objects
from lanloom.features.vlan.views.overview import overview
from lanloom.features.vlan.views.view import (
    ADDRESS_FIELDS,
    NETWORK_FIELDS,
    READY,
    UPLINK_FIELDS,
    ClusterNetworkView,
    NetworkView,
    NodeView,
    UnknownNetwork,
    cluster_network_view,
    find_view,
    network_views,
)
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader

_UNDER_WAY = (PASSING - {"NoReport"}) | {PROGRESSING}
"""The reasons that go away by themselves; an agent that does not report may be gone."""

_PLAN = "Plan a change"

KINDS = (NODES, CLUSTER_NETWORKS, VLAN_CONFIGS, NADS, CLUSTER_NETWORK_NODES)


async def networks(client: Reader, _names: Names) -> Content:
    """Return all networks, and where each is."""
    objects = await read_objects(client)
    views = network_views(objects)
    table = _networks("No VLAN network exists.", views, objects)
    return Content(title="VLAN networks", matrix=_matrix(views), tables=(table,))


async def network(client: Reader, names: Names) -> Content:
    """Return one network on its nodes. Raises NoSuchPage."""
    objects = await read_objects(client)
    found = _find(objects, f"{names['namespace']}/{names['name']}")
    assert isinstance(found, NetworkView)
    facts = (
        ("Cluster network", found.cluster_network),
        ("VLAN", found.vlan),
        ("Node addresses", found.mode),
        ("Nodes ready", f"{found.ready} of {found.total}"),
    )
    return Content(
        title=found.network,
        not_ready=_not_ready(found, objects),
        facts=facts,
        links=((_PLAN, f"{_href(found)}/plan"),),
        drawing=_drawing(found),
        tables=(_nodes(found.nodes, PLACE_FIELDS if found.mode else UPLINK_FIELDS),),
    )


def _drawing(view: NetworkView) -> Drawing:
    """Return the VLAN over its nodes."""
    top = Box(
        key="top",
        label=view.network,
        note=f"VLAN {view.vlan} of {view.cluster_network}",
        state=NOT_READY if view.reason else WELL,
        href=f"/cluster-networks/{view.cluster_network}",
    )
    return _over_nodes(view.network, top, view.nodes)


def _over_nodes(title: str, top: Box, views: tuple[NodeView, ...]) -> Drawing:
    nodes = [
        Box(
            key=f"node {item.node}",
            label=item.node,
            note=item.address or item.interface or item.uplink,
            words=f"{item.node}: {item.message or item.state}",
            state=_state(item),
            href=f"/nodes/{item.node}",
        )
        for item in views
    ]
    layers = (("Network", [top] if nodes else []), ("Nodes", nodes))
    return Drawing(title=f"{title} over its nodes", layers=layers, lines=[(top.key, n.key) for n in nodes])


async def cluster_network(client: Reader, names: Names) -> Content:
    """Return one cluster network on its nodes, with the networks on it. Raises NoSuchPage."""
    objects = await read_objects(client)
    found = _find(objects, names["name"])
    assert isinstance(found, ClusterNetworkView)
    bad = next((item for item in found.conditions if item.status != "True"), None)
    not_ready = None
    if bad is not None:
        way = bad.reason in _UNDER_WAY
        not_ready = NotReady(bad.reason, bad.message, bad.last_transition_time, under_way=way)
    top = Box(
        key="top",
        label=found.cluster_network,
        note=f"{len(found.networks)} VLAN network{'s' * (len(found.networks) != 1)}",
        state=BUSY if not_ready and not_ready.under_way else NOT_READY if not_ready else WELL,
    )
    return Content(
        title=found.cluster_network,
        not_ready=not_ready,
        facts=(
            ("VlanConfigs", ", ".join(found.vlan_configs)),
            ("MTU", found.mtu),
            ("Roll-out", _rollout(found) or ""),
        ),
        links=((_PLAN, f"/cluster-networks/{found.cluster_network}/plan"),),
        drawing=_over_nodes(found.cluster_network, top, found.nodes),
        tables=(
            _nodes(found.nodes, UPLINK_FIELDS),
            _networks("No VLAN network is on it.", found.networks, objects),
        ),
    )


def _rollout(view: ClusterNetworkView) -> str | None:
    """Return how far a roll-out is; None without one."""
    found = find(view.conditions, ROLLED_OUT)
    return ": ".join(filter(None, (found.reason, found.message))) if found is not None else None


async def cluster_networks(client: Reader, _names: Names) -> Content:
    """Return all cluster networks that have uplinks, and why one is not ready."""
    objects = await read_objects(client)
    found = overview(objects.networks, objects.statuses, objects.nodes)
    views = tuple(
        cluster_network_view(objects, item)
        for item in objects.networks
        if item.metadata.name in found.networks
    )
    why = {
        item.network: NotReady(
            item.reason,
            f"{item.what}: {item.message}",
            _since(objects, item.network),
            under_way=item.reason in _UNDER_WAY,
        )
        for item in reversed(found.problems)
    }
    table = Table(
        title="Cluster networks",
        query=CLUSTER_NETWORK_FIELDS,
        rows=sorted(views, key=lambda view: view.cluster_network),
        first="No cluster network with uplinks exists. To begin, create a ClusterNetwork and a VlanConfig: "
        "`kubectl apply -f examples/cluster-1.yaml` (docs/vlan.md).",
        name=lambda view: view.cluster_network,
        href=lambda view: f"/cluster-networks/{view.cluster_network}",
        not_ready=lambda view: _with_rollout(view, why.get(view.cluster_network)),
    )
    return Content(title="Cluster networks", tables=(table,))


def _with_rollout(view: ClusterNetworkView, known: NotReady | None) -> NotReady | None:
    """Return why its roll-out has not finished, which names the nodes; else what is `known` of the nodes.

    A roll-out that goes on hides no fault.
    """
    found = find(view.conditions, ROLLED_OUT)
    if found is None or found.status == "True":
        return known
    goes_on = found.reason == PROGRESSING
    if goes_on and known is not None and not known.under_way:
        return known
    return NotReady(found.reason, found.message, found.last_transition_time, under_way=goes_on)


def _find(objects: VlanObjects, name: str) -> NetworkView | ClusterNetworkView:
    try:
        return find_view(objects, name, "default")
    except UnknownNetwork as error:
        raise NoSuchPage(str(error)) from None


def _networks(none: str, views: tuple[NetworkView, ...], objects: VlanObjects) -> Table:
    return Table(
        title="Networks",
        query=NETWORK_FIELDS,
        rows=views,
        first=f"{none} To begin, create a NetworkAttachmentDefinition on a cluster network: "
        "`kubectl apply -f examples/vlan2012-dhcp.yaml` (docs/vlan.md).",
        name=lambda view: view.network,
        href=_href,
        not_ready=lambda view: _not_ready(view, objects),
    )


def _not_ready(view: NetworkView, objects: VlanObjects) -> NotReady | None:
    if not view.reason:
        return None
    since = _since(objects, view.cluster_network)
    return NotReady(view.reason, view.message, since, under_way=view.reason in _UNDER_WAY)


def _since(objects: VlanObjects, cluster_network: str) -> str:
    """Return since when one of its nodes, or it itself, reports something that is not ready; empty if none does."""
    times = [
        item.last_transition_time
        for report in objects.reports_of(cluster_network).values()
        for item in report.status.conditions
        if item.status == "False"
    ]
    network = objects.network(cluster_network)
    own = (
        [item.last_transition_time for item in network.status.conditions if item.status == "False"]
        if network
        else []
    )
    return min(filter(None, times), default=min(filter(None, own), default=""))


def _href(view: NetworkView) -> str:
    return f"/networks/{view.network}"


def _nodes(nodes: tuple[NodeView, ...], fields: Query[NodeView]) -> Table:
    return Table(
        title="Nodes",
        query=fields,
        rows=nodes,
        first="No node carries it. The VlanConfigs of its cluster network select nodes by labels (docs/vlan.md).",
        name=lambda view: view.node,
        not_ready=lambda view: (
            NotReady(view.state, view.message, view.since, under_way=view.state in _UNDER_WAY)
            if view.state != READY
            else None
        ),
    )


def _state(view: NodeView) -> str:
    return WELL if view.state == READY else BUSY if view.state in _UNDER_WAY else NOT_READY


def _matrix(views: tuple[NetworkView, ...]) -> Matrix:
    cells: dict[str, dict[str, Cell]] = {}
    for view in views:
        for node in view.nodes:
            words = f"{view.network} on {node.node}: {node.address or node.state}"
            state = _state(node)
            if node.message:
                words = f"{view.network} on {node.node}: {node.state}, {node.message}"
            cells.setdefault(node.node, {})[view.network] = Cell(state, words)
    columns = tuple((view.network, _href(view)) for view in views)
    return Matrix(title="VLAN networks on nodes", columns=columns, cells=cells)


PLACE_FIELDS: Query[NodeView] = Query(
    (
        *ADDRESS_FIELDS.fields,
        Field("mtu", "MTU", "number", "MTU in bytes", lambda view: view.mtu or None),
        Field(
            "server",
            "DHCP server",
            "text",
            "Its server",
            lambda view: view.lease.server if view.lease else None,
        ),
        Field(
            "expiry",
            "Lease until",
            "timestamp",
            "When the lease ends",
            lambda view: (view.lease.expiry or None) if view.lease else None,
        ),
        Field(
            "others",
            "Of other programs",
            "list",
            "Addresses of other programs",
            lambda view: view.other_addresses or None,
        ),
    ),
    ("node", "interface", "address", "server", "expiry", "mtu", "others", "state"),
)
"""The fields of a VLAN with addresses on a node."""

CLUSTER_NETWORK_FIELDS: Query[ClusterNetworkView] = Query(
    (
        Field("name", "Cluster network", "text", "Name", lambda view: view.cluster_network),
        Field("configs", "VlanConfigs", "list", "VlanConfigs", lambda view: view.vlan_configs),
        Field("mtu", "MTU", "text", "MTU in bytes", lambda view: view.mtu or None),
        Field(
            "nodes",
            "Nodes",
            "text",
            "Number of nodes that are ready, and of all nodes",
            lambda view: f"{sum(node.state == READY for node in view.nodes)}/{len(view.nodes)}",
        ),
        Field("networks", "Networks", "number", "Networks on it", lambda view: len(view.networks)),
        Field("rollout", "Roll-out", "text", "How far a roll-out is", _rollout),
    ),
    ("name", "configs", "mtu", "nodes", "networks", "rollout"),
)
"""The fields of cluster networks."""

PAGES = (
    Page(
        path="/cluster-networks",
        menu="Cluster networks",
        command="lanloom status",
        kinds=KINDS,
        read=cluster_networks,
    ),
    Page(path="/networks", menu="VLAN networks", command="lanloom vlan list", kinds=KINDS, read=networks),
    Page(
        path="/networks/{namespace}/{name}",
        command="lanloom vlan show {namespace}/{name}",
        kinds=KINDS,
        read=network,
        about=NADS,
    ),
    Page(
        path="/cluster-networks/{name}",
        command="lanloom vlan show {name}",
        kinds=KINDS,
        read=cluster_network,
        about=CLUSTER_NETWORKS,
    ),
    *PLANS,
)

"""The VLAN networks node by node: the values behind `lanloom vlan list` and `lanloom vlan show`."""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, DhcpLease, VlanInterface
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.l3 import AnnotationError, Routing
from lanloom.api.l3annotations import l3_of
from lanloom.api.meta import Condition, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config
from lanloom.cli.query import Field, Query
from lanloom.features.vlan.rules.report.cluster import is_live
from lanloom.features.vlan.rules.report.readiness import WITHHELD
from lanloom.features.vlan.rules.report.status import L3_READY, PASSING
from lanloom.features.vlan.rules.report.status import READY as UPLINK_READY
from lanloom.features.vlan.views import VlanObjects
from lanloom.features.vlan.views.overview import NODE_DOWN, NODE_DOWN_MESSAGE
from lanloom.kube.conditions import find
from lanloom.node.vlanids import VlanIds, merge, parse, render, subtract

READY = "Ready"


class NodeView(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One network on one node. `state` is Ready or the reason why it is not; `message` says what to do then.

    `since` is when it stopped being ready, where a condition of its node or of the node's report says so.
    """

    node: str
    state: str
    message: str = ""
    since: str = ""
    uplink: str = ""
    interface: str = ""
    address: str = ""
    other_addresses: tuple[str, ...] = ()
    mtu: int = 0
    vlan_ids: str = ""
    lease: DhcpLease | None = None


class NetworkView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A NAD on all nodes of its cluster network. `mode` is static, dhcp, or empty without node addresses.

    `reason` is the worst of the nodes', or why the NAD itself can't be used; empty if all is well.
    """

    network: str
    cluster_network: str
    vlan: str
    mode: str
    routing: Routing
    ready: int
    total: int
    reason: str
    message: str
    nodes: tuple[NodeView, ...]


class ClusterNetworkView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A cluster network on all its nodes, and the NADs on it."""

    cluster_network: str
    mtu: str
    mtu_source: str
    vlan_configs: tuple[str, ...]
    conditions: tuple[Condition, ...]
    nodes: tuple[NodeView, ...]
    networks: tuple[NetworkView, ...]


def network_views(objects: VlanObjects) -> tuple[NetworkView, ...]:
    """Return every NAD that belongs to a cluster network, ordered by namespace and name.

    Not those of isolated networks.
    """
    mine = (
        item for item in objects.nads if cluster_network_of(item) and UID_LABEL not in item.metadata.labels
    )
    return tuple(network_view(objects, item) for item in sorted(mine, key=lambda item: item.metadata.key))


def cluster_network_view(objects: VlanObjects, network: ClusterNetwork) -> ClusterNetworkView:
    """Return one cluster network with everything on it."""
    name = network.metadata.name
    annotations = network.metadata.annotations
    reports = objects.reports_of(name)
    nodes = sorted({*objects.nodes_of(name), *reports})
    return ClusterNetworkView(
        cluster_network=name,
        mtu=annotations.get(names.UPLINK_MTU, ""),
        mtu_source=annotations.get(names.MTU_SOURCE, ""),
        vlan_configs=tuple(sorted(item.metadata.name for item in objects.configs_of(name))),
        conditions=network.status.conditions,
        nodes=tuple(_uplink_view(objects, node, reports.get(node)) for node in nodes),
        networks=tuple(network_view(objects, item) for item in objects.nads_of(name)),
    )


def network_view(objects: VlanObjects, nad: NetworkAttachmentDefinition) -> NetworkView:
    """Return one NAD on all nodes that should carry it."""
    cluster_network = cluster_network_of(nad)
    try:
        network, value = parse_config(nad.spec.config), l3_of(nad)
        fault = _fault(objects, cluster_network)
    except AnnotationError as error:
        network, value, fault = None, None, ("InvalidNetwork", str(error))
    reports = objects.reports_of(cluster_network)
    nodes: tuple[NodeView, ...] = ()
    if network is not None and network.type != "OverlayNetwork":
        nodes = tuple(
            _l3_view(objects, node, reports.get(node), str(nad.metadata.key), value.vid)
            if value
            else _l2_view(objects, node, reports.get(node), _ids(network))
            for node in objects.nodes_of(cluster_network)
        )
    reason, message = fault if fault[0] else _worst(nodes)
    return NetworkView(
        network=str(nad.metadata.key),
        cluster_network=cluster_network,
        vlan=_vlan(network),
        mode=value.modes if value else "",
        routing=value.routing if value else Routing(),
        ready=sum(view.state == READY for view in nodes),
        total=len(nodes),
        reason=reason,
        message=message,
        nodes=nodes,
    )


def _fault(objects: VlanObjects, cluster_network: str) -> tuple[str, str]:
    if objects.network(cluster_network) is None:
        return (
            "NoClusterNetwork",
            f"the ClusterNetwork {cluster_network} does not exist; create it, or correct the network's bridge",
        )
    if not objects.nodes_of(cluster_network):
        return "NoNodes", f"no node carries {cluster_network}; create a VlanConfig or widen its nodeSelector"
    return "", ""


def _worst(nodes: Iterable[NodeView]) -> tuple[str, str]:
    bad = [view for view in nodes if view.state != READY]
    if not bad:
        return "", ""
    worst = min(bad, key=lambda view: (view.state in PASSING, view.node))
    return worst.state, f"{worst.node}: {worst.message}" if worst.message else worst.node


def _vlan(network: VmNetwork | None) -> str:
    if network is None or network.type == "OverlayNetwork":
        return ""
    return render(_ids(network)) or "untagged"


def _ids(network: VmNetwork) -> VlanIds:
    """Return the VLAN ids that the uplink must carry."""
    own = ((network.vid, network.vid),) if network.vid > 1 else ()
    return merge([*own, *network.trunk])


def _uplink_view(objects: VlanObjects, node: str, report: ClusterNetworkNode | None) -> NodeView:
    """Return the uplink of a cluster network on a node."""
    state, message, since = _uplink_state(objects, node, report)
    if report is None:
        return NodeView(node=node, state=state, message=message, since=since)
    status = report.status
    return NodeView(
        node=node,
        state=state,
        message=message,
        since=since,
        uplink=status.uplink,
        interface=status.bridge,
        mtu=status.mtu,
        vlan_ids=status.vlan_ids,
    )


def _uplink_state(objects: VlanObjects, node: str, report: ClusterNetworkNode | None) -> tuple[str, str, str]:
    """Return the state, the message and since when; empty where nothing tells when it began."""
    known = objects.node(node)
    if known is not None and not is_live(known):
        ready = find(known.status.conditions, "Ready")
        return NODE_DOWN, NODE_DOWN_MESSAGE, ready.last_transition_time if ready is not None else ""
    if report is None:
        return "NoReport", "its agent has not reported yet; check that it runs", ""
    uplink, addresses = (find(report.status.conditions, type) for type in (UPLINK_READY, L3_READY))
    if uplink is not None and uplink.status != "True":
        return uplink.reason or "NotReady", uplink.message, uplink.last_transition_time
    if addresses is not None and addresses.reason in WITHHELD:
        return addresses.reason, addresses.message, addresses.last_transition_time
    return READY, "", ""


def _l2_view(objects: VlanObjects, node: str, report: ClusterNetworkNode | None, ids: VlanIds) -> NodeView:
    """Return a network without node addresses: it is ready where the uplink works and carries its VLAN ids."""
    view = _uplink_view(objects, node, report)
    missing = subtract(ids, parse(view.vlan_ids))
    if view.state != READY or not missing:
        return view
    return NodeView(
        node=node,
        state="Configuring",
        message=f"its agent has not added the VLAN ids {render(missing)} yet",
        uplink=view.uplink,
        interface=view.interface,
        mtu=view.mtu,
        vlan_ids=view.vlan_ids,
    )


def _l3_view(
    objects: VlanObjects, node: str, report: ClusterNetworkNode | None, network: str, vid: int
) -> NodeView:
    """Return a network with node addresses: it is ready where the address is there."""
    uplink = _uplink_view(objects, node, report)
    found = _interface(report, network, vid)
    state, message, since = uplink.state, uplink.message, uplink.since
    if found is None and state == READY:
        state, message = "Configuring", "its agent has not applied the network yet"
    elif found is not None and found.state != READY:
        state, message, since = found.reason or found.state, found.message, ""
    return NodeView(
        node=node,
        state=state,
        message=message,
        since=since,
        uplink=uplink.uplink,
        interface=found.name if found else "",
        address=found.own_addresses if found else "",
        mtu=uplink.mtu,
        vlan_ids=uplink.vlan_ids,
        other_addresses=found.other_addresses if found else (),
        lease=found.lease if found else None,
    )


def _interface(report: ClusterNetworkNode | None, network: str, vid: int) -> VlanInterface | None:
    """Find the sub-interface of a network by its name, else by its VLAN id (an agent may know a hash only)."""
    known = report.status.interfaces if report else ()
    named = [item for item in known if item.network == network and item.vlan_id in (vid, 0)]
    return next(iter(named), next((item for item in known if item.vlan_id == vid), None))


class UnknownNetwork(Exception):
    """There is no VLAN network of that name; the message says which there are, or what it is instead."""


def find_view(objects: VlanObjects, name: str, namespace: str) -> NetworkView | ClusterNetworkView:
    """Return the network of a name: a NAD's `namespace/name`, a cluster network's, or a NAD's in `namespace`.

    A name without a namespace that belongs to just one NAD means that one. Raises UnknownNetwork.
    """
    network = objects.network(name)
    if network is not None:
        if not objects.configs_of(name):
            _check_vlan(network)
        return cluster_network_view(objects, network)
    nads = {str(item.metadata.key): item for item in objects.nads}
    key = name if "/" in name else f"{namespace}/{name}"
    if key in nads:
        _check_vlan(nads[key])
        return network_view(objects, nads[key])
    alike = sorted(title for title in nads if title.partition("/")[2] == name)
    if len(alike) == 1:
        return network_view(objects, nads[alike[0]])
    if alike:
        raise UnknownNetwork(f"{name} is in several namespaces; name one of {', '.join(alike)}")
    known = completions(objects, "")
    there = f"there are {', '.join(known)}" if known else "there is none yet (see `lanloom vlan plan --help`)"
    raise UnknownNetwork(f"network {name} does not exist; {there}")


def _check_vlan(item: Object) -> None:
    if UID_LABEL in item.metadata.labels:
        name = item.metadata.annotations.get(NAME_ANNOTATION, "")
        raise UnknownNetwork(
            f"{item.metadata.key} belongs to an isolated network; see `lanloom dummy show {name}`"
        )


def completions(objects: VlanObjects, beginning: str) -> list[str]:
    """Return the names that begin so: cluster networks first, then NADs by namespace and name."""
    networks = sorted(item.metadata.name for item in objects.networks)
    nads = sorted(str(item.metadata.key) for item in objects.nads if cluster_network_of(item))
    short = [title for title in nads if title.partition("/")[2].startswith(beginning)] if beginning else []
    return [name for name in (*networks, *nads) if name.startswith(beginning)] or short


def _network_style(view: NetworkView) -> str:
    return "yellow" if view.reason else "green"


def _node_style(view: NodeView) -> str:
    return "green" if view.state == READY else "yellow"


NETWORK_FIELDS: Query[NetworkView] = Query(
    (
        Field("network", "Network", "text", "NAD, as namespace/name", lambda view: view.network),
        Field(
            "cluster_network", "Cluster network", "text", "Cluster network", lambda view: view.cluster_network
        ),
        Field("vlan", "VLAN", "text", "VLAN id, or the ids of a trunk", lambda view: view.vlan),
        Field(
            "mode",
            "Mode",
            "text",
            "Source of the node addresses: static, dhcp or pool",
            lambda view: view.mode,
        ),
        Field(
            "nodes",
            "Nodes",
            "text",
            "Number of nodes that are ready, and of all nodes",
            lambda view: f"{view.ready}/{view.total}",
            style=_network_style,
            whole=True,
        ),
        Field("ready", "Ready", "number", "Number of nodes that are ready", lambda view: view.ready),
        Field("total", "Total", "number", "Number of nodes", lambda view: view.total),
        Field(
            "reason",
            "Reason",
            "text",
            "Worst reason of a node",
            lambda view: view.reason,
            style=_network_style,
        ),
        Field(
            "message", "Message", "text", "Message of that reason, with the remedy", lambda view: view.message
        ),
    ),
    ("network", "cluster_network", "vlan", "mode", "nodes", "reason"),
    ruled=True,
    resource=f"{NADS.singular}.{NADS.group}",
    identity="network",
)
"""The fields of `lanloom vlan list`."""

_NODE, _INTERFACE, _STATE, _SINCE = (
    Field[NodeView]("node", "Node", "text", "Node", lambda view: view.node, whole=True),
    Field[NodeView]("interface", "Interface", "text", "Interface", lambda view: view.interface, whole=True),
    Field[NodeView](
        "state", "State", "text", "Ready, or the reason", lambda view: view.state, style=_node_style
    ),
    Field[NodeView](
        "since", "Since", "timestamp", "Since when it is not ready", lambda view: view.since or None
    ),
)

ADDRESS_FIELDS: Query[NodeView] = Query(
    (
        _NODE,
        _INTERFACE,
        Field("address", "Address", "text", "Address", lambda view: view.address, whole=True),
        _STATE,
        _SINCE,
    ),
    ("node", "interface", "address", "state"),
    ruled=True,
)
"""The table of `lanloom vlan show` for a NAD."""

UPLINK_FIELDS: Query[NodeView] = Query(
    (
        _NODE,
        Field("uplink", "Uplink", "text", "Uplink", lambda view: view.uplink, whole=True),
        Field("vlan_ids", "VLAN ids", "text", "VLAN ids", lambda view: view.vlan_ids),
        Field("mtu", "MTU", "text", "MTU in bytes", lambda view: str(view.mtu or ""), whole=True),
        _STATE,
        _SINCE,
    ),
    ("node", "uplink", "vlan_ids", "mtu", "state"),
    ruled=True,
)
"""The table of `lanloom vlan show` for a cluster network."""

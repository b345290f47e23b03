"""How the VLAN networks are, node by node: the values behind `lanloom vlan list` and `lanloom vlan show`."""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api import names
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import ClusterNetwork, DhcpLease, VlanInterface, VlanStatus
from lanloom.api.l3 import AnnotationError, Routing
from lanloom.api.meta import Condition
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config
from lanloom.app.overview import NODE_DOWN, NODE_DOWN_MESSAGE
from lanloom.app.vlan.objects import VlanObjects
from lanloom.kube.conditions import find
from lanloom.node.vlanids import VlanIds, merge, render, subtract
from lanloom.vlan.rules.cluster import is_live, l3_of
from lanloom.vlan.rules.readiness import WITHHELD
from lanloom.vlan.rules.status import L3_READY, PASSING
from lanloom.vlan.rules.status import READY as UPLINK_READY

READY = "Ready"


class NodeView(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One network on one node. `state` is Ready or the reason why it is not; `message` says what to do then."""

    node: str
    state: str
    message: str = ""
    uplink: str = ""
    interface: str = ""
    address: str = ""
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
    """Every NAD that belongs to a cluster network, ordered by namespace and name; not those of isolated networks."""
    mine = (
        item for item in objects.nads if cluster_network_of(item) and UID_LABEL not in item.metadata.labels
    )
    return tuple(network_view(objects, item) for item in sorted(mine, key=lambda item: item.metadata.key))


def cluster_network_view(objects: VlanObjects, network: ClusterNetwork) -> ClusterNetworkView:
    """One cluster network with everything on it."""
    name = network.metadata.name
    annotations = network.metadata.annotations
    reports = objects.reports_of(name)
    nodes = sorted({*objects.carriers(name), *reports})
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
    """One NAD on all nodes that should carry it."""
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
            for node in objects.carriers(cluster_network)
        )
    reason, message = fault if fault[0] else _worst(nodes)
    return NetworkView(
        network=str(nad.metadata.key),
        cluster_network=cluster_network,
        vlan=_vlan(network),
        mode=value.mode if value else "",
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
    if not objects.carriers(cluster_network):
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
    """The VLAN ids that the uplink must carry."""
    own = ((network.vid, network.vid),) if network.vid > 1 else ()
    return merge([*own, *network.trunk])


def _uplink_view(objects: VlanObjects, node: str, report: VlanStatus | None) -> NodeView:
    """The uplink of a cluster network on a node."""
    state, message = _uplink_state(objects, node, report)
    if report is None:
        return NodeView(node=node, state=state, message=message)
    status = report.status
    return NodeView(
        node=node,
        state=state,
        message=message,
        uplink=status.uplink,
        interface=status.bridge,
        mtu=status.mtu,
        vlan_ids=status.vlan_ids,
    )


def _uplink_state(objects: VlanObjects, node: str, report: VlanStatus | None) -> tuple[str, str]:
    known = next((item for item in objects.nodes if item.metadata.name == node), None)
    if known is not None and not is_live(known):
        return NODE_DOWN, NODE_DOWN_MESSAGE
    if report is None:
        return "NoReport", "its agent has not reported yet; does it run?"
    uplink, addresses = (find(report.status.conditions, type) for type in (UPLINK_READY, L3_READY))
    if uplink is not None and uplink.status != "True":
        return uplink.reason or "NotReady", uplink.message
    if addresses is not None and addresses.reason in WITHHELD:
        return addresses.reason, addresses.message
    return READY, ""


def _l2_view(objects: VlanObjects, node: str, report: VlanStatus | None, ids: VlanIds) -> NodeView:
    """A network without node addresses: it is ready where the uplink works and carries its VLAN ids."""
    view = _uplink_view(objects, node, report)
    missing = subtract(ids, _parsed(view.vlan_ids))
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


def _l3_view(objects: VlanObjects, node: str, report: VlanStatus | None, network: str, vid: int) -> NodeView:
    """A network with node addresses: it is ready where the address is there."""
    uplink = _uplink_view(objects, node, report)
    found = _interface(report, network, vid)
    if found is None:
        state, message = uplink.state, uplink.message
        if state == READY:
            state, message = "Configuring", "its agent has not taken up the network yet"
    elif found.state == READY:
        state, message = uplink.state, uplink.message
    else:
        state, message = found.reason or found.state, found.message
    return NodeView(
        node=node,
        state=state,
        message=message,
        uplink=uplink.uplink,
        interface=found.name if found else "",
        address=found.address if found else "",
        mtu=uplink.mtu,
        vlan_ids=uplink.vlan_ids,
        lease=found.lease if found else None,
    )


def _interface(report: VlanStatus | None, network: str, vid: int) -> VlanInterface | None:
    """The sub-interface of a network: under its own name, else under its VLAN id (an agent may know a hash only)."""
    known = report.status.interfaces if report else ()
    named = [item for item in known if item.network == network and item.vlan_id in (vid, 0)]
    return next(iter(named), next((item for item in known if item.vlan_id == vid), None))


def _parsed(text: str) -> VlanIds:
    """The ids of a report; what is no range in it counts for nothing."""
    ranges = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            ranges.append((int(first), int(last or first)))
    return merge(ranges)

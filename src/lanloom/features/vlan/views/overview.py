"""The state of each VLAN network on each node, and why something is not ready: the rows behind `lanloom status`."""

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from lanloom.api.clusternetworknode import ClusterNetworkNode, VlanInterface
from lanloom.api.core import Node
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import ClusterNetwork
from lanloom.cli.query import Field, Query
from lanloom.features.vlan.rules.report.cluster import is_live
from lanloom.features.vlan.rules.report.status import READY
from lanloom.kube.conditions import find, is_true

NODE_DOWN = "NodeDown"
NODE_DOWN_MESSAGE = "the node is not Ready; this is the last report of its agent"
"""The state of what a node has that is down, and what it means."""

_ASSIGNED = {"static": "static", "dhcp": "DHCP", "slaac": "SLAAC", "dhcp6": "DHCPv6"}


class Row(Struct, frozen=True, kw_only=True, rename="camel"):
    """One VLAN sub-interface of a node, or a node's bridge that has none (`interface` is empty then)."""

    cluster_network: str
    node: str
    bridge: str
    vlan_ids: str
    interface: str = ""
    address: str = ""
    assigned: str = ""
    state: str = ""


class NetworkProblem(Struct, frozen=True, kw_only=True):
    """One thing that is not ready: what, on which cluster network, and why with the remedy."""

    what: str
    network: str
    reason: str
    message: str


class Overview(Struct, frozen=True, kw_only=True):
    """The VLAN networks of a cluster as an operator wants to see them.

    `isolated` are the cluster networks without uplinks that DummyClusterNetworks have their bridges by, each with the
    name of that one. No node is to report of them. `coexisting` (in JSON `beside`) are nodes where Harvester's
    controller makes the uplinks.
    """

    networks: tuple[str, ...]
    isolated: dict[str, str]
    rows: tuple[Row, ...]
    problems: tuple[NetworkProblem, ...] = field(name="troubles")
    coexisting: tuple[str, ...] = field(name="beside", default=())


def overview(
    networks: Iterable[ClusterNetwork], statuses: Iterable[ClusterNetworkNode], nodes: Iterable[Node] = ()
) -> Overview:
    """Sum up the objects, ordered by cluster network and node. What a node that is down had is reported as such."""
    down = frozenset(node.metadata.name for node in nodes if not is_live(node))
    ordered_networks = sorted(networks, key=lambda item: item.metadata.name)
    ordered = sorted(statuses, key=lambda item: (item.status.cluster_network, item.status.node))
    isolated = _isolated(ordered_networks, ordered)
    ordered_networks = [item for item in ordered_networks if item.metadata.name not in isolated]
    of_nodes = [(status.status, _node_problems(status)) for status in ordered]
    reported = {status.cluster_network for status, problems in of_nodes if problems}
    own = (_network_problem(item) for item in ordered_networks if item.metadata.name not in reported)
    problems = [problem for problem in own if problem is not None]
    problems += [problem for status, found in of_nodes if status.node not in down for problem in found]
    problems += _down(ordered, down)
    return Overview(
        networks=tuple(item.metadata.name for item in ordered_networks),
        isolated=isolated,
        rows=tuple(
            replace(row, state=NODE_DOWN) if row.node in down else row
            for status in ordered
            for row in _rows(status)
        ),
        problems=tuple(problems),
        coexisting=tuple(sorted({item.status.node for item in ordered if item.status.mode == "beside"})),
    )


def _isolated(networks: Iterable[ClusterNetwork], statuses: Iterable[ClusterNetworkNode]) -> dict[str, str]:
    """Return those that were made for a DummyClusterNetwork, with its name, and have no uplink on any node."""
    carried = {item.status.cluster_network for item in statuses}
    return {
        item.metadata.name: item.metadata.annotations.get(NAME_ANNOTATION, "")
        for item in networks
        if UID_LABEL in item.metadata.labels and item.metadata.name not in carried
    }


def _down(statuses: Iterable[ClusterNetworkNode], down: frozenset[str]) -> list[NetworkProblem]:
    """Return one problem for each node that is down and has reported something."""
    reported: dict[str, str] = {}
    for item in statuses:
        reported.setdefault(item.status.node, item.status.cluster_network)
    return [
        NetworkProblem(what=f"node {node}", network=network, reason=NODE_DOWN, message=NODE_DOWN_MESSAGE)
        for node, network in sorted(reported.items())
        if node in down
    ]


def _rows(report: ClusterNetworkNode) -> tuple[Row, ...]:
    status = report.status
    interfaces = status.interfaces or (None,)
    return tuple(_row(report, interface) for interface in interfaces)


def _row(report: ClusterNetworkNode, interface: VlanInterface | None) -> Row:
    status = report.status
    if interface is None:
        return Row(
            cluster_network=status.cluster_network,
            node=status.node,
            bridge=status.bridge,
            vlan_ids=status.vlan_ids,
            state="Ready" if is_true(status.conditions, READY) else "NotReady",
        )
    return Row(
        cluster_network=status.cluster_network,
        node=status.node,
        bridge=status.bridge,
        vlan_ids=status.vlan_ids,
        interface=interface.name,
        address=interface.own_addresses,
        assigned=", ".join(_ASSIGNED.get(mode, mode) for mode in interface.mode.split(",")),
        state=interface.state if interface.state == "Ready" else interface.reason,
    )


def _network_problem(network: ClusterNetwork) -> NetworkProblem | None:
    """Return the problem of a cluster network whose nodes report none."""
    name = network.metadata.name
    what = f"cluster network {name}"
    if not network.status.conditions:
        message = "no manager has processed it yet; check that one runs"
        return NetworkProblem(what=what, network=name, reason="NoManager", message=message)
    bad = next((item for item in network.status.conditions if item.status != "True"), None)
    return NetworkProblem(what=what, network=name, reason=bad.reason, message=bad.message) if bad else None


def _node_problems(report: ClusterNetworkNode) -> list[NetworkProblem]:
    status = report.status
    network = status.cluster_network
    what = f"{network} on {status.node}"
    ready = find(status.conditions, READY)
    problems = []
    if ready is not None and ready.status != "True":
        problems.append(
            NetworkProblem(what=what, network=network, reason=ready.reason, message=ready.message)
        )
    for interface in status.interfaces:
        if interface.state != "Ready":
            title = f"{what}, VLAN {interface.vlan_id or '?'}"
            reason, message = interface.reason, interface.message
            problems.append(NetworkProblem(what=title, network=network, reason=reason, message=message))
    return problems


def _state_style(row: Row) -> str:
    return "green" if row.state == "Ready" else "yellow"


def _assigned(row: Row) -> str:
    return row.assigned if row.state == "Ready" else " ".join(filter(None, (row.assigned, f"({row.state})")))


_UNBROKEN = 10
"""Longest text of VLAN ids without blanks. A longer one is folded between ids, not within a range: 2012-2013."""


def _vlan_ids(text: str) -> str:
    return text.replace(",", ", ") if len(text) > _UNBROKEN else text


ROW_FIELDS: Query[Row] = Query(
    (
        Field("node", "Node", "text", "Node", lambda row: row.node, whole=True),
        Field(
            "cluster_network", "Cluster network", "text", "Cluster network", lambda row: row.cluster_network
        ),
        Field("bridge", "Bridge", "text", "Bridge", lambda row: row.bridge, whole=True),
        Field("vlan_ids", "VLAN ids", "text", "VLAN ids of the bridge", lambda row: row.vlan_ids, _vlan_ids),
        Field("interface", "Interface", "text", "VLAN sub-interface", lambda row: row.interface, whole=True),
        Field("address", "Address", "text", "Address of the interface", lambda row: row.address, whole=True),
        Field(
            "assigned",
            "Assigned",
            "text",
            "Source of the address: static or DHCP; then the state, unless it is Ready",
            _assigned,
            style=_state_style,
        ),
        Field("state", "State", "text", "Ready, or the reason", lambda row: row.state, style=_state_style),
    ),
    ("node", "bridge", "vlan_ids", "interface", "address", "assigned"),
    ruled=True,
)
"""The fields of `lanloom status`."""

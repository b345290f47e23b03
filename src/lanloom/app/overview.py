"""What is where, and why something is not ready: the rows behind `lanloom status` and the demo's table."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import Node
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import ClusterNetwork, VlanInterface, VlanStatus
from lanloom.kube.conditions import find, is_true
from lanloom.vlan.rules.cluster import is_live
from lanloom.vlan.rules.status import READY

if TYPE_CHECKING:
    from rich.table import Table

NODE_DOWN = "NodeDown"
NODE_DOWN_MESSAGE = "the node is not Ready; what is shown is what its agent reported last"
"""The state of what a node has that is down, and what it means."""

_ASSIGNED = {"static": "static", "dhcp": "DHCP"}


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


class Trouble(Struct, frozen=True, kw_only=True):
    """One thing that is not ready: what, on which cluster network, and why with the remedy."""

    what: str
    network: str
    reason: str
    message: str


class Overview(Struct, frozen=True, kw_only=True):
    """The VLAN networks of a cluster as an operator wants to see them.

    `isolated` are the cluster networks without uplinks that DummyClusterNetworks have their bridges by, each with the
    name of that one. No node is to report of them.
    """

    networks: tuple[str, ...]
    isolated: dict[str, str]
    rows: tuple[Row, ...]
    troubles: tuple[Trouble, ...]


def overview(
    networks: Iterable[ClusterNetwork], statuses: Iterable[VlanStatus], nodes: Iterable[Node] = ()
) -> Overview:
    """Sums up the objects, ordered by cluster network and node. What a node that is down had is told as such."""
    down = frozenset(node.metadata.name for node in nodes if not is_live(node))
    ordered_networks = sorted(networks, key=lambda item: item.metadata.name)
    ordered = sorted(statuses, key=lambda item: (item.status.cluster_network, item.status.node))
    isolated = _isolated(ordered_networks, ordered)
    ordered_networks = [item for item in ordered_networks if item.metadata.name not in isolated]
    troubles = [trouble for network in ordered_networks for trouble in _network_troubles(network, ordered)]
    troubles += [
        trouble for status in ordered if status.status.node not in down for trouble in _node_troubles(status)
    ]
    troubles += _down(ordered, down)
    return Overview(
        networks=tuple(item.metadata.name for item in ordered_networks),
        isolated=isolated,
        rows=tuple(
            replace(row, state=NODE_DOWN) if row.node in down else row
            for status in ordered
            for row in _rows(status)
        ),
        troubles=tuple(troubles),
    )


def _isolated(networks: Iterable[ClusterNetwork], statuses: Iterable[VlanStatus]) -> dict[str, str]:
    """Those that were made for a DummyClusterNetwork, with its name, and that no node has got an uplink of since."""
    carried = {item.status.cluster_network for item in statuses}
    return {
        item.metadata.name: item.metadata.annotations.get(NAME_ANNOTATION, "")
        for item in networks
        if UID_LABEL in item.metadata.labels and item.metadata.name not in carried
    }


def _down(statuses: Iterable[VlanStatus], down: frozenset[str]) -> list[Trouble]:
    """One trouble for each node that is down and has reported something."""
    reported: dict[str, str] = {}
    for item in statuses:
        reported.setdefault(item.status.node, item.status.cluster_network)
    return [
        Trouble(what=f"node {node}", network=network, reason=NODE_DOWN, message=NODE_DOWN_MESSAGE)
        for node, network in sorted(reported.items())
        if node in down
    ]


def _rows(report: VlanStatus) -> tuple[Row, ...]:
    status = report.status
    interfaces = status.interfaces or (None,)
    return tuple(_row(report, interface) for interface in interfaces)


def _row(report: VlanStatus, interface: VlanInterface | None) -> Row:
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
        address=interface.address,
        assigned=_ASSIGNED.get(interface.mode, interface.mode),
        state=interface.state if interface.state == "Ready" else interface.reason,
    )


def _network_troubles(network: ClusterNetwork, statuses: list[VlanStatus]) -> list[Trouble]:
    """What only the cluster network itself can tell: what a node reports is said by its own report."""
    name = network.metadata.name
    if any(item.status.cluster_network == name and _node_troubles(item) for item in statuses):
        return []
    what = f"cluster network {name}"
    unready = [item for item in network.status.conditions if item.status != "True"]
    if not network.status.conditions:
        message = "no manager has looked at it yet; is one running?"
        return [Trouble(what=what, network=name, reason="NoManager", message=message)]
    return [
        Trouble(what=what, network=name, reason=item.reason, message=item.message) for item in unready[:1]
    ]


def _node_troubles(report: VlanStatus) -> list[Trouble]:
    status = report.status
    network = status.cluster_network
    what = f"{network} on {status.node}"
    ready = find(status.conditions, READY)
    troubles = []
    if ready is not None and ready.status != "True":
        troubles.append(Trouble(what=what, network=network, reason=ready.reason, message=ready.message))
    for interface in status.interfaces:
        if interface.state != "Ready":
            title = f"{what}, VLAN {interface.vlan_id or '?'}"
            reason, message = interface.reason, interface.message
            troubles.append(Trouble(what=title, network=network, reason=reason, message=message))
    return troubles


_UNBROKEN = 10
"""Columns that VLAN ids always get; more of them are broken between ids, not within a range such as 2012-2013."""


def table(rows: Iterable[Row], title: str = "") -> "Table":
    """The rows as a table that fits a terminal of 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = tuple(rows)
    result = Table(
        title=title or None,
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("Node", "Bridge", "VLAN ids", "Interface", "Address", "Assigned"):
        result.add_column(name, overflow="fold", no_wrap=name not in ("VLAN ids", "Assigned"))
    result.columns[2].min_width = min(_UNBROKEN, max((len(row.vlan_ids) for row in rows), default=0))
    for row in rows:
        assigned = (
            row.assigned if row.state == "Ready" else " ".join(filter(None, (row.assigned, f"({row.state})")))
        )
        style = "green" if row.state == "Ready" else "yellow"
        vlan_ids = row.vlan_ids.replace(",", ", ") if len(row.vlan_ids) > _UNBROKEN else row.vlan_ids
        result.add_row(row.node, row.bridge, vlan_ids, row.interface, row.address, Text(assigned, style))
    return result

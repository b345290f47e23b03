"""How `lanloom vlan` looks on a terminal of 80 columns."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lanloom.api.dummy import UID_LABEL
from lanloom.app.vlan.view import READY
from lanloom.cli import console as output

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.app.vlan.objects import VlanObjects
    from lanloom.app.vlan.view import ClusterNetworkView, NetworkView, NodeView

_UNFOLDED = ("Node", "Interface", "Uplink", "Address", "MTU", "Nodes")
"""Columns whose values are short, and copied."""


def print_networks(views: tuple["NetworkView", ...], objects: "VlanObjects") -> None:
    """One row for each network."""
    console = output.console()
    used = {view.cluster_network for view in views}
    bare = sorted(
        item.metadata.name
        for item in objects.networks
        if item.metadata.name not in used and UID_LABEL not in item.metadata.labels
    )
    if views:
        table = _table("Network", "Cluster network", "VLAN", "Mode", "Nodes", "Reason")
        for view in views:
            count = f"{view.ready}/{view.total}"
            style = _style(well=not view.reason)
            row = (view.network, view.cluster_network, view.vlan, view.mode)
            table.add_row(*row, Text(count, style), Text(view.reason, style))
        output.print_table(console, table)
    else:
        console.print("There is no VLAN network yet; examples/ has some.")
    if bare:
        console.print(f"Cluster networks without a network: {', '.join(bare)}.")
    troubles = [view for view in views if view.reason]
    if troubles:
        console.print(
            f"\n{troubles[0].network}: {troubles[0].reason}: {troubles[0].message}",
            markup=False,
            soft_wrap=False,
        )
        console.print(f"See `lanloom vlan show {troubles[0].network}`.")


def print_network(view: "NetworkView") -> None:
    """One NAD on every node."""
    console = output.console()
    mode = {
        "dhcp": "node addresses by DHCP",
        "static": "static node addresses",
        "pool": "node addresses from a pool",
    }.get(view.mode, "no node addresses")
    vlan = f"VLAN {view.vlan}" if view.vlan != "untagged" else view.vlan
    console.print(f"{view.network}: {vlan or 'no VLAN'} on {view.cluster_network}, {mode}", style="bold")
    if routing := _routing(view):
        console.print(routing, markup=False)
    if view.nodes:
        table = _table("Node", "Interface", "Address", "State")
        for node in view.nodes:
            state = Text(node.state, _style(well=node.state == READY))
            table.add_row(node.node, node.interface, node.address, state)
        output.print_table(console, table)
        _print_details(console, view.nodes)
    elif view.reason:
        console.print(f"{view.reason}: {view.message}", markup=False)


def _routing(view: "NetworkView") -> str:
    parts = [f"gateway {view.routing.gateway}"] if view.routing.gateway else []
    parts += [f"route to {route.to} via {route.via}" for route in view.routing.routes]
    parts += [f"DNS {', '.join(view.routing.dns)}"] if view.routing.dns else []
    return "; ".join(parts)


def print_cluster_network(view: "ClusterNetworkView") -> None:
    """A cluster network on every node, and the networks on it."""
    console = output.console()
    source = f" (from VlanConfig {view.mtu_source})" if view.mtu_source else ""
    configs = f"VlanConfigs {', '.join(view.vlan_configs)}" if view.vlan_configs else "no VlanConfig"
    console.print(f"{view.cluster_network}: {configs}, MTU {view.mtu or '-'}{source}", style="bold")
    for item in view.conditions:
        text = f"{item.type}: {item.status} {item.reason}"
        console.print(text, style=_style(well=item.status == "True"), markup=False)
        if item.status != "True":
            console.print(Padding(item.message, (0, 0, 0, 4), expand=False), markup=False)
    if view.nodes:
        table = _table("Node", "Uplink", "VLAN ids", "MTU", "State")
        for node in view.nodes:
            state = Text(node.state, _style(well=node.state == READY))
            table.add_row(node.node, node.uplink, node.vlan_ids, str(node.mtu or ""), state)
        output.print_table(console, table)
        _print_details(console, view.nodes)
    for network in view.networks:
        print_network(network)


def _print_details(console: "Console", nodes: Iterable["NodeView"]) -> None:
    """What does not fit the table: messages and leases."""
    for node in nodes:
        if node.state != READY and node.message:
            console.print(Padding(f"{node.node}: {node.message}", (0, 0, 0, 2), expand=False), markup=False)
        if node.lease is not None and node.lease.server:
            until = f" until {node.lease.expiry}" if node.lease.expiry else ""
            console.print(
                Padding(f"{node.node}: lease from {node.lease.server}{until}", (0, 0, 0, 2), expand=False)
            )


def _style(*, well: bool) -> str:
    return "green" if well else "yellow"


def _table(*columns: str) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name in _UNFOLDED)
    return table

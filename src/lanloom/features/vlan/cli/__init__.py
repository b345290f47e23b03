"""`lanloom vlan`: the VLAN networks node by node, and what a manifest would change."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import completed, run
from lanloom.cli.listing import Listing, listing_options, output_option, print_data, print_rows
from lanloom.cli.options import kubeconfig_option
from lanloom.features.vlan.cli.plan import plan
from lanloom.runtime.feature import CommandOptions

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.cli.query import Query
    from lanloom.features.vlan.views.objects import VlanObjects
    from lanloom.features.vlan.views.view import ClusterNetworkView, NetworkView, NodeView
    from lanloom.kube.ports import Client

MANAGER_OPTIONS = CommandOptions(
    click.option(
        "--mgmt-vlan",
        type=click.IntRange(1, 4094),
        metavar="ID",
        help="VLAN id of the management network, until agents report it. Networks of mgmt get no node addresses on it.",
    ),
    lambda values: values["mgmt_vlan"] or 0,
)
"""The setting of VLAN networks in `lanloom manager`: the management VLAN id, 0 for unknown."""


def _fields() -> "Query[NetworkView]":
    from lanloom.features.vlan.views.view import NETWORK_FIELDS

    return NETWORK_FIELDS


async def _read(client: "Client") -> "VlanObjects":
    from lanloom.features.vlan.views.objects import read_objects

    return await read_objects(client)


@click.group(name="vlan")
def command() -> None:
    """Show VLAN networks, and preview changes.

    \b
    Examples:
      lanloom vlan list
      lanloom vlan show default/vlan2012
      lanloom vlan plan -f vlan2012.yaml
    """


@command.command(name="list")
@kubeconfig_option
@listing_options(_fields)
def list_networks(kubeconfig: str | None, listing: Listing) -> None:
    """List the VLAN networks with the number of ready nodes and the worst reason of the others.

    \b
    Exit code: 0 if every network is ready on every node, 1 if not.

    \b
    Examples:
      lanloom vlan list
      lanloom vlan list -o network,nodes,message
      lanloom vlan list --output json | jq '.[] | select(.reason != "")'
    """
    from lanloom.features.vlan.views.view import network_views

    objects = run(kubeconfig, _read, read=True)
    views = network_views(objects)
    if views or not listing.is_for_people:
        listing.print(views, whole=views)
    if listing.is_for_people:
        _print_remarks(views, objects)
    sys.exit(1 if any(view.reason for view in views) else 0)


def _print_remarks(views: "tuple[NetworkView, ...]", objects: "VlanObjects") -> None:
    """Print what is below the list: cluster networks without a NAD, and the first reason in full."""
    from lanloom.api.dummy import UID_LABEL
    from lanloom.cli.console import console as make_console

    console = make_console()
    used = {view.cluster_network for view in views}
    bare = sorted(
        item.metadata.name
        for item in objects.networks
        if item.metadata.name not in used and UID_LABEL not in item.metadata.labels
    )
    if not views:
        console.print("No VLAN network exists; see examples/.")
    if bare:
        console.print(f"Cluster networks without a network: {', '.join(bare)}.")
    first = next((view for view in views if view.reason), None)
    if first is not None:
        console.print(f"\n{first.network}: {first.reason}: {first.message}", markup=False, soft_wrap=False)
        console.print(f"See `lanloom vlan show {first.network}`.")


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names that `show` accepts."""

    async def names(client: "Client") -> list[str]:
        from lanloom.features.vlan.views.view import completions

        return completions(await _read(client), incomplete)

    return completed(ctx, incomplete, names, filtered=True)


@command.command()
@click.argument("name", shell_complete=_complete)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of a NAD if NAME has none."
)
@kubeconfig_option
@output_option
def show(name: str, namespace: str, kubeconfig: str | None, output: str) -> None:
    """Show one network on every node: address, state, reason and remedy, lease, uplink, VLAN ids and MTU.

    NAME is a NetworkAttachmentDefinition (`vlan2012` or `default/vlan2012`) or a ClusterNetwork (`cluster-1`).

    Exit code: 0 if the network is ready on every node, 1 if it is not or does not exist.

    \b
    Examples:
      lanloom vlan show vlan2012
      lanloom vlan show storage/vlan2013
      lanloom vlan show cluster-1 --output json
    """
    from lanloom.features.vlan.views.view import NetworkView, UnknownNetwork, find_view

    try:
        view = find_view(run(kubeconfig, _read, read=True), name, namespace)
    except UnknownNetwork as error:
        raise click.ClickException(str(error)) from None
    if output != "table":
        print_data(view, output)
    elif isinstance(view, NetworkView):
        _print_network(view)
    else:
        _print_cluster_network(view)
    sys.exit(0 if _is_well(view) else 1)


def _is_well(view: "NetworkView | ClusterNetworkView") -> bool:
    from lanloom.features.vlan.views.view import READY, NetworkView

    if isinstance(view, NetworkView):
        return not view.reason
    well = all(node.state == READY for node in view.nodes)
    return well and bool(view.nodes) and not any(network.reason for network in view.networks)


def _print_network(view: "NetworkView") -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.features.vlan.views.view import ADDRESS_FIELDS

    console = make_console()
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
        print_rows(console, ADDRESS_FIELDS, view.nodes)
        _print_details(console, view.nodes)
    elif view.reason:
        console.print(f"{view.reason}: {view.message}", markup=False)


def _routing(view: "NetworkView") -> str:
    parts = [f"gateway {view.routing.gateway}"] if view.routing.gateway else []
    parts += [f"route to {route.to} via {route.via}" for route in view.routing.routes]
    parts += [f"DNS {', '.join(view.routing.dns)}"] if view.routing.dns else []
    return "; ".join(parts)


def _print_cluster_network(view: "ClusterNetworkView") -> None:
    from rich.padding import Padding

    from lanloom.cli.console import console as make_console
    from lanloom.features.vlan.views.view import UPLINK_FIELDS

    console = make_console()
    source = f" (from VlanConfig {view.mtu_source})" if view.mtu_source else ""
    configs = f"VlanConfigs {', '.join(view.vlan_configs)}" if view.vlan_configs else "no VlanConfig"
    console.print(f"{view.cluster_network}: {configs}, MTU {view.mtu or '-'}{source}", style="bold")
    for item in view.conditions:
        text = f"{item.type}: {item.status} {item.reason}"
        console.print(text, style="green" if item.status == "True" else "yellow", markup=False)
        if item.status != "True":
            console.print(Padding(item.message, (0, 0, 0, 4), expand=False), markup=False)
    if view.nodes:
        print_rows(console, UPLINK_FIELDS, view.nodes)
        _print_details(console, view.nodes)
    for network in view.networks:
        _print_network(network)


def _print_details(console: "Console", nodes: Iterable["NodeView"]) -> None:
    """Print what does not fit the table: messages and leases."""
    from rich.padding import Padding

    from lanloom.features.vlan.views.view import READY

    for node in nodes:
        if node.state != READY and node.message:
            console.print(Padding(f"{node.node}: {node.message}", (0, 0, 0, 2), expand=False), markup=False)
        if node.lease is not None and node.lease.server:
            until = f" until {node.lease.expiry}" if node.lease.expiry else ""
            console.print(
                Padding(f"{node.node}: lease from {node.lease.server}{until}", (0, 0, 0, 2), expand=False)
            )


command.add_command(plan)

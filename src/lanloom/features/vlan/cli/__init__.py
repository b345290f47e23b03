"""`lanloom vlan`: the VLAN networks node by node, and what a manifest would change on which node."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import ClusterOptions, completed, run
from lanloom.cli.listing import Listing, listing_options, output_option, print_data
from lanloom.cli.options import cluster_list_options, cluster_options
from lanloom.cli.tables import print_rows

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.api.resource import Resource
    from lanloom.cli.query import Query
    from lanloom.features.vlan.views import VlanObjects
    from lanloom.features.vlan.views.apply import Applied
    from lanloom.features.vlan.views.plan import VlanPlan
    from lanloom.features.vlan.views.view import ClusterNetworkView, NetworkView, NodeView
    from lanloom.kube.ports import Client, Reader
REFUSED, WOULD_CHANGE = 1, 3
"""Exit codes of `plan`, besides 0 where no node would change, and 2 for wrong usage."""

_COLOURS = {"add": "green", "change": "yellow", "remove": "red"}
_OUTCOMES = {"created": "+", "changed": "~", "deleted": "-", "refused": "!"}


def _fields() -> "Query[NetworkView]":
    from lanloom.features.vlan.views.view import NETWORK_FIELDS

    return NETWORK_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
    from lanloom.api.harvester import CLUSTER_NETWORKS
    from lanloom.api.multus import NADS

    return NADS, CLUSTER_NETWORKS, CLUSTER_NETWORK_NODES


async def _read(client: "Reader") -> "VlanObjects":
    from lanloom.features.vlan.views import read_objects

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
@cluster_list_options
@listing_options(_fields, kinds=_kinds)
def list_networks(cluster: ClusterOptions, listing: Listing) -> None:
    """List the VLAN networks with the number of ready nodes and the worst reason of the others.

    \b
    Exit code: 0 if every network is ready on every node, 1 if not.

    \b
    Examples:
      lanloom vlan list
      lanloom vlan list -o network,nodes,message
      lanloom vlan list --output json | jq '.[] | select(.reason != "")'
    """
    from lanloom.api.multus import NADS
    from lanloom.features.vlan.views.view import network_views

    objects = run(cluster, lambda client: _read(cluster.narrowed(client, NADS)), read=True)
    views = network_views(objects)
    if views or not listing.is_for_people:
        listing.print(views, whole=views)
    if listing.is_for_people:
        _print_remarks(views, objects, cluster)
    sys.exit(1 if any(view.reason for view in views) else 0)


def _print_remarks(views: "tuple[NetworkView, ...]", objects: "VlanObjects", cluster: ClusterOptions) -> None:
    """Print what is below the list: cluster networks without a NAD, and the first reason in full."""
    from lanloom.api.dummy import UID_LABEL
    from lanloom.cli.console import console as make_console
    from lanloom.cli.details import absent

    console = make_console()
    used = {view.cluster_network for view in views}
    bare = sorted(
        item.metadata.name
        for item in objects.networks
        if item.metadata.name not in used and UID_LABEL not in item.metadata.labels
    )
    if not views:
        console.print(absent("VLAN network", cluster, "To create one, see examples/."), markup=False)
    if bare and not (cluster.scope or cluster.selector or cluster.field_selector):
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
@cluster_options
@output_option
def show(name: str, cluster: ClusterOptions, output: str) -> None:
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
        view = find_view(run(cluster, _read, read=True), name, cluster.place)
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
    mode4, _, mode6 = view.mode.partition(",")
    mode = {
        "dhcp": "node addresses by DHCP",
        "static": "static node addresses",
        "pool": "node addresses from a pool",
    }.get(mode4, "no node addresses")
    mode += {"slaac": " and by SLAAC", "dhcp6": " and by DHCPv6"}.get(mode6, "")
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
    from lanloom.api.dualstack import join_gateways

    gateways = join_gateways(view.routing.gateway, view.routing.gateway6)
    parts = [f"gateway {gateways}"] if gateways else []
    routing = view.routing
    parts += [f"route to {route.to} via {route.via}" for route in (*routing.routes, *routing.routes6)]
    parts += [f"DNS {', '.join((*routing.dns, *routing.dns6))}"] if routing.dns or routing.dns6 else []
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
    """Print what does not fit the table: messages, leases, and addresses of other programs."""
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
        if node.other_addresses:
            text = f"{node.node}: other programs added {', '.join(node.other_addresses)}"
            console.print(Padding(text, (0, 0, 0, 2), expand=False), markup=False)


@command.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    type=click.Path(exists=True, allow_dash=True),
    help="A manifest, a directory of them, or - for standard input. Can be repeated.",
)
@click.option("--delete", "deleting", is_flag=True, help="Plan the deletion of the manifest's objects.")
@cluster_options
@output_option
def plan(files: tuple[str, ...], deleting: bool, cluster: ClusterOptions, output: str) -> None:
    """Preview the changes of a manifest by node: links, VLAN ids, sub-interfaces, addresses, profiles and MTU.

    Changes nothing, neither in the cluster nor on a node. Merges the manifest's objects into those of the cluster as
    `kubectl apply` does, one after the other, validates them by the rules of VLAN networks, and compares the
    configuration of the nodes before and after. Rejected objects are listed with the reason and left out. The webhooks
    of isolated networks and LANs are not asked; `kubectl apply --dry-run=server` asks all of them.

    Exit code: 0 if no node would change, 3 if nodes would change, 1 if an object is rejected or can't be read, 2 for
    wrong usage.

    \b
    Examples:
      lanloom vlan plan -f vlan2012.yaml
      lanloom vlan plan -f examples/ --output json | jq '.nodes[].changes'
      lanloom vlan plan --delete -f vlan2012.yaml
      kustomize build . | lanloom vlan plan -f -
    """
    from lanloom.features.vlan.views import read_objects
    from lanloom.features.vlan.views.apply import ManifestError, read_files
    from lanloom.features.vlan.views.plan import plan as make_plan

    try:
        documents = read_files(files, _standard_input(), cluster.place)
    except ManifestError as error:
        raise click.ClickException(str(error)) from None
    objects = run(cluster, lambda client: read_objects(client, with_vms=True), read=True)
    found = make_plan(objects, documents, deleting=deleting)
    if output != "table":
        print_data(found, output)
    else:
        _print(found)
    sys.exit(REFUSED if found.refused else WOULD_CHANGE if found.nodes else 0)


def _standard_input() -> Iterator[str]:
    yield sys.stdin.read()


def _print(found: "VlanPlan") -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.features.vlan.views.plan import SIGNS, alike, title, words

    console = make_console()
    for item in found.objects:
        _print_object(console, item)
    for network, nodes, changes in alike(found.nodes):
        console.print(f"\n{title(network, nodes)}", style="bold", markup=False)
        for change in changes:
            _print_indented(console, f"{SIGNS[change.verb]} {words(change)}", _COLOURS[change.verb], 2)
    console.print()
    for note in found.notes:
        console.print(note, markup=False)
    count = len({item.node for item in found.nodes})
    refused = sum(item.outcome == "refused" for item in found.objects)
    if refused:
        console.print(f"{refused} of {len(found.objects)} objects would be refused.", style="red")
    summary = f"{count} node{'s' * (count > 1)} would change." if count else "No node would change."
    console.print(f"{summary} Nothing was changed.")


def _print_object(console: "Console", item: "Applied") -> None:
    colour = {"refused": "red", "ignored": "dim", "unchanged": "dim", "absent": "dim"}.get(item.outcome, "")
    console.print(
        f"{_OUTCOMES.get(item.outcome, ' ')} {item.object}: {item.outcome}", style=colour, markup=False
    )
    for text in (item.message, *(f"warning: {warning}" for warning in item.warnings)):
        if text:
            _print_indented(console, text, "", 4)


def _print_indented(console: "Console", text: str, style: str, by: int) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(text, style), (0, 0, 0, by), expand=False))

"""`lanloom lan`: the LANs across the cluster."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import ClusterOptions, completed, options_of, run
from lanloom.cli.listing import Listing, listing_options, output_option, print_data
from lanloom.cli.options import cluster_list_options, cluster_options, complete_nodes
from lanloom.cli.tables import print_rows

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.cli.query import Query
    from lanloom.features.lan.trace.reading import Asked
    from lanloom.features.lan.trace.views import TraceView
    from lanloom.features.lan.views import LanView
    from lanloom.kube.ports import Client


@click.group(name="lan")
def command() -> None:
    """Show LANs: virtual LANs across the nodes of a cluster.

    \b
    Examples:
      lanloom lan list
      lanloom lan show default/blue
      lanloom lan counters default/blue
      lanloom lan trace default/blue --from default/web --to default/db
      lanloom why-not-deleted lan/default/blue
    """


def _fields() -> "Query[LanView]":
    from lanloom.features.lan.views import LAN_FIELDS

    return LAN_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.lan import LANS

    return (LANS,)


@command.command(name="list")
@cluster_list_options
@listing_options(_fields, kinds=_kinds)
def list_lans(cluster: ClusterOptions, listing: Listing) -> None:
    """List the LANs with VNI, nodes, MTU and spokes.

    NODES shows on how many of the nodes that carry a LAN it is ready; SPOKES, how many of its spokes are in use.

    Exit code: 0 if every LAN is ready, 1 if not or if the cluster can't be reached, 2 for wrong usage.

    \b
    Examples:
      lanloom lan list
      lanloom lan list -o namespace,name,message
      lanloom lan list --output json | jq -r '.[] | .name + ": " + .message'
    """
    from lanloom.api.lan import LANS
    from lanloom.features.lan.views import read_served

    views = run(cluster, lambda client: read_served(cluster.narrowed(client, LANS)), read=True)
    if views or not listing.is_for_people:
        listing.print(views, whole=views)
    if listing.is_for_people:
        _print_remarks(views, cluster)
    sys.exit(0 if all(view.ready for view in views) else 1)


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of LANs."""

    options = options_of(ctx)

    async def names(client: "Client") -> list[str]:
        from lanloom.features.lan.views import read_visible

        place = options.namespace or options.quiet_config.namespace
        return [view.title for view in await read_visible(client, place)]

    return completed(ctx, incomplete, names)


@command.command(name="show")
@click.argument("name", metavar="NAMESPACE/NAME", shell_complete=_complete)
@cluster_options
@output_option
def show(name: str, cluster: ClusterOptions, output: str) -> None:
    """Show one LAN: nodes, spokes, NADs, and what keeps it.

    NAME alone is the LAN of the namespace, or the only one that has the name.

    Exit code: 0 if the LAN is ready, 1 if it is not, does not exist, or the cluster can't be reached, 2 for wrong
    usage.

    \b
    Examples:
      lanloom lan show default/blue
      lanloom lan show blue --output json | jq '.nodes'
    """
    place = cluster.place
    view = run(cluster, lambda client: _read_one(client, name, place), read=True)
    if output != "table":
        print_data(view, output)
    else:
        _print_lan(view)
    sys.exit(0 if view.ready else 1)


@command.command(name="counters")
@click.argument("name", metavar="NAMESPACE/NAME", shell_complete=_complete)
@cluster_options
@output_option
def counters(name: str, cluster: ClusterOptions, output: str) -> None:
    """Show what passed the spokes of a LAN: bytes, frames, and what was dropped.

    The agents of the nodes count since each port was made. They are asked through the API server with your own
    rights: to list pods, and to get pods/proxy, in the namespace lanloom-system.

    SENT is what the pod or machine at a spoke sent, RECEIVED what it received. REFUSED are frames that options of the
    spoke dropped.

    Exit code: 0 if every agent answered, 1 if one did not, if the right is missing, or if the cluster can't be reached,
    2 for wrong usage.

    \b
    Examples:
      lanloom lan counters default/blue
      lanloom lan counters blue --output json | jq '.spokes[] | select(.droppedSent > 0)'
    """
    from lanloom.features.lan.counters import COUNTER_FIELDS, read_counters

    place = cluster.place
    found = run(cluster, lambda client: read_counters(client, name, place), read=True)
    if output != "table":
        print_data(found, output)
    else:
        from lanloom.cli.console import console as make_console
        from lanloom.cli.console import paragraph

        console = make_console()
        print_rows(console, COUNTER_FIELDS, found.spokes, edge=False)
        for remark in found.remarks():
            console.print(paragraph(remark))
    sys.exit(1 if found.missing or found.silent else 0)


def _complete_end(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the spokes of the LAN that was named, and the pods at them."""

    async def names(client: "Client") -> list[str]:
        from lanloom.features.lan.trace.reading import read_end_names

        return await read_end_names(client, lan)

    # click sorts no arguments before an option that still lacks its value.
    lan = ctx.params.get("name") or next(iter(ctx.args), "")
    return completed(ctx, incomplete, names)


@command.command(name="trace")
@click.argument("name", metavar="NAMESPACE/LAN", shell_complete=_complete)
@click.option(
    "--from",
    "sender",
    required=True,
    metavar="POD|SPOKE|uplink",
    shell_complete=_complete_end,
    help="Pod that sends, as NAMESPACE/NAME, or a spoke of the LAN, or `uplink` for the VLAN that it is joined to.",
)
@click.option(
    "--to",
    "receiver",
    required=True,
    metavar="POD|SPOKE|uplink",
    shell_complete=_complete_end,
    help="Pod that receives, as NAMESPACE/NAME, or a spoke of the LAN, or `uplink`.",
)
@click.option(
    "--size",
    type=click.IntRange(68, 65535),
    metavar="BYTES",
    help="Size of the IP packet in the frame. Default: one that fits.",
)
@click.option(
    "--source",
    metavar="MAC",
    help="MAC address that the frame is from. Default: that of the sender's interface.",
)
@click.option(
    "--live", is_flag=True, help="Read the kernel of this machine, which is the node --node, as well."
)
@click.option(
    "--node",
    envvar="NODE_NAME",
    metavar="NAME",
    shell_complete=complete_nodes,
    help="Name of this machine's Node. Needed for --live.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/var/lib/lanloom/lan"),
    show_default=True,
    metavar="DIR",
    help="State directory of the agent of LANs. Used with --live.",
)
@cluster_options
@output_option
def trace(
    name: str,
    sender: str,
    receiver: str,
    size: int | None,
    source: str | None,
    live: bool,
    node: str | None,
    state: Path,
    cluster: ClusterOptions,
    output: str,
) -> None:
    """Follow a frame from one pod to another, and show where it stops.

    Each hop is shown as the API server, the nodes' agents and Multus report it. With --live, the hops on this machine
    are also read from its kernel. The answer takes the way back: swap --from and --to to trace it.

    Changes nothing, and sends no frame.

    Exit code: 0 if nothing is known to stop the frame, 1 if it stops or if the cluster can't be reached, 2 for wrong
    usage.

    \b
    Examples:
      lanloom lan trace default/blue --from default/web --to default/db
      lanloom lan trace blue --from web --to db --size 1500
      lanloom lan trace blue --from web --to uplink
      lanloom lan trace blue --from web --to db --source 02:00:00:00:00:99
      lanloom lan trace blue --from web --to db -o json | jq -r .verdict
      kubectl -n lanloom-system exec POD -- lanloom lan trace blue --from web --to db --live
    """
    from lanloom.features.lan.trace.reading import Asked

    if live and not node:
        raise click.UsageError("--live needs --node: the name of this machine's Node")
    asked = Asked(lan=name, sender=sender, receiver=receiver, size=size or 0, source=source or "")
    here = (node, state) if live and node else None
    view = run(cluster, lambda client: _trace(client, asked, here))
    if output != "table":
        print_data(view, output)
    else:
        _print_trace(view)
    sys.exit(0 if view.passes else 1)


async def _trace(client: "Client", asked: "Asked", here: tuple[str, Path] | None) -> "TraceView":
    """Read the facts, those of this machine included if it is given with its node and state directory."""
    import time

    from lanloom.features.lan.trace.reading import read_facts, with_kernel
    from lanloom.features.lan.trace.views import trace_view

    facts = await read_facts(client, asked, now=time.time())
    if here is not None:
        from lanloom.features.lan.agent.node import NetlinkLanKernel
        from lanloom.node.namespaces import NamespaceDirectory
        from lanloom.node.records import RecordDirectory

        node, state = here
        kernel = NetlinkLanKernel(NamespaceDirectory())
        facts = await with_kernel(facts, node, kernel, RecordDirectory(state), state)
    return trace_view(facts)


def _print_trace(view: "TraceView") -> None:
    """Print the hops and the verdict."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph
    from lanloom.features.lan.trace.views import HOP_FIELDS

    console = make_console()
    console.print(paragraph(f"LAN {view.lan}: from {view.sender} to {view.receiver}", style="bold"))
    console.print()
    print_rows(console, HOP_FIELDS, view.hops, edge=False)
    console.print()
    console.print(paragraph(view.verdict, style="green" if view.passes else "red"))
    if not view.live:
        console.print(paragraph("States are as reported. To read a node's kernel, use --live on that node."))


async def _read_one(client: "Client", name: str, namespace: str) -> "LanView":
    """Read one LAN with its Events. Raises KubeError, and Denied for a name that is no LAN's, or several's."""
    from msgspec.structs import replace

    from lanloom.cli.details import read_events
    from lanloom.features.lan.views import read_view

    view = await read_view(client, name, namespace)
    return replace(view, events=await read_events(client, view.uid))


def _print_remarks(views: "tuple[LanView, ...]", cluster: ClusterOptions) -> None:
    """Print what to do about the first LAN that is not ready."""
    from lanloom.cli.details import absent, print_remarks

    print_remarks(
        views,
        absent("LAN", cluster, "Create one (see examples/lan.yaml)."),
        lambda view: "" if view.ready else f"{view.title}: {view.reason}: {view.message}",
        lambda view: f"lanloom lan show {view.title}",
    )


def _print_lan(view: "LanView") -> None:
    """Print everything about one LAN."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph
    from lanloom.cli.details import LISTED, event_lines, print_section
    from lanloom.features.lan.views import NODE_FIELDS, SPOKE_FIELDS

    console = make_console()
    style = "bold " + ("green" if view.ready else "yellow")
    console.print(paragraph(f"{view.title}: {view.reason}", style=style))
    console.print(paragraph(view.message, 2))
    if view.deleting:
        console.print(paragraph(f"Its deletion was asked for at {view.deleting}.", 2))
    for line in _spec(view):
        console.print(paragraph(line, 2))
    if view.nodes:
        console.print()
        print_rows(console, NODE_FIELDS, view.nodes, edge=False)
    console.print()
    print_rows(console, SPOKE_FIELDS, view.spokes[:LISTED], edge=False)
    if len(view.spokes) > LISTED:
        console.print(paragraph(f"and {len(view.spokes) - LISTED} more: see --output json", 2))
    print_section(console, "Kept by", view.users)
    print_section(console, "Events", event_lines(view.events))
    if view.deleting:
        console.print()
        text = f"What it waits for: `lanloom why-not-deleted lan/{view.title}`."
        console.print(paragraph(text))


def _spec(view: "LanView") -> Iterable[str]:
    yield f"VNI {view.vni} at port {view.port}, {_replication(view)}"
    nodes = ", ".join(f"{link} on {node}" for node, link in sorted(view.underlays.items()))
    yield f"underlay {', '.join(filter(None, (view.underlay, nodes)))}" + (
        f"; MTU {view.mtu}, as {view.limited_by} allows no more" if view.mtu else ""
    )
    if view.underlay_fault:
        yield view.underlay_fault
    if view.uplink:
        yield f"uplink {view.uplink}, joined by " + (view.uplink_node or "no node")
    if view.limits:
        yield f"options: {view.limits}"
    if view.namespaces:
        yield f"also for the namespaces {', '.join(view.namespaces)}"
    if view.subnets:
        yield f"addresses from {', '.join(view.subnets)}" + (
            f": Network {view.network}" if view.network else ""
        )
    yield f"on the nodes: network namespace {view.ns}, bridge {view.bridge}"


def _replication(view: "LanView") -> str:
    if view.replication == "multicast":
        return f"frames for many receivers to the group {view.group}"
    return "frames for many receivers to each node (head-end replication)"

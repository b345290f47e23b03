"""`lanloom dummy list` and `lanloom dummy show`: the isolated networks."""

import sys
import time
from collections.abc import Iterable
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
    from lanloom.features.dummy.views import DummyView
    from lanloom.kube.ports import Client, Reader

_UNSEEN = "no manager has processed it yet; check that one runs"


def _fields() -> "Query[DummyView]":
    from lanloom.features.dummy.views import NETWORK_FIELDS

    return NETWORK_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS

    return (DUMMY_CLUSTER_NETWORKS,)


@click.command(name="list")
@cluster_list_options
@listing_options(_fields, kinds=_kinds)
def list_networks(cluster: ClusterOptions, listing: Listing) -> None:
    """List the isolated networks with phase, nodes and users.

    NODES shows how many of the awaited nodes have acknowledged the network. Users are read from the cluster now.

    Exit code: 0 if every network is ready, 1 if not or if the cluster can't be reached, 2 for wrong usage.

    \b
    Examples:
      lanloom dummy list
      lanloom dummy list --output json | jq -r '.[] | .name + ": " + .message'
    """

    from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS

    views = run(
        cluster, lambda client: _read_views(cluster.selected(client, DUMMY_CLUSTER_NETWORKS)), read=True
    )
    if views or not listing.is_for_people:
        listing.print(views, whole=views)
    if listing.is_for_people:
        _print_remarks(views, cluster)
    sys.exit(0 if all(view.is_ready for view in views) else 1)


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of networks."""
    from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS

    async def names(client: "Client") -> list[str]:
        return sorted(item.metadata.name for item in (await client.list(DUMMY_CLUSTER_NETWORKS)).items)

    return completed(ctx, incomplete, names)


@click.command(name="show")
@click.argument("name", shell_complete=_complete)
@cluster_options
@output_option
def show(name: str, cluster: ClusterOptions, output: str) -> None:
    """Show one isolated network: nodes, users, and what to do.

    Also shows the objects created for the network, and admitted requests that can still use it. For a node that has not
    acknowledged the bridge, its pod reports the reason.

    Exit code: 0 if the network is ready, 1 if it is not, does not exist, or the cluster can't be reached, 2 for wrong
    usage.

    \b
    Examples:
      lanloom dummy show br-dummy-cluster
      lanloom dummy show br-dummy-cluster --output json | jq -r '.users[].name'
    """

    view = run(cluster, lambda client: _read_view(client, name), read=True)
    if output != "table":
        print_data(view, output)
    else:
        _print_network(view)
    sys.exit(0 if view.is_ready else 1)


async def _read_views(client: "Reader") -> "tuple[DummyView, ...]":
    """Read every network. Raises KubeError."""
    from lanloom.features.dummy.views import dummy_views, read_dummies

    objects, users = await read_dummies(client)
    return dummy_views(objects, users, time.time())


async def _read_view(client: "Client", name: str) -> "DummyView":
    """Read one network with its Events. Raises KubeError, and ClickException for an unknown name."""
    from msgspec.structs import replace

    from lanloom.cli.details import read_events
    from lanloom.text import quote

    views = await _read_views(client)
    for view in views:
        if view.name == name:
            return replace(view, events=await read_events(client, view.uid))
    there = f"existing networks are {', '.join(view.name for view in views)}" if views else "there are none"
    raise click.ClickException(f"DummyClusterNetwork {quote(name)} does not exist; {there}")


def _print_remarks(views: "tuple[DummyView, ...]", cluster: ClusterOptions) -> None:
    """Print what to do about the first network that is not ready."""
    from lanloom.cli.details import absent, print_remarks

    print_remarks(
        views,
        absent("DummyClusterNetwork", cluster, "Create one (see examples/dummy.yaml).", namespaced=False),
        lambda view: "" if view.is_ready else f"{view.name}: {view.shown_phase}: {view.message or _UNSEEN}",
        lambda view: f"lanloom dummy show {view.name}",
    )


def _print_network(view: "DummyView") -> None:
    """Print everything about one network."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph
    from lanloom.cli.details import event_lines, print_section

    console = make_console()
    console.print(
        paragraph(
            f"{view.name}: {view.shown_phase}", style="bold " + ("green" if view.is_ready else "yellow")
        ),
    )
    console.print(paragraph(view.message or _UNSEEN, 2))
    if view.deleting:
        console.print(paragraph(f"Its deletion was requested at {view.deleting}.", 2))
    for line in _spec(view):
        console.print(paragraph(line, 2))
    print_section(console, "Conditions", _conditions(view))
    print_section(console, "Created objects", _resources(view))
    _print_nodes(console, view)
    print_section(console, "Used by", (user.placed for user in view.users))
    _print_division(console, view)
    print_section(console, "Requests that may still be stored", _requests(view))
    print_section(console, "Events", event_lines(view.events))
    _print_next(console, view)


def _spec(view: "DummyView") -> Iterable[str]:
    yield f"bridge {view.bridge or '-'}, NetworkAttachmentDefinition {view.nad}, scope {view.scope}"
    if view.scope == "cluster":
        underlay = " by ".join(filter(None, (view.underlay or "-", view.underlay_family)))
        yield f"LAN {view.lan or '(not created yet)'}, underlay {underlay}, MTU {view.mtu}"
    if view.namespaces:
        yield f"for the namespace of the NAD, and {', '.join(view.namespaces)}"
    gateway = ", and each node is a gateway to the networks that it reaches" if view.gateway == "node" else ""
    yield f"addresses from {view.subnet}{gateway}" if view.subnet else "no addresses from Lanloom"


def _conditions(view: "DummyView") -> Iterable[str]:
    """Return each condition with its message, unless that is the network's own, which is at the top."""
    for item in view.conditions:
        message = f": {item.message}" if item.message not in ("", view.message) else ""
        yield f"{item.type}: {item.status} {item.reason}".rstrip() + message


def _resources(view: "DummyView") -> Iterable[str]:
    for item in view.resources:
        yield f"{item.kind} {item.namespace}/{item.name}" if item.namespace else f"{item.kind} {item.name}"


def _requests(view: "DummyView") -> Iterable[str]:
    if view.unreadable:
        yield f"The NAD's list of admitted requests can't be read: {view.unreadable}"
    for item in view.awaited:
        yield f"{item.title}, at the latest at {item.until}"


def _print_nodes(console: "Console", view: "DummyView") -> None:
    from lanloom.features.dummy.views import NODE_FIELDS

    if view.nodes:
        console.print()
        print_rows(console, NODE_FIELDS, view.nodes, edge=False)


def _print_division(console: "Console", view: "DummyView") -> None:
    """Say which users do not reach each other, which is what people wonder about most."""
    from lanloom.cli.console import paragraph
    from lanloom.text import listed

    if view.divided:
        text = (
            f"Users on different nodes ({listed(view.divided)}) do not reach each other, as each node has a network of "
            "its own with spec.scope node. The scope is immutable: for one network over all nodes, create another "
            "DummyClusterNetwork with spec.scope cluster."
        )
        console.print(paragraph(text, 2))


def _print_next(console: "Console", view: "DummyView") -> None:
    """Print the next step."""
    from lanloom.cli.console import paragraph
    from lanloom.features.dummy.blockers import podless_advice

    if view.deleting:
        text = f"To see its blockers and their remedies: `lanloom why-not-deleted dcn/{view.name}`."
    elif view.is_ready:
        text = f"Machines and pods reference it as {view.nad}."
    else:
        text = podless_advice(view)
    if not text:
        return
    console.print()
    console.print(paragraph(text))

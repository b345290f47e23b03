"""`lanloom vm list` and `lanloom vm show`: machines with their networks."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.listing import Listing, listing_options, output_option, print_data
from lanloom.cli.options import cluster_list_options, cluster_options
from lanloom.cli.tables import print_rows
from lanloom.features.liveupdate.cli.names import key_of, machine_argument

if TYPE_CHECKING:
    from lanloom.api.meta import Key
    from lanloom.api.resource import Resource
    from lanloom.cli.query import Query
    from lanloom.features.liveupdate.rules.mode import Mode
    from lanloom.features.liveupdate.views import MachineView
    from lanloom.kube.ports import Client, Reader


def _fields() -> "Query[MachineView]":
    from lanloom.features.liveupdate.fields import MACHINE_FIELDS

    return MACHINE_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
    from lanloom.api.liveupdate import NETWORK_SWAPS

    return VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, NETWORK_SWAPS


@click.command(name="list")
@cluster_list_options
@listing_options(_fields, kinds=_kinds)
def list_machines(cluster: ClusterOptions, listing: Listing) -> None:
    """List the machines with node, state, and the network of each NIC.

    NICS shows each NIC with its NAD; a→b is a NIC that is attached to a and is to be on b. A machine is Ready if every
    NIC is where the VirtualMachine wants it. The last line is the mode of live update: who changes networks of running
    machines.

    Exit code: 0 if every machine is Ready or Stopped, 1 if not or if the cluster can't be reached, 2 for wrong usage.

    \b
    Examples:
      lanloom vm list
      lanloom vm list -n prod -o +policy,migratable
      lanloom vm list --output json | jq -r '.[] | .name + ": " + .message'
    """
    from lanloom.api.kubevirt import VIRTUAL_MACHINES

    scope = cluster.scope
    views, mode = run(
        cluster,
        lambda client: _read_all(
            cluster.selected(client, VIRTUAL_MACHINES), scope, with_mode=listing.is_for_people
        ),
        read=True,
    )
    if views or not listing.is_for_people:
        listing.print(views, whole=views)
    if listing.is_for_people:
        _print_remarks(views, cluster)
        _print_mode(mode)
    sys.exit(0 if all(view.is_well for view in views) else 1)


@click.command(name="show")
@machine_argument
@cluster_options
@output_option
def show(vm: str, cluster: ClusterOptions, output: str) -> None:
    """Show one machine: NICs, swaps, conditions and Events.

    WANTED is the NAD that the VirtualMachine names, OBSERVED the one that Multus has attached the NIC to.

    Exit code: 0 if the machine is Ready or Stopped, 1 if it is not, does not exist, or the cluster can't be reached, 2
    for wrong usage.

    \b
    Examples:
      lanloom vm show web
      lanloom vm show prod/web --output json | jq '.nics'
    """
    key = key_of(vm, cluster.place)
    view = run(cluster, lambda client: _read_one(client, key), read=True)
    if output != "table":
        print_data(view, output)
    else:
        _print_machine(view)
    sys.exit(0 if view.is_well else 1)


async def _read_all(
    client: "Reader", namespace: str, *, with_mode: bool
) -> "tuple[tuple[MachineView, ...], Mode | None]":
    """Read every machine, and the mode if it may be read. Raises KubeError, and Denied without KubeVirt."""
    from lanloom.features.liveupdate.machines import machines_of
    from lanloom.features.liveupdate.views import read_mode, read_objects, view_of

    views = tuple(map(view_of, machines_of(await read_objects(client, namespace))))
    return views, await read_mode(client) if with_mode else None


async def _read_one(client: "Client", key: "Key") -> "MachineView":
    """Read one machine with its Events. Raises KubeError, and Denied for an unknown name."""
    from msgspec.structs import replace

    from lanloom.cli.details import read_events
    from lanloom.features.liveupdate.views import read_machine, view_of

    view = view_of(await read_machine(client, key))
    uids = dict.fromkeys((view.uid, view.instance_uid))
    return replace(view, events=await read_events(client, *uids))


def _print_remarks(views: "tuple[MachineView, ...]", cluster: ClusterOptions) -> None:
    """Print why the first machine that is not well is so."""
    from lanloom.cli.details import absent, print_remarks

    print_remarks(
        views,
        absent("VirtualMachine", cluster),
        lambda view: "" if view.is_well else f"{view.title}: {view.state}: {view.message}",
        lambda view: f"lanloom vm show {view.title}",
    )


def _print_mode(mode: "Mode | None") -> None:
    """Print who changes networks of running machines."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph

    if mode is not None:
        make_console().print(paragraph(f"Mode {mode.name}: {mode.actors}."))


def _print_machine(view: "MachineView") -> None:
    """Print everything about one machine."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph
    from lanloom.cli.details import event_lines, print_section
    from lanloom.features.liveupdate.fields import NIC_FIELDS

    console = make_console()
    style = "bold " + ("green" if view.is_well else "yellow")
    console.print(paragraph(f"{view.title}: {view.state}", style=style))
    for line in _facts(view):
        console.print(paragraph(line, 2))
    if view.nics:
        console.print()
        print_rows(console, NIC_FIELDS, view.nics, edge=False)
    print_section(console, "Swaps", _swaps(view), latest=True)
    print_section(console, "Migrations", _migrations(view), latest=True)
    print_section(console, "Conditions", _conditions(view), latest=True)
    print_section(console, "Events", event_lines(view.events), latest=True)


def _facts(view: "MachineView") -> Iterable[str]:
    if view.message:
        yield view.message
    if view.migratable is not None:
        can = "it can migrate live" if view.migratable else "it can't migrate live"
        yield f"on {view.node or 'no node'}; {can}"
    yield f"policy {view.policy}"


def _swaps(view: "MachineView") -> Iterable[str]:
    for item in view.swaps:
        gap = f", gap {item.gap:.0f} ms" if item.gap else ""
        why = f": {item.message}" if item.message else ""
        yield f"{item.created} {item.name}: NIC {item.network} {item.from_} → {item.to}: {item.phase}{gap}{why}"


def _migrations(view: "MachineView") -> Iterable[str]:
    for item in view.migrations:
        way = f" {item.source} → {item.target}" if item.target else ""
        yield f"{item.created} {item.name}{way}: {item.phase}"


def _conditions(view: "MachineView") -> Iterable[str]:
    for item in view.conditions:
        message = f": {item.message}" if item.message else ""
        yield f"{item.type}: {item.status} {item.reason}".rstrip() + message

"""`lanloom instance`: instances with their NICs, as `gnt-instance` has them."""

from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.cluster import ClusterOptions, refusals
from lanloom.cli.console import console as make_console
from lanloom.cli.listing import (
    Listing,
    fields_arguments,
    listing_options,
    output_option,
    print_data,
    print_fields,
)
from lanloom.cli.options import cluster_options, cluster_scope_options
from lanloom.features.ipam.cli.cluster import instances_argument, read_cluster
from lanloom.features.ipam.cli.instancechange import add, modify, remove, rename
from lanloom.features.ipam.commands.instances import READY
from lanloom.features.ipam.commands.instanceviews import NicView, views

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.cli.query import Query
    from lanloom.features.ipam.commands.instances import Instance


def _fields() -> "Query[Instance]":
    from lanloom.features.ipam.commands.instanceviews import INSTANCE_FIELDS

    return INSTANCE_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.ipam import NICS

    return (NICS,)


@click.group(name="instance")
def command() -> None:
    """Manage instances: their NICs and the addresses of the NICs.

    An instance consists of the NICs that name it as their owner. With KubeVirt, it is the virtual machine. An instance
    belongs to a Kubernetes namespace (-n). NICs are API objects: `kubectl get ipnic` lists them. Lanloom does not
    manage disks or memory.

    \b
    Examples:
      lanloom instance add --net 0:ip0=192.0.2.4,ip1=pool,network=net1 inst1
      lanloom instance modify --net 0:modify,ip1=none inst1
      lanloom instance list -o name,nic.ips
    """


@command.command(name="list")
@instances_argument
@listing_options(_fields, kinds=_kinds)
@cluster_scope_options
def list_instances(
    instances: tuple[str, ...],
    listing: Listing,
    cluster: ClusterOptions,
) -> None:
    """List instances. `lanloom instance list-fields` describes the fields.

    `nic.macs` shows the MAC address of each NIC, `nic.mac/0` that of the first one. The other `nic` fields are similar.

    Exit code: 0, or 1 if an instance is not found, 2 for an unknown field.

    \b
    Examples:
      lanloom instance list
      lanloom instance list -A -o +namespace,nic.macs
      lanloom instance list --no-headers --separator : -o name,nic.ips inst1
      lanloom instance list -o name,nic.ip/0,nic.mac/0 --output json
    """
    if instances and cluster.all_namespaces:
        raise click.UsageError("names belong to one namespace; omit --all-namespaces or the names")
    found = _read(cluster, cluster.scope, instances)
    with refusals(reading=True):
        listing.print(found)


@command.command(name="list-fields")
@fields_arguments(_fields)
def list_fields(fields: tuple[str, ...], listing: Listing) -> None:
    """List the fields that `lanloom instance list -o` can show.

    \b
    Examples:
      lanloom instance list-fields
      lanloom instance list-fields nic.ips nic.macs
    """
    print_fields(_fields(), fields, listing)


@command.command()
@instances_argument
@output_option
@cluster_options
def info(instances: tuple[str, ...], output: str, cluster: ClusterOptions) -> None:
    """Show the details of instances.

    Shows each NIC with its addresses and, for a refused request, the reason.

    \b
    Exit code: 0, or 1 if an instance is not found.

    \b
    Examples:
      lanloom instance info inst1
      lanloom instance info inst1 --output json | jq '.[].nics[].ips'
    """
    from lanloom.features.ipam.cli.instance import print_instance
    from lanloom.features.ipam.commands.instanceviews import information

    found = _read(cluster, cluster.place, instances)
    with refusals(reading=True):
        if output != "table":
            print_data([information(item) for item in found], output)
            return
        for item in found:
            print_instance(item)


def _read(cluster: ClusterOptions, namespace: str, names: tuple[str, ...]) -> "list[Instance]":
    """Return the instances of those names in their order; without any all of a namespace, or of all of them."""
    from lanloom.features.ipam.commands.instances import check_instance, instances, the_instance

    with refusals():
        for name in names:
            check_instance(name)
    state = read_cluster(cluster)
    with refusals(reading=True):
        return [the_instance(state, namespace, name) for name in names] or instances(state, namespace)


for _command in (add, modify, rename, remove):
    command.add_command(_command)


def print_instance(instance: "Instance") -> None:
    """Print an instance with all of its NICs."""
    console = make_console()
    console.print(f"{instance.kind} {instance.namespace}/{instance.name}", style="bold", markup=False)
    for view in views(instance):
        title = f"  NIC {view.index}" + (f" ({view.name})" if view.name else "")
        console.print(title, style="" if view.state == READY else "yellow", markup=False)
        for line in _lines(view):
            console.print(f"    {line}", markup=False, soft_wrap=True)


def _lines(view: NicView) -> list[str]:
    asked = [] if view.state == READY else [f"Asks for: {', '.join(view.wanted) or 'none'}, {view.state}"]
    if view.message:
        asked.append(view.message)
    way = view.connection
    ways = (("Mode", view.mode, way.mode), ("Link", view.link, way.link), ("VLAN", view.vlan, way.vlan))
    return [
        f"Network: {view.network or '-'}",
        f"IPs: {', '.join(view.ips) or '-'}",
        *asked,
        f"MAC: {view.mac or '-'}",
        *(f"{title}: {text}{'' if own else ' (of the network)'}" for title, own, text in ways if text),
        f"UUID: {view.uuid}",
        f"Object: {view.object}",
    ]

"""`lanloom network`: networks with their subnets and pools, as `gnt-network` has them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.cluster import ClusterOptions, refusals
from lanloom.cli.listing import (
    Listing,
    fields_arguments,
    listing_options,
    output_option,
    print_data,
    print_fields,
)
from lanloom.cli.options import cluster_list_options, cluster_options
from lanloom.cli.root import LazyGroup
from lanloom.features.ipam.cli.cluster import (
    networks_argument,
    read_networks,
)
from lanloom.features.ipam.cli.ganetioptions import verbose_option
from lanloom.runtime.slimimports import uncollected

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.cli.query import Query
    from lanloom.features.ipam.cli.grammar.fields import Described

SHORT = 3
"""Exit code of `usage` where a pool is nearly full or full; 1 and 2 are those of every command."""


def _fields() -> "Query[Described]":
    from lanloom.features.ipam.cli.grammar.fields import NETWORK_FIELDS

    return NETWORK_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.ipam import NETWORKS, NICS

    return NETWORKS, NICS


_CLI = "lanloom.features.ipam.cli"

_CHANGES = {
    **{
        name: f"{_CLI}.networkchanges:{name}"
        for name in ("add", "modify", "rename", "remove", "connect", "disconnect")
    },
    "release": f"{_CLI}.networkrelease:release",
    "tag": f"{_CLI}.networktags:tag",
    **{f"{word}-tags": f"{_CLI}.networktags:{word}_network_tags" for word in ("list", "add", "remove")},
}
"""Commands that change networks, by their names: lists need none of them."""


@click.group(name="network", cls=LazyGroup, lazy=_CHANGES)
def command() -> None:
    """Manage networks: subnets, pools, reserved addresses, and connections of node groups.

    Networks are API objects: `kubectl get ipnet` lists them, and `kubectl get ipnic` lists the NICs.

    \b
    Examples:
      lanloom network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1,pool net1
      lanloom network modify --pool remove:192.0.2.20-192.0.2.50 --dry-run net1
      lanloom network list -o name,subnets,free_count
      lanloom network usage
    """


@command.command(name="list")
@networks_argument
@verbose_option
@listing_options(_fields, kinds=_kinds)
@cluster_list_options
def list_networks(networks: tuple[str, ...], listing: Listing, cluster: ClusterOptions) -> None:
    """List networks. `lanloom network list-fields` describes the fields; `-o ganeti` shows those of gnt-network.

    Exit code: 0, or 1 if a network is not found or can't be read, 2 for an unknown field.

    \b
    Examples:
      lanloom network list
      lanloom network list -o +uuid,serial_no
      lanloom network list -o ganeti
      lanloom network list --no-headers --separator : -o name,free_count net1
      lanloom network list -o name,pools --output json
    """
    with _described(cluster, networks) as found:
        listing.print(found)


@command.command(name="list-fields")
@fields_arguments(_fields)
def list_fields(fields: tuple[str, ...], listing: Listing) -> None:
    """List the fields that `lanloom network list -o` can show.

    \b
    Examples:
      lanloom network list-fields
      lanloom network list-fields map pools
    """
    print_fields(_fields(), fields, listing)


@command.command()
@networks_argument
@output_option
@cluster_options
def info(networks: tuple[str, ...], output: str, cluster: ClusterOptions) -> None:
    """Show the details of networks.

    Shows subnets, pools with their maps, reservations, node groups, and the addresses of each NIC.

    \b
    Exit code: 0, or 1 if a network is not found or can't be read.

    \b
    Examples:
      lanloom network info net1
      lanloom network info --output json | jq '.[].nics'
    """
    from lanloom.features.ipam.cli.networkinfo import print_network
    from lanloom.features.ipam.commands.networkviews import information

    with _described(cluster, networks) as found, refusals(reading=True):
        if output != "table":
            print_data([information(item) for item in found], output)
            return
        for item in found:
            print_network(item)


@command.command()
@networks_argument
@output_option
@cluster_options
def usage(networks: tuple[str, ...], output: str, cluster: ClusterOptions) -> None:
    """Show the usage of each pool.

    A bar shows the addresses that NICs own, then the externally reserved ones. A small pool has a map too: X is an
    address in use or reserved, a dot is a free address. A disabled pool is marked.

    \b
    Exit code: 0, or 3 if a pool is full to 80 % or more (and not disabled),
               1 if a network is not found or can't be read.

    \b
    Examples:
      lanloom network usage
      lanloom network usage net1
      lanloom network usage --output json | jq '.[].pools[] | select(.percent >= 80)'
    """
    from lanloom.features.ipam.cli.networkinfo import print_usage
    from lanloom.features.ipam.commands.networkviews import plain, pools_of

    with _described(cluster, networks) as found:
        with refusals(reading=True):
            usages = [pools_of(item) for item in found]
        if output != "table":
            print_data([plain(item) for item in usages], output)
        else:
            print_usage(usages)
    sys.exit(SHORT if any(pool.warning for item in usages for pool in item.pools) else 0)


@contextmanager
def _described(cluster: ClusterOptions, networks: tuple[str, ...]) -> "Iterator[list[Described]]":
    """Provide the networks; report those that can't be read after the others, and end the command for them."""
    with uncollected():
        from lanloom.features.ipam.commands.networkviews import described

    state, faults = read_networks(cluster, networks), list[str]()
    with refusals(reading=True):
        found = described(state, networks, faults)
    yield found
    for fault in faults:
        click.echo(f"Error: {fault}", err=True)
    if faults:
        sys.exit(1)

"""`lanloom network`: networks with their subnets and pools, as `gnt-network` has them."""

import sys
from typing import TYPE_CHECKING

import click

from lanloom.cli.listing import (
    Listing,
    fields_arguments,
    listing_options,
    output_option,
    print_data,
    print_fields,
)
from lanloom.cli.networkchanges import add, modify, remove, rename
from lanloom.cli.networkconnections import connect, disconnect
from lanloom.cli.networkrunning import networks_argument, read
from lanloom.cli.networktags import tag
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.ipam.rules.described import Described
    from lanloom.ipam.rules.query import Query

SHORT = 3
"""Exit code of `usage` where a pool is nearly full or full; 1 and 2 are those of every command."""


def _fields() -> "Query[Described]":
    from lanloom.ipam.rules.fields import NETWORK_FIELDS

    return NETWORK_FIELDS


@click.group(name="network")
def command() -> None:
    """Manage networks: subnets, pools, reserved addresses, and how node groups connect to them.

    \b
    Examples:
      lanloom network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1,pool net1
      lanloom network modify --pool remove:192.0.2.20-192.0.2.50 --dry-run net1
      lanloom network list -o name,subnets,free_count
      lanloom network usage
    """


@command.command(name="list")
@networks_argument
@listing_options(_fields)
@kubeconfig_option
def list_networks(networks: tuple[str, ...], listing: Listing, kubeconfig: str | None) -> None:
    """List networks. What fields there are is told by `lanloom network list-fields`.

    Exit code: 0, or 1 if there is no network of a name, 2 for a field that there is not.

    \b
    Examples:
      lanloom network list
      lanloom network list -o +uuid,serial_no
      lanloom network list --no-headers --separator : -o name,free_count net1
      lanloom network list -o name,pools --output json
    """
    listing.print(_described(kubeconfig, networks))


@command.command(name="list-fields")
@fields_arguments
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
@kubeconfig_option
def info(networks: tuple[str, ...], output: str, kubeconfig: str | None) -> None:
    """Show everything of networks: subnets, pools with their maps, reservations, node groups, and who has what.

    \b
    Exit code: 0, or 1 if there is no network of a name.

    \b
    Examples:
      lanloom network info net1
      lanloom network info --output json | jq '.[].nics'
    """
    from lanloom.app.ipam.networkviews import information
    from lanloom.cli.networkinfo import print_network

    found = _described(kubeconfig, networks)
    with refusals(reading=True):
        if output != "table":
            print_data([information(item) for item in found], output)
            return
        for item in found:
            print_network(item)


@command.command()
@networks_argument
@output_option
@kubeconfig_option
def usage(networks: tuple[str, ...], output: str, kubeconfig: str | None) -> None:
    """Draw how full each pool is.

    Of a bar, what is owned by NICs comes first, then what is externally reserved. Small pools have a map too: X for
    what can't be given away, a dot for what is free. A pool from which NICs get nothing is marked as disabled.

    \b
    Exit code: 0, or 3 if a pool is full to 80 % or more (and not disabled),
               1 if there is no network of a name.

    \b
    Examples:
      lanloom network usage
      lanloom network usage net1
      lanloom network usage --output json | jq '.[].pools[] | select(.percent >= 80)'
    """
    from lanloom.app.ipam.networkusage import plain, pools_of
    from lanloom.cli.networkusage import print_usage

    found = _described(kubeconfig, networks)
    with refusals(reading=True):
        usages = [pools_of(item) for item in found]
    if output != "table":
        print_data([plain(item) for item in usages], output)
    else:
        print_usage(usages)
    sys.exit(SHORT if any(pool.warning for item in usages for pool in item.pools) else 0)


def _described(kubeconfig: str | None, networks: tuple[str, ...]) -> "list[Described]":
    from lanloom.app.ipam.networkviews import described

    state = read(kubeconfig, networks)
    with refusals(reading=True):
        return described(state, networks)


for _command in (add, modify, rename, remove, connect, disconnect, tag):
    command.add_command(_command)

"""`lanloom dummy list`: every isolated network."""

import sys

import click

from lanloom.cli.cluster import run
from lanloom.cli.dummyreading import read_views
from lanloom.cli.options import kubeconfig_option, output_option, print_json


@click.command(name="list")
@kubeconfig_option
@output_option
def command(kubeconfig: str | None, output: str) -> None:
    """Show every isolated network with its phase, its nodes and its users.

    Nodes are those that have acknowledged of those that are waited for; users are read now.

    Exit code: 0 if every network is ready, 1 if not or if the cluster can't be asked, 2 for wrong usage.

    \b
    Examples:
      lanloom dummy list
      lanloom dummy list --output json | jq -r '.[] | .name + ": " + .message'
    """

    views = run(kubeconfig, read_views, read=True)
    if output == "json":
        print_json(views)
    else:
        from lanloom.cli.dummytables import print_networks

        print_networks(views)
    sys.exit(0 if all(view.is_ready for view in views) else 1)

"""`lanloom dummy show`: one isolated network on every node."""

import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import completed, run
from lanloom.cli.dummyreading import read_view
from lanloom.cli.options import kubeconfig_option, output_option, print_json

if TYPE_CHECKING:
    from lanloom.kube.ports import Client


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of networks; none where the cluster does not answer at once."""
    from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS

    async def names(client: "Client") -> list[str]:
        return sorted(item.metadata.name for item in (await client.list(DUMMY_CLUSTER_NETWORKS)).items)

    return completed(ctx, incomplete, names)


@click.command(name="show")
@click.argument("name", shell_complete=_complete)
@kubeconfig_option
@output_option
def command(name: str, kubeconfig: str | None, output: str) -> None:
    """Show one isolated network: every node, who uses it, and what to do.

    Also what was made for it, and the requests that may still come to use it. Of a node that has not acknowledged the
    bridge its pod tells why.

    Exit code: 0 if it is ready, 1 if not, if there is no such network or the cluster can't be asked, 2 for wrong usage.

    \b
    Examples:
      lanloom dummy show br-dummy-cluster
      lanloom dummy show br-dummy-cluster --output json | jq -r '.users[].name'
    """

    view = run(kubeconfig, lambda client: read_view(client, name), read=True)
    if output == "json":
        print_json(view)
    else:
        from lanloom.cli.dummytables import print_network

        print_network(view)
    sys.exit(0 if view.is_ready else 1)

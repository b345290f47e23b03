"""`lanloom vlan`: the VLAN networks node by node, and what a manifest would change."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from lanloom.cli.options import kubeconfig_option, output_option, print_json
from lanloom.cli.vlanplan import plan
from lanloom.cli.vlanreading import read, read_now

if TYPE_CHECKING:
    from lanloom.app.vlan.view import ClusterNetworkView, NetworkView

COMPLETION_SECONDS = 2.0
"""How long a shell that completes a name may wait for the API server."""


@click.group(name="vlan")
def command() -> None:
    """Look at VLAN networks, and ahead at what a change would do.

    \b
    Examples:
      lanloom vlan list
      lanloom vlan show default/vlan2012
      lanloom vlan plan -f vlan2012.yaml
    """


@command.command(name="list")
@kubeconfig_option
@output_option
def list_networks(kubeconfig: str | None, output: str) -> None:
    """Show every VLAN network: on how many nodes it is ready, and the worst reason why not.

    \b
    Exit code: 0 if every network is ready on every node, 1 if not.

    \b
    Examples:
      lanloom vlan list
      lanloom vlan list --output json | jq '.[] | select(.reason != "")'
    """
    from lanloom.app.vlan.view import network_views
    from lanloom.cli.vlantables import print_networks

    objects = read(kubeconfig)
    views = network_views(objects)
    if output == "json":
        print_json(views)
    else:
        print_networks(views, objects)
    sys.exit(1 if any(view.reason for view in views) else 0)


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that `show` takes; none where the cluster does not answer at once."""
    from lanloom.app.vlan.names import completions
    from lanloom.kube.errors import KubeError

    async def names() -> list[str]:
        async with asyncio.timeout(COMPLETION_SECONDS):
            return completions(await read_now(ctx.params.get("kubeconfig")), incomplete)

    try:
        return [CompletionItem(name) for name in asyncio.run(names())]
    except (KubeError, OSError, TimeoutError):
        return []


@command.command()
@click.argument("name", shell_complete=_complete)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Where to look for a NAD without one."
)
@kubeconfig_option
@output_option
def show(name: str, namespace: str, kubeconfig: str | None, output: str) -> None:
    """Show one network on every node: its address, state, reason and remedy, lease, uplink, VLAN ids and MTU.

    NAME is a NetworkAttachmentDefinition (`vlan2012` or `default/vlan2012`) or a ClusterNetwork (`cluster-1`).

    Exit code: 0 if it is ready on every node, 1 if not, or if there is no such network.

    \b
    Examples:
      lanloom vlan show vlan2012
      lanloom vlan show storage/vlan2013
      lanloom vlan show cluster-1 --output json
    """
    from lanloom.app.vlan.names import UnknownNetwork, find
    from lanloom.app.vlan.view import NetworkView
    from lanloom.cli.vlantables import print_cluster_network, print_network

    try:
        view = find(read(kubeconfig), name, namespace)
    except UnknownNetwork as error:
        raise click.ClickException(str(error)) from None
    if output == "json":
        print_json(view)
    elif isinstance(view, NetworkView):
        print_network(view)
    else:
        print_cluster_network(view)
    sys.exit(0 if _is_well(view) else 1)


def _is_well(view: "NetworkView | ClusterNetworkView") -> bool:
    from lanloom.app.vlan.view import READY, NetworkView

    if isinstance(view, NetworkView):
        return not view.reason
    well = all(node.state == READY for node in view.nodes)
    return well and bool(view.nodes) and not any(network.reason for network in view.networks)


command.add_command(plan)

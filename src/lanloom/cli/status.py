"""`lanloom status`: what is where, and why something is not ready."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from lanloom.cli.options import kubeconfig_option, output_option, print_json

if TYPE_CHECKING:
    from lanloom.app.overview import Overview


@click.command(name="status")
@kubeconfig_option
@output_option
def command(kubeconfig: str | None, output: str) -> None:
    """Show every VLAN network on every node, and why something is not ready.

    Exit code: 0 if everything is ready, 1 if something is not or the cluster can't be reached.

    \b
    Examples:
      lanloom status
      lanloom status --output json | jq '.troubles[]'
      lanloom status --kubeconfig "$(lanloom lab kubeconfig)"
    """
    from lanloom.kube.errors import KubeError

    try:
        view = asyncio.run(_read(kubeconfig))
    except KubeError as error:
        raise click.ClickException(str(error)) from None
    if output == "json":
        print_json(view)
    else:
        _show(view)
    sys.exit(1 if view.troubles else 0)


async def _read(kubeconfig: str | None) -> "Overview":
    from lanloom.api.core import NODES
    from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_STATUSES
    from lanloom.app.connect import connect
    from lanloom.app.overview import overview

    async with connect(kubeconfig) as client:
        networks = await client.list(CLUSTER_NETWORKS)
        statuses = await client.list(VLAN_STATUSES)
        nodes = await client.list(NODES)
    return overview(networks.items, statuses.items, nodes.items)


def _show(view: "Overview") -> None:
    from rich.padding import Padding

    from lanloom.app.overview import table
    from lanloom.cli import console as output

    console = output.console()
    if not view.networks and not view.isolated:
        console.print(
            "There is no cluster network yet. Create a ClusterNetwork and a VlanConfig (see examples/)."
        )
    for name, maker in view.isolated.items():
        text = f"{name}: isolated network, without uplinks; see `lanloom dummy show {maker}`."
        console.print(text, markup=False)
    if not view.networks:
        return
    if view.rows:
        output.print_table(console, table(view.rows))
    if not view.troubles:
        console.print(f"Ready: {', '.join(view.networks)}.")
        return
    console.print("Not ready:", style="bold yellow")
    for trouble in view.troubles:
        console.print(Padding(f"{trouble.what}: {trouble.reason}", (0, 0, 0, 2), expand=False), markup=False)
        console.print(Padding(trouble.message, (0, 0, 0, 4), expand=False), markup=False)
    console.print(f"\nMore of one network: `lanloom vlan show {view.troubles[0].network}`.")

"""`lanloom status`: the state of each VLAN network on each node, and why something is not ready."""

import sys
from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.listing import Listing, listing_options
from lanloom.cli.options import cluster_options

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.cli.query import Query
    from lanloom.features.vlan.views.overview import Overview, Row
    from lanloom.kube.ports import Client


def _fields() -> "Query[Row]":
    from lanloom.features.vlan.views.overview import ROW_FIELDS

    return ROW_FIELDS


def _kinds() -> "tuple[Resource[Any], ...]":
    from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
    from lanloom.api.harvester import CLUSTER_NETWORKS

    return CLUSTER_NETWORKS, CLUSTER_NETWORK_NODES


@click.command(name="status")
@cluster_options
@listing_options(_fields, kinds=_kinds)
def command(cluster: ClusterOptions, listing: Listing) -> None:
    """Show the state of every VLAN network on every node, and why something is not ready.

    Exit code: 0 if everything is ready, 1 if something is not or the cluster can't be reached.

    \b
    Examples:
      lanloom status
      lanloom status --output json | jq '.troubles[]'
      lanloom status --kubeconfig "$(lanloom lab kubeconfig)"
    """
    view = run(cluster, _read, read=True)
    if listing.is_for_people:
        _show(view, listing)
        if not view.networks and not view.isolated:
            _print_first_steps(is_managed=run(cluster, _is_managed))
    else:
        listing.print(view.rows, whole=view)
    sys.exit(1 if view.problems else 0)


async def _read(client: "Client") -> "Overview":
    from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
    from lanloom.api.core import NODES
    from lanloom.api.harvester import CLUSTER_NETWORKS
    from lanloom.features.vlan.views.overview import overview

    networks = await client.list(CLUSTER_NETWORKS)
    statuses = await client.list(CLUSTER_NETWORK_NODES)
    nodes = await client.list(NODES)
    return overview(networks.items, statuses.items, nodes.items)


async def _is_managed(client: "Client") -> bool:
    """Return whether a manager has ever led here; also true where that may not be read."""
    from lanloom.api.core import LEASES
    from lanloom.api.meta import Key
    from lanloom.api.names import LANLOOM_NAMESPACE
    from lanloom.kube.errors import ApiError
    from lanloom.kube.lookup import get_or_none
    from lanloom.runtime.identity import MANAGER_LEASE

    try:
        return await get_or_none(client, LEASES, Key(LANLOOM_NAMESPACE, MANAGER_LEASE)) is not None
    except ApiError:
        return True


def _print_first_steps(*, is_managed: bool) -> None:
    """Print what comes next in a cluster without any network."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph

    console = make_console()
    console.print("No cluster network exists.")
    if not is_managed:
        console.print("No manager has run here yet. To install Lanloom:")
        console.print("  lanloom crds --apply\n  lanloom install | kubectl apply -f -")
        return
    console.print("To begin, create one of these (see examples/):")
    for line in (
        "VLANs of your switches: a ClusterNetwork and a VlanConfig (cluster-1.yaml)",
        "a LAN across the nodes, without any switch: a LAN (lan.yaml)",
        "a network that is isolated on each node: a DummyClusterNetwork (dummy.yaml)",
    ):
        console.print(paragraph(line, 2))


def _show(view: "Overview", listing: Listing) -> None:
    from rich.padding import Padding

    from lanloom.cli.console import console as make_console

    console = make_console()
    for name, owner in view.isolated.items():
        text = f"{name}: isolated network, without uplinks; see `lanloom dummy show {owner}`."
        console.print(text, markup=False)
    if not view.networks:
        return
    if view.rows:
        listing.print(view.rows)
    if view.coexisting:
        console.print(
            f"Alongside Harvester's controller, which manages the uplinks, on {', '.join(view.coexisting)}."
        )
    if not view.problems:
        console.print(f"Ready: {', '.join(view.networks)}.")
        return
    console.print("Not ready:", style="bold yellow")
    for problem in view.problems:
        console.print(Padding(f"{problem.what}: {problem.reason}", (0, 0, 0, 2), expand=False), markup=False)
        console.print(Padding(problem.message, (0, 0, 0, 4), expand=False), markup=False)
    console.print(f"\nFor details of one network, run `lanloom vlan show {view.problems[0].network}`.")

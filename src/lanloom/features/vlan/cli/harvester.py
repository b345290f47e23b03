"""`lanloom harvester`: move a cluster between Harvester's network controller and Lanloom."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import cluster_options

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.features.vlan.migrate import Planner
    from lanloom.features.vlan.rules.migration.plans import Change, MigrationPlan

WAITS = 3
"""Exit code if something is left to do."""

_SIGNS = {"create": "+", "change": "~", "delete": "-"}
_DONE = {"create": "created", "change": "changed", "delete": "deleted"}


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    dry_run = click.option("--dry-run", is_flag=True, help="Show what is left to do, and change nothing.")
    wait = click.option(
        "--wait",
        type=click.FloatRange(0),
        metavar="SECONDS",
        default=0.0,
        help="Seconds to wait for what others have to do; 0: return, to be run again.",
    )
    return dry_run(wait(cluster_options(output_option(function))))


@click.group(name="harvester")
def command() -> None:
    """Move a cluster between Harvester's network controller and Lanloom, without an interruption.

    \b
    Examples:
      lanloom harvester adopt --dry-run
      lanloom harvester hand-over --dry-run
    """


@command.command()
@_options
def adopt(dry_run: bool, wait: float, cluster: ClusterOptions, output: str) -> None:
    """Let Lanloom take over the uplinks of Harvester's network controller.

    Checks that all nodes have an agent, and that each HostNetworkConfig can become a NAD. Has Helm keep the CRDs and
    waits for you to remove the controller. Then it deletes the controller's webhook configurations, its finalizers (of
    Nodes, too) and its VlanConfigs for mgmt. It has the agents mark bridges and bonds, and replaces HostNetworkConfigs
    by NADs in the namespace. Links and addresses of NADs stay up all the time.

    Can be interrupted at any moment: run it again until nothing is left.

    \b
    Exit code: 0 if nothing is left to do, 3 if something is, 1 if a check fails.

    \b
    Examples:
      lanloom harvester adopt --dry-run
      lanloom harvester adopt --wait 600
      lanloom harvester adopt -n storage --output json
    """
    from lanloom.features.vlan.rules.migration.adopt import plan_adoption

    _run(partial(plan_adoption, namespace=cluster.place), dry_run, wait, cluster, output)


@command.command(name="hand-over")
@click.option(
    "--host-network-configs",
    "convert",
    is_flag=True,
    help="Replace NADs with node addresses by HostNetworkConfigs. Each VLAN has no addresses for some seconds.",
)
@_options
def hand_over(convert: bool, dry_run: bool, wait: float, cluster: ClusterOptions, output: str) -> None:
    """Let Harvester's network controller take over the uplinks of Lanloom.

    Checks that the VlanConfigs of each ClusterNetwork have the same MTU. Sets the labels that Harvester's webhook asks
    for, and waits for you to install the controller. Then it waits until the agents have removed their marks from
    bridges and bonds, and removes the conditions that only Lanloom writes. Links and addresses stay up all the time.

    Lanloom goes on to serve node addresses alongside Harvester, unless --host-network-configs is given.

    \b
    Exit code: 0 if nothing is left to do, 3 if something is, 1 if a check fails.

    \b
    Examples:
      lanloom harvester hand-over --dry-run
      lanloom harvester hand-over --wait 600
      lanloom harvester hand-over --host-network-configs
    """
    from lanloom.features.vlan.rules.migration.handover import plan_hand_over

    _run(partial(plan_hand_over, convert=convert), dry_run, wait, cluster, output)


def _run(planner: "Planner", dry_run: bool, wait: float, cluster: ClusterOptions, output: str) -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.features.vlan.migrate import migrate, read_snapshot

    console, done = make_console(), list["Change"]()

    def report(change: "Change") -> None:
        done.append(change)
        if output == "table":
            console.print(f"{change.title}: {_DONE[change.verb]} ({change.what})", markup=False)

    if dry_run:
        plan = run(cluster, lambda client: _planned(planner, read_snapshot(client)), read=True)
    else:
        plan = run(cluster, lambda client: migrate(client, planner, report, wait_seconds=wait))
    if output == "table":
        _show(console, plan, dry_run=dry_run)
    else:
        print_data(_data(plan, done), output)
    sys.exit(1 if plan.refusals else WAITS if plan.items else 0)


async def _planned(planner: "Planner", snapshot: Any) -> "MigrationPlan":
    return planner(await snapshot)


def _show(console: "Console", plan: "MigrationPlan", *, dry_run: bool) -> None:
    from lanloom.features.vlan.rules.migration.plans import Change

    for text in plan.refusals:
        console.print(f"Can't begin: {text}.", style="red", markup=False)
    if plan.items and not dry_run:
        console.print("Left to do:", style="bold")
    for item in plan.items:
        if isinstance(item, Change):
            console.print(f"{_SIGNS[item.verb]} {item.title}: {item.what}", markup=False)
        else:
            remedy = f": {item.remedy}" if item.remedy else ""
            console.print(f"… wait until {item.until}{remedy}", style="yellow", markup=False)
    for note in plan.notes:
        console.print(f"Note: {note}.", markup=False)
    if dry_run:
        console.print("Nothing was changed.")
    elif plan.items:
        console.print("Run the command again then, or with --wait.")
    elif not plan.refusals:
        console.print("Nothing is left to do.")


def _data(plan: "MigrationPlan", done: "list[Change]") -> dict[str, Any]:
    from lanloom.features.vlan.rules.migration.plans import Change

    def change(item: "Change") -> dict[str, str]:
        return {"verb": item.verb, "object": item.title, "what": item.what}

    left = [
        change(item) if isinstance(item, Change) else {"waitUntil": item.until, "remedy": item.remedy}
        for item in plan.items
    ]
    return {
        "done": [change(item) for item in done],
        "left": left,
        "refusals": list(plan.refusals),
        "notes": list(plan.notes),
    }

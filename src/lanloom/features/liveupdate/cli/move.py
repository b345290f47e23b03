"""`lanloom vm move`: move a NIC of a machine to another network."""

import sys
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import ClusterOptions, report_notes, run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import cluster_options, dry_run_option
from lanloom.features.liveupdate.cli.names import (
    complete_nads,
    complete_nics,
    key_of,
    machine_argument,
)

if TYPE_CHECKING:
    from lanloom.features.liveupdate.moving import DryRunClient, Result
    from lanloom.features.liveupdate.rules.move import MoveRequest

_STATUSES = {"failed": 1, "timed-out": 3, "interrupted": 130}
"""Exit statuses by outcome. The last two are of moves that go on; shells have 130 for Ctrl-C."""

_WAYS = {
    "migrate": "by live migration to another node",
    "in-place": "in place, by moving the port on the node",
    "next-start": "when the machine starts",
    "edit": "by an edit alone: the machine is there already",
}


@click.command(name="move")
@machine_argument
@click.argument("nic", shell_complete=complete_nics)
@click.option(
    "--to",
    required=True,
    metavar="[NAMESPACE/]NAD",
    shell_complete=complete_nads,
    help="NetworkAttachmentDefinition to move to.",
)
@click.option(
    "--policy",
    type=click.Choice(("migrate", "in-place", "prefer-in-place")),
    help="How to move. Default: the annotation liveupdate.lanloom.io/policy of the machine, or migrate.",
)
@click.option(
    "--flap",
    is_flag=True,
    help="In place: take the guest's link down and up, so that it asks for a new lease.",
)
@click.option(
    "--force",
    is_flag=True,
    help="In place: move a machine that KubeVirt may evict for it (workloadUpdateMethods with Evict), or whose DHCP "
    "requests its pod answers with the former address.",
)
@click.option(
    "--until-restart",
    is_flag=True,
    help="In place: move a machine whose instance KubeVirt leaves on the old network until the next restart.",
)
@click.option("--wait", is_flag=True, help="Wait until the NIC has moved.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of --wait. The move goes on after it.",
)
@dry_run_option
@cluster_options
@output_option
def move(
    vm: str,
    nic: str,
    to: str,
    policy: str | None,
    flap: bool,
    force: bool,
    until_restart: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    cluster: ClusterOptions,
    output: str,
) -> None:
    """Move a NIC of a machine to another network, without a reboot.

    NIC is the name of a network in the VirtualMachine. With the policy `migrate`, the VirtualMachine is edited, and a
    live migration moves the NIC. With `in-place`, the node's agent moves its port to the other bridge, and the
    VirtualMachine is edited after that; `prefer-in-place` migrates where that is impossible. A machine that does not
    run is edited, and starts with the new network.

    What would fail is refused, with the reason, and nothing is changed.

    Exit code: 0 if the NIC has moved, or without --wait if the move was requested; 1 if it is refused or fails, 2 for
    wrong usage, 3 if it is not over within the time limit, 130 if Ctrl-C ends the waiting; the move goes on then.

    \b
    Examples:
      lanloom vm move web net1 --to vlan20 --dry-run
      lanloom vm move web net1 --to vlan20 --wait
      lanloom vm move prod/web net1 --to lans/blue --policy in-place --flap --wait
    """
    from lanloom.features.liveupdate.rules.move import POLICIES, MoveRequest

    machine = key_of(vm, cluster.place)
    chosen = next((item for item in POLICIES if item == policy), None)
    wish = MoveRequest(
        machine=machine,
        nic=nic,
        to=key_of(to, machine.namespace),
        policy=chosen,
        flap=flap,
        force=force,
        until_restart=until_restart,
    )
    result = run(cluster, lambda client: _move(client, wish, timeout if wait else 0, dry_run=dry_run))
    _report(result, output)
    sys.exit(_STATUSES.get(result.outcome, 0))


async def _move(client: "DryRunClient", wish: "MoveRequest", seconds: float, *, dry_run: bool) -> "Result":
    """Plan, and carry it out unless it is a dry run. Raises KubeError and Denied."""
    from lanloom.cli.console import waiting
    from lanloom.features.liveupdate.following import follow
    from lanloom.features.liveupdate.moving import carry_out, plan_with, rehearse, result_of
    from lanloom.features.liveupdate.views import read_machine

    machine = await read_machine(client, wish.machine)
    plan = await plan_with(client, machine, wish)
    if dry_run:
        await rehearse(client, machine, plan)
        return result_of(machine, plan, "planned" if plan.way != "none" else "unchanged")
    begun = await carry_out(client, machine, plan)
    if not seconds or begun.outcome != "requested" or plan.way == "next-start":
        return begun
    with waiting("move") as report:
        return await follow(client, machine, begun, plan, report, seconds)


def _report(result: "Result", output: str) -> None:
    if output != "table":
        print_data(result, output)
    else:
        _print(result)
    report_notes(result.notes)


def _print(result: "Result") -> None:
    """Print what was or would be done, and what came of it."""
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph

    console = make_console()
    about = f"{result.machine}: NIC {result.nic}"
    if result.outcome == "unchanged":
        console.print(paragraph(f"{about} is on {result.to} already."))
        return
    console.print(paragraph(f"{about} from {result.from_} to {result.to} {_WAYS[result.way]}"))
    for line in result.changes:
        console.print(paragraph(line, 2, "green" if line.startswith("+") else "yellow"))
    match result.outcome:
        case "planned":
            console.print("This was a dry run: nothing was changed.")
        case "requested":
            _print_next(result)
        case "moved":
            gap = f"; the port had no network for {result.gap:.0f} ms" if result.gap is not None else ""
            console.print(paragraph(f"{result.message} after {result.seconds:.1f} s{gap}.", style="green"))
        case _:
            console.print(paragraph(f"{result.outcome}: {result.message}", style="red"))


def _print_next(result: "Result") -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph

    if result.way != "next-start":
        make_console().print(paragraph(f"It is under way. See `lanloom vm show {result.machine}`."))

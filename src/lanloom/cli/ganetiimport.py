"""`lanloom ganeti import`: a Ganeti cluster's networks and NICs become objects of the API."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import dry_run_option, run, tell_notes
from lanloom.cli.instancerunning import namespace_option
from lanloom.cli.options import kubeconfig_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.ganetiplan import Import
    from lanloom.ipam.rules.ganeti.config import Config
    from lanloom.kube.ports import Client


@click.command(name="import")
@click.argument("config", metavar="CONFIG.DATA", type=click.Path(path_type=Path))
@namespace_option
@dry_run_option
@click.option(
    "--keep",
    is_flag=True,
    help="Leave what is there and differs from the file as it is, instead of refusing.",
)
@click.option("--no-wait", is_flag=True, help="Don't wait until the manager has given the addresses.")
@kubeconfig_option
def import_(
    config: Path, namespace: str, dry_run: bool, keep: bool, no_wait: bool, kubeconfig: str | None
) -> None:
    """Bring the networks, connections, tags and NICs of a Ganeti cluster into Lanloom.

    CONFIG.DATA may have the old form or that with subnets; it is only read. Networks keep their UUIDs, NICs theirs and
    their very addresses. Names that are not allowed here are adapted and told. Conflicts with what is there are told
    before anything is written. What is there and the same is left alone: run it again after an interruption. What was
    changed here since an earlier import is such a conflict; --keep leaves it as it is, and brings what is new.

    Exit code: 0 if all of it is there, 1 if something conflicts or fails, 2 if the file can't be imported at all.

    \b
    Examples:
      lanloom ganeti import --dry-run /var/lib/ganeti/config.data
      lanloom ganeti import /var/lib/ganeti/config.data --namespace ganeti
    """
    from lanloom.app.ipam.ganetienv import read_config

    with refusals():
        read = read_config(config)

    async def bring(client: "Client") -> "Import":
        plan = await _plan(client, read, namespace, keep)
        if not dry_run:
            await _carry_out(client, plan, wait=not no_wait)
        return plan

    _report(run(kubeconfig, bring), dry_run)


async def _plan(client: "Client", config: "Config", namespace: str, keep: bool) -> "Import":
    from lanloom.app.ipam.ganetiimport import check_namespace
    from lanloom.app.ipam.ganetiplan import plan_import
    from lanloom.ipam.state import read_state

    await check_namespace(client, namespace)
    return plan_import(config, await read_state(client), namespace, keep=keep)


async def _carry_out(client: "Client", plan: "Import", *, wait: bool) -> None:
    from lanloom.app.ipam.ganetiimport import carry_out
    from lanloom.cli.waiting import waiting

    with waiting("import") as tell:
        await carry_out(client, plan, tell, wait=wait)


def _report(plan: "Import", dry_run: bool) -> None:
    from rich.table import Table

    from lanloom.cli.console import console, print_table

    target = console()
    table = Table("Network", "Object", "Subnets", "NICs", "Addresses", "Outcome", box=None, pad_edge=False)
    for row in plan.rows:
        outcome = ("to be created" if dry_run else "created") if row.new else "there already"
        counts = str(row.nics), str(row.addresses)
        table.add_row(row.name, row.object, "\n".join(row.subnets) or "-", *counts, outcome)
    if plan.rows:
        print_table(target, table)
    tell_notes(plan.notes)
    verb = "to be created" if dry_run else "created"
    old, present = len(plan.rows) - len(plan.networks), len(plan.present) + len(plan.kept)
    click.echo(
        f"Networks: {len(plan.networks)} {verb}, {old} there already. "
        f"NICs: {len(plan.nics)} {verb}, {present} there already."
    )

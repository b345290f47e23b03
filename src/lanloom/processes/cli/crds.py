"""`lanloom crds`: install the kinds that a cluster lacks, without changing those of other projects."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import cluster_options
from lanloom.text import listed

if TYPE_CHECKING:
    from lanloom.kube.http import HttpClient
    from lanloom.processes.definitions import Definition

_VERBS = {"created": "create", "updated": "update", "left alone": "leave alone"}
"""The outcome as a plan, without --apply."""


@click.command(name="crds")
@click.option(
    "--apply",
    "applying",
    is_flag=True,
    help="Create and update the definitions instead of showing the changes.",
)
@cluster_options
@output_option
def command(applying: bool, cluster: ClusterOptions, output: str) -> None:
    """Show which CustomResourceDefinitions a cluster lacks, or install them with --apply.

    Definitions of Harvester and Multus are not changed: Lanloom uses them as they are. If a cluster has none, Lanloom
    installs its own, which include all fields of theirs.

    A definition that is being deleted waits for the deletion of its objects, and can't be installed until it is gone.

    Exit code: 0 on success, 1 if the cluster refuses a definition or can't be reached, or if --apply finds one that is
    being deleted.

    \b
    Examples:
      lanloom crds
      lanloom crds --apply
      lanloom crds --output json | jq -r '.[] | select(.outcome == "left alone").name'
    """
    found = run(cluster, lambda client: _install(client, applying))
    if output != "table":
        print_data(found, output)
    else:
        _show(found, applying)
    leaving = [item.name for item in found if item.outcome == "being deleted"]
    if applying and leaving:
        raise click.ClickException(_still_there(leaving))


async def _install(client: "HttpClient", applying: bool) -> "tuple[Definition, ...]":
    from lanloom.processes.definitions import install

    return await install(client, dry_run=not applying)


def _show(found: "tuple[Definition, ...]", applying: bool) -> None:
    for item in found:
        verb = item.outcome if applying else _VERBS.get(item.outcome, item.outcome)
        whose = f" (defined by {item.maker})" if item.maker else ""
        click.echo(f"{verb:<13} {item.name}{whose}")
    if not applying and any(item.outcome in ("created", "updated") for item in found):
        click.echo("Nothing was changed. To apply the changes, use --apply.")


def _still_there(names: Sequence[str]) -> str:
    crds = " ".join(f"crd/{name}" for name in names)
    return (
        f"{listed(names)} can't be installed while the definition is being deleted. A running manager lets its objects "
        f"go; see what is left with `kubectl get {','.join(names)} -A`. Then run `kubectl wait --for=delete {crds}`, "
        "and this command again."
    )

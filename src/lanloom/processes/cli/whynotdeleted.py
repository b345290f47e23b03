"""`lanloom why-not-deleted`: what keeps an object whose deletion was asked for, or what a deletion would meet."""

import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import completed, run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import kubeconfig_option

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.kube.ports import Client
    from lanloom.processes.blockers.kinds import Target
    from lanloom.runtime.blockers.model import Explanation, Obstacle

LISTED = 30
"""Things of one obstacle that are shown; all of them with `--output json`."""


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Kinds, and the names of what there is of one; none where the cluster does not answer at once.

    Names are offered as soon as there is one kind left that can be meant: bash puts a blank after a kind alone.
    """
    from lanloom.processes.blockers.kinds import Misnamed, find_kind, kinds_of

    if apart := ctx.params["object"]:
        word, before = "/".join(apart), ""
    else:
        word, slash, _ = incomplete.partition("/")
        if not slash:
            kinds = kinds_of(word)
            if len(kinds) != 1:
                return [CompletionItem(f"{each}/") for each in kinds]
            word = kinds[0]
            incomplete = f"{word}/"
        before = f"{word}/"

    try:
        kind = find_kind(word)
    except Misnamed:
        return []

    async def names(client: "Client") -> list[str]:
        return [f"{before}{item.metadata.key}" for item in (await client.list(kind)).items]

    return completed(ctx, incomplete, names)


@click.command(name="why-not-deleted")
@click.argument("object", metavar="KIND/NAME", nargs=-1, required=True, shell_complete=_complete)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of NAME if it names none."
)
@kubeconfig_option
@output_option
def command(object: tuple[str, ...], namespace: str, kubeconfig: str | None, output: str) -> None:
    """Show what blocks the deletion of an object, or what would block it.

    KIND/NAME, or KIND/NAMESPACE/NAME, is an object of any kind that Lanloom uses. Kinds are named as in kubectl:
    dcn/br-dummy-cluster, nad/default/vlan2012, network/prod, nic/default/db1-0, vm/web1, pod/web-0, ns/test. KIND NAME
    is accepted too.

    Exit code: 0 if nothing blocks the deletion or the object does not exist, 1 if something does or the cluster can't
    be reached, 2 for wrong usage.

    \b
    Examples:
      lanloom why-not-deleted dcn/br-dummy-cluster
      lanloom why-not-deleted nad/storage/vlan2013
      lanloom why-not-deleted pod/web-0 -n shop
      lanloom why-not-deleted network/prod -o json | jq '.obstacles[].waitsFor'
    """
    from lanloom.processes.blockers.kinds import Misnamed, find_target

    try:
        target = find_target("/".join(object), namespace)
    except Misnamed as error:
        raise click.UsageError(str(error)) from None
    found = _explain(kubeconfig, target)
    if output != "table":
        print_data(found, output)
    else:
        _show(found)
    sys.exit(1 if found.obstacles else 0)


def _explain(kubeconfig: str | None, target: "Target") -> "Explanation":
    from lanloom.processes.blockers.reading import explain
    from lanloom.processes.blockers.trial import trial_with

    return run(kubeconfig, lambda client: explain(client, target, trial_with(client)), read=True)


def _show(found: "Explanation") -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph

    console = make_console()
    console.print(paragraph(_headline(found), style="bold"))
    for obstacle in found.obstacles:
        _show_obstacle(console, obstacle)
    if found.notes:
        console.print()
    for note in found.notes:
        console.print(paragraph(f"Note: {note}"))


def _headline(found: "Explanation") -> str:
    title = found.title
    match found.state:
        case "gone":
            return f"There is no {title}."
        case "living":
            if found.obstacles:
                return f"Nobody has asked for the deletion of {title}. This would be in its way:"
            return f"Nobody has asked for the deletion of {title}. Nothing would be in its way."
    if found.obstacles:
        return f"{title} is being deleted (since {found.since}). This is in the way:"
    return f"{title} is being deleted (since {found.since}), and nothing is in the way any more."


def _show_obstacle(console: "Console", obstacle: "Obstacle") -> None:
    from lanloom.cli.console import paragraph

    console.print()
    console.print(paragraph(f"{obstacle.what} ({obstacle.whose}):", 2, "yellow"))
    console.print(paragraph(f"{obstacle.why}" + (":" if obstacle.waits_for else ""), 2))
    for item in obstacle.waits_for[:LISTED]:
        console.print(paragraph(item, 4))
    if len(obstacle.waits_for) > LISTED:
        console.print(paragraph(f"and {len(obstacle.waits_for) - LISTED} more: see --output json", 4))
    if obstacle.remedy:
        console.print(paragraph(f"→ {obstacle.remedy}", 2))

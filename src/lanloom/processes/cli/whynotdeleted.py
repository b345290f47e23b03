"""`lanloom why-not-deleted`: what blocks the deletion of an object, or would block it."""

import sys
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import ClusterOptions, completed, run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import cluster_options
from lanloom.processes.cli.features import features_of

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.kube.http import HttpClient
    from lanloom.kube.ports import Client
    from lanloom.processes.blockers import Explanation, Target
    from lanloom.runtime.blockers import Blocker
    from lanloom.runtime.feature import Feature

LISTED = 30
"""Items of one blocker that are shown; all of them with `--output json`."""


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return kinds, and the names of the objects of one; none where the cluster does not answer at once.

    Names are offered as soon as only one kind can be meant: bash puts a blank after a kind alone.
    """
    from lanloom.processes.blockers import Kinds
    from lanloom.refusals import Malformed

    known = Kinds(features_of(ctx))
    if apart := ctx.params["object"]:
        word, before = "/".join(apart), ""
    else:
        word, slash, _ = incomplete.partition("/")
        if not slash:
            kinds = known.complete(word)
            if len(kinds) != 1:
                return [CompletionItem(f"{each}/") for each in kinds]
            word = kinds[0]
            incomplete = f"{word}/"
        before = f"{word}/"

    try:
        kind = known.find(word)
    except Malformed:
        return []

    async def names(client: "Client") -> list[str]:
        return [f"{before}{item.metadata.key}" for item in (await client.list(kind)).items]

    return completed(ctx, incomplete, names)


@click.command(name="why-not-deleted")
@click.argument("object", metavar="KIND/NAME", nargs=-1, required=True, shell_complete=_complete)
@cluster_options
@output_option
@click.pass_context
def command(ctx: click.Context, object: tuple[str, ...], cluster: ClusterOptions, output: str) -> None:
    """Show what blocks the deletion of an object, or what would block it.

    KIND/NAME, or KIND/NAMESPACE/NAME, is an object of one of Lanloom's kinds or a NAD. Kinds are named as in kubectl:
    dcn/br-dummy-cluster, nad/default/vlan2012, network/prod, nic/default/db1-0, cn/cluster-1. KIND NAME is accepted
    too. Finalizers of other controllers are shown by name. For objects of other kinds, ask kubectl for the finalizers.

    Exit code: 0 if nothing blocks the deletion or the object does not exist, 1 if something does or the cluster can't
    be reached, 2 for wrong usage.

    \b
    Examples:
      lanloom why-not-deleted dcn/br-dummy-cluster
      lanloom why-not-deleted nad/storage/vlan2013
      lanloom why-not-deleted nic/db1-0 -n shop
      lanloom why-not-deleted network/prod -o json | jq '.obstacles[].waitsFor'
    """
    from lanloom.processes.blockers import Kinds
    from lanloom.refusals import Malformed

    features = features_of(ctx)
    kinds, words = Kinds(features), "/".join(object)
    try:
        kinds.target(words, "default")  # wrong words are said before a kubeconfig is read
        target = kinds.target(words, cluster.place)
    except Malformed as error:
        raise click.UsageError(str(error)) from None
    found = _explain(cluster, target, features)
    if output != "table":
        print_data(found, output)
    else:
        _show(found)
    sys.exit(1 if found.blockers else 0)


def _explain(cluster: ClusterOptions, target: "Target", features: "Sequence[Feature]") -> "Explanation":
    from lanloom.processes.blockers import dry_run, explain

    def work(client: "HttpClient") -> "Awaitable[Explanation]":
        return explain(client, target, dry_run(client), features=features)

    # A deletion that is only tried warns of what the explanation says.
    return run(cluster, work, read=True, warn=lambda _: None)


def _show(found: "Explanation") -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import paragraph

    console = make_console()
    console.print(paragraph(_headline(found), style="bold"))
    for blocker in found.blockers:
        _show_blocker(console, blocker)
    if found.notes:
        console.print()
    for note in found.notes:
        console.print(paragraph(f"Note: {note}"))


def _headline(found: "Explanation") -> str:
    title = found.title
    match found.state:
        case "gone":
            return f"{title} does not exist."
        case "living":
            if found.blockers:
                return f"The deletion of {title} has not been requested. This would block it:"
            return f"The deletion of {title} has not been requested. Nothing would block it."
    if found.blockers:
        return f"{title} is being deleted (since {found.since}). This blocks the deletion:"
    return f"{title} is being deleted (since {found.since}), and nothing blocks the deletion."


def _show_blocker(console: "Console", blocker: "Blocker") -> None:
    from lanloom.cli.console import paragraph

    console.print()
    console.print(paragraph(f"{blocker.what} ({blocker.whose}):", 2, "yellow"))
    console.print(paragraph(f"{blocker.why}" + (":" if blocker.waits_for else ""), 2))
    for item in blocker.waits_for[:LISTED]:
        console.print(paragraph(item, 4))
    if len(blocker.waits_for) > LISTED:
        console.print(paragraph(f"and {len(blocker.waits_for) - LISTED} more: see --output json", 4))
    if blocker.remedy:
        console.print(paragraph(f"→ {blocker.remedy}", 2))

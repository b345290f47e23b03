"""`lanloom vlan plan`: what a manifest would change on which node."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import kubeconfig_option

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.features.vlan.views.apply import Applied
    from lanloom.features.vlan.views.plan import Change, NodeChanges, VlanPlan

REFUSED, WOULD_CHANGE = 1, 3
"""Exit codes, besides 0 where no node would change, and 2 for wrong usage."""

NAMED = 5
"""So many nodes are named where the same happens to many; of more, the number."""

_SIGNS = {"add": "+", "change": "~", "remove": "-"}
_COLOURS = {"add": "green", "change": "yellow", "remove": "red"}
_OUTCOMES = {"created": "+", "changed": "~", "deleted": "-", "refused": "!"}


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    type=click.Path(exists=True, allow_dash=True),
    help="A manifest, a directory of them, or - for standard input. Can be repeated.",
)
@click.option("--delete", "deleting", is_flag=True, help="Plan the deletion of the manifest's objects.")
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of NADs that name none."
)
@kubeconfig_option
@output_option
def plan(files: tuple[str, ...], deleting: bool, namespace: str, kubeconfig: str | None, output: str) -> None:
    """Preview the changes of a manifest by node: links, VLAN ids, sub-interfaces, addresses, profiles and MTU.

    Changes nothing, neither in the cluster nor on a node. Merges the manifest's objects into those of the cluster as
    `kubectl apply` does, one after the other, validates them by the rules of the webhooks, and compares the
    configuration of the nodes before and after. Rejected objects are listed with the reason and left out.

    Exit code: 0 if no node would change, 3 if nodes would change, 1 if an object is rejected or can't be read, 2 for
    wrong usage.

    \b
    Examples:
      lanloom vlan plan -f vlan2012.yaml
      lanloom vlan plan -f examples/ --output json | jq '.nodes[].changes'
      lanloom vlan plan --delete -f vlan2012.yaml
      kustomize build . | lanloom vlan plan -f -
    """
    from lanloom.features.vlan.views.manifests import ManifestError, read_files
    from lanloom.features.vlan.views.objects import read_objects
    from lanloom.features.vlan.views.plan import plan as make_plan

    try:
        documents = read_files(files, _standard_input(), namespace)
    except ManifestError as error:
        raise click.ClickException(str(error)) from None
    objects = run(kubeconfig, lambda client: read_objects(client, with_vms=True), read=True)
    found = make_plan(objects, documents, deleting=deleting)
    if output != "table":
        print_data(found, output)
    else:
        _print(found)
    sys.exit(REFUSED if found.refused else WOULD_CHANGE if found.nodes else 0)


def _standard_input() -> Iterator[str]:
    yield sys.stdin.read()


def _print(found: "VlanPlan") -> None:
    from lanloom.cli.console import console as make_console

    console = make_console()
    for item in found.objects:
        _print_object(console, item)
    for network, nodes, changes in _alike(found.nodes):
        console.print(f"\n{_title(network, nodes)}", style="bold", markup=False)
        for change in changes:
            _print_indented(console, f"{_SIGNS[change.verb]} {_words(change)}", _COLOURS[change.verb], 2)
    console.print()
    for note in found.notes:
        console.print(note, markup=False)
    count = len({item.node for item in found.nodes})
    refused = sum(item.outcome == "refused" for item in found.objects)
    if refused:
        console.print(f"{refused} of {len(found.objects)} objects would be refused.", style="red")
    summary = f"{count} node{'s' * (count > 1)} would change." if count else "No node would change."
    console.print(f"{summary} Nothing was changed.")


def _print_object(console: "Console", item: "Applied") -> None:
    colour = {"refused": "red", "ignored": "dim", "unchanged": "dim", "absent": "dim"}.get(item.outcome, "")
    console.print(
        f"{_OUTCOMES.get(item.outcome, ' ')} {item.object}: {item.outcome}", style=colour, markup=False
    )
    for text in (item.message, *(f"warning: {warning}" for warning in item.warnings)):
        if text:
            _print_indented(console, text, "", 4)


def _alike(nodes: tuple["NodeChanges", ...]) -> list[tuple[str, tuple[str, ...], list["Change"]]]:
    """Return the changes of each cluster network that happen to the same nodes, together; those of most nodes first."""
    where: dict[tuple[str, Change], list[str]] = {}
    for item in nodes:
        for change in item.changes:
            where.setdefault((item.cluster_network, change), []).append(item.node)
    groups: dict[tuple[str, tuple[str, ...]], list[Change]] = {}
    for (network, change), names in where.items():
        groups.setdefault((network, tuple(names)), []).append(change)
    ordered = sorted(groups.items(), key=lambda group: (group[0][0], -len(group[0][1]), group[0][1]))
    return [(network, names, changes) for (network, names), changes in ordered]


def _title(network: str, nodes: tuple[str, ...]) -> str:
    if len(nodes) <= NAMED:
        return f"{network} on {', '.join(nodes)}"
    return f"{network} on {', '.join(nodes[:NAMED])} and {len(nodes) - NAMED} more nodes"


def _words(change: "Change") -> str:
    what, value = f"{change.kind} {change.name}", change.after or change.before
    match change.kind, change.verb:
        case "profile", "change":
            return f"{what}: rewritten and applied"
        case (("profile" | "bridge"), _):
            return what
        case (("NICs" | "VLAN ids" | "MTU"), ("add" | "remove")):
            return f"{change.kind} {value} of {change.name}"
        case (("NICs" | "MTU"), _):
            return f"{change.kind} of {change.name}: {change.before} → {change.after}"
        case _, "change":
            return f"{what}: {change.before} → {change.after}"
    return f"{what}: {value}"


def _print_indented(console: "Console", text: str, style: str, by: int) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(text, style), (0, 0, 0, by), expand=False))

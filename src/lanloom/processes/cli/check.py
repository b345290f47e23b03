"""`lanloom check`: whether networks of a real cluster carry what they should."""

import sys
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import cluster_options, complete_nodes
from lanloom.cli.tables import print_rows
from lanloom.processes.cli.features import features_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanloom.cli.query import Query
    from lanloom.kube.ports import Client
    from lanloom.processes.trials.facts import CheckOptions
    from lanloom.processes.trials.verdicts import Verdict
    from lanloom.runtime.feature import Feature
    from lanloom.runtime.trials import Facts, Raw, Trial

_COLOURS = {"ok": "green", "skipped": "cyan", "failed": "red"}


@click.command(name="check")
@cluster_options
@output_option
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_nodes,
    help="Node to use; give it twice. Default: any two.",
)
@click.option(
    "--underlay",
    metavar="LINK",
    default="",
    help="Link of the nodes that carries LANs between them, such as eth0. Default: that of a LAN that exists.",
)
@click.option("--image", metavar="IMAGE", default="", help="Image of the pods. Default: that of the manager.")
@click.option(
    "--timeout",
    "seconds",
    type=click.IntRange(10, 3600),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="Time for which pods look for each other.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the objects as YAML, and what is missing for a check; create nothing.",
)
@click.option("--clean-up", is_flag=True, help="Only remove what a check left that was killed.")
@click.option("--task", hidden=True, help="What a pod of a check runs.")
@click.pass_context
def command(
    ctx: click.Context,
    cluster: ClusterOptions,
    output: str,
    nodes: tuple[str, ...],
    underlay: str,
    image: str,
    seconds: int,
    dry_run: bool,
    clean_up: bool,
    task: str | None,
) -> None:
    """Test the connectivity of pods and nodes on a cluster, with pods of its own.

    Creates the namespace lanloom-check with two or three pods for each installed feature, waits for their reports, and
    removes everything, also after Ctrl-C. It tries:

    \b
      lan       frames between pods of a LAN on two nodes
      isolated  frames in an isolated network of a node, and none to another
      ipam      addresses from a pool, each once, that reach each other
      vlan      pings between addresses of nodes in VLANs

    Needs the rights to create and delete the namespace, pods in it, LANs, DummyClusterNetworks, Networks and NADs, and
    to list nodes and pods. It needs no right to run programs in pods. The pods run as root with NET_RAW alone.

    What can't be tried is `skipped`, with what to do: `lan` and `ipam` need --underlay where no LAN exists yet.

    Exit code: 0 if something was tried and nothing failed, 1 if something failed or nothing was tried, 130 on Ctrl-C.
    With --dry-run, 0 if something can be tried, 1 if nothing can or something is missing.

    \b
    Examples:
      lanloom check --underlay eth0
      lanloom check --node node1 --node node2 -o json
      lanloom check --dry-run
      lanloom check --clean-up
    """
    from lanloom.processes.trials.facts import CheckOptions
    from lanloom.processes.trials.verdicts import exit_code

    if task is not None:
        sys.exit(_run_task(task))
    if len(nodes) == 1:
        raise click.UsageError("--node is given once; name two nodes, or none")
    if clean_up:
        _clean_up(cluster)
        return
    options = CheckOptions(image=image, underlay=underlay, nodes=nodes, seconds=seconds)
    if dry_run:
        _print_manifests(cluster, options, features_of(ctx))
        return
    verdicts = _check(cluster, options, features_of(ctx))
    if output != "table":
        print_data(verdicts, output)
    else:
        _show(verdicts)
    sys.exit(exit_code(verdicts))


def _run_task(task: str) -> int:
    import msgspec

    from lanloom.processes.trials.probe import run as run_task
    from lanloom.runtime.trials import Task

    return run_task(msgspec.json.decode(task, type=Task))


def _clean_up(cluster: ClusterOptions) -> None:
    from lanloom.processes.trials.run import clean_up

    count = run(cluster, clean_up)
    click.echo(f"{count} objects of a check were removed." if count else "No check left anything.")


async def _plan(
    client: "Client", options: "CheckOptions", features: "Sequence[Feature]"
) -> "tuple[Facts, tuple[Trial, ...]]":
    import secrets

    from lanloom.kube.firstcontact import INSTALL
    from lanloom.processes.trials.facts import read_facts
    from lanloom.refusals import Refusal
    from lanloom.runtime.feature import trials_of

    facts = await read_facts(client, options, secrets.token_hex(4))
    trials = trials_of(features, facts)
    if not trials:
        raise Refusal(f"the cluster has none of Lanloom's kinds; {INSTALL}")
    return facts, trials


def _print_manifests(cluster: ClusterOptions, options: "CheckOptions", features: "Sequence[Feature]") -> None:
    import yaml

    from lanloom.processes.trials.run import manifests

    async def planned(client: "Client") -> "tuple[tuple[Trial, ...], list[Raw]]":
        facts, trials = await _plan(client, options, features)
        return trials, manifests(facts, trials)

    trials, bodies = run(cluster, planned)
    click.echo(yaml.safe_dump_all(bodies, sort_keys=False), nl=False)
    for trial in trials:
        if trial.skipped:
            click.echo(f"Not tried: {trial.name}: {trial.skipped}", err=True)
    sys.exit(1 if all(trial.skipped for trial in trials) else 0)


def _check(
    cluster: ClusterOptions, options: "CheckOptions", features: "Sequence[Feature]"
) -> "tuple[Verdict, ...]":
    from lanloom.cli.console import waiting
    from lanloom.processes.trials.run import check

    with waiting("check") as step:

        async def checked(client: "Client") -> "tuple[Verdict, ...]":
            step("reading the cluster")
            facts, trials = await _plan(client, options, features)
            return await check(client, facts, trials, step)

        return run(cluster, checked)


def _query() -> "Query[Verdict]":
    from lanloom.cli.query import Field, Query

    return Query(
        (
            Field("name", "Check", "text", "Name", lambda item: item.name),
            Field(
                "result",
                "Result",
                "text",
                "Result",
                lambda item: item.result,
                style=lambda item: _COLOURS[item.result],
            ),
            Field("about", "Tried", "text", "What was tried", lambda item: item.about),
            Field("found", "Found", "text", "Finding", lambda item: item.found),
        ),
        ("name", "result", "about", "found"),
        ruled=True,
    )


def _show(verdicts: "tuple[Verdict, ...]") -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import print_remedies
    from lanloom.processes.trials.verdicts import summary

    console = make_console()
    print_rows(console, _query(), verdicts)
    print_remedies(console, ((item.name, item.remedy) for item in verdicts))
    console.print(summary(verdicts))

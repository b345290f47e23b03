"""Shared by the commands of address management: read the cluster, name its objects, change networks, report changes."""

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from lanloom.cli.cluster import (
    ClusterOptions,
    completed,
    options_of,
    refusals,
    report_notes,
    run,
    warnings,
)
from lanloom.cli.listing import long_output_option, print_data
from lanloom.cli.options import cluster_options, dry_run_option, once_option
from lanloom.features.ipam.cli.ganetioptions import job_options

if TYPE_CHECKING:
    from lanloom.features.ipam.cli.grammar.difference import Difference
    from lanloom.features.ipam.commands.networks import NetworkCheck, Result
    from lanloom.features.ipam.rules.change import Step
    from lanloom.features.ipam.rules.model import Network
    from lanloom.features.ipam.state import State
    from lanloom.kube.ports import Client, Reader

F = TypeVar("F", bound=Callable[..., Any])

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


def read_cluster(cluster: ClusterOptions) -> "State":
    """Return the networks that the options choose, and the NICs. Ends the command where that fails.

    People wait for it, and so do scripts that call it often: no event loop is imported.
    """
    from lanloom.runtime.slimimports import uncollected

    with uncollected():
        from lanloom.api.ipam import NETWORKS
        from lanloom.features.ipam.state import read_state
        from lanloom.kube.blocking import BlockingReader, finished
        from lanloom.kube.errors import ApiError

    async def read(reader: "Reader") -> "State":
        return await read_state(cluster.selected(reader, NETWORKS))

    with refusals():
        if not cluster.config.is_simple:
            return run(cluster, read)
        try:
            with BlockingReader(cluster.config) as reader:
                return finished(read(reader))
        except ApiError:
            return run(cluster, read)  # once more, with a client that can find out why


def completion(names: "Callable[[State, click.Context], Iterable[str]]") -> Complete:
    """Complete names of the cluster's objects; none if it does not answer in time."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        async def read(client: "Client") -> "Iterable[str]":
            from lanloom.features.ipam.state import read_state

            return names(await read_state(client), ctx)

        return completed(ctx, incomplete, read)

    return complete


def report_differences(found: "Iterable[Difference]", unchanged: str, *, dry_run: bool) -> None:
    """Print differences in colours, or `unchanged` if there are none and it is not empty."""
    from lanloom.cli.console import console as make_console

    console, empty = make_console(), True
    for item in found:
        console.print(f"{item.sign} {item.text}", style=_COLOURS[item.sign], markup=False)
        empty = False
    if empty and unchanged:
        console.print(unchanged, markup=False)
    if dry_run:
        console.print("This was a dry run: nothing was changed.")


def _instance_names(state: "State", ctx: click.Context) -> list[str]:
    from lanloom.features.ipam.commands.instances import instances

    return [item.name for item in instances(state, options_of(ctx).quiet_config.namespace)]


complete_instances = completion(_instance_names)
"""Complete the names of a namespace's instances."""


def instance_argument(function: F) -> F:
    """INSTANCE: which one."""
    return click.argument("instance", shell_complete=complete_instances)(function)


def instances_argument(function: F) -> F:
    """[INSTANCE]…: which ones, or all of the namespace."""
    return click.argument("instances", nargs=-1, metavar="[INSTANCE]...", shell_complete=complete_instances)(
        function
    )


def _network_names(state: "State", _ctx: click.Context) -> list[str]:
    return sorted(item.called for item in state.networks)


complete_networks = completion(_network_names)
"""Completes the names of networks."""


def _groups(state: "State", _ctx: click.Context) -> list[str]:
    return sorted({one.group for item in state.networks for one in item.spec.connections})


def _tags(state: "State", ctx: click.Context) -> tuple[str, ...]:
    """Return the tags of the network that is named before."""
    found = [item for item in state.networks if item.called == ctx.params.get("network")]
    return found[0].spec.tags if found else ()


def _held(state: "State", ctx: click.Context) -> list[str]:
    """Return the addresses of the network that is named before which are kept for names."""
    from lanloom.features.ipam.commands.held import holds_of

    found = [item for item in state.networks if item.called == ctx.params.get("network")]
    return [ip for item in found for hold in holds_of(state.nics, item.metadata.name) for ip in hold.ips]


complete_groups, complete_tags, complete_held = map(completion, (_groups, _tags, _held))
"""Complete node groups, the tags of a network, and the addresses that it keeps for names."""


def network_argument(function: F) -> F:
    """NETWORK: which one."""
    return click.argument("network", shell_complete=complete_networks)(function)


def networks_argument(function: F) -> F:
    """[NETWORK]…: which ones, or all of them."""
    return click.argument("networks", nargs=-1, metavar="[NETWORK]...", shell_complete=complete_networks)(
        function
    )


def read_networks(cluster: ClusterOptions, networks: Sequence[str] = ()) -> "State":
    """Return the cluster's networks and NICs; `networks` are identifiers that must be well formed.

    Ends where that fails.
    """
    with refusals():
        check_idents(networks)
    return read_cluster(cluster)


def check_idents(networks: Sequence[str]) -> None:
    """Raise Malformed for what can be no network's name or UUID."""
    from lanloom.features.ipam.rules.names import is_name, is_uuid
    from lanloom.refusals import Malformed
    from lanloom.text import quote

    for ident in networks:
        if not is_name(ident) and not is_uuid(ident):
            raise Malformed(f"{quote(ident)} is not a network; name one by its name or UUID")


class ChangeOptions(Struct, frozen=True):
    """Options of a change of a network."""

    dry_run: bool
    output: str
    cluster: ClusterOptions

    def modify(
        self,
        network: str,
        steps: "Callable[[Network], Iterable[Step]]",
        *,
        check: "NetworkCheck | None" = None,
    ) -> None:
        """Change a network and report what changed."""
        from random import Random

        from lanloom.features.ipam.commands.networks import Edit
        from lanloom.features.ipam.commands.networks import modify as modify_network

        with refusals():
            check_idents([network])
        edit = Edit(ident=network, steps=steps, new_uuid=new_uuid, check=check)
        self.run(lambda client: modify_network(client, edit, Random()))

    def run(self, work: "Callable[[Client], Awaitable[Result]]") -> None:
        """Do the work, whose input was read before, and report what changed or would, and notes as warnings."""
        from lanloom.features.ipam.cli.grammar.difference import differences

        reported, report = set[str](), warnings()

        def warn(text: str) -> None:
            reported.add(text)
            report(text)

        done = run(self.cluster, work, read=True, dry_run=self.dry_run, warn=warn)
        report_notes(note for note in done.notes if note not in reported)
        if self.output != "table":
            print_data(_plain(done, dry_run=self.dry_run), self.output)
            return
        unchanged = f"Network {done.after.name} is unchanged." if done.after is not None else ""
        report_differences(differences(done.before, done.after), unchanged, dry_run=self.dry_run)


def change_options(function: F) -> F:
    """Return the options of a change; the command gets them as one argument `change`."""

    @functools.wraps(function)
    def called(*words: Any, dry_run: bool, output: str, cluster: ClusterOptions, **options: Any) -> Any:
        return function(*words, change=ChangeOptions(dry_run, output, cluster), **options)

    plain: Any = long_output_option(cluster_options(job_options(called)))
    decorated: F = dry_run_option(plain)
    return decorated


def share_options(function: F) -> F:
    """Add the options that say who takes addresses of a network, how many, which by force, and for how long."""
    sticky_for = once_option(
        "--sticky-for",
        metavar="KIND=PERIOD,...|none",
        help="How long addresses are kept for a StatefulSet's pod, a Pod or a VirtualMachine of that name: 12h, 7d.",
    )(function)
    force_namespaces = once_option(
        "--force-namespaces",
        metavar="NAMESPACE,...|*",
        help="The namespaces whose NICs may take reserved addresses by force; * for all, as without the option.",
    )(sticky_for)
    quota = once_option(
        "--quota",
        metavar="NAMESPACE=N,...|none",
        help="How many addresses a namespace may have; *=N for each that is not named. Addresses in use remain.",
    )(force_namespaces)
    return once_option(
        "--namespaces",
        metavar="NAMESPACE,...|*",
        help="The namespaces whose NICs may take addresses; * for all, as without the option.",
    )(quota)


def new_uuid() -> str:
    """Return the UUID of a new subnet."""
    from uuid import uuid4

    return str(uuid4())


def _plain(done: "Result", *, dry_run: bool) -> dict[str, Any]:
    """Return the changes, and the network in the form of a spec; null after its removal."""
    from msgspec import to_builtins

    from lanloom.features.ipam.cli.grammar.difference import differences
    from lanloom.features.ipam.state import spec_of

    one = done.after or done.before
    changes = [{"sign": item.sign, "text": item.text} for item in differences(done.before, done.after)]
    spec = to_builtins(spec_of(done.after)) if done.after is not None else None
    return {
        "name": one.name if one is not None else None,
        "dry_run": dry_run,
        "changes": changes,
        "spec": spec,
    }

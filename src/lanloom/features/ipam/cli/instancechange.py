"""`lanloom instance add|modify|remove|rename`: changes of instances."""

import functools
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from lanloom.cli.cluster import ClusterOptions, refusals, report_notes, run
from lanloom.cli.listing import long_output_option, print_data
from lanloom.cli.options import cluster_options, dry_run_option
from lanloom.features.ipam.cli.cluster import instance_argument, report_differences
from lanloom.features.ipam.cli.ganetioptions import job_options, unasked_option, unchecked_options

if TYPE_CHECKING:
    from lanloom.api.meta import Key
    from lanloom.features.ipam.commands.instancechange import ApplyOptions, Result
    from lanloom.features.ipam.commands.instanceplan import PlanOptions
    from lanloom.kube.ports import Client

F = TypeVar("F", bound=Callable[..., Any])


def force_option(function: F) -> F:
    """`--force`, and its old name."""
    return click.option(
        "-f",
        "--force",
        "--no-conflicts-check",
        "force",
        is_flag=True,
        help="Allow externally reserved addresses. Addresses of other NICs are never allowed.",
    )(function)


class ChangeOptions(Struct, frozen=True):
    """An instance that is to be changed, and how."""

    instance: str
    cluster: ClusterOptions
    dry_run: bool
    wait: bool
    output: str

    def run(self, work: "Callable[[Client, Key, ApplyOptions], Awaitable[Result]]", name: str = "") -> None:
        """Do the work, waiting for addresses, and report what changed or would; `name` is a new name."""
        from lanloom.api.meta import Key
        from lanloom.features.ipam.commands.instancechange import ApplyOptions
        from lanloom.features.ipam.commands.instances import check_instance

        with refusals():
            check_instance(self.instance)
        key = Key(self.cluster.place, self.instance)
        with _progress(self.instance) as report:
            how = ApplyOptions(dry_run=self.dry_run, wait=self.wait, report=report)
            done = run(self.cluster, lambda client: work(client, key, how), dry_run=self.dry_run)
        self._report(done, name or self.instance)

    def _report(self, done: "Result", name: str) -> None:
        from lanloom.features.ipam.cli.grammar.difference import Difference
        from lanloom.features.ipam.commands.instanceviews import differences, plain

        report_notes(done.notes)
        if self.output != "table":
            nics = [plain(view) for view in done.after]
            print_data({"name": name, "namespace": self.cluster.place, "nics": nics}, self.output)
            return
        renamed = [Difference("~", f"name {self.instance} → {name}")]
        found = renamed if name != self.instance else differences(done.before, done.after)
        report_differences(found, f"Instance {self.instance} is unchanged.", dry_run=self.dry_run)


def change_options(function: F, *, waits: bool = True) -> F:
    """Return the options of a change; the command gets them, with INSTANCE, as one argument `change`.

    One that `waits` for addresses has an option not to.
    """

    @functools.wraps(function)
    def called(*words: Any, no_wait: bool = False, **options: Any) -> Any:
        names = ("instance", "cluster", "dry_run", "output")
        own = {name: options.pop(name) for name in names}
        return function(*words, change=ChangeOptions(wait=not no_wait, **own), **options)

    no_wait_option = click.option(
        "--no-wait", is_flag=True, help="Do not wait for the allocation or release of addresses."
    )
    plain: Any = long_output_option(cluster_options(job_options(called)))
    decorated: F = dry_run_option(no_wait_option(plain) if waits else plain)
    return decorated


def plan_options(force: bool) -> "PlanOptions":
    """Return the options of a plan."""
    import secrets
    from random import Random

    from lanloom.features.ipam.commands.instanceplan import PlanOptions

    return PlanOptions(rng=Random(secrets.randbits(128)), force=force)


@contextmanager
def _progress(instance: str) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from lanloom.cli.console import waiting

    with waiting(instance) as progress:
        yield progress


OTHER_OPTIONS = {
    *("-t", "--disk-template", "--disk", "-s", "--os-size", "--file-storage-dir", "--file-driver"),
    *(
        "-o",
        "--os-type",
        "-O",
        "--os-parameters",
        "-B",
        "--backend-parameters",
        "-H",
        "--hypervisor-parameters",
    ),
    *("-I", "--iallocator", "--no-install", "--no-start", "--no-nics"),
}
"""Options of `gnt-instance add` about what Lanloom does not manage."""


class AddCommand(click.Command):
    """`instance add`, which tells users of Ganeti's scripts which options have no place here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises UsageError."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in OTHER_OPTIONS:
                raise
            raise click.UsageError(
                f"No such option: {error.option_name}. Lanloom manages networks and addresses only; leave out options "
                "about disks, memory, the system and nodes.",
                ctx,
            ) from None


@click.command(cls=AddCommand)
@click.argument("instance")
@click.option(
    "--net",
    "nets",
    multiple=True,
    metavar="N:ip0=IP,...,network=NETWORK",
    help="A NIC, numbered from 0. An IP is an address, pool, pool4, pool6 or the name of a pool. Other keys: mac, "
    "mode, link, vlan, name. Can be repeated.",
)
@force_option
@change_options
def add(change: ChangeOptions, nets: tuple[str, ...], force: bool) -> None:
    """Add an instance with its NICs and their addresses.

    Allocates all requested addresses or none. Explicit addresses are allocated first, then automatic ones: the lowest
    free address, in the order of the network's subnets and pools. If KubeVirt has a virtual machine of that name, it
    owns the NICs.

    \b
    Exit code: 0 on success, 1 if the change is refused, 2 for malformed input.

    \b
    Examples:
      lanloom instance add --net 0:ip=pool,network=net1 inst1
      lanloom instance add --net 0:ip0=192.0.2.4,ip1=pool,ip2=some-pool,network=net1 inst1
      lanloom instance add --net 0:ip=pool6,network=net1 --net 1:mode=bridged,link=br1 inst1
      lanloom instance add --net 0:ip=192.0.2.1,network=net1 --force --dry-run inst1
    """
    from lanloom.features.ipam.cli.grammar.net_option import new_nics
    from lanloom.features.ipam.commands.instancechange import add as add_instance

    with refusals():
        steps = new_nics(nets)
    change.run(lambda client, key, how: add_instance(client, key, steps, plan_options(force), how))


@click.command()
@instance_argument
@click.option(
    "--net",
    "nets",
    multiple=True,
    metavar="NIC:modify,...|-1:add,...|NIC:remove",
    help="Changes, adds or removes a NIC, named by its number (-1: the last, or at the end), name or UUID. "
    "ipN=none removes an address, ipN=pool requests another one. Can be repeated.",
)
@force_option
@change_options
def modify(change: ChangeOptions, nets: tuple[str, ...], force: bool) -> None:
    """Change an instance's NICs.

    Makes all changes together or none. Numbers of addresses are those before the change; a number after the last one
    appends. Everything else remains unchanged. Removing the last NIC removes the instance.

    \b
    Exit code: 0 on success, 1 if the change is refused, 2 for malformed input.

    \b
    Examples:
      lanloom instance modify --net 0:modify,ip1=192.0.2.10 inst1
      lanloom instance modify --net -1:add,ip0=pool,ip1=192.0.2.4,network=net1 inst1
      lanloom instance modify --net 1:modify,ip1=none inst1
      lanloom instance modify --net 0:network=net2,ip=pool --net 1:remove --dry-run inst1
    """
    from lanloom.features.ipam.cli.grammar.net_option import changes
    from lanloom.features.ipam.commands.instancechange import modify as modify_instance

    with refusals():
        steps = changes(nets)
    change.run(lambda client, key, how: modify_instance(client, key, steps, plan_options(force), how))


@click.command()
@instance_argument
@unasked_option
@change_options
def remove(change: ChangeOptions) -> None:
    """Remove an instance: its NICs and their addresses.

    A virtual machine keeps its addresses until it has terminated.

    \b
    Exit code: 0 on success, 1 if the removal is refused.

    \b
    Examples:
      lanloom instance remove inst1
      lanloom instance remove --dry-run inst1
    """
    from lanloom.features.ipam.commands.instancechange import remove as remove_instance

    change.run(remove_instance)


@click.command()
@instance_argument
@click.argument("name")
@unchecked_options
@functools.partial(change_options, waits=False)
def rename(change: ChangeOptions, name: str) -> None:
    """Rename an instance. Its NICs keep their addresses, MAC addresses and UUIDs.

    The NICs' objects keep their names. A virtual machine can't be renamed.

    \b
    Exit code: 0 on success, 1 if the change is refused, 2 for an invalid name.

    \b
    Example:
      lanloom instance rename inst1 web1
    """
    from lanloom.features.ipam.commands.instancechange import rename as rename_instance

    change.run(lambda client, key, how: rename_instance(client, key, name, how), name)

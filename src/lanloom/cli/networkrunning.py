"""What the commands of `lanloom network` share: how they reach the cluster, name networks, and tell what they did."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import click
from click.shell_completion import CompletionItem

from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.app.ipam.networks import Done, Judge
    from lanloom.ipam.rules.change import Step
    from lanloom.ipam.rules.model import Network
    from lanloom.ipam.state import State
    from lanloom.kube.ports import Client

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

COMPLETION_SECONDS = 2.0
"""How long a shell that completes a name may wait for the API server."""

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


def network_argument(function: F) -> F:
    """NETWORK: which one."""
    return click.argument("network", shell_complete=complete_networks)(function)


def networks_argument(function: F) -> F:
    """[NETWORK]…: which ones, or all of them."""
    return click.argument("networks", nargs=-1, metavar="[NETWORK]...", shell_complete=complete_networks)(
        function
    )


def dry_run_option(function: F) -> F:
    """`--dry-run`: look only."""
    return click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")(
        function
    )


def run(kubeconfig: str | None, work: "Callable[[Client], Awaitable[T]]", *, read: bool = False) -> T:
    """What comes of work on the cluster. Ends the command where it fails.

    Where the command's input was `read` before, what is malformed can only be in the cluster.
    """

    async def connected() -> T:
        from lanloom.app.connect import connect

        async with connect(kubeconfig) as client:
            return await work(client)

    with refusals(reading=read):
        return asyncio.run(connected())


def read(kubeconfig: str | None, networks: Sequence[str] = ()) -> "State":
    """The cluster's networks and NICs; `networks` are identifiers that must be well formed. Ends where that fails."""
    from lanloom.ipam.state import read_state

    with refusals():
        check_idents(networks)
    return run(kubeconfig, read_state, read=True)


def check_idents(networks: Sequence[str]) -> None:
    """Raises Malformed for what can be no network's name or UUID."""
    from lanloom.ipam.rules.addresses import shown
    from lanloom.ipam.rules.errors import Malformed
    from lanloom.ipam.rules.names import is_name, is_uuid

    for ident in networks:
        if not is_name(ident) and not is_uuid(ident):
            raise Malformed(f"{shown(ident)} is no network; name one by its name or UUID")


def change(
    kubeconfig: str | None,
    network: str,
    steps: "Callable[[Network], Iterable[Step]]",
    *,
    judge: "Judge | None" = None,
    dry_run: bool,
) -> None:
    """Changes a network and tells what changed."""
    from lanloom.app.ipam.networks import Edit, modify

    with refusals():
        check_idents([network])
    edit = Edit(ident=network, steps=steps, new_uuid=new_uuid, judge=judge, dry_run=dry_run)
    tell(run(kubeconfig, lambda client: modify(client, edit, Random()), read=True), dry_run=dry_run)


def new_uuid() -> str:
    """The UUID of a new subnet."""
    return str(uuid4())


def tell(done: "Done", *, dry_run: bool) -> None:
    """Prints what changed or would, and notes as warnings."""
    from lanloom.cli.console import console as make_console
    from lanloom.ipam.rules.difference import differences

    console = make_console()
    for note in done.notes:
        click.echo(f"Note: {note}", err=True)
    found = list(differences(done.before, done.after))
    for item in found:
        console.print(f"{item.sign} {item.text}", style=_COLOURS[item.sign], markup=False)
    if not found and done.after is not None:
        console.print(f"Network {done.after.name} is as it was.", markup=False)
    if dry_run:
        console.print("This was a dry run: nothing was changed.")


def complete_networks(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of networks; none where the cluster does not answer at once."""
    from lanloom.app.connect import connect
    from lanloom.ipam.state import read_state
    from lanloom.kube.errors import KubeError

    async def names() -> list[str]:
        async with asyncio.timeout(COMPLETION_SECONDS), connect(ctx.params.get("kubeconfig")) as client:
            state = await read_state(client)
        return sorted(item.spec.name or item.metadata.name for item in state.networks)

    try:
        return [CompletionItem(name) for name in asyncio.run(names()) if name.startswith(incomplete)]
    except (KubeError, OSError, TimeoutError):
        return []

"""What commands share: how they reach the cluster, complete names of it, and tell what they changed there."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.ipam.rules.difference import Difference
    from lanloom.ipam.state import State
    from lanloom.kube.http import HttpClient
    from lanloom.kube.ports import Client

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

COMPLETION_SECONDS = 2.0
"""How long a shell that completes a name may wait for the API server."""

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


def dry_run_option(function: F) -> F:
    """`--dry-run`: look only."""
    return click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")(
        function
    )


def run(kubeconfig: str | None, work: "Callable[[HttpClient], Awaitable[T]]", *, read: bool = False) -> T:
    """What comes of work on the cluster. Ends the command where it fails.

    Where the command's input was `read` before, what is malformed can only be in the cluster.
    """
    import asyncio

    async def connected() -> T:
        from lanloom.app.connect import connect

        async with connect(kubeconfig) as client:
            return await work(client)

    with refusals(reading=read):
        return asyncio.run(connected())


def read_cluster(kubeconfig: str | None) -> "State":
    """The cluster's networks and NICs. Ends the command where that fails."""
    from lanloom.ipam.state import read_state

    return run(kubeconfig, read_state)


def completion(names: "Callable[[State, click.Context], Iterable[str]]") -> Complete:
    """Completes names of what the cluster has; none where it does not answer at once."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        async def read(client: "Client") -> "Iterable[str]":
            from lanloom.ipam.state import read_state

            return names(await read_state(client), ctx)

        return completed(ctx, incomplete, read)

    return complete


def completed(
    ctx: click.Context, incomplete: str, names: "Callable[[Client], Awaitable[Iterable[str]]]"
) -> list[CompletionItem]:
    """What of the cluster's names begins so; nothing where it does not answer at once."""
    import asyncio

    from lanloom.app.connect import connect
    from lanloom.kube.errors import KubeError

    async def read() -> "Iterable[str]":
        async with asyncio.timeout(COMPLETION_SECONDS), connect(ctx.params.get("kubeconfig")) as client:
            return await names(client)

    try:
        return [CompletionItem(name) for name in asyncio.run(read()) if name.startswith(incomplete)]
    except (KubeError, OSError, TimeoutError):
        return []


def tell_notes(notes: Iterable[str]) -> None:
    """What is to be known beside the outcome, on standard error."""
    for note in notes:
        click.echo(f"Note: {note}", err=True)


def tell_differences(found: "Iterable[Difference]", unchanged: str, *, dry_run: bool) -> None:
    """What changed or would, in colours; `unchanged` is said where there is nothing, unless it is empty."""
    from lanloom.cli.console import console as make_console

    console, empty = make_console(), True
    for item in found:
        console.print(f"{item.sign} {item.text}", style=_COLOURS[item.sign], markup=False)
        empty = False
    if empty and unchanged:
        console.print(unchanged, markup=False)
    if dry_run:
        console.print("This was a dry run: nothing was changed.")

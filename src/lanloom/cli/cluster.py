"""Commands and the cluster: connect, complete names, and end with one line and a meaningful exit status."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from lanloom.kube.http import HttpClient, Observer
    from lanloom.kube.ports import Client

T = TypeVar("T")

COMPLETION_SECONDS = 2.0
"""Time limit for the API server when a shell completes a name."""


class MalformedInput(click.ClickException):
    """Input that can never be valid. Another refusal is a plain ClickException with exit status 1."""

    exit_code = 2


@contextmanager
def refusals(*, reading: bool = False) -> Iterator[None]:
    """End the command with the message of a Refusal or KubeError.

    With `reading`, malformed data is in the cluster, not in the input.
    """
    from lanloom.kube.errors import KubeError
    from lanloom.refusals import Malformed, Refusal

    try:
        yield
    except (Refusal, KubeError) as error:
        wrong_input = isinstance(error, Malformed) and not reading
        raise (MalformedInput if wrong_input else click.ClickException)(str(error)) from None


def connect(kubeconfig: str | None, observe: "Observer | None" = None, *, logs: bool = False) -> "HttpClient":
    """Return the client for the cluster that `kubeconfig`, or the environment, names. Raises ConfigError.

    With `logs` the log says when the API server goes away and when it is back: that is for processes that stay.
    """
    from lanloom.kube.config import load
    from lanloom.kube.http import HttpClient
    from lanloom.kube.outage import Outage

    config = load(kubeconfig)
    return HttpClient(config, observe=observe, outage=Outage(config.server) if logs else None)


def run(kubeconfig: str | None, work: "Callable[[HttpClient], Awaitable[T]]", *, read: bool = False) -> T:
    """Run `work` on the cluster and return its result. End the command if it fails.

    `read` says that the command's input was validated before, so malformed data can only be in the cluster.
    """
    import asyncio

    async def connected() -> T:

        async with connect(kubeconfig) as client:
            return await work(client)

    with refusals(reading=read):
        return asyncio.run(connected())


def completed(
    ctx: click.Context,
    incomplete: str,
    names: "Callable[[Client], Awaitable[Iterable[str]]]",
    *,
    filtered: bool = False,
) -> list[CompletionItem]:
    """Return the cluster's names that begin with `incomplete`; none if it does not answer in time.

    `filtered` names are offered as they are.
    """
    import asyncio

    from lanloom.kube.errors import KubeError

    async def read() -> "Iterable[str]":
        async with asyncio.timeout(COMPLETION_SECONDS), connect(ctx.params.get("kubeconfig")) as client:
            return await names(client)

    try:
        found = asyncio.run(read())
    except (KubeError, OSError, TimeoutError):
        return []
    return [CompletionItem(name) for name in found if filtered or name.startswith(incomplete)]


def report_notes(notes: Iterable[str]) -> None:
    """Print what the user needs to know besides the result on standard error."""
    for note in notes:
        click.echo(f"Note: {note}", err=True)

"""`lanloom dummy`: the isolated networks (DummyClusterNetworks), node by node, and who uses them."""

import importlib
import sys
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import COMPLETION_SECONDS
from lanloom.cli.options import kubeconfig_option, output_option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lanloom.app.dummyview import DummyView
    from lanloom.kube.ports import Client

T = TypeVar("T")

_LAZY = {"bridge": ("lanloom.cli.dummybridge", "Keep this node's bridge of a network, or take it away.")}
"""What nobody calls by hand: it runs in the pods of a network's DaemonSet, and shares nothing with the others."""


class DummyGroup(click.Group):
    """The group, whose daemon is imported when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, ordered."""
        return sorted({*super().list_commands(ctx), *_LAZY})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module if it is one of its own."""
        if cmd_name not in _LAZY:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(_LAZY[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        own = [(name, item.get_short_help_str(100)) for name, item in self.commands.items()]
        lazy = [(name, line) for name, (_, line) in _LAZY.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(own + lazy))


@click.group(name="dummy", cls=DummyGroup)
def command() -> None:
    """Look at isolated networks (DummyClusterNetworks), and at who uses them.

    \b
    Examples:
      lanloom dummy list
      lanloom dummy show br-dummy-cluster
      lanloom why-not-deleted dcn/br-dummy-cluster
    """


def _run(kubeconfig: str | None, work: "Callable[[Client], Awaitable[T]]") -> T:
    """What comes of work on the cluster. Ends the command where it fails."""
    import asyncio  # not above: with its TLS it would take 4 MB of each `bridge`

    from lanloom.app.connect import connect
    from lanloom.kube.errors import KubeError, NotFound

    async def connected() -> T:
        async with connect(kubeconfig) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except NotFound:
        raise click.ClickException(
            "the API server knows no DummyClusterNetworks; apply the CRDs: kubectl apply -f deploy/crds"
        ) from None
    except KubeError as error:
        raise click.ClickException(str(error)) from None


async def _views(client: "Client") -> "tuple[DummyView, ...]":
    import time

    from lanloom.app.dummyview import dummy_views, read_dummies

    objects, users = await read_dummies(client)
    return dummy_views(objects, users, time.time())


async def _view(client: "Client", name: str) -> "DummyView":
    """One network with its Events. Raises KubeError, and ClickException if there is none of that name."""
    from msgspec.structs import replace

    from lanloom.api.l3 import quote
    from lanloom.app.dummyview import read_events

    views = await _views(client)
    for view in views:
        if view.name == name:
            return replace(view, events=await read_events(client, view.uid))
    there = f"there are {', '.join(view.name for view in views)}" if views else "there is none"
    raise click.ClickException(f"there is no DummyClusterNetwork {quote(name)}; {there}")


@command.command(name="list")
@kubeconfig_option
@output_option
def list_networks(kubeconfig: str | None, output: str) -> None:
    """Show every isolated network: its phase, its nodes and its users.

    \b
    Exit code: 0 if every network is ready, 1 if not or the cluster can't be asked.

    \b
    Examples:
      lanloom dummy list
      lanloom dummy list --output json | jq -r '.[] | select(.phase != "Ready").message'
    """
    from lanloom.cli.vlanreading import print_json

    views = _run(kubeconfig, _views)
    if output == "json":
        print_json(views)
    else:
        from lanloom.cli.dummytables import print_networks

        print_networks(views)
    sys.exit(0 if all(view.is_ready for view in views) else 1)


def _complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that `show` takes; none where the cluster does not answer at once."""
    import asyncio

    from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
    from lanloom.app.connect import connect
    from lanloom.kube.errors import KubeError

    async def names() -> list[str]:
        async with asyncio.timeout(COMPLETION_SECONDS), connect(ctx.params.get("kubeconfig")) as client:
            return sorted(item.metadata.name for item in (await client.list(DUMMY_CLUSTER_NETWORKS)).items)

    try:
        return [CompletionItem(name) for name in asyncio.run(names()) if name.startswith(incomplete)]
    except (KubeError, OSError, TimeoutError):
        return []


@command.command()
@click.argument("name", shell_complete=_complete)
@kubeconfig_option
@output_option
def show(name: str, kubeconfig: str | None, output: str) -> None:
    """Show one isolated network: every node, who uses it, and what to do.

    \b
    Exit code: 0 if it is ready, 1 if not, or if there is no such network.

    \b
    Examples:
      lanloom dummy show br-dummy-cluster
      lanloom dummy show br-dummy-cluster --output json | jq -r '.users[].name'
    """
    from lanloom.cli.vlanreading import print_json

    view = _run(kubeconfig, lambda client: _view(client, name))
    if output == "json":
        print_json(view)
    else:
        from lanloom.cli.dummytables import print_network

        print_network(view)
    sys.exit(0 if view.is_ready else 1)

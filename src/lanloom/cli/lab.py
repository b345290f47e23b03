"""`lanloom lab`: a whole cluster on this machine, and what one does with it."""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanloom.cli.labdemo import command as demo

if TYPE_CHECKING:
    from lanloom.lab.layout import Layout

T = TypeVar("T")


class LabGroup(click.Group):
    """Turns the lab's errors into a message and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command of the group."""
        from lanloom.lab.errors import LabError

        try:
            return super().invoke(ctx)
        except LabError as error:
            raise click.ClickException(str(error)) from None


@click.group(name="lab", cls=LabGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The lab's files; another directory is another lab. [default: ~/.local/state/lanloom/lab]",
)
@click.pass_context
def command(ctx: click.Context, state: Path | None) -> None:
    """Run a whole cluster on this machine: API server, nodes with NetworkManager, a switch, DHCP.

    Nothing of it touches the host's networks: it lives in namespaces of its own, on a kernel of its own where the
    host's lacks something, and all of it ends with `lanloom lab down`.

    \b
    Examples:
      lanloom lab up
      lanloom lab exec node1 -- nmcli device
      kubectl --kubeconfig $(lanloom lab kubeconfig) get nodes
      lanloom lab down
    """
    from lanloom.lab.layout import Layout, default_state

    ctx.obj = Layout(state or default_state())


@command.command()
@click.option(
    "--nodes",
    type=click.IntRange(0, 50),
    default=3,
    show_default=True,
    help="Number of nodes: node1, node2, …",
)
@click.option(
    "--kernel",
    default="auto",
    show_default=True,
    envvar="LANLOOM_LAB_KERNEL",
    show_envvar=True,
    metavar="auto|host|uml",
    help="What carries the nodes: the host's kernel, user-mode Linux, or what this machine is found fit for. "
    "`uml-6.1` asks for one series of user-mode Linux.",
)
@click.option(
    "--dhcp",
    multiple=True,
    metavar="VID=CIDR",
    help="A VLAN with a DHCP server, instead of 2012 and 2013. May be given many times.",
)
@click.pass_obj
def up(layout: "Layout", nodes: int, kernel: str, dhcp: tuple[str, ...]) -> None:
    """Start the lab and wait until it is ready.

    A lab that was put down with --keep comes back with its nodes, their files and all objects. The first start
    fetches Debian packages into the cache and takes a minute longer.

    \b
    Examples:
      lanloom lab up --nodes 2
      lanloom lab up --kernel uml --dhcp 30=10.30.0.0/24 --dhcp 31=10.31.0.0/24
    """
    from lanloom.cli.waiting import waiting
    from lanloom.lab.kernel import parse_wish
    from lanloom.lab.plan import parse_dhcp
    from lanloom.lab.start import Wishes, start

    networks = tuple(map(parse_dhcp, dhcp)) or None
    with waiting("lab") as progress:
        start(layout, Wishes(nodes, parse_wish(kernel), networks), progress)
    _run(_show(layout))
    click.echo(f"\nexport KUBECONFIG={layout.kubeconfig}")


@command.command()
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", help="How to print it."
)
@click.pass_obj
def status(layout: "Layout", output: str) -> None:
    """Show the lab's kernel, API server and nodes; exit status 1 if a node or a program of one has failed."""
    healthy = _run(_show(layout, as_json=output == "json"))
    sys.exit(0 if healthy else 1)


@command.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("node")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.pass_obj
def execute(layout: "Layout", node: str, words: tuple[str, ...]) -> None:
    """Run a program on a node; standard input, output, error and the exit status are passed through.

    On a terminal, the program gets one too.

    \b
    Examples:
      lanloom lab exec node1 -- bash
      lanloom lab exec node1 -- ip -br address
      lanloom lab exec node2 -- tcpdump -c 3 -ni eth1 vlan
      echo hello | lanloom lab exec node1 -- tee /var/lib/lanloom/greeting
    """
    from lanloom.lab.execute import execute as execute_on

    sys.exit(_run(execute_on(layout, node, words)))


@command.command()
@click.option(
    "--export", is_flag=True, help="Print a line for the shell: eval $(lanloom lab kubeconfig --export)"
)
@click.pass_obj
def kubeconfig(layout: "Layout", export: bool) -> None:
    """Print the path of the lab's kubeconfig."""
    from lanloom.lab.client import not_running

    if not layout.runs():
        raise not_running(layout)
    click.echo(f"export KUBECONFIG={layout.kubeconfig}" if export else layout.kubeconfig)


@command.command()
@click.argument("node")
@click.option(
    "--of",
    "program",
    default="agent",
    show_default=True,
    help="Whose log: agent, NetworkManager, dbus, node.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added, until Ctrl-C.")
@click.pass_obj
def logs(layout: "Layout", node: str, program: str, follow: bool) -> None:
    """Print what a program of a node has logged, since the node was added.

    \b
    Examples:
      lanloom lab logs node1
      lanloom lab logs node1 --of NetworkManager -f
    """
    from lanloom.lab.logs import find, read

    try:
        for piece in read(find(layout, node, program), follow=follow):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        sys.exit(130)


@command.command()
@click.option("--keep", is_flag=True, help="Keep objects and the nodes' files for the next `lanloom lab up`.")
@click.pass_obj
def down(layout: "Layout", keep: bool) -> None:
    """End the lab and remove its files. The cache stays."""
    from lanloom.cli.waiting import waiting
    from lanloom.lab import client

    with waiting("lab") as progress:
        progress("ending the lab")
        ran = _run(client.down(layout, keep=keep))
    click.echo("the lab is down" if ran else "no lab was running")


@command.group()
def node() -> None:
    """Add, stop, start, reboot and remove nodes."""


def _node_command(action: Any, summary: str) -> None:
    @node.command(name=action, help=summary)
    @click.argument("name")
    @click.pass_obj
    def act(layout: "Layout", name: str) -> None:
        from lanloom.cli.waiting import waiting
        from lanloom.lab import client, protocol

        with waiting("lab") as progress:
            progress(f"{name}: {action}")
            _run(client.ask(layout, protocol.NodeAction(action, name)))


_node_command("add", "Add a node and start it.")
_node_command("stop", "Power a node off, as if its plug were pulled; its files stay.")
_node_command("start", "Power a stopped node on.")
_node_command("reboot", "Power a node off and on.")
_node_command("remove", "Remove a node, its files and its Node object.")


@command.command()
@click.pass_obj
def cut(layout: "Layout") -> None:
    """Cut the nodes off from the API server, as if the management network failed; `mend` joins them again."""
    from lanloom.lab import client, protocol

    _run(client.ask(layout, protocol.Cut(True)))


@command.command()
@click.pass_obj
def mend(layout: "Layout") -> None:
    """Join nodes and API server again after `cut`."""
    from lanloom.lab import client, protocol

    _run(client.ask(layout, protocol.Cut(False)))


command.add_command(demo)


async def _show(layout: "Layout", *, as_json: bool = False) -> bool:
    from lanloom.cli.labtable import print_status
    from lanloom.lab import client

    report = await client.status(layout)
    return print_status(report, as_json=as_json)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)

"""`lanloom lab`: a whole cluster on this machine, and what one does with it."""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanloom.cli.listing import Listing, listing_options
from lanloom_lab.cli.console import command as console_command
from lanloom_lab.cli.console import show_link
from lanloom_lab.cli.demo import command as demo
from lanloom_lab.cli.programs import choose_harvester, choose_kubevirt, harvester_command, kubevirt_command

if TYPE_CHECKING:
    from lanloom.cli.query import Query
    from lanloom_lab.layout import Layout
    from lanloom_lab.protocol import NodeReport

from collections.abc import Callable, Iterable

from lanloom.cli.query import Field, Query
from lanloom_lab.kernel import SelectedKernel
from lanloom_lab.plan import KUBEVIRT_RELEASES, MANAGEMENT_DHCP
from lanloom_lab.protocol import LabStatus, NodeReport, Program


def _state(name: str) -> Callable[[NodeReport], str]:
    def state(node: NodeReport) -> str:
        program = _named(node.programs, name)
        if program is None:
            return "-"
        times = "" if not program.restarts else f", {program.restarts} restart{'s' * (program.restarts > 1)}"
        return f"{'running' if program.running else 'down'}{times}"

    return state


NODE_FIELDS: Query[NodeReport] = Query(
    (
        Field("name", "NODE", "text", "Name", lambda node: node.name),
        Field("address", "ADDRESS", "text", "Address", lambda node: node.address),
        Field("state", "STATE", "text", "State", lambda node: node.state),
        Field(
            "networkmanager", "NETWORKMANAGER", "text", "State of NetworkManager", _state("NetworkManager")
        ),
        Field("agent", "AGENT", "text", "State of the agent", _state("agent")),
    ),
    ("name", "address", "state", "networkmanager", "agent"),
)
"""The fields of `lanloom lab status`."""


def print_status(report: LabStatus, listing: Listing) -> bool:
    """Print the lab's status. Returns whether every program runs that should."""
    if listing.is_for_people:
        _print_table(report, listing)
    else:
        listing.print(report.nodes, whole=report)
    return all(
        node.state != "failed" and all(program.running for program in node.programs) for node in report.nodes
    )


def _print_table(report: LabStatus, listing: Listing) -> None:
    from rich.table import Table

    from lanloom.cli.console import console as make_console

    console = make_console()
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row("kernel", str(SelectedKernel(report.kernel, report.reason, report.version)))
    facts.add_row("API server", report.server)
    facts.add_row("console", f"{report.console} (a link: `lanloom lab console`)")
    for network in report.dhcp:
        facts.add_row("DHCP", f"VLAN {network.vlan_id}: {network.range[0]} to {network.range[1]}")
    facts.add_row("DHCP", f"VLAN {MANAGEMENT_DHCP.vlan_id}: {' to '.join(MANAGEMENT_DHCP.range)} (mgmt)")
    console.print(facts)
    console.print()
    if report.nodes:
        listing.print(report.nodes)
    else:
        console.print("no nodes; add one with `lanloom lab node add NAME`")


def _named(programs: Iterable[Program], name: str) -> Program | None:
    return next((program for program in programs if program.name == name), None)


T = TypeVar("T")


def _fields() -> "Query[NodeReport]":
    from lanloom_lab.cli import NODE_FIELDS

    return NODE_FIELDS


class LabGroup(click.Group):
    """Turns the lab's errors into a message and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command of the group."""
        from lanloom_lab.errors import LabError

        try:
            return super().invoke(ctx)
        except LabError as error:
            raise click.ClickException(str(error)) from None


@click.group(name="lab", cls=LabGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the lab's files, one for each lab. [default: ~/.local/state/lanloom/lab]",
)
@click.pass_context
def command(ctx: click.Context, state: Path | None) -> None:
    """Run a cluster on this machine: API server, nodes with NetworkManager, a switch, and DHCP.

    The lab does not change the host's networks. It runs in its own namespaces, and on its own kernel if the host's
    lacks a feature. `lanloom lab down` removes it.

    \b
    Examples:
      lanloom lab up
      lanloom lab exec node1 -- nmcli device
      kubectl --kubeconfig $(lanloom lab kubeconfig) get nodes
      lanloom lab down
    """
    from lanloom_lab.layout import Layout, default_state

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
    help="Kernel of the nodes: the host's, user-mode Linux, or the best that this machine supports. `uml-6.1` selects "
    "a series of user-mode Linux.",
)
@click.option(
    "--dhcp",
    multiple=True,
    metavar="VID=CIDR",
    help="A VLAN with a DHCP server, instead of 2012 and 2013. Can be repeated.",
)
@click.option(
    "--multus-isolation/--no-multus-isolation",
    "isolated",
    default=None,
    help="Multus and the manager isolate namespaces: a pod uses NADs of its own namespace and of default only. "
    "Default: as before, in a new lab no.",
)
@click.option(
    "--kubevirt",
    type=click.Choice(KUBEVIRT_RELEASES),
    help="Play the live update of a release of KubeVirt; see `lanloom lab kubevirt`. Default: as before, in a new lab "
    "none.",
)
@click.option(
    "--harvester/--no-harvester",
    default=None,
    help="Play Harvester's network controller and its webhook; see `lanloom lab harvester`. Default: as before, in a "
    "new lab no.",
)
@click.option(
    "--follow",
    type=click.IntRange(min=1),
    metavar="PID",
    help="End the lab, and keep its files, when this process ends. Default: it runs until `lanloom lab down`.",
)
@click.pass_obj
def up(
    layout: "Layout",
    nodes: int,
    kernel: str,
    dhcp: tuple[str, ...],
    isolated: bool | None,
    kubevirt: str | None,
    harvester: bool | None,
    follow: int | None,
) -> None:
    """Start the lab and wait until it is ready.

    A lab that was stopped with --keep starts with its nodes, their files and all objects. The first start downloads
    Debian packages to the cache and takes a minute longer.

    \b
    Examples:
      lanloom lab up --nodes 2
      lanloom lab up --kernel uml --dhcp 30=10.30.0.0/24 --dhcp 31=10.31.0.0/24
    """
    from lanloom.cli.console import waiting
    from lanloom_lab.kernel import parse_kernel
    from lanloom_lab.plan import parse_dhcp
    from lanloom_lab.start import Options, start

    networks = tuple(map(parse_dhcp, dhcp)) or None
    with waiting("lab") as progress:
        start(layout, Options(nodes, parse_kernel(kernel), networks, isolated, follow), progress)
    if kubevirt is not None:
        _run(choose_kubevirt(layout, kubevirt, "LiveMigrate"))
    if harvester is not None:
        _run(choose_harvester(layout, "on" if harvester else "off"))
    _run(_show(layout, Listing(_fields())))
    show_link(layout)
    click.echo(f"\nexport KUBECONFIG={layout.kubeconfig}")


@command.command()
@listing_options(_fields)
@click.pass_obj
def status(layout: "Layout", listing: Listing) -> None:
    """Show the lab's kernel, API server and nodes. Exit code: 1 if a node or one of its programs has failed."""
    healthy = _run(_show(layout, listing))
    sys.exit(0 if healthy else 1)


@command.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("node")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.pass_obj
def execute(layout: "Layout", node: str, words: tuple[str, ...]) -> None:
    """Run a program on a node. Standard input, output, error and the exit status are passed through.

    On a terminal, the program gets a terminal.

    \b
    Examples:
      lanloom lab exec node1 -- bash
      lanloom lab exec node1 -- ip -br address
      lanloom lab exec node2 -- tcpdump -c 3 -ni eth1 vlan
      echo hello | lanloom lab exec node1 -- tee /var/lib/lanloom/greeting
    """
    from lanloom_lab.client import execute as execute_on

    sys.exit(_run(execute_on(layout, node, words)))


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("machine")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of the machine.")
@click.pass_obj
def guest(layout: "Layout", machine: str, words: tuple[str, ...], namespace: str) -> None:
    """Run a command in the guest of a virtual machine, on its serial console. The exit status is passed through.

    A guest of the lab is a kernel with BusyBox and no disk. The shell in it gets the words of one line.

    \b
    Examples:
      lanloom lab guest vm1 -- ip -o address
      lanloom lab guest vm1 -- 'cat /proc/uptime; boot_id; carrier_changes eth0'
    """
    from lanloom_lab.client import run_in_guest

    status, text = _run(run_in_guest(layout, namespace, machine, " ".join(words)))
    click.echo(text, nl=False)
    sys.exit(status)


@command.command()
@click.option(
    "--export", is_flag=True, help="Print an export command: eval $(lanloom lab kubeconfig --export)"
)
@click.pass_obj
def kubeconfig(layout: "Layout", export: bool) -> None:
    """Print the path of the lab's kubeconfig."""
    from lanloom_lab.client import not_running

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
    help="Program: agent, NetworkManager, dbus or node.",
)
@click.option("--follow", "-f", is_flag=True, help="Follow the log until Ctrl-C.")
@click.pass_obj
def logs(layout: "Layout", node: str, program: str, follow: bool) -> None:
    """Print the log of a node's program since the node was added.

    \b
    Examples:
      lanloom lab logs node1
      lanloom lab logs node1 --of NetworkManager -f
    """
    from lanloom_lab.client import find, read

    try:
        for piece in read(find(layout, node, program), follow=follow):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        sys.exit(130)


@command.command()
@click.option(
    "--keep", is_flag=True, help="Keep all objects and the nodes' files for the next `lanloom lab up`."
)
@click.pass_obj
def down(layout: "Layout", keep: bool) -> None:
    """Stop the lab and remove its files. The cache remains."""
    from lanloom.cli.console import waiting
    from lanloom_lab import client

    with waiting("lab") as progress:
        progress("ending the lab")
        was_running = _run(client.down(layout, keep=keep))
    click.echo("the lab is down" if was_running else "no lab was running")


@command.group()
def node() -> None:
    """Add, stop, start, reboot and remove nodes."""


def _node_command(action: Any, summary: str) -> None:
    @node.command(name=action, help=summary)
    @click.argument("name")
    @click.pass_obj
    def act(layout: "Layout", name: str) -> None:
        from lanloom.cli.console import waiting
        from lanloom_lab import client, protocol

        with waiting("lab") as progress:
            progress(f"{name}: {action}")
            _run(client.ask(layout, protocol.NodeAction(action, name)))


_node_command("add", "Add a node and start it.")
_node_command("stop", "Power off a node immediately; its files remain.")
_node_command("start", "Power on a stopped node.")
_node_command("reboot", "Power-cycle a node.")
_node_command("remove", "Remove a node, its files and its Node object.")


@command.command()
@click.pass_obj
def cut(layout: "Layout") -> None:
    """Disconnect the nodes from the API server, as if the management network failed. `mend` reconnects them."""
    from lanloom_lab import client, protocol

    _run(client.ask(layout, protocol.Cut(True)))


@command.command()
@click.pass_obj
def mend(layout: "Layout") -> None:
    """Reconnect the nodes to the API server after `cut`."""
    from lanloom_lab import client, protocol

    _run(client.ask(layout, protocol.Cut(False)))


command.add_command(demo)
command.add_command(console_command, "console")
command.add_command(kubevirt_command, "kubevirt")
command.add_command(harvester_command, "harvester")


async def _show(layout: "Layout", listing: Listing) -> bool:
    from lanloom_lab import client
    from lanloom_lab.cli import print_status

    report = await client.status(layout)
    return print_status(report, listing)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)

"""`lanloom lab demo`: how it starts, the part about address management, and how it ends.

The commands are run as users type them, against the lab's API server.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lanloom_lab.cli.console import link_to
from lanloom_lab.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanloom.cli.console import Progress
    from lanloom.cli.query import Query
    from lanloom.features.vlan.views.overview import Row
    from lanloom_lab.layout import Layout

STORY = (
    (
        "a network with two subnets and a pool in each",
        "network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.100,name=pool1\n"
        "    --subnet cidr=2001:db8::/64,gateway=2001:db8::1,pool demo",
    ),
    (
        "a range taken out of a pool, which splits it",
        "network modify --pool remove:192.0.2.20-192.0.2.50 demo",
    ),
    (
        "an instance whose NIC has three addresses",
        "instance add --net 0:ip0=192.0.2.4,ip1=pool1,ip2=pool6,network=demo vm1",
    ),
    ("how full the pools are", "network usage demo"),
)
"""What is shown: a title, and the command."""

OWNED = ["192.0.2.4", "192.0.2.10", "2001:db8::2"]
"""What the instance must have been given: the explicit address, and the lowest that are free."""

FREE = [9, 50, (1 << 64) - 3]
"""What must be left in the pools: all but what is owned, and in the IPv6 subnet its anycast address and gateway."""

END = ("instance remove vm1", "network remove demo")


def show_addresses(kubeconfig: Path, progress: "Progress") -> None:
    """Run the story, look whether it came out as it should, and clear it away. Raises DemoFailed."""
    for title, command in STORY:
        progress(title)
        show_command(kubeconfig, progress, command)
    _check(kubeconfig)
    progress("removing the instance and the network")
    for command in END:
        run_command(kubeconfig, command)


def _check(kubeconfig: Path) -> None:
    """Compare what the API says with what was to be expected."""
    (instance,) = json.loads(run_command(kubeconfig, "instance info vm1 --output json"))
    (usage,) = json.loads(run_command(kubeconfig, "network usage demo --output json"))
    owned = instance["nics"][0]["ips"]
    free = [pool["free"] for pool in usage["pools"]]
    if (owned, free) != (OWNED, FREE):
        raise DemoFailed(
            f"the instance has {owned} and the pools have {free} left, not {OWNED} and {FREE}",
            "Run the demo with --keep, then see `lanloom instance info vm1` and `lanloom network info demo`.",
        )


def show_command(kubeconfig: Path, progress: "Progress", command: str, *, status: int = 0) -> None:
    """Run a command, and show it with its output. Raises DemoFailed if it ends otherwise than with `status`."""
    output = run_command(kubeconfig, command, status=status)
    with progress.aside():
        typed = command.replace("\n", " \\\n")
        click.echo(f"\n$ lanloom {typed}\n{output}", nl=False)


def run_command(kubeconfig: Path, command: str, *, status: int = 0) -> str:
    """Return what a command prints. Raises DemoFailed if it ends otherwise than with `status`."""
    done = subprocess.run(
        [sys.executable, "-m", "lanloom", *shlex.split(command)],
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != status:
        said = (done.stderr or done.stdout).strip()
        raise DemoFailed(
            f"`lanloom {command}` ended with exit status {done.returncode}: {said}",
            "Run the demo with --keep, then try the command yourself.",
        )
    return done.stdout


WIDTH = 100
"""Columns of the picture."""


@click.command(name="demo")
@click.option("--keep", is_flag=True, help="Keep the lab running at the end.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write an SVG image of the table.",
)
@click.option(
    "--kernel",
    default="auto",
    envvar="LANLOOM_LAB_KERNEL",
    metavar="auto|host|uml",
    help="As for `lanloom lab up`.",
)
@click.pass_obj
def command(layout: "Layout", keep: bool, svg: Path | None, kernel: str) -> None:
    """Demonstrate VLANs, addresses, isolated networks, LANs and live update. Exit code: 1 if a check fails.

    Starts a lab, creates two cluster networks with a VLAN network on each (DHCP and static), shows the addresses, pings
    between nodes, changes DHCP to static, deletes all networks, and checks that nothing remains. Then it shows a
    network with two subnets, a pool that is split, and a NIC with three addresses. Then two pods block the deletion of
    an isolated network, and pods of two nodes use a LAN. Finally, a virtual machine changes its network while it runs.
    Takes under two minutes.
    """
    from lanloom.cli.console import waiting
    from lanloom_lab import client
    from lanloom_lab.demo import run_demo, run_story
    from lanloom_lab.demoisolated import IsolatedStory
    from lanloom_lab.demolan import LanStory
    from lanloom_lab.demomachine import MachineStory
    from lanloom_lab.kernel import parse_kernel
    from lanloom_lab.start import Options, start

    requested = parse_kernel(kernel)
    _check_unused(layout)
    with waiting("demo") as progress:
        show = _Tables(svg, progress)
        try:
            start(layout, Options(3, requested, follow=None if keep else os.getpid()), progress)
            if keep:
                with progress.aside():
                    click.echo(f"\nThe demo as web pages, while it goes on:\n{link_to(layout)}\n")
            asyncio.run(run_demo(layout, progress, show))
            show_addresses(layout.kubeconfig, progress)
            asking = _asking(layout.kubeconfig, progress)
            for story in (IsolatedStory, LanStory, MachineStory):
                asyncio.run(run_story(story, layout, progress, asking, show.present))
        finally:
            if not keep:
                progress("ending the lab")
                asyncio.run(client.down(layout, keep=False))
    click.echo("The demo is done; everything was as it should be.")
    if keep:
        click.echo(_how_to_go_on(layout))


def _asking(kubeconfig: Path, progress: "Progress") -> "Callable[[str], None]":
    """Show what a command prints of a network that is being deleted or not; the former ends with 1."""

    def ask(command: str) -> None:
        show_command(kubeconfig, progress, command, status=int(command.startswith("why-not-deleted")))

    return ask


_REMOTE_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""What rich puts into a picture to load its font from another site; without it the reader's own is used."""


def _check_unused(layout: "Layout") -> None:
    from lanloom_lab.errors import AlreadyRunning

    if layout.runs() or layout.load() is not None:
        raise AlreadyRunning(
            f"there is a lab in {layout.state}, and the demo removes the one that it uses",
            "Remove that lab with `lanloom lab down`, or use another directory: `lanloom lab --state DIR demo`.",
        )


class _Tables:
    """Prints tables, and writes the first of them as a picture."""

    def __init__(self, svg: Path | None, progress: "Progress") -> None:
        self._svg = svg
        self._progress = progress

    def __call__(self, title: str, rows: tuple["Row", ...]) -> None:
        from rich.console import Console

        from lanloom.cli.tables import make_table
        from lanloom.features.vlan.views.overview import ROW_FIELDS

        self.present(title, ROW_FIELDS, rows)
        if self._svg is None:
            return
        with Path("/dev/null").open("w") as nowhere:
            picture = Console(record=True, width=WIDTH, file=nowhere, highlight=False, emoji=False)
            picture.print(make_table(ROW_FIELDS.choose(), rows, ruled=True))
            drawing = picture.export_svg(title=f"lanloom status: {title}")
        self._svg.write_text(_REMOTE_FONTS.sub("", drawing))
        self._svg = None

    def present(self, title: str, query: "Query[Any]", rows: "Sequence[Any]") -> None:
        """Print a table with a title."""
        from lanloom.cli import console as output
        from lanloom.cli.tables import make_table

        with self._progress.aside():
            console = output.console()
            console.print()
            output.print_table(console, make_table(query.choose(), rows, ruled=True, title=title))


def _how_to_go_on(layout: "Layout") -> str:
    from lanloom_lab.layout import default_state

    program = "lanloom" if shutil.which("lanloom") else sys.argv[0]
    lab = f"{program} lab" if layout.state == default_state() else f"{program} lab --state {layout.state}"
    return f"""
The lab is still running. See it as web pages, in one browser and within ten minutes:

  {link_to(layout)}

For example:

  export KUBECONFIG={layout.kubeconfig}
  kubectl apply -f examples/cluster-1.yaml -f examples/vlan2012-dhcp.yaml
  {program} status
  {lab} console                 # prints another link
  {lab} exec node1 -- ip -brief address
  {lab} down"""

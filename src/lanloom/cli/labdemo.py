"""How `lanloom lab demo` starts, looks and ends."""

import asyncio
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanloom.app.overview import Row
    from lanloom.cli.waiting import Progress
    from lanloom.lab.layout import Layout

WIDTH = 100
"""Columns of the picture."""


@click.command(name="demo")
@click.option("--keep", is_flag=True, help="Leave the lab running at the end.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a picture of the table.",
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
    """Show VLANs, address management and isolated networks at work; exit status 1 if anything is not as it should be.

    Starts a lab, creates two cluster networks and a VLAN network on each (DHCP and static), shows the addresses, pings
    between nodes, changes DHCP to static, deletes everything and looks whether it is gone. Then a network with two
    subnets, a pool that is split, and a NIC with three addresses; and an isolated network that two pods keep from being
    deleted. Under two minutes.
    """
    from lanloom.cli.labaddresses import show_addresses
    from lanloom.cli.waiting import waiting
    from lanloom.lab import client
    from lanloom.lab.demo import run_demo
    from lanloom.lab.demoisolated import run_isolated
    from lanloom.lab.kernel import parse_wish
    from lanloom.lab.start import Wishes, start

    wish = parse_wish(kernel)
    _check_unused(layout)
    with waiting("demo") as progress:
        show = _Tables(svg, progress)
        try:
            start(layout, Wishes(3, wish), progress)
            asyncio.run(run_demo(layout, progress, show))
            show_addresses(layout.kubeconfig, progress)
            asyncio.run(run_isolated(layout, progress, _asking(layout.kubeconfig, progress)))
        finally:
            if not keep:
                progress("ending the lab")
                asyncio.run(client.down(layout, keep=False))
    click.echo("The demo is done; everything was as it should be.")
    if keep:
        click.echo(_how_to_go_on(layout))


def _asking(kubeconfig: Path, progress: "Progress") -> "Callable[[str], None]":
    """Shows what a command prints of a network that is being deleted or not; the former ends with 1."""
    from lanloom.cli.labcommands import show_command

    def ask(command: str) -> None:
        show_command(kubeconfig, progress, command, status=int(command.startswith("why-not-deleted")))

    return ask


_REMOTE_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""What rich puts into a picture to load its font from another site; without it the reader's own is used."""


def _check_unused(layout: "Layout") -> None:
    from lanloom.lab.errors import AlreadyRunning

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

        from lanloom.app.overview import table
        from lanloom.cli import console as output

        with self._progress.aside():
            console = output.console()
            console.print()
            output.print_table(console, table(rows, title))
        if self._svg is None:
            return
        with Path("/dev/null").open("w") as nowhere:
            picture = Console(record=True, width=WIDTH, file=nowhere, highlight=False, emoji=False)
            picture.print(table(rows))
            drawing = picture.export_svg(title=f"lanloom status: {title}")
        self._svg.write_text(_REMOTE_FONTS.sub("", drawing))
        self._svg = None


def _how_to_go_on(layout: "Layout") -> str:
    from lanloom.lab.layout import default_state

    program = "lanloom" if shutil.which("lanloom") else sys.argv[0]
    lab = f"{program} lab" if layout.state == default_state() else f"{program} lab --state {layout.state}"
    return f"""
The lab is still running. For example:

  export KUBECONFIG={layout.kubeconfig}
  kubectl apply -f examples/cluster-1.yaml -f examples/vlan2012-dhcp.yaml
  {program} status
  {lab} exec node1 -- ip -brief address
  {lab} down"""
